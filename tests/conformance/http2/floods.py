"""Clients that mean harm by many small things: each is stopped or bounded, and others are served meanwhile."""

import threading

from kit.client import Frames, ask, order, request
from kit.frames import bare, data, head, ping, reset, settings, window
from kit.http1 import BOOKED, Upstream
from kit.report import case, cases, reached, run

#: http2: { max_concurrent_streams: 8, max_reset_streams: 20, header_list_size: 8KiB }

STREAMS, RESETS = 8, 20
# Requests taken back may wait for their turn as many as were taken back already, beside the open ones.
MOST = 2 * RESETS + STREAMS
upstream = Upstream()
PLAIN = request()
CONTINUATION = 9


class Held:
    """An upstream that answers when it is let."""

    def __enter__(self):
        self.gate = threading.Event()
        upstream.reply = lambda *_: self.gate.wait(20) and BOOKED
        return self.gate

    def __exit__(self, *_):
        self.gate.set()


def others_are_served():
    assert ask(request("GET", "/fence")).status == 201


def is_stopped(codes, frame, most, before=b""):
    """The connection ends before all are taken, with one of these errors where it can be read."""
    with Frames() as client:
        client.send(before)
        client.socket.settimeout(2)
        piece, sent = frame * (16384 // len(frame) + 1), 0
        try:
            while sent < most and client.send(piece):
                sent += len(piece)
        except TimeoutError:
            # It takes no more: what it would have to answer is not read here.
            return others_are_served()
        assert sent < most, "all of it was taken"
        assert client.ended() in (*codes, None), client.goaway
    others_are_served()


MIB = 1 << 20
cases(
    {
        "CONTINUATION without end": (["ENHANCE_YOUR_CALM"], bare(CONTINUATION, 0, 1, b"\0\1a\1b"), 64 * MIB, head(1, PLAIN, last=False)),
        "empty CONTINUATION without end": (["ENHANCE_YOUR_CALM"], bare(CONTINUATION, 0, 1), 64 * MIB, head(1, PLAIN, last=False)),
        "SETTINGS that nobody reads the answers of": ([], settings(), 256 * MIB),
        "PINGs that nobody reads the answers of": ([], ping(), 256 * MIB),
        "requests that are malformed": (
            ["ENHANCE_YOUR_CALM", "PROTOCOL_ERROR"],
            b"".join(head(stream, PLAIN[1:]) for stream in range(1, 4001, 2)), 64 * MIB,
        ),
        "small frames of a body": (
            ["ENHANCE_YOUR_CALM"], data(1, b"", end=False), 64 * MIB, head(1, request("POST", "/plain"), end=False),
        ),
    },
    is_stopped,
)


@case("a head octet by octet")
def _():
    with Frames() as client:
        client.send(head(1, PLAIN, pieces=60))
        assert client.ended() == "ENHANCE_YOUR_CALM"
    assert reached(upstream) == []


@case("a head over the limit is 431, and the connection goes on")
def _():
    large = [(f"x-{number}", "v" * 100) for number in range(70)]
    with Frames() as client:
        answer = client.ask(PLAIN + large, stream=1)
        assert answer.status == 431 or answer.reset, answer
        answer = client.ask(order("large") + large, stream=3)
        assert answer.status == 431 or answer.reset, answer
        assert client.ask(PLAIN, stream=5).status == 201
    assert len(reached(upstream)) == 1


@case("a head that only its table makes large is refused")
def _():
    # One large field goes into the table; after that, an octet stands for all of it.
    insert = b"\x40\x03x-a\x7f\xa1\x1e" + b"v" * 4000
    with Frames() as client:
        client.send(head(1, PLAIN, raw=head(1, PLAIN)[9:] + insert))
        assert client.wait(1).status == 201
        client.send(head(3, PLAIN, raw=head(3, PLAIN)[9:] + b"\xbe" * 500))
        answer = client.wait(3)
        assert answer.status == 431 or answer.reset or answer.goaway == "ENHANCE_YOUR_CALM", answer
    assert len(reached(upstream)) == 1


@case("streams over the limit are refused, unprocessed")
def _():
    with Held() as gate, Frames() as client:
        client.until(lambda: client.acknowledged)
        assert client.settings[3] == STREAMS
        for number in range(STREAMS + 3):
            client.send(head(2 * number + 1, order(f"over-{number}")))
        over = [client.wait(2 * number + 1).reset for number in range(STREAMS, STREAMS + 3)]
        assert over == ["REFUSED_STREAM"] * 3, over
        upstream.wait_for(STREAMS)
        gate.set()
        assert all(client.wait(2 * number + 1).status == 201 for number in range(STREAMS))
        assert client.ask(order(f"over-{STREAMS}"), stream=101).is_replay is False
    keys = [seen.get("idempotency-key") for seen in reached(upstream)]
    assert sorted(keys) == sorted(b"over-%d" % number for number in range(STREAMS + 1)), keys


def rapid_resets(fields_of, count=1000):
    """Takes back every request at once; how many reached the upstream by the time the connection has ended."""
    with Held(), Frames() as client:
        for number in range(count):
            stream = 2 * number + 1
            if not client.send(head(stream, fields_of(number)), reset(stream)):
                break
        assert client.ended() in ("ENHANCE_YOUR_CALM", None), client.goaway
        others_are_served()
        return [seen for seen in upstream.take() if b"/fence" not in seen.line]


@case("requests taken back at once, by the hundred: the connection ends")
def _():
    seen = rapid_resets(lambda _: PLAIN)
    assert len(seen) <= MOST, len(seen)


@case("orders taken back at once, by the hundred: the connection ends, and what ran is on record")
def _():
    seen = rapid_resets(lambda number: order(f"rapid-{number}"))
    assert len(seen) <= MOST, len(seen)
    upstream.reply = BOOKED
    ran = {one.get("idempotency-key").decode() for one in seen}
    assert len(ran) == len(seen), "one of them ran twice"
    for key in ran:
        again = ask(order(key))
        assert again.status == 201 and again.is_replay, again
    assert reached(upstream) == []


@case("a reset after a whole order changes nothing: it runs once, and is on record")
def _():
    with Held() as gate, Frames() as client:
        client.send(head(1, order("taken-back"), end=False), data(1, b"x"))
        upstream.wait_for(1)
        client.send(reset(1), ping())
        client.until(lambda: client.pongs)
        duplicate = 3
        client.send(head(duplicate, order("taken-back"), end=False), data(duplicate, b"x"), ping())
        client.until(lambda: len(client.pongs) == 2)
        gate.set()
        answer = client.wait(duplicate)
        assert (answer.status, answer.body, answer.is_replay) == (201, b"booked", True), answer
    assert len(reached(upstream)) == 1


@case("windows without end do no harm")
def _():
    with Frames() as client:
        for _ in range(200):
            client.send(window(0, 1) * 100)
        assert client.ask(PLAIN).status == 201


run(upstream)
