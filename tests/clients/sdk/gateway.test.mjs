// The SDK in Node, through the real gateway, to a shop that books every order that it gets.

import assert from 'node:assert/strict';

import { info } from '../../../clients/js/src/node.js';
import { eventually } from './house.mjs';
import { ORDER, tried } from './tried.mjs';

tried('an answer that is lost on its way is replayed', {}, async ({ shop, way, guarded }) => {
  const replays = [];
  way.cutNext();
  const response = await guarded({ onReplay: (_, about) => replays.push(about.key) })('/orders', ORDER);
  assert.deepEqual([response.status, await response.text()], [201, 'order-1']);
  const about = info(response);
  assert.deepEqual([about.replayed, about.final, about.attempts, about.source], [true, true, 2, 'upstream']);
  assert.ok(about.expires > new Date());
  assert.deepEqual([shop.orders.length, shop.orders[0].key], [1, about.key]);
  assert.deepEqual(replays, [about.key]);
});

tried('a double click is one order, the next click another', {}, async ({ shop, guarded }) => {
  const fetch = guarded();
  const open = shop.hold();
  const clicks = [fetch('/orders', ORDER), fetch('/orders', ORDER)];
  await eventually('the order is there', () => shop.orders.length === 1);
  open();
  const texts = await Promise.all((await Promise.all(clicks)).map((response) => response.text()));
  assert.deepEqual(texts, ['order-1', 'order-1']);
  assert.equal(await (await fetch('/orders', ORDER)).text(), 'order-2');
});

tried('whoever comes while it is running waits as the gateway advises', { guard: 'in_flight: reject' }, async ({ shop, way, guarded }) => {
  const open = shop.hold();
  const waits = [];
  const fetch = guarded({
    onRetry({ reason, problem, wait }) {
      if (reason !== 'problem') return;
      waits.push([problem.code, wait >= problem.retry_after * 1000]);
      open();
    },
  });
  const answer = fetch('/orders', ORDER);
  await eventually('the order is there', () => shop.orders.length === 1);
  way.breakDown();
  way.down = false;
  const response = await answer;
  assert.deepEqual([await response.text(), info(response).replayed], ['order-1', true]);
  assert.deepEqual(waits[0], ['request-in-flight', true]);
  assert.equal(shop.orders.length, 1);
});

tried('an API that is away is asked again, and a gateway too', {}, async ({ shop, way, guarded }) => {
  const { port } = shop;
  await shop.close();
  const seen = new Set();
  const answer = guarded({
    onRetry: ({ problem, reason }) => seen.add(problem?.code ?? reason),
  })('/orders', ORDER);
  await eventually('it was told so', () => seen.has('upstream-unreachable'));
  way.breakDown();
  await eventually('the way is broken', () => seen.has('network'));
  await new Promise((resolve) => shop.server.listen(port, '127.0.0.1', resolve));
  way.down = false;
  assert.equal(await (await answer).text(), 'order-1');
  assert.equal(shop.orders.length, 1);
});

tried('a doubt stays one, and can be asked about', { top: 'operations: {}' }, async ({ shop, guarded }) => {
  shop.answer = () => ({ cut: true });
  const fetch = guarded({ retry: { attempts: 2 } });
  const pay = fetch.intent('checkout-42');
  const response = await pay('/orders', ORDER);
  const about = info(response);
  assert.deepEqual([about.problem.code, about.final, about.outcome], ['outcome-unknown', false, undefined]);
  const status = await fetch.status(about.key, { headers: { 'X-Customer-Id': '42' } });
  assert.deepEqual([status.state, status.operation], ['in-doubt', about.operation]);
  assert.equal(await pay.key(), about.key);
  assert.equal(shop.orders.length, 1);
  const stranger = await fetch.status(about.key, { headers: { 'X-Customer-Id': '43' } });
  assert.deepEqual(stranger, { state: 'unknown', retry: 'same-key' });
});

tried('the application\'s own refusal is its own; a changed request under a name is refused', {}, async ({ shop, way, guarded }) => {
  shop.answer = () => ({ status: 409, body: 'sold out' });
  const fetch = guarded();
  const sold = await fetch('/orders', ORDER);
  assert.deepEqual([await sold.text(), info(sold).problem, info(sold).final], ['sold out', undefined, true]);
  shop.answer = (order) => ({ status: 201, body: `order-${order.number}` });
  const once = guarded({ retry: false });
  way.cutNext();
  await assert.rejects(once('/orders', { ...ORDER, intent: 'cart' }));
  const other = { ...ORDER, body: '{"sku":"milk"}', intent: 'cart' };
  const refused = await once('/orders', other);
  assert.deepEqual([refused.status, info(refused).problem.code], [422, 'key-reused']);
  await info(refused).forget();
  assert.equal(await (await once('/orders', other)).text(), 'order-3');
});

tried('its keys say when they were made', { guard: 'key_age: { from: uuid_v7 }', top: 'operations: {}' }, async ({ guarded }) => {
  const fetch = guarded();
  const response = await fetch('/orders', ORDER);
  assert.equal(response.status, 201);
  const status = await fetch.status(info(response).key, { headers: { 'X-Customer-Id': '42' }, wait: 1000 });
  assert.deepEqual([status.state, status.status, status.replayable], ['completed', 201, true]);
});

tried('a clock that is a day off makes no bad keys', { guard: 'key_age: { from: uuid_v7 }' }, async ({ shop, guarded }) => {
  const day = 86_400_000;
  for (const off of [-2 * day, day]) {
    const fetch = guarded({ environment: { now: () => Date.now() + off } });
    const answers = [await fetch('/orders', ORDER), await fetch('/orders', ORDER)];
    assert.deepEqual(answers.map((answer) => [answer.status, info(answer).attempts]), [[201, 2], [201, 1]]);
  }
  assert.equal(shop.orders.length, 4);
});
