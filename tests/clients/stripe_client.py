"""Creates one customer with the official Stripe client, its own retries on, through a base URL.

    stripe_client.py BASE_URL [--api-key KEY] [--key IDEMPOTENCY_KEY] [--retries N] [--email ADDRESS]

Prints one line of JSON: what the caller of the client got (the customer's id and the `Idempotent-Replayed` of its
last response, or the error's class, status and code) and what went over the wire (the Idempotency-Key of each request,
and each answer in words). Ends with 0 also when the client gave up: what that means is for the test to say.
"""

import argparse
import json
import sys

import stripe

PATIENCE_SECONDS = 20.0


class Watched(stripe.RequestsClient):
    """The client's own transport; notes what goes out and what comes back."""

    def __init__(self):
        super().__init__(timeout=PATIENCE_SECONDS)
        self.keys = []
        self.answers = []

    def request(self, method, url, headers, post_data=None):
        self.keys.append(headers.get("Idempotency-Key"))
        self.answers.append("no answer")
        content, status, fields = super().request(method, url, headers, post_data)
        self.answers[-1] = in_words(content, status, fields)
        return content, status, fields


def in_words(content, status, fields):
    """The status, the code and the outcome of the gateway's own answers, and whether it is a replay."""
    words = [str(status)]
    if fields.get("Oncegate-Source") == "gateway":
        words.append(json.loads(content)["code"])
    if "Oncegate-Outcome" in fields:
        words.append(fields["Oncegate-Outcome"])
    if fields.get("Idempotent-Replayed") == "true":
        words.append("replayed")
    return " ".join(words)


def create(arguments):
    transport = Watched()
    client = stripe.StripeClient(
        arguments.api_key,
        base_addresses={"api": arguments.base_url},
        http_client=transport,
        max_network_retries=arguments.retries,
    )
    customer = {"email": arguments.email, "metadata": {"order": "4711 & more"}}
    options = {"idempotency_key": arguments.key} if arguments.key else {}
    report = {"id": None, "replayed": None, "error": None}
    try:
        created = client.v1.customers.create(customer, options)
        report["id"] = created.id
        report["replayed"] = created.last_response.headers.get("Idempotent-Replayed")
    except stripe.StripeError as error:
        code = (error.json_body or {}).get("code")
        report["error"] = f"{type(error).__name__} {error.http_status} {code}"
    return report | {"keys": transport.keys, "answers": transport.answers}


def main():
    parser = argparse.ArgumentParser(description="Creates one customer through a gateway.")
    parser.add_argument("base_url")
    parser.add_argument("--api-key", default="sk_test_oncegate")
    parser.add_argument("--key", help="the Idempotency-Key; without it the client makes one up")
    parser.add_argument("--retries", type=int, default=4)
    parser.add_argument("--email", default="buyer@example.com")
    json.dump(create(parser.parse_args()), sys.stdout)
    print()


if __name__ == "__main__":
    main()
