"""HTTP/2 in bare frames, whether or not they are allowed. hyperframe and hpack write and read them; nothing checks."""

import ssl
from collections import Counter

import hpack
from h2.errors import ErrorCodes
from hyperframe import frame as kinds

BROKEN = (ConnectionError, ssl.SSLError)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def block(fields):
    """Fields in HPACK that leave the other side's table as it is."""
    return hpack.Encoder().encode([hpack.NeverIndexedHeaderTuple(name, value) for name, value in fields])


def head(stream, fields, end=True, pieces=1, pad=None, priority=None, last=True, raw=None):
    """A HEADERS frame and as many CONTINUATION frames as make up `pieces`. `last` says END_HEADERS."""
    whole = block(fields) if raw is None else raw
    size = -(-len(whole) // pieces) or 1
    parts = [whole[at : at + size] for at in range(0, len(whole), size)] or [b""]
    frames = [kinds.HeadersFrame(stream)] + [kinds.ContinuationFrame(stream) for _ in parts[1:]]
    for frame, part in zip(frames, parts):
        frame.data = part
    if end:
        frames[0].flags.add("END_STREAM")
    if last:
        frames[-1].flags.add("END_HEADERS")
    if pad is not None:
        frames[0].flags.add("PADDED")
        frames[0].pad_length = pad
    if priority is not None:
        frames[0].flags.add("PRIORITY")
        frames[0].depends_on = priority
    return b"".join(frame.serialize() for frame in frames)


def data(stream, body=b"", end=True, pad=None):
    frame = kinds.DataFrame(stream, body)
    if end:
        frame.flags.add("END_STREAM")
    if pad is not None:
        frame.flags.add("PADDED")
        frame.pad_length = pad
    return frame.serialize()


def reset(stream, code=ErrorCodes.CANCEL):
    return kinds.RstStreamFrame(stream, error_code=code).serialize()


def settings(values=None):
    return kinds.SettingsFrame(0, settings={int(name): value for name, value in (values or {}).items()}).serialize()


def ping(payload=b"8 octets"):
    return kinds.PingFrame(0, payload).serialize()


def window(stream, more):
    return bare(8, 0, stream, more.to_bytes(4, "big"))


def goaway(last=0, code=ErrorCodes.NO_ERROR):
    return kinds.GoAwayFrame(0, last_stream_id=last, error_code=code).serialize()


def bare(kind, flags, stream, payload=b""):
    """Any frame at all."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def name_of(code):
    return ErrorCodes(code).name if code in iter(ErrorCodes) else str(code)


class Ended(Exception):
    """The other side has ended the connection."""


class Wire:
    """One side of a connection. It acknowledges settings and pings, and gives back what windows it takes."""

    def __init__(self, socket, gives_window=True):
        self.socket = socket
        self.decoder = hpack.Decoder(max_header_list_size=1 << 24)
        self.gives_window = gives_window
        self.settings = {}
        self.acknowledged = 0
        self.pongs = []
        self.goaway = None
        self.granted = Counter()

    def send(self, *parts):
        """False when the other side takes no more."""
        try:
            self.socket.sendall(b"".join(parts))
            return True
        except BROKEN:
            return False

    def _exactly(self, count):
        read = bytearray()
        while len(read) < count:
            try:
                more = self.socket.recv(count - len(read))
            except BROKEN:
                more = b""
            if not more:
                raise Ended
            read += more
        return memoryview(bytes(read))

    def frame(self):
        """The next frame, after whatever it calls for at once. Raises `Ended`."""
        frame, length = kinds.Frame.parse_frame_header(self._exactly(9))
        frame.parse_body(self._exactly(length))
        if isinstance(frame, kinds.SettingsFrame):
            self._set(frame)
        elif isinstance(frame, kinds.PingFrame):
            if "ACK" in frame.flags:
                self.pongs.append(frame.opaque_data)
            else:
                self.send(bare(6, 1, 0, frame.opaque_data))
        elif isinstance(frame, kinds.GoAwayFrame):
            self.goaway = frame
        elif isinstance(frame, kinds.WindowUpdateFrame):
            self.granted[frame.stream_id] += frame.window_increment
        elif isinstance(frame, kinds.DataFrame) and length and self.gives_window:
            self.send(window(0, length), window(frame.stream_id, length))
        return frame

    def _set(self, frame):
        if "ACK" in frame.flags:
            self.acknowledged += 1
        else:
            self.settings.update(frame.settings)
            self.send(bare(4, 1, 0))

    def fields(self, frame):
        """The fields of a head that begins with this frame, as bytes."""
        whole = bytes(frame.data)
        while "END_HEADERS" not in frame.flags:
            frame = self.frame()
            whole += frame.data
        return [(bytes(name), bytes(value)) for name, value in self.decoder.decode(whole, raw=True)]

    def close(self):
        self.socket.close()
