"""What reaches an upstream of HTTP/2. h2 reads it there, and raises where it breaks a rule of HTTP/2."""

import time

from h2.settings import SettingCodes as Setting

from kit.client import AUTHORITY, Frames, Orderly, ask, ask_http1, order, request
from kit.frames import data, head, reset
from kit.http2 import Upstream
from kit.report import case, cases, reached, run

#| protocol: http2
#| idle_timeout: 100ms

upstream = Upstream()
POST = request("POST", "/plain")
OF_THE_GATEWAY = (b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"forwarded", b"traceparent", b"x-request-id", b"via")


def arrives(fields, body, expected, by=ask):
    """These fields reach the upstream in this order, and no others but those that the gateway adds."""
    answer = by(fields, body)
    assert answer.status == 201, answer
    [seen] = reached(upstream)
    assert (seen.body, seen.whole, seen.trailers) == (body or b"", True, None), seen
    assert [field for field in seen.fields if field[0] not in OF_THE_GATEWAY] == expected, seen


def pseudo(method, path, authority=AUTHORITY):
    said = {":method": method, ":scheme": "http", ":authority": authority, ":path": path}
    return [(name.encode(), value.encode()) for name, value in said.items()]


cases(
    {
        "no body": (request("GET", "/plain"), None, pseudo("GET", "/plain")),
        "HEAD": (request("HEAD", "/plain"), None, pseudo("HEAD", "/plain")),
        "another port": (request(authority="b.test:81"), None, pseudo("GET", "/plain", "b.test:81")),
        "host instead of :authority": (
            request("GET", "/plain", ("host", "b.test"), authority=None), None, pseudo("GET", "/plain", "b.test"),
        ),
        "a path as it came": (request("GET", "/%6F//x;y?a=%2B&b#".rstrip("#")), None, pseudo("GET", "/%6F//x;y?a=%2B&b")),
        "a body of a known length": (
            POST + [("content-length", "5")], b"hello", pseudo("POST", "/plain") + [(b"content-length", b"5")],
        ),
        "a body of an unknown length": (POST, b"hello", pseudo("POST", "/plain")),
        "lines in order": (
            request("GET", "/plain", ("x-b", "1"), ("x-a", "2"), ("x-a", "3"), ("x-a", "")), None,
            pseudo("GET", "/plain") + [(b"x-b", b"1"), (b"x-a", b"2"), (b"x-a", b"3"), (b"x-a", b"")],
        ),
        "a value beyond ASCII": (
            request("GET", "/plain", ("x-a", b"\xc3\xa9\xff")), None, pseudo("GET", "/plain") + [(b"x-a", b"\xc3\xa9\xff")],
        ),
        "te and an expectation end here": (
            POST + [("te", "trailers"), ("expect", "100-continue"), ("content-length", "1")], b"x",
            pseudo("POST", "/plain") + [(b"content-length", b"1")],
        ),
        "HTTP/1.1 and the fields of its connection": (
            request("POST", "/plain", ("Connection", "x-hop"), ("X-Hop", "1"), ("Keep-Alive", "1"), ("X-Kept", "2"), ("Upgrade", "h2c")),
            b"hello",
            pseudo("POST", "/plain") + [(b"x-kept", b"2"), (b"content-length", b"5")],
            ask_http1,
        ),
    },
    arrives,
)


@case("cookies")
def _():
    ask(request("GET", "/plain", ("cookie", "a=b"), ("cookie", "c=d")))
    [seen] = reached(upstream)
    assert b"; ".join(seen.all("cookie")) == b"a=b; c=d", seen


@case("a guarded request is marked, and has its length")
def _():
    ask(order("marked"), b"hello")
    [seen] = reached(upstream)
    assert (seen.get("content-length"), seen.get("oncegate-attempt"), seen.get("idempotency-key")) == (b"5", b"1", b"marked")
    assert len(seen.get("oncegate-operation")) == 64 and seen.body == b"hello"


@case("trailers are dropped")
def _():
    with Frames() as client:
        client.send(head(1, POST, end=False), data(1, b"hello", end=False), head(1, [("x-t", "1"), ("host", "evil")]))
        assert client.wait(1).status == 201
    [seen] = reached(upstream)
    assert (seen.body, seen.whole, seen.trailers, seen.all("x-t")) == (b"hello", True, None, []), seen


def never_arrives_whole(fields, *frames):
    with Frames() as client:
        client.send(head(1, fields, end=False), *frames)
        if fields[0] == POST[0] and fields[3] == POST[3]:
            upstream.wait_for(1, whole=False)
        client.send(reset(1), head(3, request("GET", "/other")))
        assert client.wait(3).status == 201
    assert [seen.line for seen in reached(upstream) if seen.whole] == [b"GET /other"]


cases(
    {
        f"{name}: {kind}": (fields, *frames)
        for kind, fields in (("plain", POST), ("guarded", order("torn")))
        for name, fields, frames in (
            ("a body that is broken off", fields, [data(1, b"hel", end=False)]),
            ("a body that stays below its length", fields + [("content-length", "9")], [data(1, b"hel", end=False)]),
        )
    },
    never_arrives_whole,
)


def fits(settings, body):
    """A body comes whole, whatever the upstream allows."""
    upstream.settings = settings
    # Connections under the former settings rest for a moment, and are closed.
    before = upstream.connections
    while upstream.connections == before:
        assert ask(request()).status == 201
        upstream.take()
        time.sleep(0.2)
    with Orderly() as client:
        for number, fields in enumerate((POST, order(f"fits {sorted(settings)}".replace(" ", "-")[:60] + str(len(body))))):
            assert client.ask(fields, body).status == 201
    assert [seen.body for seen in reached(upstream)] == [body, body]
    upstream.settings = {}


cases(
    {
        "a window of one octet": ({Setting.INITIAL_WINDOW_SIZE: 1}, b"hello"),
        "a small window": ({Setting.INITIAL_WINDOW_SIZE: 1000}, bytes(range(256)) * 100),
        "large frames": ({Setting.MAX_FRAME_SIZE: 1 << 20}, bytes(range(256)) * 1024),
        "no table for HPACK": ({Setting.HEADER_TABLE_SIZE: 0}, b"x"),
        "one stream at a time": ({Setting.MAX_CONCURRENT_STREAMS: 1}, b"x"),
    },
    fits,
)


run(upstream)
