// One key for what a user wants: who joins whom, what keeps a key, and what settles it.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { info, oncegate } from '../src/node.js';
import {
  EXPIRES, ORDER, Surroundings, URL_ORDERS, created, guardedBy, held, lasting, lost, problem, replay, scripted, signalOf,
} from './support.js';

const UUID7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

test('a call gets a key that says when it was made', async () => {
  const { guarded, fetch, around } = guardedBy([created()]);
  const response = await guarded(URL_ORDERS, ORDER);
  assert.equal(await response.text(), 'order-1');
  assert.match(fetch.calls[0].key, UUID7);
  assert.equal(parseInt(fetch.calls[0].key.replaceAll('-', '').slice(0, 12), 16), around.time);
  assert.equal(fetch.calls[0].body, ORDER.body);
  assert.equal(fetch.calls[0].headers.get('content-type'), 'application/json');
  const about = info(response);
  assert.equal(about.key, fetch.calls[0].key);
  assert.deepEqual([about.attempts, about.replayed, about.final, about.joined, about.source], [1, false, true, false, 'upstream']);
  assert.equal(about.expires.getTime(), Date.parse(EXPIRES['Idempotency-Expires']));
});

test('what reads, and what goes elsewhere, passes untouched', async () => {
  const answers = [new Response('a'), new Response('b'), created()];
  const { guarded, fetch } = guardedBy(answers, { gateway: 'https://shop.example/' });
  await guarded('/orders');
  await guarded('https://other.example/orders', ORDER);
  await guarded('/orders', ORDER);
  assert.deepEqual(fetch.calls.map((call) => [call.url, call.key === null]), [
    [URL_ORDERS, true],
    ['https://other.example/orders', true],
    [URL_ORDERS, false],
  ]);
});

test('a double click is one call, and each click has an answer of its own', async () => {
  const first = held();
  const { guarded, fetch } = guardedBy([first]);
  const sent = fetch.next();
  const { signal, heard } = signalOf(new AbortController());
  const init = { ...ORDER, signal };
  const clicks = [guarded(URL_ORDERS, init), guarded(URL_ORDERS, init), guarded(URL_ORDERS, { ...init })];
  await sent;
  clicks.push(guarded(new Request(URL_ORDERS, ORDER), { signal }));
  await heard(4);
  first.release(created());
  const responses = await Promise.all(clicks);
  assert.deepEqual(await Promise.all(responses.map((response) => response.text())), Array(4).fill('order-1'));
  assert.deepEqual(responses.map((response) => info(response).joined).sort(), [false, true, true, true]);
  assert.equal(fetch.calls.length, 1);
});

test('a double click on a form is one call too, though each has a boundary of its own', async () => {
  const first = held();
  const { guarded, fetch } = guardedBy([first]);
  const { signal, heard } = signalOf(new AbortController());
  const click = () => {
    const body = new FormData();
    body.set('sku', 'tea');
    return guarded(URL_ORDERS, { method: 'POST', body, signal });
  };
  const clicks = [click(), click()];
  await heard(2);
  first.release(created());
  const responses = await Promise.all(clicks);
  assert.deepEqual(responses.map((response) => info(response).joined).sort(), [false, true]);
  assert.equal(fetch.calls.length, 1);
});

test('another request, another caller, or a later click is another intent', async () => {
  const { guarded, fetch } = guardedBy([created(), created(), created(), created(), created()]);
  const other = { ...ORDER, body: '{"sku":"milk"}' };
  const caller = { ...ORDER, headers: { ...ORDER.headers, Authorization: 'Bearer b' } };
  await Promise.all([guarded(URL_ORDERS, ORDER), guarded(URL_ORDERS, other), guarded(`${URL_ORDERS}?a=1`, ORDER)]);
  await guarded(URL_ORDERS, ORDER);
  await guarded(URL_ORDERS, caller);
  assert.equal(new Set(fetch.keys()).size, 5);
});

test('two callers at once do not share an answer', async () => {
  const { guarded, fetch } = guardedBy([created('a'), created('b')]);
  const as = (name) => guarded(URL_ORDERS, { ...ORDER, headers: { Authorization: name } });
  await Promise.all([as('a'), as('b')]);
  assert.equal(fetch.calls.length, 2);
});

test('a call whose outcome is not known keeps its key for the next click', async () => {
  const { guarded, fetch } = guardedBy([lost(), replay()], { retry: false });
  const error = await guarded(URL_ORDERS, ORDER).catch((error) => error);
  assert.equal(error.message, 'fetch failed');
  assert.deepEqual([info(error).final, info(error).attempts, info(error).key], [false, 1, fetch.calls[0].key]);
  const response = await guarded(URL_ORDERS, ORDER);
  assert.equal(info(response).replayed, true);
  assert.equal(new Set(fetch.keys()).size, 1);
});

test('answers that settle an intent, and those that do not', async () => {
  const unknown = { 'Oncegate-Outcome': 'unknown' };
  const cases = [
    [created(), true],
    [new Response('', { status: 303 }), true],
    [new Response('sold out', { status: 409 }), true],
    [new Response('', { status: 422 }), true],
    [new Response('failed', { status: 500, headers: EXPIRES }), true],
    [new Response('failed', { status: 500 }), false],
    [new Response('a proxy between', { status: 504 }), false],
    [new Response('', { status: 502, headers: unknown }), false],
    [new Response('', { status: 200, headers: unknown }), false],
    [problem(409, 'duplicate-request', 'stop'), true],
    [problem(409, 'already-executed', 'stop'), true],
    [problem(400, 'key-invalid', 'stop'), true],
    [problem(413, 'body-too-large', 'stop'), true],
    [problem(503, 'record-unreadable', 'stop'), false],
    [problem(409, 'outcome-unknown', 'same-key'), false],
    [problem(409, 'request-in-flight', 'same-key'), false],
    [problem(503, 'overloaded', 'same-key'), false],
    [problem(422, 'key-reused', 'new-key'), false],
    [problem(410, 'key-expired', 'new-key'), false],
    [new Response(null, { status: 200, headers: { 'Oncegate-Source': 'gateway', 'X-Idempotent-Retry': 'true' } }), true],
    [new Response(null, { status: 200, headers: { 'Oncegate-Source': 'gateway', 'Retry-After': '1' } }), false],
  ];
  for (const [answer, final] of cases) {
    const what = `${answer.status} ${JSON.stringify([...answer.headers])}`;
    const { guarded, fetch } = guardedBy([answer, created()], { retry: { attempts: 1 } });
    const response = await guarded(URL_ORDERS, ORDER);
    assert.equal(info(response).final, final, what);
    await guarded(URL_ORDERS, ORDER);
    assert.equal(new Set(fetch.keys()).size, final ? 2 : 1, what);
  }
});

test('a refusal that says nothing of the sending before settles nothing', async () => {
  const refusals = [problem(401, 'scope-invalid', 'stop'), new Response('log in', { status: 401 }), problem(404, 'no-route', 'stop')];
  for (const refusal of refusals) {
    const { guarded, fetch } = guardedBy([lost(), refusal, replay()]);
    assert.equal(info(await guarded(URL_ORDERS, ORDER)).final, false);
    await guarded(URL_ORDERS, ORDER);
    assert.equal(new Set(fetch.keys()).size, 1);
  }
});

test('an intent with a name has one key, whatever is asked for, until it is settled or given up', async () => {
  const { guarded, fetch } = guardedBy([lost(), problem(422, 'key-reused', 'new-key'), created(), created()], { retry: false });
  const pay = guarded.intent('checkout-42');
  await assert.rejects(pay(URL_ORDERS, ORDER));
  assert.equal(await pay.key(), fetch.calls[0].key);
  const refused = await guarded(URL_ORDERS, { ...ORDER, body: 'changed', intent: 'checkout-42' });
  assert.equal(info(refused).problem.code, 'key-reused');
  await pay.forget();
  assert.equal(await pay.key(), undefined);
  await pay(URL_ORDERS, ORDER);
  await pay(URL_ORDERS, ORDER);
  const [first, second, third, fourth] = fetch.keys();
  assert.equal(first, second);
  assert.equal(new Set([second, third, fourth]).size, 3);
});

test('what is to happen once has its key also after its success', async () => {
  const { guarded, fetch } = guardedBy([new Response('', { status: 422 }), created(), replay()]);
  const pay = guarded.intent('checkout-42');
  const answers = [];
  for (let click = 0; click < 3; click += 1) answers.push(info(await pay(URL_ORDERS, { ...ORDER, once: true })).replayed);
  assert.deepEqual(answers, [false, false, true]);
  const [first, second, third] = fetch.keys();
  assert.ok(first !== second && second === third);
  await assert.rejects(guarded(URL_ORDERS, { ...ORDER, once: true }), /`once` needs an `intent`/);
});

test('the caller may know better', async () => {
  const { guarded, fetch } = guardedBy([problem(410, 'key-expired', 'new-key'), created()]);
  await info(await guarded(URL_ORDERS, ORDER)).forget();
  await guarded(URL_ORDERS, ORDER);
  assert.equal(new Set(fetch.keys()).size, 2);
});

test('a key of the caller\'s own is taken as it is', async () => {
  const { guarded, fetch } = guardedBy([lost(), problem(422, 'key-reused', 'new-key')], { retry: { newKey: true } });
  const response = await guarded(URL_ORDERS, { ...ORDER, headers: { 'Idempotency-Key': 'order-7' } });
  assert.equal(response.status, 422);
  assert.deepEqual(fetch.keys(), ['order-7', 'order-7']);
});

test('a key is there before it is sent, so a page that comes back has it', async () => {
  const memory = lasting();
  const leaving = held();
  const around = new Surroundings();
  const before = scripted(leaving);
  const sent = before.next();
  oncegate({ fetch: before, environment: around, remember: memory })(URL_ORDERS, ORDER).catch(() => {});
  await sent;
  const after = scripted(replay());
  const again = oncegate({ fetch: after, environment: around, remember: memory });
  assert.equal(info(await again(URL_ORDERS, ORDER)).replayed, true);
  assert.deepEqual(after.keys(), before.keys());
  assert.equal(memory.entries.size, 0);
});

test('an intent that nobody came back for is forgotten in time', async () => {
  const { guarded, fetch, around } = guardedBy([lost(), lost(), created()], { retry: false, rememberFor: 1000 });
  await assert.rejects(guarded(URL_ORDERS, ORDER));
  around.time += 999;
  await assert.rejects(guarded(URL_ORDERS, ORDER));
  around.time += 1;
  await guarded(URL_ORDERS, ORDER);
  const [first, second, third] = fetch.keys();
  assert.ok(first === second && second !== third);
});

test('an intent with a name is kept in mind longer than one without', async () => {
  const { guarded, fetch, around } = guardedBy([lost(), lost(), replay(), created()], { retry: false });
  const named = { ...ORDER, intent: 'cart' };
  await assert.rejects(guarded(URL_ORDERS, named));
  await assert.rejects(guarded(URL_ORDERS, ORDER));
  around.time += 3_600_000;
  await guarded(URL_ORDERS, named);
  await guarded(URL_ORDERS, ORDER);
  const [first, second, third, fourth] = fetch.keys();
  assert.ok(first === third && second !== fourth);
});

test('two pages with one memory use one key, and none undoes the other\'s', async () => {
  const memory = lasting();
  const [one, two] = [held(), held()];
  const pages = [one, two].map((answer) => guardedBy([answer, created('next')], { remember: memory }));
  const sent = pages.map((page) => page.fetch.next());
  const answers = pages.map((page) => page.guarded.intent('cart')(URL_ORDERS, ORDER));
  await Promise.all(sent);
  one.release(created());
  await answers[0];
  two.release(replay());
  assert.equal(info(await answers[1]).replayed, true);
  assert.equal(memory.entries.size, 0);
  await pages[0].guarded.intent('cart')(URL_ORDERS, ORDER);
  const keys = pages.map((page) => page.fetch.keys());
  assert.equal(keys[0][0], keys[1][0]);
  assert.notEqual(keys[0][0], keys[0][1]);
});
