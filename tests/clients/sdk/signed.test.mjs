// Calls that say when they were made, through the real gateway.

import assert from 'node:assert/strict';

import { info } from '../../../clients/js/src/node.js';
import { ORDER, tried } from './tried.mjs';

const DAY = 86_400_000;
const signed = { guard: 'fingerprint: { client: { mode: verify, required: true } }' };

function form() {
  const data = new FormData();
  data.append('sku', 'tea');
  data.append('photo', new Blob(['bytes'], { type: 'image/jpeg' }), 'tea.jpg');
  return data;
}

tried('what the SDK signs the gateway verifies, whatever the body, also on a repetition', signed, async ({ shop, way, guarded }) => {
  const headers = { 'X-Customer-Id': '42' };
  const json = { ...ORDER.headers, ...headers };
  const bodies = [
    { body: '{"b": 1.0, "a": [1, 2]}', headers: json },
    { body: new URLSearchParams({ sku: 'green tea', n: '1' }), headers },
    { body: form(), headers },
    { body: 'text', headers },
    { body: new Uint8Array([0, 255, 10]), headers },
    { headers },
  ];
  const fetch = guarded({ fingerprint: true });
  for (const [at, init] of bodies.entries()) {
    way.cutNext();
    const response = await fetch('/orders?b=2&a=%31', { method: 'POST', ...init });
    assert.deepEqual([response.status, info(response).replayed], [201, true], await response.text());
    assert.equal(shop.orders.length, at + 1);
  }
});

tried('a clock that is a day off is set, and the call goes through', signed, async ({ shop, guarded }) => {
  for (const off of [DAY, -DAY]) {
    const fetch = guarded({ fingerprint: true, environment: { now: () => Date.now() + off } });
    const first = await fetch('/orders', ORDER);
    const second = await fetch('/orders', ORDER);
    assert.deepEqual([first, second].map((response) => [response.status, info(response).attempts]), [[201, 2], [201, 1]]);
  }
  assert.equal(shop.orders.length, 4);
});
