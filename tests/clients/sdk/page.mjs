// The shop's page, as a browser loads it. Its options stand behind the `#`; what the customer sees is in `seen`.

import { info, oncegate } from '/sdk/index.js';

const { remember = 'page', gateway, ...options } = JSON.parse(decodeURIComponent(location.hash.slice(1)) || '{}');
const retry = { base: 20, attempts: 50, total: 60_000 };
const guarded = oncegate({
  remember,
  retry,
  fetch(...call) {
    globalThis.sent += 1;
    return fetch(...call);
  },
  ...(gateway && { gateway }),
  ...options,
});
const init = {
  method: 'POST',
  headers: { 'Content-Type': 'application/json', 'X-Customer-Id': '42' },
  body: JSON.stringify({ sku: 'tea' }),
};
const seen = [];
globalThis.joined = 0;
globalThis.sent = 0;

/** A caller's signal, by which the page knows that its call is under way. */
function heard() {
  const { signal } = new AbortController();
  const listen = signal.addEventListener.bind(signal);
  signal.addEventListener = (...args) => {
    listen(...args);
    globalThis.joined += 1;
  };
  return signal;
}

async function order(more) {
  try {
    const response = await guarded('/orders', { ...init, signal: heard(), ...more });
    const { key, replayed, joined, expires, problem, operation } = info(response);
    const text = await response.text();
    seen.push({ text, status: response.status, key, replayed, joined, expires: Boolean(expires), code: problem?.code, operation });
  } catch (error) {
    seen.push({ error: String(error) });
  }
}

document.body.innerHTML = '<button id=buy>Buy</button> <button id=pay>Pay</button>';
document.querySelector('#buy').onclick = () => order();
document.querySelector('#pay').onclick = () => order({ intent: 'checkout-42' });
Object.assign(globalThis, { seen, order, guarded, ready: true });
