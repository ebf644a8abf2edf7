// Makes payments with official Node libraries: what payments.py does for Python, with the same jobs and results.
//
//     payments.js LIBRARY < JOBS
"use strict";

const { AsyncLocalStorage } = require("node:async_hooks");
const { randomUUID } = require("node:crypto");
const { readFileSync } = require("node:fs");

const RETRIES = 2;

function stripe(job) {
  const Stripe = require("stripe");
  const base = new URL(job.base);
  const client = new Stripe("sk_test_oncegate", {
    protocol: "http",
    host: base.hostname,
    port: base.port,
    timeout: job.timeout * 1000,
    maxNetworkRetries: RETRIES,
  });
  const options = job.key ? { idempotencyKey: job.key } : {};
  return async () => (await client.paymentIntents.create({ amount: 1250, currency: "eur" }, options)).id;
}

function mercadopago(job) {
  const { MercadoPagoConfig, Payment } = require("mercadopago");
  const options = { timeout: job.timeout * 1000, retries: RETRIES, initialDelay: 100 };
  if (job.key) options.idempotencyKey = job.key;
  const client = new Payment(new MercadoPagoConfig({ accessToken: "TEST-oncegate", options }));
  const body = { transaction_amount: 12.5, payment_method_id: "pix", payer: { email: "buyer@example.com" } };
  return () => elsewhere.run(job.base, async () => (await client.create({ body })).id);
}

// The host is not a setting of mercadopago's: its requests are sent on to the job's.
const elsewhere = new AsyncLocalStorage();
const sendOut = globalThis.fetch;
globalThis.fetch = (url, init) => sendOut(new URL(new URL(url).pathname, elsewhere.getStore()), init);

function adyen(job) {
  // The whole package takes seconds to load.
  const { default: Client } = require("@adyen/api-library/lib/src/client");
  const { PaymentsApi } = require("@adyen/api-library/lib/src/services/checkout/paymentsApi");
  const timeout = job.timeout * 1000;
  const api = new PaymentsApi(new Client({ apiKey: "test", environment: "TEST", connectionTimeoutMillis: timeout }));
  api.baseUrl = `${job.base}/v72`;
  const payment = { amount: { currency: "EUR", value: 1250 }, merchantAccount: "Shop", reference: "order-4711" };
  const idempotencyKey = job.key ?? randomUUID();
  // It leaves repeating to its caller.
  return async () => {
    for (let left = RETRIES; ; left -= 1) {
      try {
        return (await api.payments(payment, { idempotencyKey })).pspReference;
      } catch (error) {
        if (left === 0) throw error;
      }
    }
  };
}

const LIBRARIES = { stripe, mercadopago, adyen };

async function run(call) {
  try {
    return { id: await call() };
  } catch (error) {
    return { error: `${error.constructor.name}: ${error.message}` };
  }
}

async function main() {
  const make = LIBRARIES[process.argv[2]];
  const jobs = JSON.parse(readFileSync(0, "utf8")).map((job) => ({ call: make(job), calls: job.calls }));
  const results = jobs.map(async ({ call, calls }) => {
    const results = [];
    while (results.length < calls) results.push(await run(call));
    return results;
  });
  console.log(JSON.stringify(await Promise.all(results)));
  // Connections that are kept alive would hold the process.
  process.exit();
}

main();
