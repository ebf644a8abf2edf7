// Calls that say when they were made (fingerprints), and those that take a number first (tokens).

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { fingerprint, info, oncegate } from '../src/node.js';
import { Clock, uuid7 } from '../src/clock.js';
import { ORDER, Surroundings, URL_ORDERS, busy, created, guardedBy, held, lasting, lost, problem, replay, signalOf } from './support.js';

const print = (call) => [call.headers.get('x-request-timestamp'), call.headers.get('x-request-fingerprint')];

test('a call is signed with the time of its first sending, also when it is sent again', async () => {
  const { guarded, fetch, around } = guardedBy([lost(), replay()], { fingerprint: true });
  const timestamp = around.time;
  await guarded(URL_ORDERS, ORDER);
  const contentType = 'application/json';
  const hex = await fingerprint({ method: 'POST', url: URL_ORDERS, contentType, body: ORDER.body, timestamp });
  assert.deepEqual(fetch.calls.map(print), Array(2).fill([String(timestamp), hex]));
});

test('a page that comes back signs as the first did', async () => {
  const memory = lasting();
  const first = guardedBy([lost()], { fingerprint: true, remember: memory, retry: false });
  await assert.rejects(first.guarded(URL_ORDERS, ORDER));
  const second = guardedBy([replay()], { fingerprint: true, remember: memory });
  second.around.time += 60_000;
  await second.guarded(URL_ORDERS, ORDER);
  assert.deepEqual(print(second.fetch.calls[0]), print(first.fetch.calls[0]));
});

test('a clock that is off is set by what the gateway says, once', async () => {
  const off = (around, by) => problem(400, 'timestamp-invalid', 'stop', {}, { 'Oncegate-Time': String(around.time + by) });
  const day = 86_400_000;
  const { guarded, fetch, around } = guardedBy([() => off(around, day), created(), created('b')], { fingerprint: true });
  assert.equal((await guarded(URL_ORDERS, ORDER)).status, 201);
  await guarded(URL_ORDERS, ORDER);
  const stamps = fetch.calls.map((call) => Number(print(call)[0]) - around.time);
  assert.deepEqual(stamps, [0, day, day]);
  assert.equal(fetch.keys()[0], fetch.keys()[1]);
  const never = guardedBy([() => off(never.around, 1), () => off(never.around, 2)], { fingerprint: true });
  assert.equal((await never.guarded(URL_ORDERS, ORDER)).status, 400);
  const member = (around) => problem(400, 'timestamp-invalid', 'stop', { server_time: around.time - day });
  const body = guardedBy([() => member(body.around), created()], { fingerprint: true });
  await body.guarded(URL_ORDERS, ORDER);
  assert.equal(Number(print(body.fetch.calls[1])[0]), body.around.time - day);
});

test('a call whose first answer was lost goes out under no other time: it may be another operation', async () => {
  const late = (around) => problem(400, 'timestamp-invalid', 'stop', { server_time: around.time + 60_000 });
  const call = guardedBy([lost(), () => late(call.around), created()], { fingerprint: true });
  assert.equal((await call.guarded(URL_ORDERS, ORDER)).status, 400);
  assert.equal(call.fetch.calls.length, 2);
  assert.deepEqual(print(call.fetch.calls[1]), print(call.fetch.calls[0]));
});

test('a clock keeps what agrees with the server, and learns in the middle of what does not', () => {
  let wall = 1000;
  const clock = new Clock(() => wall);
  assert.equal(clock.learn(1010, 1000, 1020), 0);
  assert.equal(clock.learn(5000, 1000, 1020), 3990);
  assert.equal(clock.now(), 4990);
  assert.equal(clock.learn(5005, 1000, 1030), 0);
  assert.equal(clock.learn(NaN, 1000, 1030), 0);
  wall = 2000;
  assert.deepEqual([clock.now(), clock.wall()], [5990, 2000]);
});

test('keys are of version 7, and no two are equal', () => {
  const keys = Array.from({ length: 1000 }, () => uuid7(crypto, 0x0123456789ab));
  assert.equal(new Set(keys).size, 1000);
  for (const key of keys) assert.match(key, /^01234567-89ab-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

const tokens = { route: 'create order' };
const token = (around, name, lifetime = 1_800_000) =>
  Response.json({ token: name, expires_at: new Date(around.time + lifetime).toISOString() }, { status: 201 });

test('a number is taken first, and spent on one intent', async () => {
  const { guarded, fetch, around } = guardedBy([() => token(around, 't1'), lost(), replay(), () => token(around, 't2'), created()], { tokens });
  const init = { ...ORDER, credentials: 'include', headers: { ...ORDER.headers, Authorization: 'Bearer a' } };
  assert.equal(info(await guarded(URL_ORDERS, init)).key, 't1');
  await guarded(URL_ORDERS, init);
  const [asked, ...rest] = fetch.calls;
  assert.deepEqual([asked.method, asked.url, asked.body], ['POST', 'https://shop.example/idempotency-tokens?route=create+order', '']);
  assert.deepEqual([asked.headers.get('authorization'), asked.init.credentials, asked.headers.get('content-type')], ['Bearer a', 'include', null]);
  const spent = rest.filter((call) => call.url === URL_ORDERS).map((call) => call.headers.get('idempotency-token'));
  assert.deepEqual(spent, ['t1', 't1', 't2']);
  assert.ok(fetch.keys().every((key) => key === null));
});

test('a token that is refused before it was spent is replaced once', async () => {
  for (const [status, code] of [[410, 'token-expired'], [400, 'token-invalid']]) {
    const refused = () => problem(status, code, 'new-key');
    const { guarded, around } = guardedBy([() => token(around, 't1'), refused(), () => token(around, 't2'), created()], { tokens });
    assert.equal(info(await guarded(URL_ORDERS, ORDER)).key, 't2');
    const always = guardedBy([() => token(always.around, 't1'), refused(), () => token(always.around, 't2'), refused()], { tokens });
    assert.equal((await always.guarded(URL_ORDERS, ORDER)).status, status);
    const spent = guardedBy([() => token(spent.around, 't1'), lost(), refused()], { tokens, retry: { newKey: true } });
    const response = await spent.guarded(URL_ORDERS, ORDER);
    assert.deepEqual([response.status, info(response).final], [status, false], 'it may have been used');
  }
});

test('a token that nobody spent is used for the next call of the same caller, while it lasts', async () => {
  const memory = lasting();
  const options = { tokens, remember: memory };
  const asked = held();
  const { guarded, fetch, around } = guardedBy([asked, created(), () => token(around, 't2'), created()], options);
  const asking = fetch.next();
  const answer = guarded.intent('a')(URL_ORDERS, ORDER);
  await asking;
  // Meanwhile another tab has given the intent a key.
  await memory.update('n:a', () => ({ key: 'theirs', made: around.time, sent: true }));
  asked.release(token(around, 't1', 60_000));
  assert.equal(info(await answer).key, 'theirs');
  around.time += 55_000;
  assert.equal(info(await guarded(URL_ORDERS, ORDER)).key, 't2');
  const again = guardedBy([asked, created(), created()], options);
  const next = again.guarded.intent('b')(URL_ORDERS, ORDER);
  await memory.update('n:b', () => ({ key: 'theirs', made: around.time, sent: true }));
  assert.equal(info(await next).key, 'theirs');
});

test('calls of one intent at once spend one token, however long the second would wait for its own', async () => {
  const around = new Surroundings();
  const [asked, spent] = [[held(), held()], []];
  let count = 0;
  const fetch = async (input, init) => {
    if (input !== URL_ORDERS) return asked[count++]({ init });
    spent.push(new Headers(init.headers).get('idempotency-token'));
    return spent.length === 1 ? created() : replay();
  };
  const guarded = oncegate({ fetch, environment: around, tokens });
  const { signal, heard } = signalOf(new AbortController());
  // A field of its own keeps the second from joining the first.
  const click = (id) => guarded(URL_ORDERS, { ...ORDER, headers: { ...ORDER.headers, 'X-Request-Id': id }, signal });
  const clicks = [click('1'), click('2')];
  await heard(2);
  asked[0].release(token(around, 't1'));
  await Promise.race(clicks);
  asked[1].release(token(around, 't2'));
  await Promise.all(clicks);
  assert.deepEqual(spent, ['t1', 't1']);
});

test('no token, no call: the answer is the gateway\'s, or the error is', async () => {
  const refused = guardedBy([problem(401, 'scope-invalid', 'stop')], { tokens });
  const response = await refused.guarded(URL_ORDERS, ORDER);
  assert.deepEqual([(await response.json()).code, info(response).attempts, info(response).key], ['scope-invalid', 0, undefined]);
  const later = guardedBy([busy(), lost(), () => token(later.around, 't1'), created()], { tokens });
  assert.equal((await later.guarded(URL_ORDERS, ORDER)).status, 201);
  const elsewhere = guardedBy([Response.json({ page: 1 }, { status: 201 })], { tokens });
  await assert.rejects(elsewhere.guarded(URL_ORDERS, ORDER), /look at `tokens.path`/);
});
