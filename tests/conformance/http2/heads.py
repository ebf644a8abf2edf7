"""What the head of a request may say, and what of it reaches the upstream: nothing, or the very bytes."""

from kit.client import Frames, Gateway, Orderly, ask, order, request
from kit.http1 import Upstream
from kit.report import case, cases, reached, run

upstream = Upstream()


def is_malformed(fields):
    """No request at all: an answer 400, a reset stream or an ended connection, as RFC 9113 leaves it open."""
    answer = ask(fields)
    assert answer.is_malformed, answer
    assert reached(upstream) == []


def plain(*more, leave_out=None, last=()):
    return [one for one in request("GET", "/plain") if one[0] != leave_out] + list(more) + list(last)


cases(
    {
        "no :method": plain(leave_out=":method"),
        "no :scheme": plain(leave_out=":scheme"),
        "no :path": plain(leave_out=":path"),
        "neither :authority nor host": plain(leave_out=":authority"),
        "no pseudo-header at all": [("host", "api.test")],
        "no field at all": [],
        "two :method": [(":method", "POST")] + plain(),
        "two :scheme": [(":scheme", "http")] + plain(),
        "two :path": [(":path", "/orders")] + plain(),
        "two :authority": [(":authority", "api.test")] + plain(),
        ":path after a field": plain(("x-a", "1"), (":path", "/plain"), leave_out=":path"),
        ":authority after a field": plain(("x-a", "1"), (":authority", "api.test"), leave_out=":authority"),
        "an unknown pseudo-header": [(":foo", "1")] + plain(),
        ":status": [(":status", "200")] + plain(),
        ":protocol": [(":protocol", "websocket")] + plain(),
        "a pseudo-header in capitals": [(":Method", "GET")] + plain(leave_out=":method"),
    },
    is_malformed,
)

cases(
    {
        "an empty name": plain(("", "1")),
        "a name in capitals": plain(("X-A", "1")),
        "a name with one capital": plain(("x-A", "1")),
        "a space in a name": plain(("x a", "1")),
        "a space after a name": plain(("x-a ", "1")),
        "a colon in a name": plain(("x-a:", "1")),
        "CR and LF in a name": plain(("x-a: 1\r\nx-b", "1")),
        "NUL in a name": plain(("x-\0a", "1")),
        "a name beyond ASCII": plain((b"x-\xe9", "1")),
        "CR in a value": plain(("x-a", "1\r2")),
        "LF in a value": plain(("x-a", "1\n2")),
        "CR and LF in a value": plain(("x-a", "1\r\nx-b: 2")),
        "a second request in a value": plain(("x-a", "1\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n")),
        "NUL in a value": plain(("x-a", "1\x002")),
        "another control in a value": plain(("x-a", "1\x1f2")),
        "DEL in a value": plain(("x-a", "1\x7f2")),
        "a space before a value": plain(("x-a", " 1")),
        "a space after a value": plain(("x-a", "1 ")),
        "a tab before a value": plain(("x-a", "\t1")),
        "a tab after a value": plain(("x-a", "1\t")),
        "a space as a value": plain(("x-a", " ")),
        "a space before a guarded key": order(" k"),
        "connection": plain(("connection", "x-a")),
        "connection: keep-alive": plain(("connection", "keep-alive")),
        "keep-alive": plain(("keep-alive", "timeout=5")),
        "proxy-connection": plain(("proxy-connection", "keep-alive")),
        "transfer-encoding": plain(("transfer-encoding", "chunked")),
        "transfer-encoding: identity": plain(("transfer-encoding", "identity")),
        "upgrade: h2c": plain(("upgrade", "h2c")),
        "upgrade: websocket": plain(("upgrade", "websocket")),
        "te: gzip": plain(("te", "gzip")),
        "te: trailers, gzip": plain(("te", "trailers, gzip")),
    },
    is_malformed,
)

cases(
    {
        "an empty :method": request(""),
        "a space in :method": request("GE T"),
        "CR and LF in :method": request("GET / HTTP/1.1\r\nx-a: 1\r\n\r\nGET"),
        "an empty :path": request("GET", ""),
        "a :path without slash": request("GET", "plain"),
        "a :path of a query alone": request("GET", "?a=1"),
        "a :path of a query beside *": request("OPTIONS", "*?a=1"),
        "a :path that begins with *": request("OPTIONS", "*/plain"),
        "a :path that is a whole URI": request("GET", "http://api.test/plain"),
        "a space in :path": request("GET", "/a b"),
        "a version in :path": request("GET", "/plain HTTP/1.1"),
        "CR and LF in :path": request("GET", "/plain HTTP/1.1\r\nx-a: 1\r\n\r\nGET /"),
        "NUL in :path": request("GET", "/a\0b"),
        "* with GET": request("GET", "*"),
        "* with a guarded key": request("POST", "*", ("idempotency-key", "k")),
        "an empty :scheme": request(scheme=""),
        "a :scheme that is none": request(scheme="ht tp"),
        "a :scheme of another kind": request(scheme="ftp"),
        "an empty :authority": request(authority=""),
        "an empty :authority and an empty host": request("GET", "/plain", ("host", ""), authority=""),
        "userinfo": request(authority="user@api.test"),
        "userinfo with password": request(authority="user:word@api.test:80"),
        "a space in :authority": request(authority="api test"),
        "a path in :authority": request(authority="api.test/x"),
        "a port that is none": request(authority="api.test:http"),
        "a port too large": request(authority="api.test:65536"),
        "two ports": request(authority="api.test:80:80"),
        "a port alone": request(authority=":80"),
        "CR and LF in :authority": request(authority="api.test\r\nx-a: 1"),
        ":authority and another host": request("GET", "/plain", ("host", "other.test")),
        ":authority and another port in host": request("GET", "/plain", ("host", "api.test:81")),
        ":authority and an empty host": request("GET", "/plain", ("host", "")),
        ":authority and two hosts": request("GET", "/plain", ("host", "api.test"), ("host", "api.test")),
        "two hosts": request("GET", "/plain", ("host", "api.test"), ("host", "api.test"), authority=None),
        "two other hosts": request("GET", "/plain", ("host", "api.test"), ("host", "b.test"), authority=None),
        "a host that is none": request("GET", "/plain", ("host", "a b"), authority=None),
        "a host with userinfo": request("GET", "/plain", ("host", "u@api.test"), authority=None),
    },
    is_malformed,
)

cases(
    {
        "content-length without a body": plain(("content-length", "5")),
        "two content-lengths": plain(("content-length", "0"), ("content-length", "5")),
        "the same content-length twice": plain(("content-length", "0"), ("content-length", "0")),
        "a list of content-lengths": plain(("content-length", "0, 0")),
        "a signed content-length": plain(("content-length", "+0")),
        "a negative content-length": plain(("content-length", "-0")),
        "a content-length in hex": plain(("content-length", "0x0")),
        "an empty content-length": plain(("content-length", "")),
        "a content-length beyond 64 bits": plain(("content-length", "18446744073709551616")),
    },
    is_malformed,
)


def is_refused(status, code, fields, body=None):
    """A request, but one that is turned down with an answer of the gateway's own."""
    answer = ask(fields, body)
    assert (answer.status, answer.code) == (status, code), answer
    assert not answer.trailers and reached(upstream) == []


cases(
    {
        "TRACE": (501, "method-refused", request("TRACE")),
        "CONNECT": (501, "method-refused", [(":method", "CONNECT"), (":authority", "api.test:443")]),
        "a method in small letters": (501, "method-refused", request("post")),
        "a guarded path in small letters": (501, "method-refused", [(":method", "post")] + order("k")[1:]),
        "an expectation that is unknown": (417, "expectation-failed", order("k", ("expect", "a-wonder")), b"x"),
        "no key": (400, "key-missing", request("POST", "/orders"), b"x"),
        "the key on two lines": (400, "key-invalid", order("k", ("idempotency-key", "k")), b"x"),
        "the key with an underscore": (400, "key-invalid", order("k", ("idempotency_key", "k")), b"x"),
        "a guarded path with a parameter": (400, "key-missing", request("POST", "/orders;x=1"), b"x"),
        "another method for a guarded path": (
            400, "bad-request", request("PUT", "/orders", ("x-http-method-override", "POST")), b"x"
        ),
        "a path that reads two ways": (400, "bad-request", request("POST", "/x/%2e%2e\\orders"), b"x"),
    },
    is_refused,
)


@case("CONNECT with a path")
def _():
    is_malformed(request("CONNECT"))


@case("an extended CONNECT")
def _():
    is_malformed([(":protocol", "websocket")] + request("CONNECT", "/plain"))


def passes(fields, line, expected, body=None):
    """The line and these fields reach the upstream as they are; None stands for a field that does not."""
    answer = ask(fields, body)
    assert (answer.status, answer.body) == (201, b"booked"), answer
    [seen] = reached(upstream)
    assert (seen.line, seen.body, seen.whole) == (line, body or b"", True), seen
    for name, values in expected.items():
        assert seen.all(name) == values, (name, seen.fields)


GET = b"GET /plain HTTP/1.1"
cases(
    {
        ":authority becomes host": (request(authority="api.test:8080"), GET, {"host": [b"api.test:8080"]}),
        "host alone": (request("GET", "/plain", ("host", "api.test"), authority=None), GET, {"host": [b"api.test"]}),
        "host that agrees": (request("GET", "/plain", ("host", "api.test")), GET, {"host": [b"api.test"]}),
        "an IPv6 :authority": (request(authority="[::1]:80"), GET, {"host": [b"[::1]:80"]}),
        "an unusual method": (request("PROPFIND"), b"PROPFIND /plain HTTP/1.1", {}),
        "lines of one name, in order": (
            plain(("x-a", "1"), ("x-b", "2"), ("x-a", "3, 4"), ("x-a", "")),
            GET,
            {"x-a": [b"1", b"3, 4", b""], "x-b": [b"2"]},
        ),
        "a value beyond ASCII": (plain(("x-a", b"caf\xc3\xa9 \xff\x80")), GET, {"x-a": [b"caf\xc3\xa9 \xff\x80"]}),
        "spaces and tabs within a value": (plain(("x-a", "1 \t 2")), GET, {"x-a": [b"1 \t 2"]}),
        "an empty value": (plain(("x-a", "")), GET, {"x-a": [b""]}),
        "cookie crumbs": (
            plain(("cookie", "a=b"), ("x-a", "1"), ("cookie", "c=d; e=f"), ("cookie", "g=h")),
            GET,
            {"cookie": [b"a=b; c=d; e=f; g=h"]},
        ),
        "te: trailers ends here": (plain(("te", "trailers")), GET, {"te": [], "connection": [], "trailer": []}),
        "marks of the gateway's own": (
            plain(("oncegate-operation", "1"), ("oncegate-attempt", "7"), ("oncegate-x", "1")),
            GET,
            {"oncegate-operation": [], "oncegate-attempt": [], "oncegate-x": []},
        ),
        "names with underscores stay behind": (plain(("x_user", "root"), ("x-user", "me")), GET, {"x_user": [], "x-user": [b"me"]}),
        "http2-settings stays behind": (plain(("http2-settings", "AAMAAABk")), GET, {"http2-settings": []}),
        "forwarding fields of a stranger": (
            plain(("x-forwarded-for", "1.2.3.4"), ("x-forwarded-host", "evil.test"), ("forwarded", "for=1.2.3.4")),
            GET,
            {"x-forwarded-for": [b"127.0.0.1"], "x-forwarded-host": [b"api.test"]},
        ),
        "max-forwards of another method": (plain(("max-forwards", "3")), GET, {"max-forwards": [b"3"]}),
        "a body of a known length": (
            request("POST", "/plain", ("content-length", "5")),
            b"POST /plain HTTP/1.1",
            {"content-length": [b"5"], "transfer-encoding": []},
            b"hello",
        ),
        "a body of an unknown length": (
            request("POST", "/plain"),
            b"POST /plain HTTP/1.1",
            {"content-length": [], "transfer-encoding": [b"chunked"]},
            b"hello",
        ),
        "a guarded body of an unknown length": (
            order("length"),
            b"POST /orders HTTP/1.1",
            {"content-length": [b"5"], "transfer-encoding": [], "idempotency-key": [b"length"]},
            b"hello",
        ),
    },
    passes,
)


@case("the path and the query byte for byte")
def _():
    for path in (
        "/%6F//x?a=%2B&b", "/x?", "/a/b;x=1?", "//host/path", "/a?b?c=/../d", "/x/y:z@!$&'()*+,=-._~",
        "/a%2Fb%2fc%7e?d=%2F%2f", "/x?{a:[1,'2']}|", "/x?" + "q" * 4000,
    ):
        passes(request("GET", path), f"GET {path} HTTP/1.1".encode(), {})


@case("a fragment goes no further")
def _():
    passes(request("GET", "/plain#part?b"), GET, {})
    passes(request("POST", "/orders#part", ("idempotency-key", "part")), b"POST /orders HTTP/1.1", {})


@case("via")
def _():
    ask(plain(("via", "1.1 a")))
    [seen] = reached(upstream)
    first, own = seen.all("via")
    assert first == b"1.1 a" and own.startswith(b"2 oncegate"), seen


@case("OPTIONS * is answered here")
def _():
    answer = ask(request("OPTIONS", "*"))
    assert (answer.status, answer.body) == (204, b"") and answer.get("allow"), answer
    assert reached(upstream) == []


@case("OPTIONS with no hop left is answered here, with one left it passes")
def _():
    answer = ask(request("OPTIONS", "/plain", ("max-forwards", "0")))
    assert answer.status in (200, 204) and reached(upstream) == [], answer
    passes(request("OPTIONS", "/plain", ("max-forwards", "1")), b"OPTIONS /plain HTTP/1.1", {"max-forwards": [b"0"]})


@case("a request that has passed here before")
def _():
    ask(request())
    [seen] = reached(upstream)
    is_refused(508, "loop-detected", request("GET", "/plain", ("via", seen.get("via").decode())))


@case("a connection goes on after a request that is malformed on its stream")
def _():
    with Frames() as client:
        assert client.ask(plain(leave_out=":path"), stream=1).reset == "PROTOCOL_ERROR"
        assert client.ask(request(), stream=3).status == 201
        assert client.ask(request("GET", "/plain", ("host", "other.test")), stream=5).status == 400
        assert client.ask(request(), stream=7).status == 201


@case("what a library says that keeps to HTTP/2")
def _():
    with Orderly() as client:
        for number in range(20):
            answer = client.ask(order(f"orderly-{number}", ("x-a", "1"), ("cookie", "a=b"), ("cookie", "c=d")), b"body")
            assert (answer.status, answer.body) == (201, b"booked"), answer
    for seen in reached(upstream):
        assert (seen.body, seen.get("cookie"), seen.get("x-a")) == (b"body", b"a=b; c=d", b"1"), seen


@case("the scheme is the connection's")
def _():
    ask(request(scheme="https"))
    ask(request(scheme="http"))
    expected = b"https" if Gateway.authority else b"http"
    assert [seen.get("x-forwarded-proto") for seen in reached(upstream)] == [expected] * 2


run(upstream)
