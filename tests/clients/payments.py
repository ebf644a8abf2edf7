"""Makes payments with official Python libraries, their own retries on.

    payments.py LIBRARY < JOBS

JOBS is a JSON list; its jobs run side by side. A job says where the API is (`base`), how many seconds the library waits
for an answer (`timeout`), the idempotency key (`key`; with null the library makes one up, or the caller does where the
library has no such habit) and how often the same call is made, one after the other (`calls`). Prints a JSON list: for
each job what came of each call, `{"id": ...}` or `{"error": CLASS}`. What that means is for the test to say.
"""

import json
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor

RETRIES = 2


def stripe(job):
    import stripe

    client = stripe.StripeClient(
        "sk_test_oncegate",
        base_addresses={"api": job["base"]},
        http_client=stripe.RequestsClient(timeout=job["timeout"]),
        max_network_retries=RETRIES,
    )
    options = {"idempotency_key": job["key"]} if job["key"] else {}
    return lambda: client.v1.payment_intents.create({"amount": 1250, "currency": "eur"}, options).id


def modern_treasury(job):
    from modern_treasury import ModernTreasury

    client = ModernTreasury(
        api_key="test", organization_id="org", base_url=job["base"], timeout=job["timeout"], max_retries=RETRIES
    )
    order = {"type": "sepa", "amount": 1250, "direction": "credit", "originating_account_id": "account"}
    return lambda: client.payment_orders.create(**order, idempotency_key=job["key"]).id


def svix(job):
    from svix.api import MessageCreateOptions, MessageIn, Svix, SvixOptions

    client = Svix("testsk_oncegate", SvixOptions(server_url=job["base"], timeout=job["timeout"]))
    message = MessageIn(event_type="order.paid", payload={"order": 4711})
    options = MessageCreateOptions(idempotency_key=job["key"])
    return lambda: client.message.create("app", message, options).id


def gocardless_pro(job):
    import gocardless_pro

    client = gocardless_pro.Client(access_token="test", base_url=job["base"], timeout=job["timeout"])
    payment = {"amount": 1250, "currency": "EUR", "links": {"mandate": "MD123"}}
    headers = {"Idempotency-Key": job["key"]} if job["key"] else None
    return lambda: client.payments.create(params=payment, headers=headers).id


def square(job):
    import httpx
    from square import Square

    client = Square(token="test", base_url=job["base"], timeout=job["timeout"])
    payment = {"source_id": "CASH", "amount_money": {"amount": 1250, "currency": "EUR"}}
    key = job["key"] or str(uuid.uuid4())
    options = {"max_retries": RETRIES}

    def call():
        # It repeats by status alone. Where the connection breaks or the wait is over, its caller does.
        for left in range(RETRIES, -1, -1):
            try:
                return client.payments.create(**payment, idempotency_key=key, request_options=options).payment.id
            except httpx.TransportError:
                if left == 0:
                    raise

    return call


def checkout_sdk(job):
    import warnings

    from checkout_sdk.checkout_sdk import CheckoutSdk
    from checkout_sdk.environment import Environment
    from checkout_sdk.payments.payments import PaymentRequest

    warnings.simplefilter("ignore", DeprecationWarning)  # Of the shared host; the merchant's own has no name here.
    base = job["base"] + "/"
    api = (
        CheckoutSdk.builder()
        .secret_key("sk_sbox_" + "a" * 27)
        .use_legacy_domain()
        .environment(Environment(base, base, base, base, base, base, base, True))
        .http_client_builder(Retrying(job["timeout"]))
        .build()
    )
    payment = PaymentRequest()
    payment.amount, payment.currency, payment.reference = 1250, "EUR", "order-4711"
    key = job["key"] or str(uuid.uuid4())
    return lambda: api.payments.request_payment(payment, key).id


class Retrying:
    """What this library takes in place of retries of its own: a session of `requests` that has them."""

    def __init__(self, timeout):
        self.timeout = timeout

    def get_client(self):
        import requests
        from urllib3.util import Retry

        statuses = [409, 500, 502, 503, 504]
        retry = Retry(RETRIES, allowed_methods=None, status_forcelist=statuses, raise_on_status=False, backoff_factor=0.2)
        adapter = requests.adapters.HTTPAdapter(max_retries=retry)
        send, timeout = adapter.send, self.timeout
        adapter.send = lambda request, **options: send(request, **{**options, "timeout": timeout})
        session = requests.Session()
        session.mount("http://", adapter)
        return session


LIBRARIES = {make.__name__: make for make in (stripe, modern_treasury, svix, gocardless_pro, square, checkout_sdk)}


def run(call):
    try:
        return {"id": call()}
    except Exception as error:  # Each library has classes of its own.
        return {"error": f"{type(error).__name__}: {error}"}


def main():
    make = LIBRARIES[sys.argv[1]]
    jobs = json.load(sys.stdin)
    # Making the clients loads their modules: before the threads start, and nothing of it is hidden as a result.
    calls = [(make(job), job["calls"]) for job in jobs]
    with ThreadPoolExecutor(len(jobs)) as pool:
        json.dump(list(pool.map(lambda job: [run(job[0]) for _ in range(job[1])], calls)), sys.stdout)


if __name__ == "__main__":
    main()
