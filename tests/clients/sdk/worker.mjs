// A service worker that orders when it is told to.

import { info, oncegate } from '/sdk/index.js';

const guarded = oncegate({ remember: 'origin', retry: { base: 20, attempts: 50, total: 60_000 } });
const init = { method: 'POST', headers: { 'X-Customer-Id': '42' }, body: 'tea', intent: 'from a worker' };

self.addEventListener('message', (event) => {
  const order = async () => {
    const { signal } = new AbortController();
    const listen = signal.addEventListener.bind(signal);
    signal.addEventListener = (...args) => {
      listen(...args);
      event.ports[0].postMessage('joined');
    };
    const response = await guarded('/orders', { ...init, signal });
    event.ports[0].postMessage({ text: await response.text(), replayed: info(response).replayed });
  };
  event.waitUntil(order());
});
