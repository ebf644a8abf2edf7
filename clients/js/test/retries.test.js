// What is sent again, when, and under which key; and what ends it.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { info } from '../src/node.js';
import { ORDER, URL_ORDERS, busy, created, guardedBy, held, lost, problem, replay, signalOf } from './support.js';

const oneKey = (fetch) => assert.equal(new Set(fetch.keys()).size, 1, fetch.keys().join());

test('broken connections are tried again with the same key, ever later', async () => {
  const { guarded, fetch, around } = guardedBy([lost(), lost(), lost(), lost(), replay()]);
  const response = await guarded(URL_ORDERS, ORDER);
  assert.equal(info(response).attempts, 5);
  oneKey(fetch);
  // Full jitter: half of 500, 1000, 2000, 4000.
  assert.deepEqual(around.slept, [250, 500, 1000, 2000]);
});

test('back-off has a longest, sendings a number, and all of it a time', async () => {
  const many = () => Array.from({ length: 20 }, lost);
  const longest = guardedBy(many(), { retry: { attempts: 8, cap: 1000 } });
  await assert.rejects(longest.guarded(URL_ORDERS, ORDER), /fetch failed/);
  assert.deepEqual(longest.around.slept, [250, 500, 500, 500, 500, 500, 500]);
  assert.equal(longest.fetch.calls.length, 8);
  const timed = guardedBy(many(), { retry: { attempts: 20, cap: 1000, total: 1300 } });
  await assert.rejects(timed.guarded(URL_ORDERS, ORDER));
  assert.deepEqual(timed.around.slept, [250, 500, 500]);
});

test('the gateway says when', async () => {
  const answers = [
    problem(409, 'request-in-flight', 'same-key', { retry_after: 3 }),
    problem(503, 'overloaded', 'same-key', {}, { 'Retry-After': '7' }),
    problem(503, 'store-unavailable', 'same-key', {}, { 'Retry-After': new Date(Date.UTC(2026, 10, 30, 0, 1)).toUTCString() }),
    replay(),
  ];
  const { guarded, fetch, around } = guardedBy(answers);
  assert.equal(info(await guarded(URL_ORDERS, ORDER)).attempts, 4);
  oneKey(fetch);
  assert.deepEqual(around.slept.slice(0, 2), [3250, 7250]);
  assert.equal(around.slept[2], 60_000 - 3250 - 7250 + 250);
});

test('advice that is longer than there is time is not waited for', async () => {
  const { guarded, around } = guardedBy([problem(409, 'outcome-unknown', 'same-key', { retry_after: 60 })], { retry: { total: 30_000 } });
  const response = await guarded(URL_ORDERS, ORDER);
  assert.equal((await response.json()).code, 'outcome-unknown');
  assert.deepEqual([info(response).final, around.slept.length], [false, 0]);
});

test('the application\'s own refusals are its own', async () => {
  for (const status of [400, 409, 422, 500, 502, 503]) {
    const body = { code: 'key-reused', retry: 'same-key', retry_after: 1 };
    const own = new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/problem+json' } });
    const { guarded, fetch } = guardedBy([own], { retry: { newKey: true } });
    const response = await guarded(URL_ORDERS, ORDER);
    assert.deepEqual([response.status, info(response).problem, info(response).source], [status, undefined, 'upstream']);
    assert.deepEqual(await response.json(), body);
    assert.equal(fetch.calls.length, 1);
  }
});

test('an application that is busy is asked again when it says so', async () => {
  const { guarded, fetch, around } = guardedBy([busy(429), busy(503), busy(425), created()]);
  assert.equal((await guarded(URL_ORDERS, ORDER)).status, 201);
  oneKey(fetch);
  assert.deepEqual(around.slept, [2250, 2250, 2250]);
  // A recorded answer is the same tomorrow.
  const recorded = new Response('', { status: 503, headers: { 'Retry-After': '1', 'Idempotency-Expires': 'Tue, 01 Dec 2026 12:00:00 GMT' } });
  assert.equal((await guardedBy([recorded]).guarded(URL_ORDERS, ORDER)).status, 503);
});

test('a key that is another request\'s is replaced only where the caller allows it, and once', async () => {
  const reused = () => problem(422, 'key-reused', 'new-key');
  const refused = guardedBy([reused()]);
  assert.equal((await refused.guarded(URL_ORDERS, ORDER)).status, 422);
  const allowed = guardedBy([reused(), created()], { retry: { newKey: true } });
  assert.equal((await allowed.guarded(URL_ORDERS, ORDER)).status, 201);
  assert.equal(new Set(allowed.fetch.keys()).size, 2);
  const always = guardedBy([reused(), reused()], { retry: { newKey: true } });
  assert.equal((await always.guarded(URL_ORDERS, ORDER)).status, 422);
});

test('an expired key is never replaced: it may have been used', async () => {
  for (const before of [[], [lost()]]) {
    const { guarded, fetch } = guardedBy([...before, problem(410, 'key-expired', 'new-key')], { retry: { newKey: true } });
    const response = await guarded(URL_ORDERS, ORDER);
    assert.deepEqual([response.status, info(response).final], [410, false]);
    oneKey(fetch);
  }
});

test('a key that only a wrong clock made old is made anew, unless it was sent before', async () => {
  const expired = (around) => {
    const time = around.time + 86_400_000;
    return problem(410, 'key-expired', 'new-key', { server_time: time }, { 'Oncegate-Time': String(time) });
  };
  const fresh = guardedBy([() => expired(fresh.around), created()]);
  assert.equal((await fresh.guarded(URL_ORDERS, ORDER)).status, 201);
  const made = parseInt(fresh.fetch.keys()[1].replaceAll('-', '').slice(0, 12), 16);
  assert.equal(made, fresh.around.time + 86_400_000);
  const sent = guardedBy([lost(), () => expired(sent.around)]);
  assert.equal((await sent.guarded(URL_ORDERS, ORDER)).status, 410);
  oneKey(sent.fetch);
});

test('an answer that breaks off did not arrive', async () => {
  const broken = new Response(
    new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode('ord'));
        controller.error(new TypeError('terminated'));
      },
    }),
    { status: 201 },
  );
  const { guarded, fetch } = guardedBy([broken, replay()]);
  assert.equal(await (await guarded(URL_ORDERS, ORDER)).text(), 'order-1');
  oneKey(fetch);
});

test('a sending without an answer counts as lost after its time', async () => {
  const silent = held();
  const { guarded, fetch, around } = guardedBy([silent, replay()]);
  const sent = fetch.next();
  const answer = guarded(URL_ORDERS, ORDER);
  await sent;
  assert.deepEqual([...around.deadlines].map(({ ms }) => ms), [45_000]);
  around.late();
  assert.equal(info(await answer).attempts, 2);
  assert.equal(around.deadlines.size, 0);
  oneKey(fetch);
});

test('an abort ends what is on its way, and the key stays', async () => {
  const silent = held();
  const { guarded, fetch } = guardedBy([silent, replay()]);
  const controller = new AbortController();
  const sent = fetch.next();
  const answer = guarded(URL_ORDERS, { ...ORDER, signal: controller.signal });
  await sent;
  controller.abort(new Error('left'));
  await assert.rejects(answer, /left/);
  assert.equal(fetch.calls[0].init.signal.aborted, true);
  await guarded(URL_ORDERS, ORDER);
  oneKey(fetch);
});

test('an abort ends a wait, and one that came before a call', async () => {
  const controller = new AbortController();
  const { guarded, fetch, around } = guardedBy([lost()]);
  around.sleeps = () => controller.abort(new Error('left'));
  await assert.rejects(guarded(URL_ORDERS, { ...ORDER, signal: controller.signal }), /left/);
  await assert.rejects(guarded(URL_ORDERS, { ...ORDER, signal: controller.signal }), /left/);
  assert.equal(fetch.calls.length, 1);
});

test('one of two who leaves takes nothing from the other', async () => {
  const first = held();
  const { guarded, fetch } = guardedBy([first]);
  const [controller, other] = [new AbortController(), signalOf(new AbortController())];
  const sent = fetch.next();
  const leaving = guarded(URL_ORDERS, { ...ORDER, signal: controller.signal });
  const staying = guarded(URL_ORDERS, { ...ORDER, signal: other.signal });
  await Promise.all([sent, other.heard(1)]);
  controller.abort(new Error('left'));
  await assert.rejects(leaving, /left/);
  first.release(created());
  assert.equal((await staying).status, 201);
});

test('without a network it waits for one, uncounted, and goes on with the same key', async () => {
  const { guarded, fetch, around } = guardedBy([() => ((around.online = false), lost()), replay()], { offline: true, retry: { attempts: 2 } });
  const waiting = around.offline();
  const answer = guarded(URL_ORDERS, ORDER);
  await waiting;
  assert.equal(fetch.calls.length, 0);
  const again = new Promise((resolve) => (around.waiting = resolve));
  around.comeBack();
  await again;
  around.time += 600_000;
  around.comeBack();
  assert.equal(info(await answer).attempts, 2);
  oneKey(fetch);
});

test('it does not wait for a network for ever, nor where nobody wished it', async () => {
  const unwished = guardedBy([lost()], { retry: false });
  unwished.around.online = false;
  await assert.rejects(unwished.guarded(URL_ORDERS, ORDER), /fetch failed/);
  const { guarded, around } = guardedBy([], { offline: 5000 });
  const waiting = around.offline();
  const answer = guarded(URL_ORDERS, ORDER);
  await waiting;
  around.late();
  await assert.rejects(answer, /no network for 5000 ms/);
});

test('listeners hear of retries and replays, and their faults are their own', async () => {
  const heard = [];
  const onRetry = ({ reason, wait, attempts, problem }) => {
    heard.push([reason, wait, attempts, problem?.code]);
    throw new Error('a fault of the page');
  };
  const reported = [];
  globalThis.reportError = (error) => reported.push(error.message);
  const onReplay = (response, about) => heard.push([response.status, about.replayed]);
  const answers = [lost(), problem(503, 'overloaded', 'same-key', { retry_after: 1 }), busy(), replay()];
  const { guarded } = guardedBy(answers, { onRetry, onReplay });
  assert.equal(await (await guarded(URL_ORDERS, ORDER)).text(), 'order-1');
  delete globalThis.reportError;
  assert.deepEqual(heard, [
    ['network', 250, 1, undefined],
    ['problem', 1250, 2, 'overloaded'],
    ['status', 2250, 3, undefined],
    [201, true],
  ]);
  assert.equal(reported.length, 3);
});

test('a stream of events is handed over as it begins', async () => {
  let feed;
  const events = new Response(new ReadableStream({ start: (controller) => (feed = controller) }), { headers: { 'Content-Type': 'text/event-stream' } });
  const { guarded } = guardedBy([events]);
  const response = await guarded(URL_ORDERS, ORDER);
  feed.enqueue(new TextEncoder().encode('data: 1\n\n'));
  feed.close();
  assert.equal(await response.text(), 'data: 1\n\n');
});
