"""SIGTERM: the gateway says goodbye on every connection, answers what is under way, takes nothing more, and ends."""

import os
import signal
import socket
import threading

from kit.client import Frames, Gateway, order
from kit.frames import data, head, ping
from kit.http1 import BOOKED, Upstream
from kit.report import case, run

upstream = Upstream()


@case("a stop says goodbye, and what is under way is answered")
def _():
    gate = threading.Event()
    upstream.reply = lambda *_: gate.wait(20) and BOOKED
    with Frames() as busy, Frames() as idle:
        idle.send(ping())
        idle.until(lambda: idle.pongs)
        busy.send(head(1, order("drained"), end=False), data(1, b"x"))
        upstream.wait_for(1)
        os.kill(Gateway.pid, signal.SIGTERM)
        assert busy.until(lambda: busy.goaway), "no goodbye"
        assert idle.ended() == "NO_ERROR", idle.goaway
        # What comes after the goodbye's last stream may be repeated elsewhere: it did not run.
        assert busy.until(lambda: busy.goaway.last_stream_id == 1), busy.goaway
        busy.send(head(3, order("too-late"), end=False), data(3, b"x"))
        gate.set()
        answer = busy.wait(1)
        assert (answer.status, answer.body, answer.whole) == (201, b"booked", True), answer
        assert busy.ended() == "NO_ERROR", busy.goaway
        assert busy.answer(3).status is None, busy.answer(3)
    assert [seen.get("idempotency-key") for seen in upstream.take()] == [b"drained"]
    try:
        with socket.create_connection(Gateway.address, 5) as late:
            assert late.recv(1) == b""
    except OSError:
        pass


run(upstream)
