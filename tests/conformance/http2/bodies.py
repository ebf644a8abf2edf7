"""The body of a request: its length, its frames, its windows, its trailers; what of it reaches the upstream, and when."""

import socket

from kit.client import Frames, Orderly, ask, order, request
from kit.frames import data, head, reset
from kit.http1 import Upstream, before_body
from kit.report import case, cases, reached, run

#: http2: { stream_window: 64KiB, connection_window: 64KiB }

upstream = Upstream()
POST = request("POST", "/plain")


def no_whole_one_arrives(fields, *frames):
    """The request breaks its own word: nobody upstream takes it for a request."""
    with Frames() as client:
        client.send(head(1, fields, end=False), *frames)
        answer = client.wait(1)
        assert answer.is_malformed, answer
    assert [seen for seen in reached(upstream) if seen.whole or seen.line.startswith(b"POST /orders")] == []


for route, fields in (("plain", POST), ("guarded", order("broken"))):
    length = [("content-length", "5")]
    cases(
        {
            f"{route}: a body shorter than content-length": (fields + length, data(1, b"hell")),
            f"{route}: no body where content-length is 5": (fields + length, data(1)),
            f"{route}: a body longer than content-length": (fields + length, data(1, b"hello!")),
            f"{route}: longer, in two frames": (fields + length, data(1, b"hello", end=False), data(1, b"!")),
            f"{route}: shorter, with trailers": (fields + length, data(1, b"hell", end=False), head(1, [("x-t", "1")])),
            f"{route}: a body where content-length is 0": (fields + [("content-length", "0")], data(1, b"hello")),
            f"{route}: trailers with capitals": (fields, data(1, b"hello", end=False), head(1, [("X-T", "1")])),
            f"{route}: trailers with connection": (fields, data(1, b"hello", end=False), head(1, [("connection", "a")])),
            f"{route}: trailers that do not end": (
                fields, data(1, b"hello", end=False), head(1, [("x-t", "1")], end=False), data(1, b"!"),
            ),
            f"{route}: more padding than there is frame": (fields, b"\0\0\2\0\x09\0\0\0\1\5a"),
        },
        no_whole_one_arrives,
    )


def arrives(body, fields, *frames, path=b"/plain"):
    with Frames() as client:
        client.send(head(1, fields, end=False), *frames)
        answer = client.wait(1)
        assert (answer.status, answer.body) == (201, b"booked"), answer
    [seen] = reached(upstream)
    assert (seen.line, seen.body, seen.whole) == (b"POST " + path + b" HTTP/1.1", body, True), seen
    return seen


cases(
    {
        "one frame": (b"hello", POST, data(1, b"hello")),
        "a frame for each byte": (b"hello", POST, *[data(1, bytes([byte]), end=False) for byte in b"hello"], data(1)),
        "padded frames": (b"hello", POST, data(1, b"he", end=False, pad=255), data(1, b"llo", pad=0)),
        "a frame of padding alone": (b"hello", POST, data(1, b"", end=False, pad=9), data(1, b"hello", pad=1)),
        "empty frames": (b"hello", POST, *[data(1, b"", end=False)] * 9, data(1, b"hello", end=False), data(1)),
        "no byte at all": (b"", POST, data(1)),
        "bytes that look like chunks": (b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n", POST, data(1, b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n")),
        "the length that was said": (b"hello", POST + [("content-length", "5")], data(1, b"hello", pad=3)),
    },
    arrives,
)


@case("trailers are dropped, never merged")
def _():
    # A pseudo-header makes no difference.
    trailers = [(":path", "/evil"), ("x-t", "1"), ("idempotency-key", "other"), ("content-length", "99"), ("host", "evil.test"), ("x-a", "2")]
    for fields, path in ((POST + [("x-a", "1")], b"/plain"), (order("trailers", ("x-a", "1")), b"/orders")):
        seen = arrives(b"hello", fields, data(1, b"hello", end=False), head(1, trailers), path=path)
        assert seen.trailers == [] and seen.all("x-t") == [] and seen.all("x-a") == [b"1"], seen
        assert seen.get("host") == b"api.test" and seen.all("idempotency-key") in ([], [b"trailers"]), seen


@case("a key in the trailers is none")
def _():
    with Frames() as client:
        client.send(head(1, request("POST", "/orders"), end=False), data(1, b"x", end=False))
        client.send(head(1, [("idempotency-key", "k")]))
        assert client.wait(1).code == "key-missing"
    assert reached(upstream) == []


@case("padding gives its window back")
def _():
    body = bytes(range(256)) * 4 * 400
    with Frames() as client:
        client.send(head(1, POST, end=False))
        assert client.pour(1, body, size=1024, pad=255).status == 201
    assert [seen.body for seen in reached(upstream)] == [body]


@case("bodies larger than all windows, both ways")
def _():
    upstream.reply = lambda seen, _: b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(seen.body) + seen.body
    large = bytes(range(256)) * 4096
    with Orderly() as client:
        for fields in (POST, order("large", ("content-length", str(len(large))))):
            answer = client.ask(fields, large)
            assert answer.status == 200 and answer.body == large, (answer.status, len(answer.body))
    assert all(seen.body == large for seen in reached(upstream))


@case("a body over the limit is told so")
def _():
    with Frames() as client:
        client.send(head(1, order("huge", ("content-length", str(2 << 20))), end=False))
        answer = client.wait(1)
        assert (answer.status, answer.code, answer.interim) == (413, "body-too-large", []), answer
        client.send(head(3, order("huge"), end=False))
        answer = client.pour(3, b"x" * (2 << 20), size=16384)
        assert (answer.status, answer.code) == (413, "body-too-large"), answer
        answer = client.ask(request(), stream=5)
        assert answer.status == 201, (answer, client.goaway)
    assert [seen.line for seen in reached(upstream)] == [b"GET /plain HTTP/1.1"]


@case("a guarded body that is broken off never arrives, and its key is free")
def _():
    with Frames() as client:
        client.send(head(1, order("torn", ("content-length", "9")), end=False), data(1, b"hello", end=False), reset(1))
        assert client.ask(order("whole"), b"x", stream=3).status == 201
    with Frames() as client:
        client.send(head(1, order("torn"), end=False), data(1, b"hello", end=False))
    assert [seen.get("idempotency-key") for seen in reached(upstream)] == [b"whole"]
    answer = ask(order("torn"), b"another")
    assert answer.status == 201 and not answer.is_replay, answer


@case("a plain body that is broken off never arrives whole")
def _():
    for fields in (POST, POST + [("content-length", "9")]):
        with Frames() as client:
            client.send(head(1, fields, end=False), data(1, b"hello", end=False))
            upstream.wait_for(1, whole=False)
            client.send(reset(1))
            client.send(head(3, request()))
            assert client.wait(3).status == 201
        assert [seen.whole for seen in reached(upstream) if seen.line.startswith(b"POST")] == [False]


@case("an answer during the upload comes through, and the rest of the upload is not waited for")
def _():
    @before_body
    def refuses(seen, stream):
        stream.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
        stream.shutdown(socket.SHUT_WR)

    upstream.reply = refuses
    with Frames() as client:
        client.send(head(1, POST, end=False), data(1, b"some", end=False))
        answer = client.wait(1)
        assert (answer.status, answer.body, answer.whole) == (403, b"no", True), answer
        assert answer.reset in (None, "NO_ERROR"), answer


@case("an expected 100: a refusal comes at once, a body that is wanted is taken")
def _():
    with Frames() as client:
        client.send(head(1, request("POST", "/orders", ("expect", "100-continue")), end=False))
        answer = client.wait(1)
        assert (answer.status, answer.code, answer.interim) == (400, "key-missing", []), answer
    for fields in (order("expects", ("expect", "100-continue")), POST + [("expect", "100-continue")]):
        with Frames() as client:
            client.send(head(1, fields, end=False), data(1, b"hello"))
            answer = client.wait(1)
            assert answer.status == 201 and all(status == 100 for status, _ in answer.interim), answer
        [seen] = reached(upstream)
        assert seen.body == b"hello" and seen.all("expect") == [], seen


run(upstream)
