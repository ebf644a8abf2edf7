"""Creates one customer with the official Stripe client, its own retries on, through a base URL.

    stripe_client.py BASE_URL COUNT_URL [--retries N] [--timeout SECONDS] [--email ADDRESS]

BASE_URL is where the client sends to (the gateway), COUNT_URL where the customers are counted afterwards, directly
at the API behind. Prints one line of JSON: the customer's id (null when the client gave up), the status and the code
of the error it gave up with, how many requests it sent, whether each carried the same Idempotency-Key, and how many
customers the API has. Ends with 0 also when the client gave up: what that means is for the test to say.
"""

import argparse
import json
import sys

import stripe

API_KEY = "sk_test_oncegate"


class Watched(stripe.RequestsClient):
    """The client's own transport; notes the Idempotency-Key of each request that goes out."""

    def __init__(self, timeout):
        super().__init__(timeout=timeout)
        self.keys = []

    def request(self, method, url, headers, post_data=None):
        self.keys.append(headers.get("Idempotency-Key"))
        return super().request(method, url, headers, post_data)


def create(arguments):
    transport = Watched(arguments.timeout)
    client = stripe.StripeClient(
        API_KEY,
        base_addresses={"api": arguments.base_url},
        http_client=transport,
        max_network_retries=arguments.retries,
    )
    report = {"id": None, "status": None, "code": None}
    try:
        report["id"] = client.v1.customers.create({"email": arguments.email}).id
    except stripe.StripeError as error:
        report["status"] = error.http_status
        report["code"] = error.code or (error.json_body or {}).get("code")
    report["requests"] = len(transport.keys)
    report["same_key"] = None not in transport.keys and len(set(transport.keys)) == 1
    return report


def count(url):
    client = stripe.StripeClient(API_KEY, base_addresses={"api": url})
    customers = client.v1.customers.list({"limit": 100})
    return sum(1 for _ in customers.auto_paging_iter())


def main():
    parser = argparse.ArgumentParser(description="Creates one customer through a gateway.")
    parser.add_argument("base_url")
    parser.add_argument("count_url")
    parser.add_argument("--retries", type=int, default=4)
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds that one request may take")
    parser.add_argument("--email", default="buyer@example.com")
    arguments = parser.parse_args()
    report = create(arguments)
    report["customers"] = count(arguments.count_url)
    json.dump(report, sys.stdout)
    print()


if __name__ == "__main__":
    main()
