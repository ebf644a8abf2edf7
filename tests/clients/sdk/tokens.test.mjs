// Calls that take a number first, through the real gateway.

import assert from 'node:assert/strict';

import { info } from '../../../clients/js/src/node.js';
import { eventually } from './house.mjs';
import { ORDER, tried } from './tried.mjs';

const DAY = 86_400_000;
const issuing = {
  key: '{ token: {} }',
  top: 'tokens: { secrets: [ "a-secret-of-32-bytes-or-more-for-tests" ] }',
};

tried('a number is taken first, and spent once', issuing, async ({ shop, way, guarded }) => {
  const fetch = guarded({ tokens: { route: 'order' } });
  way.cutNext('order-1');
  const response = await fetch('/orders', ORDER);
  assert.deepEqual([await response.text(), info(response).replayed], ['order-1', true]);
  const next = await fetch('/orders', ORDER);
  assert.equal(await next.text(), 'order-2');
  assert.notEqual(info(next).key, info(response).key);
  assert.equal(shop.orders.length, 2);
});

tried('a double click spends one number', issuing, async ({ shop, guarded }) => {
  const fetch = guarded({ tokens: { route: 'order' } });
  const open = shop.hold();
  const clicks = [fetch('/orders', ORDER), fetch('/orders', ORDER)];
  await eventually('the order is there', () => shop.orders.length === 1);
  open();
  const texts = await Promise.all((await Promise.all(clicks)).map((response) => response.text()));
  assert.deepEqual(texts, ['order-1', 'order-1']);
});

tried('a number that is none is replaced before it is spent; one of another caller is not used', issuing, async ({ shop, guarded }) => {
  const entries = new Map([['n:cart', { key: 'forged', made: Date.now(), sent: false, until: Date.now() + DAY }]]);
  const remember = {
    async update(name, change) {
      const next = change(entries.get(name));
      if (next) entries.set(name, next);
      else entries.delete(name);
      return next;
    },
  };
  const fetch = guarded({ tokens: { route: 'order' }, remember });
  const response = await fetch('/orders', { ...ORDER, intent: 'cart' });
  assert.deepEqual([response.status, info(response).attempts], [201, 2]);
  const nobody = await fetch('/orders', { ...ORDER, headers: {} });
  assert.deepEqual([nobody.status, info(nobody).problem.code, info(nobody).attempts], [400, 'scope-missing', 0]);
  assert.equal(shop.orders.length, 1);
});
