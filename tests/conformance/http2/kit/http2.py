"""An upstream of HTTP/2 with prior knowledge. What it reads goes through h2, which raises where the gateway does not
keep to HTTP/2; what it writes is bare frames, whether or not they are allowed."""

import socket
import threading
from dataclasses import dataclass, field

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import ProtocolError
from h2.settings import Settings

from . import frames
from .http1 import FENCE


@dataclass
class Seen:
    """A request as it came."""

    connection: int
    stream: int
    fields: list
    body: bytes = b""
    trailers: list = None
    whole: bool = False
    reset: str = None

    def all(self, name):
        return [value for own, value in self.fields if own == name.encode()]

    def get(self, name):
        values = self.all(name)
        assert len(values) < 2, f"{name} is there twice: {self.fields}"
        return values[0] if values else None

    @property
    def line(self):
        return self.get(":method") + b" " + self.get(":path")


def booked(seen):
    """An answer, whole."""
    fields = [(":status", "201"), ("content-length", "6")]
    if seen.get(":method") == b"HEAD":
        return frames.head(seen.stream, fields)
    return frames.head(seen.stream, fields, end=False) + frames.data(seen.stream, b"booked")


class Upstream:
    """`reply` is a function that is handed a whole request and gives the bytes to say; `settings` are those of its next
    connections. A reply of None closes the connection."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.address = self.listener.getsockname()
        self.reply = booked
        self.settings = {}
        self.lock = threading.Condition()
        self.seen = []
        self.faults = []
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            stream, _ = self.listener.accept()
            self.connections += 1
            threading.Thread(target=self._serve, args=(stream, self.connections), daemon=True).start()

    def _serve(self, stream, number):
        h2 = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        h2.local_settings = Settings(client=False, initial_values=self.settings)
        h2.max_inbound_frame_size = h2.local_settings.max_frame_size
        h2.decoder.max_allowed_table_size = h2.local_settings.header_table_size
        h2.initiate_connection()
        requests = {}
        with stream:
            try:
                stream.sendall(h2.data_to_send())
                while read := stream.recv(65536):
                    for event in h2.receive_data(read):
                        said = self._take(h2, event, requests, number)
                        stream.sendall(h2.data_to_send() + (said or b""))
                        if said is None:
                            return
            except ProtocolError as fault:
                self.faults.append(fault)
            except OSError:
                pass

    def _take(self, h2, event, requests, number):
        """Takes note of what came; what to say to it."""
        with self.lock:
            seen = requests.get(getattr(event, "stream_id", None))
            match event:
                case events.RequestReceived():
                    seen = Seen(number, event.stream_id, [(bytes(name), bytes(value)) for name, value in event.headers])
                    requests[event.stream_id] = seen
                    self.seen.append(seen)
                case events.DataReceived():
                    seen.body += event.data
                    if event.flow_controlled_length:
                        h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                case events.TrailersReceived():
                    seen.trailers = event.headers
                case events.StreamReset() if seen:
                    seen.reset = frames.name_of(event.error_code)
                case events.StreamEnded():
                    seen.whole = True
            self.lock.notify_all()
        if isinstance(event, events.StreamEnded):
            # h2 does not see what is said to it in bare frames: for h2, the stream ends here.
            pending = h2.data_to_send()
            h2.reset_stream(event.stream_id)
            h2.clear_outbound_data_buffer()
            reply = booked if FENCE.encode() in seen.line else self.reply
            said = reply(seen)
            return said if said is None else pending + said
        return b""

    def wait_for(self, count, whole=True):
        """Waits until so many requests are there since they were last taken."""
        with self.lock:
            enough = lambda: sum(seen.whole or not whole for seen in self.seen) >= count
            assert self.lock.wait_for(enough, 20), f"{count} requests never came: {self.seen}"

    def take(self):
        """What has come since this was last called, whole or not. All of it kept to HTTP/2."""
        with self.lock:
            taken, self.seen = self.seen, []
            faults, self.faults = self.faults, []
        assert not faults, faults
        return taken
