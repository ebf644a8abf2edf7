"""Clients of the gateway: one of bare frames, one that keeps to HTTP/2 and sees to it that the gateway does (h2), and
one of HTTP/1.1 to compare with."""

import json
import socket
import ssl
from dataclasses import dataclass, field

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2 import events
from h2.settings import SettingCodes as Setting
from hyperframe import frame as kinds

from . import frames

PATIENCE = 20
AUTHORITY = "api.test"


class Gateway:
    """The gateway under test, as Rust has told."""

    address = None
    pid = None
    authority = None

    @classmethod
    def connect(cls, receive_buffer=None):
        plain = socket.socket()
        plain.settimeout(PATIENCE)
        if receive_buffer:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        plain.connect(cls.address)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not cls.authority:
            return plain
        context = ssl.create_default_context(cafile=cls.authority)
        context.set_alpn_protocols(["h2"])
        encrypted = context.wrap_socket(plain, server_hostname=AUTHORITY)
        assert encrypted.selected_alpn_protocol() == "h2"
        return encrypted


@dataclass
class Answer:
    """What came on a stream."""

    status: int = None
    fields: list = field(default_factory=list)
    body: bytes = b""
    interim: list = field(default_factory=list)
    trailers: list = None
    whole: bool = False
    reset: str = None
    goaway: str = None
    closed: bool = False

    def all(self, name):
        return [value for own, value in self.fields if own == name.encode()]

    def get(self, name):
        values = self.all(name)
        assert len(values) < 2, f"{name} is there twice: {self.fields}"
        return values[0].decode() if values else None

    @property
    def code(self):
        """The problem's code, when the answer is a problem of the gateway's own."""
        if self.get("oncegate-source") != "gateway":
            return None
        problem = json.loads(self.body)
        assert problem["status"] == self.status and self.get("content-type") == "application/problem+json", self
        return problem["code"]

    @property
    def is_replay(self):
        return self.get("idempotent-replayed") == "true"

    @property
    def is_malformed(self):
        """Whether the request was turned down as no HTTP/2 request: by 400, on its stream, or with the connection."""
        if self.whole:
            return self.status == 400 and self.get("oncegate-source") == "gateway"
        return self.reset == "PROTOCOL_ERROR" or self.goaway in ("PROTOCOL_ERROR", "COMPRESSION_ERROR")


def request(method="GET", path="/plain", *more, authority=AUTHORITY, scheme="http"):
    """The fields of a request; None leaves a pseudo-header out."""
    pseudo = [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path)]
    return [(name, value) for name, value in pseudo if value is not None] + list(more)


def order(key, *more, path="/orders"):
    """The fields of a guarded request."""
    return request("POST", path, ("idempotency-key", key), *more)


class Frames(frames.Wire):
    """A client of bare frames."""

    def __init__(self, settings=None, hello=True, gives_window=True, receive_buffer=None):
        super().__init__(Gateway.connect(receive_buffer), gives_window)
        self.answers = {}
        if hello:
            self.send(frames.PREFACE, frames.settings(settings))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def answer(self, stream):
        """What has come on a stream so far."""
        return self.answers.setdefault(stream, Answer())

    def step(self):
        """Takes one frame. Raises `Ended`."""
        frame = self.frame()
        answer = self.answer(frame.stream_id)
        if isinstance(frame, kinds.HeadersFrame):
            self._head(answer, self.fields(frame))
        elif isinstance(frame, kinds.DataFrame):
            answer.body += frame.data
        elif isinstance(frame, kinds.RstStreamFrame):
            answer.reset = frames.name_of(frame.error_code)
        if isinstance(frame, (kinds.HeadersFrame, kinds.DataFrame)) and "END_STREAM" in frame.flags:
            answer.whole = True
        return frame

    @staticmethod
    def _head(answer, fields):
        if answer.status is not None:
            answer.trailers = fields
            return
        assert fields[0][0] == b":status", fields
        status = int(fields[0][1])
        if status < 200:
            answer.interim.append((status, fields[1:]))
        else:
            answer.status, answer.fields = status, fields[1:]

    def until(self, holds):
        """Takes frames until it is so, or the connection ends; whether it is so."""
        while not holds():
            try:
                self.step()
            except frames.Ended:
                return holds()
        return True

    def pour(self, stream, body, size, pad=None):
        """Sends a body in frames of this size as fast as the windows let it, until it is all sent or the stream over."""
        self.until(lambda: self.acknowledged)
        answer, padding, sent = self.answer(stream), 0 if pad is None else pad + 1, 0
        first = self.settings.get(Setting.INITIAL_WINDOW_SIZE, 65535)
        while body:
            piece, body = body[:size], body[size:]
            sent += len(piece) + padding
            room = lambda: min(65535 + self.granted[0], first + self.granted[stream])
            self.until(lambda: answer.whole or answer.reset or sent <= room())
            if answer.whole or answer.reset:
                break
            self.send(frames.data(stream, piece, end=not body, pad=pad))
        return self.wait(stream)

    def wait(self, stream):
        """The answer on a stream: whole, reset, or left out with the end of the connection."""
        answer = self.answer(stream)
        answer.closed = not self.until(lambda: answer.whole or answer.reset)
        if answer.closed and self.goaway:
            answer.goaway = frames.name_of(self.goaway.error_code)
        return answer

    def ended(self):
        """Waits for the connection's end; the error that the gateway gave."""
        self.until(lambda: False)
        return frames.name_of(self.goaway.error_code) if self.goaway else None

    def ask(self, fields, body=None, stream=1):
        """Sends a request, and waits for its answer."""
        self.send(frames.head(stream, fields, end=body is None))
        if body is not None:
            self.send(frames.data(stream, body))
        return self.wait(stream)


def ask(fields, body=None):
    """One request on a connection of its own."""
    with Frames() as client:
        return client.ask(fields, body)


class Orderly:
    """A client that keeps to HTTP/2. h2 raises where the gateway does not."""

    def __init__(self):
        self.socket = Gateway.connect()
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self.answers = {}
        self.h2.initiate_connection()
        self._flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def _flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def begin(self, fields, body=b""):
        """Sends a request as fast as the gateway's windows let it; the stream's number."""
        stream = self.h2.get_next_available_stream_id()
        self.answers[stream] = Answer()
        self.h2.send_headers(stream, fields, end_stream=not body)
        while body:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, len(body))
            if room:
                self.h2.send_data(stream, body[:room], end_stream=room == len(body))
                body = body[room:]
            self._flush()
            if body and not room:
                self._step()
        self._flush()
        return stream

    def wait(self, stream):
        while not self.answers[stream].whole and not self.answers[stream].reset:
            self._step()
        return self.answers[stream]

    def ask(self, fields, body=b""):
        return self.wait(self.begin(fields, body))

    def _step(self):
        read = self.socket.recv(65536)
        if not read:
            raise frames.Ended
        for event in self.h2.receive_data(read):
            self._take(event)
        self._flush()

    def _take(self, event):
        answer = self.answers.get(getattr(event, "stream_id", None))
        match event:
            case events.ResponseReceived():
                fields = [(bytes(name), bytes(value)) for name, value in event.headers]
                answer.status, answer.fields = int(fields[0][1]), fields[1:]
            case events.DataReceived():
                answer.body += event.data
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case events.TrailersReceived():
                answer.trailers = event.headers
            case events.StreamEnded():
                answer.whole = True
            case events.StreamReset():
                answer.reset = frames.name_of(event.error_code)


def ask_http1(fields, body=b""):
    """The same request as HTTP/1.1 says it; names of the answer's fields in lower case."""
    said = {name: value for name, value in fields if name.startswith(":")}
    lines = [f"{said[':method']} {said[':path']} HTTP/1.1", f"host: {said[':authority']}", "connection: close"]
    lines += [f"{name}: {value}" for name, value in fields if not name.startswith(":")]
    lines += [f"content-length: {len(body)}", "", ""]
    with socket.create_connection(Gateway.address, PATIENCE) as stream:
        stream.sendall("\r\n".join(lines).encode() + body)
        whole = b"".join(iter(lambda: stream.recv(65536), b""))
    lines, _, body = whole.partition(b"\r\n\r\n")
    first, *lines = lines.split(b"\r\n")
    fields = [(name.lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
    return Answer(int(first.split()[1]), fields, body, whole=True)
