"""What an upstream of HTTP/2 answers, right and wrong. Right, it comes as it was said; wrong, it is 502 or a stream that
is reset, never something whole, and for an order a doubt. tests/upstream_tls has the refusals and goodbyes."""

from h2.settings import SettingCodes as Setting

from kit.client import Orderly, ask, order, request
from kit.frames import bare, data, goaway, head, reset, settings, window
from kit.http2 import Upstream
from kit.report import case, cases, reached, run

#| protocol: http2

upstream = Upstream()
OK = [(":status", "200")]
LENGTH = ("content-length", "5")


def said(*parts):
    """A reply of these parts; each is handed the stream."""
    return lambda seen: b"".join(part(seen.stream) for part in parts)


def heads(fields, **how):
    return lambda stream: head(stream, fields, **how)


def body(octets, **how):
    return lambda stream: data(stream, octets, **how)


def frame(kind, flags, octets):
    return lambda stream: bare(kind, flags, stream, octets)


def always(octets):
    return lambda _: octets


def comes(status, fields, octets, *parts, method="GET"):
    upstream.reply = said(*parts)
    with Orderly() as client:
        answer = client.ask(request(method, "/plain"))
    assert (answer.status, answer.body, answer.whole, answer.interim) == (status, octets, True, []), answer
    assert [field for field in answer.fields if field[0] not in (b"date", b"via")] == fields, answer
    assert len(reached(upstream)) == 1


HELLO = body(b"hello")
OPEN = heads(OK, end=False)
cases(
    {
        "a body of no stated length": (200, [], b"hello", OPEN, HELLO),
        "a stated length": (200, [(b"content-length", b"5")], b"hello", heads(OK + [LENGTH], end=False), HELLO),
        "an empty body": (200, [(b"content-length", b"0")], b"", heads(OK + [("content-length", "0")])),
        "204": (204, [], b"", heads([(":status", "204")])),
        "304 with a length": (304, [(b"content-length", b"5")], b"", heads([(":status", "304"), LENGTH])),
        "lines in order": (
            200, [(b"set-cookie", b"a=1"), (b"set-cookie", b"b=2"), (b"x-a", b"\xc3\xa9\xff")], b"hello",
            heads(OK + [("set-cookie", "a=1"), ("set-cookie", "b=2"), ("x-a", b"\xc3\xa9\xff")], end=False), HELLO,
        ),
        "marks of the gateway's own": (
            200, [], b"hello",
            heads(OK + [("oncegate-source", "gateway"), ("idempotent-replayed", "true")], end=False), HELLO,
        ),
        "hints first": (200, [], b"hello", heads([(":status", "103"), ("link", "</a>")], end=False), OPEN, HELLO),
        "trailers are not merged": (
            200, [], b"hello", OPEN, body(b"hello", end=False), heads([("x-t", "1"), ("set-cookie", "a=b")]),
        ),
        "padding and priority": (200, [], b"hello", heads(OK, end=False, pad=9, priority=0), body(b"hello", pad=200)),
        "a head in pieces": (200, [], b"hello", heads(OK, end=False, pieces=3), HELLO),
        "octet by octet": (200, [], b"hello", OPEN, *[body(bytes([octet]), end=False) for octet in b"hello"], body(b"")),
        "empty frames": (200, [], b"hello", OPEN, *[body(b"", end=False)] * 5, HELLO),
        "unknown frames": (200, [], b"hello", frame(99, 255, b"x"), OPEN, frame(99, 255, b"x"), always(bare(98, 1, 0)), HELLO),
        "new settings meanwhile": (
            200, [], b"hello", OPEN, always(settings({Setting.INITIAL_WINDOW_SIZE: 0, 0x99: 1})), HELLO,
        ),
    },
    comes,
)


@case("HEAD keeps its length")
def _():
    comes(200, [(b"content-length", b"5")], b"", heads(OK + [LENGTH]), method="HEAD")


number = 0


def is_no_answer(*parts, codes=("upstream-failed",)):
    """And what was wrong about it harms no request after it."""
    global number
    number += 1
    for fields in (request(), request("POST", "/plain"), order(f"wrong-{number}")):
        upstream.reply = said(*parts)
        answer = ask(fields)
        assert answer.status == 502 and answer.code in codes or answer.reset and not answer.whole, answer
        assert b"evil" not in answer.body, answer
    assert answer.status != 502 or answer.get("oncegate-outcome") == "unknown", answer
    assert len(reached(upstream)) == 3
    again = ask(order(f"wrong-{number}"))
    assert (again.status, again.code) == (409, "outcome-unknown"), again
    assert reached(upstream) == []


EVIL = ("x-evil", "1")
cases(
    {
        "no :status": (heads([EVIL]),),
        "two :status": (heads(OK + OK),),
        "two :status that differ": (heads(OK + [(":status", "404")]),),
        "a :status that is none": (heads([(":status", "abc")]),),
        "a :status of two digits": (heads([(":status", "20")]),),
        "an empty :status": (heads([(":status", "")]),),
        ":status after a field": (heads([("x-a", "1"), (":status", "200")]),),
        "an unknown pseudo-header": (heads(OK + [(":foo", "1")]),),
        "a name in capitals": (heads(OK + [("X-A", "1")]),),
        "a space in a name": (heads(OK + [("x a", "1")]),),
        "an empty name": (heads(OK + [("", "1")]),),
        "CR and LF in a value": (heads(OK + [("x-a", "1\r\nx-evil: 1")]),),
        "NUL in a value": (heads(OK + [("x-a", "1\x002")]),),
        "connection": (heads(OK + [("connection", "close")]),),
        "transfer-encoding": (heads(OK + [("transfer-encoding", "chunked")], end=False), body(b"5\r\nhello\r\n0\r\n\r\n")),
        "keep-alive": (heads(OK + [("keep-alive", "timeout=5")]),),
        "upgrade": (heads(OK + [("upgrade", "h2c")]),),
        "two content-lengths": (heads(OK + [LENGTH, ("content-length", "6")], end=False), HELLO),
        "the same content-length twice": (heads(OK + [LENGTH, LENGTH], end=False), HELLO),
        "an empty content-length": (heads(OK + [("content-length", "")], end=False), HELLO),
        "spaces round a value": (heads(OK + [("x-a", " 1 ")], end=False), HELLO),
        "a signed content-length": (heads(OK + [("content-length", "+5")], end=False), HELLO),
        "a content-length that is none": (heads(OK + [("content-length", "x")], end=False), HELLO),
        "a list of content-lengths": (heads(OK + [("content-length", "5, 5")], end=False), HELLO),
        "a body shorter than content-length": (heads(OK + [LENGTH], end=False), body(b"hell")),
        "a body longer than content-length": (heads(OK + [LENGTH], end=False), body(b"hello evil")),
        "no body where content-length is 5": (heads(OK + [LENGTH]),),
        "shorter, with trailers": (heads(OK + [LENGTH], end=False), body(b"hell", end=False), heads([("x-t", "1")])),
        "a switch of protocols": (heads([(":status", "101")], end=False), body(b"evil")),
        "an interim answer as the last word": (heads([(":status", "103")]),),
        "DATA before the head": (HELLO,),
        "DATA on an idle stream": (lambda stream: data(stream + 100, b"x"),),
        "a head on an idle stream": (lambda stream: head(stream + 100, OK),),
        "a push": (frame(5, 4, b"\0\0\0\2" + head(1, request())[9:]), OPEN, HELLO),
        "a head within a head": (heads(OK, end=False, last=False), lambda stream: head(stream + 2, OK)),
        "a PING within a head": (heads(OK, end=False, last=False), always(bare(6, 0, 0, bytes(8)))),
        "a PING of seven octets": (always(bare(6, 0, 0, bytes(7))),),
        "SETTINGS of five octets": (always(bare(4, 0, 0, bytes(5))),),
        "a window beyond 31 bits": (always(window(0, (1 << 31) - 1)),),
        "a frame larger than allowed": (OPEN, body(bytes(1 << 15))),
        "HPACK that is none": (heads([], raw=b"\x80"),),
        "a head over the limit": (heads(OK + [("x-a", "v" * 8000)] * 20, pieces=12),),
        "a reset after half a body": (OPEN, body(b"half", end=False), lambda stream: reset(stream, 2)),
    },
    is_no_answer,
)


@case("a connection that ends after half a body")
def _():
    def half_and_gone(seen):
        return head(seen.stream, OK, end=False) + data(seen.stream, b"half", end=False) + bare(7, 0, 0, bytes(4))

    is_no_answer(lambda stream: half_and_gone(upstream.seen[-1]))


@case("an answer without a stream's end, and a connection that closes")
def _():
    upstream.reply = lambda _: None
    answer = ask(order("closes"))
    assert (answer.status, answer.code, answer.get("oncegate-outcome")) == (502, "upstream-failed", "unknown"), answer
    assert len(reached(upstream)) == 1


@case("a body that HEAD does not have")
def _():
    upstream.reply = said(OPEN, body(b"evil"))
    answer = ask(request("HEAD"))
    assert answer.body == b"", answer
    reached(upstream)


@case("a goodbye after a whole answer: the next request goes another way")
def _():
    upstream.reply = lambda seen: head(seen.stream, OK) + goaway(seen.stream)
    for _ in range(5):
        assert ask(request("POST", "/plain")).status == 200
    assert len({seen.connection for seen in reached(upstream)}) == 5


run(upstream)
