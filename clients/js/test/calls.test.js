// What can be a call's body and address, and what is said of it when it cannot; options; the status of an operation.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { StatusError, info, oncegate } from '../src/node.js';
import { ORDER, URL_ORDERS, created, guardedBy, lost, problem } from './support.js';

const form = () => {
  const data = new FormData();
  data.append('sku', 'tea');
  data.append('photo', new File(['bytes'], 'tea.jpg', { type: 'image/jpeg' }));
  return data;
};

test('bodies of every kind are sent as they are, the same each time', async () => {
  const bodies = [
    ['text', 'text/plain;charset=UTF-8', 'text'],
    [new URLSearchParams({ a: '1 2' }), 'application/x-www-form-urlencoded;charset=UTF-8', 'a=1+2'],
    [new Blob(['blob'], { type: 'image/png' }), 'image/png', 'blob'],
    [new TextEncoder().encode('bytes'), null, 'bytes'],
    [new TextEncoder().encode('buffer').buffer, null, 'buffer'],
    [undefined, null, ''],
    ['', 'text/plain;charset=UTF-8', ''],
  ];
  for (const [body, type, text] of bodies) {
    const { guarded, fetch } = guardedBy([lost(), created()]);
    await guarded(URL_ORDERS, { method: 'post', body });
    for (const call of fetch.calls) {
      assert.deepEqual([call.method, call.headers.get('content-type'), call.body], ['POST', type, text]);
    }
    assert.equal(fetch.calls[1].init.body === undefined, body === undefined);
  }
});

test('a form is sent with one boundary, and equal forms are one intent', async () => {
  const { guarded, fetch } = guardedBy([lost(), lost(), created()], { retry: { attempts: 2 } });
  await assert.rejects(guarded(URL_ORDERS, { method: 'POST', body: form() }));
  await guarded(URL_ORDERS, { method: 'POST', body: form() });
  assert.equal(fetch.calls[0].body, fetch.calls[1].body);
  assert.notEqual(fetch.calls[0].body, fetch.calls[2].body);
  assert.match(fetch.calls[0].body, /filename="tea.jpg"/);
  assert.equal(new Set(fetch.keys()).size, 1);
});

test('a stream is refused, or read first', async () => {
  const stream = (text) => new Blob([text]).stream();
  const refused = guardedBy([]);
  await assert.rejects(refused.guarded(URL_ORDERS, { method: 'POST', body: stream('a'), duplex: 'half' }), /stream.*`buffer: true`/);
  const { guarded, fetch } = guardedBy([lost(), created()], { maxBuffer: 5 });
  await guarded(URL_ORDERS, { method: 'POST', body: stream('tea 1'), duplex: 'half', buffer: true });
  assert.deepEqual(fetch.calls.map((call) => call.body), ['tea 1', 'tea 1']);
  await assert.rejects(guarded(URL_ORDERS, { method: 'POST', body: stream('tea 12'), buffer: true }), /more than 5 bytes/);
});

test('a Request can be given, and is not used up', async () => {
  const { guarded, fetch } = guardedBy([lost(), created()]);
  const request = new Request(URL_ORDERS, { ...ORDER, headers: { 'X-Customer-Id': '42' } });
  await guarded(request);
  assert.equal(request.bodyUsed, false);
  for (const call of fetch.calls) assert.deepEqual([call.body, call.headers.get('x-customer-id')], [ORDER.body, '42']);
  const { guarded: other, fetch: sent } = guardedBy([created()]);
  await other(request, { method: 'PUT', body: 'other', headers: { 'X-Own': '1' } });
  assert.deepEqual([sent.calls[0].method, sent.calls[0].body, sent.calls[0].headers.get('x-customer-id')], ['PUT', 'other', null]);
});

test('what fetch knows is passed on, and nothing of ours', async () => {
  const { guarded, fetch } = guardedBy([created()]);
  await guarded(`${URL_ORDERS}#top`, { ...ORDER, credentials: 'include', keepalive: true, intent: 'a', once: true, stream: true });
  const { init, input } = fetch.calls[0];
  assert.deepEqual(Object.keys(init).sort(), ['body', 'credentials', 'headers', 'keepalive', 'method', 'signal']);
  assert.equal(input, URL_ORDERS);
});

test('what cannot work is said at once', async () => {
  const { guarded } = guardedBy([]);
  await assert.rejects(guarded('/orders', ORDER), /"\/orders" is relative: say in `gateway`/);
  await assert.rejects(guarded(URL_ORDERS, { ...ORDER, mode: 'no-cors' }), /no-cors/);
  await assert.rejects(guarded(URL_ORDERS, { ...ORDER, intent: 42 }), /`intent` is a name/);
});

test('options that are none are refused, with what there is', () => {
  for (const [options, message] of [
    [{ retries: 3 }, /no option `retries`; there are fetch/],
    [{ retry: { count: 3 } }, /no option `retry.count`; there are attempts/],
    [{ retry: { attempts: 0 } }, /`retry.attempts` must be a whole number from 1/],
    [{ retry: { cap: '1s' } }, /`retry.cap` must be a number/],
    [{ tokens: true }, /`tokens` must be an object/],
    [{ gateway: 'shop' }, /`gateway` must be an address/],
    [{ remember: 'always' }, /`remember` must be "page", "session"/],
    [{ remember: 'session' }, /needs sessionStorage/],
    [{ remember: 'origin' }, /needs IndexedDB/],
    [{ onReplay: 'log' }, /`onReplay` must be a function/],
    [{ offline: -1 }, /`offline` must be a number/],
  ]) {
    assert.throws(() => oncegate(options), message);
  }
});

test('the status of an operation', async () => {
  const told = { state: 'completed', status: 201, operation: 'ab', attempt: 1, retry: 'same-key' };
  const answers = [Response.json(told), problem(404, 'operation-unknown', 'same-key'), problem(400, 'bad-request', 'stop', { detail: 'No.' }), new Response('not here', { status: 404 })];
  const { guarded, fetch } = guardedBy(answers, { gateway: 'https://shop.example', operations: { route: 'pay' } });
  const init = { wait: 2500, headers: { Authorization: 'Bearer a' } };
  assert.deepEqual(await guarded.status('a/b', init), told);
  assert.equal(fetch.calls[0].url, 'https://shop.example/_oncegate/operations/a%2Fb?route=pay&wait=2500ms');
  assert.equal(fetch.calls[0].headers.get('authorization'), 'Bearer a');
  assert.deepEqual(await guarded.status('b'), { state: 'unknown', retry: 'same-key' });
  const error = await guarded.status('c').catch((error) => error);
  assert.ok(error instanceof StatusError);
  assert.deepEqual([error.problem.code, error.message], ['bad-request', 'oncegate: no status: bad-request: No.']);
  await assert.rejects(guarded.status('d'), /no status: 404 .*`operations: {}`/);
});

test('nothing is known of what is not ours', async () => {
  const { guarded } = guardedBy([created()]);
  const response = await guarded(URL_ORDERS, ORDER);
  assert.equal(info(response.clone()), undefined);
  for (const subject of [undefined, null, 'text', 1, {}]) assert.equal(info(subject), undefined);
});
