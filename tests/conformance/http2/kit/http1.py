"""An upstream of HTTP/1.1 on bare sockets: it keeps what arrives byte for byte, and answers as told. It reads what the
gateway may send, and no more."""

import socket
import threading
from dataclasses import dataclass, field

BOOKED = b"HTTP/1.1 201 Created\r\nContent-Length: 6\r\n\r\nbooked"
# What is always answered: see `report.reached`.
FENCE = "/fence"


@dataclass
class Seen:
    """A request as it came."""

    line: bytes
    fields: list
    body: bytes = b""
    trailers: list = field(default_factory=list)
    whole: bool = False

    def all(self, name):
        return [value for own, value in self.fields if own.lower() == name.encode()]

    def get(self, name):
        values = self.all(name)
        assert len(values) < 2, f"{name} is there twice: {self.fields}"
        return values[0] if values else None


class Gone(Exception):
    """The gateway has closed the connection."""


class Reader:
    def __init__(self, stream):
        self.stream = stream
        self.ahead = b""

    def _more(self):
        try:
            read = self.stream.recv(65536)
        except OSError:
            read = b""
        if not read:
            raise Gone
        self.ahead += read

    def until(self, mark):
        while mark not in self.ahead:
            self._more()
        found, _, self.ahead = self.ahead.partition(mark)
        return found

    def some(self, most):
        if not self.ahead:
            self._more()
        found, self.ahead = self.ahead[:most], self.ahead[most:]
        return found


def _fields(lines):
    # One space after the colon is how lines are written; all else is the value's.
    return [(name, value.removeprefix(b" ")) for name, _, value in (line.partition(b":") for line in lines)]


class Upstream:
    """`reply` is an answer's bytes, or a function that is handed the request and the socket and gives such bytes. None
    closes the connection."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.address = self.listener.getsockname()
        self.reply = BOOKED
        self.lock = threading.Condition()
        self.seen = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            stream, _ = self.listener.accept()
            threading.Thread(target=self._serve, args=(stream,), daemon=True).start()

    def _serve(self, stream):
        reader = Reader(stream)
        with stream:
            try:
                while (answer := self._exchange(reader, stream)) is not None:
                    stream.sendall(answer)
            except (Gone, OSError):
                pass

    def _exchange(self, reader, stream):
        line, *lines = reader.until(b"\r\n\r\n").split(b"\r\n")
        seen = Seen(line, _fields(lines))
        with self.lock:
            self.seen.append(seen)
            self.lock.notify_all()
        reply = BOOKED if FENCE.encode() in line else self.reply
        if getattr(reply, "before_body", False):
            return reply(seen, stream)
        self._body(reader, seen)
        with self.lock:
            seen.whole = True
            self.lock.notify_all()
        return reply(seen, stream) if callable(reply) else reply

    def _body(self, reader, seen):
        if seen.get("transfer-encoding") is None:
            left = int(seen.get("content-length") or 0)
            while left:
                piece = reader.some(left)
                seen.body += piece
                left -= len(piece)
            return
        while size := int(reader.until(b"\r\n"), 16):
            while size:
                piece = reader.some(size)
                seen.body += piece
                size -= len(piece)
            reader.until(b"\r\n")
        while line := reader.until(b"\r\n"):
            seen.trailers += _fields([line])

    def wait_for(self, count, whole=True):
        """Waits until so many requests are there since they were last taken."""
        with self.lock:
            enough = lambda: sum(seen.whole or not whole for seen in self.seen) >= count
            assert self.lock.wait_for(enough, 20), f"{count} requests never came: {self.seen}"

    def take(self):
        """What has come since this was last called, whole or not."""
        with self.lock:
            taken, self.seen = self.seen, []
            return taken


def before_body(reply):
    """Marks a reply that comes when the head is there."""
    reply.before_body = True
    return reply
