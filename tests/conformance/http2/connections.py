"""The connection itself: how it begins and ends, and frames that break its rules. Each broken rule costs the stream or
the connection, by RFC 9113, and nobody else."""

import threading

from h2.settings import SettingCodes as Setting

from kit.client import Frames, ask, order, request
from kit.frames import BROKEN, PREFACE, bare, data, goaway, head, ping, reset, settings, window
from kit.http1 import BOOKED, Upstream
from kit.report import case, cases, reached, run

upstream = Upstream()
PLAIN = request()
POST = request("POST", "/plain")
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)


def no_connection(*bytes_sent):
    with Frames(hello=False) as client:
        client.send(*bytes_sent)
        client.socket.settimeout(30)
        try:
            while client.socket.recv(65536):
                pass
        except BROKEN:
            pass
    assert reached(upstream) == []


cases(
    {
        "a preface that goes wrong late": (PREFACE[:-1] + b"X", settings(), head(1, PLAIN)),
        "a preface that goes wrong at its method": (b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", settings(), head(1, PLAIN)),
        "a preface of another version": (b"PRI * HTTP/2.1\r\n\r\nSM\r\n\r\n", settings(), head(1, PLAIN)),
        "a preface for another target": (b"PRI / HTTP/2.0\r\n\r\nSM\r\n\r\n", settings(), head(1, PLAIN)),
        "no preface": (settings(), head(1, PLAIN)),
    },
    no_connection,
)


def ends(code, *frames):
    """The connection ends with this error, no request is made of what came, and other connections go on."""
    with Frames() as client:
        client.send(*frames)
        assert client.ended() in (code if isinstance(code, tuple) else (code,)), client.goaway
    assert [seen for seen in reached(upstream) if seen.whole] == []


OPEN = head(1, POST, end=False)
# Where a finer code exists, the gateway's library often says only that a rule was broken.
SIZE, HPACK, FLOW = ((finer, "PROTOCOL_ERROR") for finer in ("FRAME_SIZE_ERROR", "COMPRESSION_ERROR", "FLOW_CONTROL_ERROR"))
cases(
    {
        "SETTINGS on a stream": ("PROTOCOL_ERROR", bare(SETTINGS, 0, 1)),
        "SETTINGS of five octets": (SIZE, bare(SETTINGS, 0, 0, b"12345")),
        "an acknowledgement with content": (SIZE, bare(SETTINGS, 1, 0, b"\0\1\0\0\0\0")),
        "push switched on by 2": ("PROTOCOL_ERROR", settings({Setting.ENABLE_PUSH: 2})),
        "a window beyond 31 bits by SETTINGS": (FLOW, settings({Setting.INITIAL_WINDOW_SIZE: 1 << 31})),
        "frames smaller than 2^14 by SETTINGS": ("PROTOCOL_ERROR", settings({Setting.MAX_FRAME_SIZE: 16383})),
        "frames larger than 2^24 by SETTINGS": ("PROTOCOL_ERROR", settings({Setting.MAX_FRAME_SIZE: 1 << 24})),
        "a PING of seven octets": (SIZE, bare(PING, 0, 0, b"7octets")),
        "a PING on a stream": ("PROTOCOL_ERROR", bare(PING, 0, 1, b"8 octets")),
        "a GOAWAY on a stream": ("PROTOCOL_ERROR", bare(GOAWAY, 0, 1, bytes(8))),
        "a GOAWAY of seven octets": (SIZE, bare(GOAWAY, 0, 0, bytes(7))),
        "a window grown by nothing": ("PROTOCOL_ERROR", window(0, 0)),
        "a window grown beyond 31 bits": (FLOW, window(0, (1 << 31) - 1)),
        "a window of three octets": (SIZE, bare(WINDOW, 0, 0, bytes(3))),
        "a stream's window grown by nothing": ("PROTOCOL_ERROR", OPEN, window(1, 0)),
        "the window of an idle stream": ("PROTOCOL_ERROR", window(1, 5)),
        "a reset of an idle stream": ("PROTOCOL_ERROR", reset(1)),
        "a reset of no stream": ("PROTOCOL_ERROR", bare(RESET, 0, 0, bytes(4))),
        "a reset of three octets": (SIZE, OPEN, bare(RESET, 0, 1, bytes(3))),
        "DATA on an idle stream": ("PROTOCOL_ERROR", data(1, b"x")),
        "DATA on no stream": ("PROTOCOL_ERROR", bare(DATA, 1, 0, b"x")),
        "padding larger than its frame": ("PROTOCOL_ERROR", OPEN, bare(DATA, 8 | 1, 1, b"\5x")),
        "HEADERS on no stream": ("PROTOCOL_ERROR", bare(HEADERS, 5, 0, b"")),
        "HEADERS on a server's stream": ("PROTOCOL_ERROR", head(2, POST, end=False)),
        "padding larger than its HEADERS": ("PROTOCOL_ERROR", bare(HEADERS, 8 | 5, 1, b"\x09a")),
        "a push by the client": (("PROTOCOL_ERROR", "NO_ERROR"), OPEN, bare(PUSH, 4, 1, b"\0\0\0\2")),
        "CONTINUATION without HEADERS": ("PROTOCOL_ERROR", bare(CONTINUATION, 4, 1, b"")),
        "CONTINUATION after an end": ("PROTOCOL_ERROR", OPEN, bare(CONTINUATION, 4, 1, b"")),
        "CONTINUATION of another stream": ("PROTOCOL_ERROR", head(1, POST, last=False), bare(CONTINUATION, 4, 3, b"")),
        "a PING within a head": ("PROTOCOL_ERROR", head(1, POST, last=False), ping()),
        "DATA within a head": ("PROTOCOL_ERROR", head(1, POST, end=False, last=False), data(1, b"x")),
        "another head within a head": ("PROTOCOL_ERROR", head(1, POST, last=False), head(3, POST)),
        "an unknown frame within a head": ("PROTOCOL_ERROR", head(1, POST, last=False), bare(99, 0, 1, b"x")),
        "a frame larger than allowed": (SIZE, OPEN, bare(DATA, 1, 1, bytes(16385))),
        "a head larger than allowed": (SIZE, bare(HEADERS, 5, 1, bytes(16385))),
        "HPACK: index 0": (HPACK, head(1, [], raw=b"\x80")),
        "HPACK: an index that is not there": (HPACK, head(1, [], raw=b"\xff\x80\x01")),
        "HPACK: an integer that never ends": (HPACK, head(1, [], raw=b"\xff" * 20)),
        "HPACK: a string longer than its block": (HPACK, head(1, [], raw=b"\x00\x01a\x7fb")),
        "HPACK: a block that ends within a field": (HPACK, head(1, [], raw=b"\x00\x01a")),
        "HPACK: Huffman with the end of strings": (HPACK, head(1, [], raw=b"\x00\x01a\x84\xff\xff\xff\xff")),
        "HPACK: a table larger than allowed": (HPACK, head(1, [], raw=b"\x3f\xe1\xff\x03")),
        "HPACK: a table changed within a block": (HPACK, head(1, [], raw=b"\x82\x20\x84\x86")),
    },
    ends,
)


@case("a first frame that is no SETTINGS does no harm")
def _():
    with Frames(hello=False) as client:
        client.send(PREFACE, head(1, PLAIN), settings())
        answer = client.wait(1)
        assert answer.status == 201 or answer.goaway == "PROTOCOL_ERROR", answer


def costs_its_stream(codes, *frames):
    """The stream 1 ends with one of these errors, and a request on stream 3 is answered."""
    with Frames() as client:
        client.send(*frames, head(3, request("GET", "/other")))
        answer = client.wait(3)
        assert answer.status == 201, (answer, client.goaway)
        assert client.wait(1).reset in codes, client.wait(1)
    assert [seen.line for seen in reached(upstream) if seen.whole] == [b"GET /other HTTP/1.1"]


cases(
    {
        "a stream's window grown beyond 31 bits": (["FLOW_CONTROL_ERROR"], OPEN, window(1, (1 << 31) - 1)),
        "a request that is malformed": (["PROTOCOL_ERROR"], head(1, POST[1:])),
    },
    costs_its_stream,
)


def is_over(*frames):
    """What comes on a stream after its end is an error, and no part of a request."""
    with Frames() as client:
        client.send(head(1, POST), *frames)
        answer = client.wait(1)
        if not answer.reset:
            client.until(lambda: answer.reset or client.goaway)
        codes = (answer.reset, client.goaway and client.goaway.error_code)
        assert codes in (("STREAM_CLOSED", None), (None, 5), (None, 1)), codes
    assert all(seen.body == b"" for seen in reached(upstream))


cases(
    {
        "DATA after the end": data(1, b"x"),
        "a second head after the end": head(1, request("POST", "/orders")),
        "trailers after the end": head(1, [("x-t", "1")]),
    },
    is_over,
)


@case("DATA and windows on a stream that is long over")
def _():
    with Frames() as client:
        assert client.ask(PLAIN, stream=1).status == 201
        client.send(window(1, 5), reset(1))
        assert client.ask(PLAIN, stream=3).status == 201, "both may cross an answer"
        client.send(data(1, b"x"))
        client.until(lambda: client.answer(1).reset or client.goaway)
        assert client.answer(1).reset == "STREAM_CLOSED" or client.goaway.error_code in (1, 5)
    assert [seen.body for seen in reached(upstream)] == [b"", b""]


@case("a stream below those that were")
def _():
    with Frames() as client:
        assert client.ask(PLAIN, stream=5).status == 201
        client.send(head(3, POST))
        assert client.ended() in ("PROTOCOL_ERROR", "STREAM_CLOSED")
    assert [seen.line for seen in reached(upstream)] == [b"GET /plain HTTP/1.1"]


def is_ignored(*frames, fields=PLAIN):
    """A request is answered as if these were not there."""
    with Frames() as client:
        client.send(*frames)
        answer = client.ask(fields, stream=11)
        assert (answer.status, answer.body) == (201, b"booked"), (answer, client.goaway)
    assert len(reached(upstream)) == 1


cases(
    {
        "an unknown frame": bare(99, 0xFF, 0, b"anything"),
        "an unknown frame on an idle stream": bare(99, 0xFF, 11, b""),
        "unknown frames by the dozen": tuple(bare(kind, kind, 0, bytes(kind)) for kind in range(11, 250)),
        "an unknown setting": settings({0x99: 7, 0xFFFF: 0xFFFFFFFF}),
        "unknown flags": bare(PING, 0xF0, 0, b"8 octets"),
        "PRIORITY on idle streams": (bare(PRIORITY, 0, 3, b"\0\0\0\1\7"), bare(PRIORITY, 0, 11, b"\x80\0\0\3\xff")),
        "a larger table for HPACK": settings({Setting.HEADER_TABLE_SIZE: 1 << 20}),
        "no table for HPACK": settings({Setting.HEADER_TABLE_SIZE: 0}),
        "a small limit of the client's own": settings({Setting.MAX_HEADER_LIST_SIZE: 1}),
    },
    is_ignored,
)


@case("PRIORITY in a head, also on itself")
def _():
    for other in (0, 99):
        with Frames() as client:
            client.send(head(1, PLAIN, priority=other, pad=7))
            assert client.wait(1).status == 201
    assert len(reached(upstream)) == 2


@case("a PING is answered with its own octets, an acknowledgement is not")
def _():
    with Frames() as client:
        client.send(bare(PING, 1, 0, b"ack.ack."), ping(b"\0\1\2\3\4\5\6\7"), ping(b"another1"))
        client.until(lambda: len(client.pongs) == 2)
        assert client.pongs == [b"\0\1\2\3\4\5\6\7", b"another1"], client.pongs


@case("a head in CONTINUATION frames")
def _():
    with Frames() as client:
        client.send(head(1, PLAIN + [("x-a", "1")], pieces=5), head(3, PLAIN + [("x-a", "3")], pieces=2))
        assert (client.wait(1).status, client.wait(3).status) == (201, 201)
    assert sorted(seen.get("x-a") for seen in reached(upstream)) == [b"1", b"3"]


@case("a head with an empty HEADERS frame, and empty CONTINUATION frames")
def _():
    whole = head(1, PLAIN)[9:]
    with Frames() as client:
        client.send(bare(HEADERS, 1, 1), bare(CONTINUATION, 0, 1), bare(CONTINUATION, 0, 1, whole), bare(CONTINUATION, 4, 1))
        assert client.wait(1).status == 201
    assert len(reached(upstream)) == 1


@case("an answer waits for its window, octet by octet")
def _():
    upstream.reply = b"HTTP/1.1 200 OK\r\nContent-Length: 26\r\n\r\nabcdefghijklmnopqrstuvwxyz"
    with Frames({Setting.INITIAL_WINDOW_SIZE: 0}, gives_window=False) as client:
        client.send(head(1, PLAIN))
        answer = client.answer(1)
        client.until(lambda: answer.status)
        for count in range(1, 27):
            client.send(ping(count.to_bytes(8, "big")))
            client.until(lambda: len(client.pongs) == count)
            assert len(answer.body) == count - 1, "more than its window"
            client.send(window(1, 1))
            client.until(lambda: len(answer.body) == count)
        client.until(lambda: answer.whole)
        assert answer.whole and answer.body == b"abcdefghijklmnopqrstuvwxyz"


@case("a window that the client takes back")
def _():
    upstream.reply = b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n" + b"x" * 50000
    with Frames({Setting.INITIAL_WINDOW_SIZE: 10000}, gives_window=False) as client:
        client.send(head(1, PLAIN))
        answer = client.answer(1)
        client.until(lambda: len(answer.body) == 10000)
        client.send(settings({Setting.INITIAL_WINDOW_SIZE: 0}), window(1, 9999), ping())
        client.until(lambda: client.pongs)
        assert len(answer.body) == 10000, "its window is below nothing"
        client.send(window(1, 1 + 40000))
        assert client.wait(1).whole and len(answer.body) == 50000


@case("a client that stands still holds up no other stream")
def _():
    upstream.reply = lambda seen, _: (
        b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200000 if b"/large" in seen.line else BOOKED
    )
    with Frames({Setting.INITIAL_WINDOW_SIZE: 100}, gives_window=False) as client:
        client.send(head(1, request("GET", "/large")))
        client.until(lambda: len(client.answer(1).body) == 100)
        for stream in range(3, 23, 2):
            assert client.ask(PLAIN, stream=stream).status == 201


@case("a client that says goodbye is answered all the same")
def _():
    going = threading.Event()
    upstream.reply = lambda *_: going.wait(20) and BOOKED
    with Frames() as client:
        client.send(head(1, order("goodbye")), goaway())
        upstream.wait_for(1)
        going.set()
        answer = client.wait(1)
        assert (answer.status, answer.whole) == (201, True), (answer, client.goaway)


@case("a client that is gone after its order: it runs once, and is on record")
def _():
    going = threading.Event()
    upstream.reply = lambda *_: going.wait(20) and BOOKED
    with Frames() as client:
        client.send(head(1, order("gone"), end=False), data(1, b"x"))
        upstream.wait_for(1)
    going.set()
    again = ask(order("gone"), b"x")
    assert (again.status, again.body, again.is_replay) == (201, b"booked", True), again
    assert len(reached(upstream)) == 1


run(upstream)
