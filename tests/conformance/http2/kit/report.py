"""Runs a file's cases against a gateway that Rust starts. The two talk in lines: this side says where its upstream
listens, Rust answers where the gateway does, and then the cases are reported one by one."""

import contextlib
import faulthandler
import json
import os
import sys
import traceback

from .client import Gateway, ask, request
from .http1 import FENCE

# How long one file may take, in seconds. Where each of its threads stands then is told.
PATIENCE = 90

_cases = []


def case(name, *arguments):
    """Makes a function a case of this name. With arguments it is called with them, and may be a case again."""

    def add(function):
        assert name not in [own for own, *_ in _cases], f"{name} is there twice"
        _cases.append((name, function, arguments))
        return function

    return add


def cases(table, function):
    """A case for each line of a table: `name: arguments`."""
    for name, arguments in table.items():
        case(name, *(arguments if isinstance(arguments, tuple) else (arguments,)))(function)


def run(upstream):
    """Runs all cases, one after another; ends the process."""
    faulthandler.dump_traceback_later(PATIENCE, exit=True, file=sys.stdout)
    print(f"upstream {upstream.address[0]}:{upstream.address[1]}", flush=True)
    told = json.loads(sys.stdin.readline())
    host, _, port = told["gateway"].rpartition(":")
    Gateway.address, Gateway.pid, Gateway.authority = (host, int(port)), told["pid"], told["authority"]
    default = upstream.reply
    failed = 0
    for name, function, arguments in _cases:
        upstream.reply = default
        try:
            function(*arguments)
            upstream.take()
            print(f"ok    {name}", flush=True)
        except BaseException:
            failed += 1
            print(f"FAILS {name}\n{traceback.format_exc()}", flush=True)
            with contextlib.suppress(AssertionError):
                upstream.take()
    print(f"{len(_cases)} cases, {failed} fail", flush=True)
    # Threads that still wait for somebody do not hold up the end.
    os._exit(1 if failed or not _cases else 0)


def reached(upstream):
    """What has reached the upstream. A last request, sent behind all others, tells that no more is on its way."""
    fence = ask(request("GET", FENCE))
    assert fence.whole, fence
    return [seen for seen in upstream.take() if FENCE.encode() not in seen.line]
