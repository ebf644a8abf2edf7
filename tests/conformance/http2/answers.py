"""What an HTTP/1.1 upstream answers, as a client of HTTP/2 sees it: the same status, fields and bytes, framed anew; and
nothing whole that was not."""

import threading

from kit.client import Frames, Orderly, ask, order, request
from kit.frames import head, ping
from kit.http1 import BOOKED, Upstream
from kit.report import case, cases, reached, run

upstream = Upstream()


def comes(status, fields, body, method="GET", raw=b"", then_close=False):
    """These fields and this body, and the end of the stream; all others are the gateway's own or not there."""
    upstream.reply = (lambda _, stream: stream.sendall(raw) and None) if then_close else raw
    with Orderly() as client:
        answer = client.ask(request(method, "/plain"))
        assert (answer.status, answer.body, answer.whole, answer.reset) == (status, body, True, None), answer
        assert answer.interim == [], answer
        own = {b"date", b"via"} - {name for name, _ in fields}
        assert [field for field in answer.fields if field[0] not in own] == fields, answer
    assert len(reached(upstream)) == 1


def wire(status, fields, body=b""):
    return b"HTTP/1.1 " + status + b"\r\n" + b"".join(line + b"\r\n" for line in fields) + b"\r\n" + body


LENGTH = (b"content-length", b"5")
cases(
    {
        "a length": (200, [LENGTH], b"hello", "GET", wire(b"200 OK", [b"Content-Length: 5"], b"hello")),
        "no content": (200, [(b"content-length", b"0")], b"", "GET", wire(b"200 OK", [b"Content-Length: 0"])),
        "chunks": (
            200, [], b"hello", "GET",
            wire(b"200 OK", [b"Transfer-Encoding: chunked"], b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n"),
        ),
        "until the end": (200, [], b"hello", "GET", wire(b"200 OK", [b"Connection: close"], b"hello"), True),
        "HEAD with a length": (200, [LENGTH], b"", "HEAD", wire(b"200 OK", [b"Content-Length: 5"])),
        "HEAD in chunks": (200, [], b"", "HEAD", wire(b"200 OK", [b"Transfer-Encoding: chunked"])),
        "204": (204, [], b"", "GET", wire(b"204 No Content", [])),
        "304 with a length": (
            304, [(b"etag", b'"7"'), LENGTH], b"", "GET", wire(b"304 Not Modified", [b'ETag: "7"', b"Content-Length: 5"]),
        ),
        "a status without a name": (299, [(b"content-length", b"0")], b"", "GET", wire(b"299 ", [b"Content-Length: 0"])),
        "lines in order, names in small letters": (
            200,
            [(b"set-cookie", b"a=1"), (b"set-cookie", b"b=2; Path=/"), (b"x-a", b""), LENGTH],
            b"hello", "GET",
            wire(b"200 OK", [b"Set-Cookie: a=1", b"SET-COOKIE:b=2; Path=/  ", b"X-A:", b"Content-Length: 5"], b"hello"),
        ),
        "a value beyond ASCII": (
            200, [(b"x-a", b"caf\xc3\xa9\xff"), LENGTH], b"hello", "GET",
            wire(b"200 OK", [b"X-A: caf\xc3\xa9\xff", b"Content-Length: 5"], b"hello"),
        ),
        "fields of the connection": (
            200, [(b"x-b", b"2"), LENGTH], b"hello", "GET",
            wire(
                b"200 OK",
                [b"Connection: keep-alive, X-A", b"X-A: 1", b"X-B: 2", b"Keep-Alive: timeout=5", b"Upgrade: h2c",
                 b"Proxy-Connection: x", b"Content-Length: 5"],
                b"hello",
            ),
        ),
        "marks of the gateway's own": (
            200, [LENGTH], b"hello", "GET",
            wire(
                b"200 OK",
                [b"Oncegate-Source: gateway", b"Idempotent-Replayed: true", b"X-Idempotent-Retry: true",
                 b"Idempotency-Expires: never", b"Content-Length: 5"],
                b"hello",
            ),
        ),
        "trailers are not merged": (
            200, [], b"hello", "GET",
            wire(b"200 OK", [b"Transfer-Encoding: chunked"], b"5\r\nhello\r\n0\r\nX-T: 1\r\nSet-Cookie: a=b\r\n\r\n"),
        ),
        "hints before the answer": (
            200, [LENGTH], b"hello", "GET",
            wire(b"103 Early Hints", [b"Link: </a>"]) + wire(b"102 Processing", []) + wire(b"200 OK", [b"Content-Length: 5"], b"hello"),
        ),
    },
    comes,
)


def is_no_answer(raw):
    """502, or a stream that is reset: never something whole. And what follows it never reaches another client."""
    upstream.reply = lambda _, stream: stream.sendall(raw) and None
    for fields in (request(), request("POST", "/plain"), order(repr(raw)[:200].encode().hex()[-100:])):
        answer = ask(fields)
        assert answer.code == "upstream-failed" and answer.status == 502 or answer.reset and not answer.whole, answer
        assert b"evil" not in answer.body, answer
    assert len(reached(upstream)) == 3


LENGTH_5 = b"Content-Length: 5"
CHUNKED = b"Transfer-Encoding: chunked"
cases(
    {
        "no HTTP": b"hello\r\n\r\n",
        "nothing": b"",
        "half a head": b"HTTP/1.1 200 OK\r\nContent-",
        "two lengths": wire(b"200 OK", [LENGTH_5, b"Content-Length: 6"], b"hello!"),
        "a length and chunks": wire(b"200 OK", [LENGTH_5, CHUNKED], b"5\r\nhello\r\n0\r\n\r\n"),
        "a signed length": wire(b"200 OK", [b"Content-Length: +5"], b"hello"),
        "a folded line": wire(b"200 OK", [b"X-A: 1", b" 2", LENGTH_5], b"hello"),
        "a space before the colon": wire(b"200 OK", [b"X-A : 1", LENGTH_5], b"hello"),
        "NUL in a value": wire(b"200 OK", [b"X-A: 1\x002", LENGTH_5], b"hello"),
        "CR in a value": wire(b"200 OK", [b"X-A: 1\rX-Evil: 2", LENGTH_5], b"hello"),
        "a body shorter than its length": wire(b"200 OK", [LENGTH_5], b"hell"),
        "chunks that do not end": wire(b"200 OK", [CHUNKED], b"5\r\nhello\r\n"),
        "a chunk shorter than its size": wire(b"200 OK", [CHUNKED], b"5\r\nhel"),
        "a chunk whose size is none": wire(b"200 OK", [CHUNKED], b"x\r\nhello\r\n0\r\n\r\n"),
        "a switch of protocols": wire(b"101 Switching Protocols", [b"Upgrade: h2c", b"Connection: Upgrade"], b"evil"),
    },
    is_no_answer,
)


@case("bytes after an answer reach nobody")
def _():
    upstream.reply = wire(b"200 OK", [LENGTH_5], b"hello") + wire(b"200 OK", [b"Content-Length: 4"], b"evil")
    with Frames() as client:
        for stream in range(1, 21, 2):
            answer = client.ask(request("GET", f"/{stream}"), stream=stream)
            assert answer.body == b"hello" or answer.code in ("upstream-failed", "upstream-unreachable"), answer


@case("events come as they are sent, and end when the client leaves")
def _():
    gates = [threading.Event() for _ in range(3)]
    closed = threading.Event()

    def streams(_, stream):
        stream.sendall(wire(b"200 OK", [b"Content-Type: text/event-stream", CHUNKED]))
        for number, gate in enumerate(gates):
            gate.wait(20)
            stream.sendall(b"9\r\ndata: %d\n\n\r\n" % number)
        if not stream.recv(1):
            closed.set()

    upstream.reply = streams
    with Frames() as client:
        client.send(head(1, request()))
        answer = client.answer(1)
        for number, gate in enumerate(gates):
            gate.set()
            client.until(lambda: len(answer.body) == 9 * (number + 1))
            assert answer.body.endswith(b"data: %d\n\n" % number), answer
    assert closed.wait(20), "the upstream is still held"


@case("hints are not recorded")
def _():
    upstream.reply = wire(b"103 Early Hints", [b"Link: </a>"]) + wire(b"201 Created", [LENGTH_5], b"hello")
    for replayed in (False, True):
        answer = ask(order("hints"), b"x")
        assert (answer.status, answer.body, answer.is_replay) == (201, b"hello", replayed), answer
        assert answer.all("link") == [], answer
    assert len(reached(upstream)) == 1


@case("a guarded answer without content, and its replay")
def _():
    upstream.reply = wire(b"204 No Content", [b"ETag: 1"])
    for replayed in (False, True):
        answer = ask(order("empty"), b"x")
        assert (answer.status, answer.body, answer.is_replay) == (204, b"", replayed), answer
        assert answer.all("content-length") == [] and answer.get("etag") == "1", answer


run(upstream)
