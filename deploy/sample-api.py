"""A sample order API that keeps orders in memory, and books one for every request that reaches it.

It knows nothing of idempotency: that is what the gateway in front of it is for.

    POST /orders      books an order, of JSON or a form: 201 with the order and its Location. So does a POST to any other
                      path, so that each of config/examples can be tried
    GET  /orders      every order booked so far, with their count
    GET  /orders/N    one order

For playing with doubt, a booking's query can ask for trouble:

    ?sleep=SECONDS    answer that much later
    ?cut=1            book the order, then close the connection without an answer
    ?fail=STATUS      do not book; answer with this status
"""

import argparse
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

LARGEST_BODY = 1 << 20


class Orders:
    """The orders, by number from 1."""

    def __init__(self):
        self._lock = threading.Lock()
        self._orders = []

    def book(self, details):
        with self._lock:
            order = {"id": len(self._orders) + 1, "details": details}
            self._orders.append(order)
            return order

    def all(self):
        with self._lock:
            return list(self._orders)


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    orders = Orders()

    def do_GET(self):
        path = urlsplit(self.path).path.rstrip("/")
        orders = self.orders.all()
        if path == "/orders":
            self.answer(200, {"count": len(orders), "orders": orders})
            return
        number = path.removeprefix("/orders/")
        if number.isdecimal() and 1 <= int(number) <= len(orders):
            self.answer(200, orders[int(number) - 1])
        else:
            self.answer(404, {"error": "no such order"})

    def do_POST(self):
        target = urlsplit(self.path)
        asked = {name: values[-1] for name, values in parse_qs(target.query).items()}
        body = self.body()
        if body is None:
            self.close_connection = True
            self.answer(411, {"error": "a Content-Length of at most 1 MiB is needed"})
        elif "fail" in asked:
            self.answer(int(asked["fail"]), {"error": "as you wished"})
        else:
            self.book(body, asked)

    def book(self, body, asked):
        try:
            details = self.details(body)
        except ValueError:
            self.answer(400, {"error": "the body is neither JSON nor a form"})
            return
        time.sleep(float(asked.get("sleep", 0)))
        order = self.orders.book(details)
        if "cut" in asked:
            self.close_connection = True
            return
        self.answer(201, order, {"Location": f"/orders/{order['id']}"})

    def details(self, body):
        if self.headers.get_content_type() == "application/x-www-form-urlencoded":
            return parse_qs(body.decode())
        return json.loads(body)

    def body(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            return None
        return self.rfile.read(int(length))

    def answer(self, status, content, headers=None):
        body = json.dumps(content).encode() + b"\n"
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main():
    parser = argparse.ArgumentParser(description="A sample order API.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9001, help="0: any free port")
    arguments = parser.parse_args()
    server = ThreadingHTTPServer((arguments.host, arguments.port), Handler)
    server.daemon_threads = True
    print(f"listening on {server.server_address[0]}:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
