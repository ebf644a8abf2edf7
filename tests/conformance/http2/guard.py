"""Guarded requests over HTTP/2: once, whatever the streams; and what a client is told is what HTTP/1.1 tells."""

import threading

from kit.client import Frames, Gateway, Orderly, ask, ask_http1, order, request
from kit.frames import data, head
from kit.http1 import BOOKED, Upstream
from kit.report import case, cases, reached, run

upstream = Upstream()
RICH = (
    b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nLocation: /orders/7\r\nX-Line: 1\r\nX-Line: 2\r\n"
    b"Set-Cookie: a=b\r\nConnection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nContent-Length: 8\r\n\r\n{\"id\":7}"
)
# What speaks of one connection, one moment or one request.
OF_THE_MOMENT = (b"date", b"connection", b"keep-alive", b"transfer-encoding", b"oncegate-operation", b"via")


@case("fifty orders of one key on one connection run once")
def _():
    gate = threading.Event()
    upstream.reply = lambda *_: gate.wait(20) and RICH
    with Orderly() as client:
        streams = [client.begin(order("fifty"), b"body") for _ in range(50)]
        upstream.wait_for(1)
        gate.set()
        answers = [client.wait(stream) for stream in streams]
    assert all((answer.status, answer.body) == (201, b'{"id":7}') for answer in answers), answers
    assert sum(not answer.is_replay for answer in answers) == 1
    assert len(reached(upstream)) == 1


@case("fifty orders of one key on fifty connections run once")
def _():
    gate = threading.Event()
    upstream.reply = lambda *_: gate.wait(20) and RICH
    clients = [Frames() for _ in range(50)]
    for client in clients:
        client.send(head(1, order("apart"), end=False), data(1, b"body"))
    upstream.wait_for(1)
    gate.set()
    answers = [client.wait(1) for client in clients]
    assert all((answer.status, answer.body) == (201, b'{"id":7}') for answer in answers), answers
    assert sum(not answer.is_replay for answer in answers) == 1
    assert len(reached(upstream)) == 1


@case("fifty orders of fifty keys on one connection all run, each with its own answer")
def _():
    upstream.reply = lambda seen, _: b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n" % len(seen.body) + seen.body
    with Orderly() as client:
        streams = [client.begin(order(f"own-{number}"), b"body %d" % number) for number in range(50)]
        for number, stream in enumerate(streams):
            answer = client.wait(stream)
            assert (answer.status, answer.body, answer.is_replay) == (201, b"body %d" % number, False), answer
    assert len(reached(upstream)) == 50


def says_the_same(status, code, fields, body, before=None):
    """What HTTP/1.1 says to a request, HTTP/2 says to it: the same fields but those of the connection."""
    upstream.reply = RICH
    if before:
        assert ask(*before).status == 201
        reached(upstream)
    if Gateway.authority:
        with Orderly() as client:
            assert client.ask(fields, body).status == status
        return
    old, new = ask_http1(fields, body), ask(fields, body)
    with Orderly() as client:
        orderly = client.ask(fields, body)
    for answer in (old, new, orderly):
        assert (answer.status, answer.code) == (status, code), answer
        assert answer.body == old.body or code and answer.code == code, answer
    for answer in (new, orderly):
        assert lasting(answer) == lasting(old), (answer, old)
        for name in ("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "x-hop"):
            assert answer.all(name) == [], answer
        assert all(name == name.lower() for name, _ in answer.fields), answer
        assert [name for name, _ in answer.fields].count(b"date") == 1, answer
    assert reached(upstream) == []


def lasting(answer):
    return sorted(field for field in answer.fields if field[0] not in OF_THE_MOMENT)


cases(
    {
        "a replay": (201, None, order("same"), b"x", (order("same"), b"x")),
        "a duplicate that is rejected": (
            409, "duplicate-request", order("same", path="/strict"), b"x", (order("same", path="/strict"), b"x"),
        ),
        "a key that was used for another request": (422, "key-reused", order("same"), b"changed", (order("same"), b"x")),
        "no key": (400, "key-missing", request("POST", "/orders"), b"x"),
        "a key that is none": (400, "key-invalid", order("a b"), b"x"),
    },
    says_the_same,
)


@case("a replay is the first answer, less what was of its moment")
def _():
    upstream.reply = RICH
    first, again = ask(order("rich"), b"x"), ask(order("rich"), b"x")
    assert (first.all("x-line"), first.get("location"), first.get("set-cookie")) == ([b"1", b"2"], "/orders/7", "a=b")
    assert first.all("x-hop") == first.all("connection") == first.all("keep-alive") == [], first
    assert (again.status, again.body, again.is_replay) == (first.status, first.body, True), again
    for name in ("content-type", "location", "x-line", "content-length", "idempotency-expires"):
        assert again.all(name) == first.all(name) != [], (name, first, again)
    assert again.all("set-cookie") == [], again
    assert len(reached(upstream)) == 1


@case("an order in flight is told so where waiting is not wanted")
def _():
    gate = threading.Event()
    upstream.reply = lambda *_: gate.wait(20) and RICH
    with Frames() as client:
        client.send(head(1, order("flight", path="/strict"), end=False), data(1, b"x"))
        upstream.wait_for(1)
        second = client.ask(order("flight", path="/strict"), b"x", stream=3)
        assert (second.status, second.code) == (409, "request-in-flight") and second.get("retry-after"), second
        gate.set()
        assert client.wait(1).status == 201
    assert len(reached(upstream)) == 1


@case("an upstream that breaks off leaves a doubt, which the next stream is told")
def _():
    upstream.reply = lambda *_: None
    with Frames() as client:
        first = client.ask(order("doubt"), b"x", stream=1)
        assert (first.status, first.code, first.get("oncegate-outcome")) == (502, "upstream-failed", "unknown"), first
        second = client.ask(order("doubt"), b"x", stream=3)
        assert (second.status, second.code) == (409, "outcome-unknown"), second
    assert len(reached(upstream)) == 1


@case("an answer that never ends is no answer, to nobody")
def _():
    upstream.reply = lambda _, stream: stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf") and None
    for fields in (order("half"), request("POST", "/plain")):
        answer = ask(fields, b"x")
        assert not answer.whole or answer.code == "upstream-failed", answer
        assert answer.reset or answer.status == 502, answer
    assert len(reached(upstream)) == 2


@case("an order that is answered by its own connection's end runs once")
def _():
    upstream.reply = BOOKED
    for _ in range(10):
        with Frames() as client:
            client.send(head(1, order("left"), end=False), data(1, b"x"))
    answer = ask(order("left"), b"x")
    assert answer.status == 201, answer
    assert len(reached(upstream)) == 1


run(upstream)
