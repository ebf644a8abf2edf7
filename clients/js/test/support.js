// A fetch that answers by a script, and surroundings in which time passes only when the code under test waits.

import { oncegate } from '../src/node.js';

export const URL_ORDERS = 'https://shop.example/orders';
export const ORDER = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"sku":"tea"}' };
export const EXPIRES = { 'Idempotency-Expires': 'Tue, 01 Dec 2026 12:00:00 GMT' };

/** An answer of the application's, recorded by the gateway. */
export const created = (text = 'order-1', headers = {}) =>
  new Response(text, { status: 201, headers: { ...EXPIRES, ...headers } });

export const replay = (text = 'order-1') =>
  created(text, { 'Idempotent-Replayed': 'true', 'X-Idempotent-Retry': 'true' });

/** A refusal of the gateway's own. */
export const problem = (status, code, retry, more = {}, headers = {}) =>
  new Response(JSON.stringify({ type: `urn:oncegate:problem:${code}`, code, retry, status, ...more }), {
    status,
    headers: { 'Content-Type': 'application/problem+json', 'Oncegate-Source': 'gateway', ...headers },
  });

export const busy = (status = 503, after = '2') => new Response('later', { status, headers: { 'Retry-After': after } });

/**
 * Surroundings. `random` is always a half; every sleep is noted and passes at once; a deadline passes when `late` is
 * called.
 */
export class Surroundings {
  time = Date.UTC(2026, 10, 30);
  slept = [];
  deadlines = new Set();
  online = true;
  #hearing = new Set();

  now = () => this.time;
  random = () => 0.5;
  isOnline = () => this.online;
  sleep = async (ms, signal) => {
    this.sleeps?.();
    if (signal.aborted) throw signal.reason;
    this.slept.push(ms);
    this.time += ms;
  };
  deadline = (ms, callback) => {
    const one = { ms, callback };
    this.deadlines.add(one);
    return () => this.deadlines.delete(one);
  };
  whenOnline = (signal) =>
    new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason));
      this.#hearing.add(resolve);
      this.waiting?.();
    });

  /** Resolves when somebody waits for the network. */
  offline() {
    this.online = false;
    return new Promise((resolve) => (this.waiting = resolve));
  }

  comeBack() {
    this.online = true;
    for (const resolve of this.#hearing) resolve();
  }

  late() {
    for (const one of [...this.deadlines]) one.callback();
  }
}

/**
 * A fetch that gives these answers one after the other: a Response, an Error to fail with, or a function of the call.
 * It notes what it was asked.
 */
export function scripted(...answers) {
  const calls = [];
  const send = async (input, init = {}) => {
    const request = new Request(input, { ...init, signal: undefined, duplex: 'half' });
    const body = await request.clone().text();
    const call = { url: request.url, method: request.method, headers: request.headers, body, init, input };
    call.key = request.headers.get('idempotency-key');
    calls.push(call);
    send.called?.();
    if (answers.length === 0) throw new Error(`unexpected call: ${request.method} ${request.url}`);
    const answer = answers.shift();
    const given = typeof answer === 'function' ? await answer(call) : answer;
    if (given instanceof Error) throw given;
    return given;
  };
  send.calls = calls;
  send.keys = () => calls.map((call) => call.key);
  /** Resolves at the next call. */
  send.next = () => new Promise((resolve) => (send.called = resolve));
  return send;
}

/** An answer that comes when it is let go; an abort ends it. */
export function held() {
  let release;
  const answer = new Promise((resolve) => (release = resolve));
  const give = (call) =>
    new Promise((resolve, reject) => {
      call.init.signal?.addEventListener('abort', () => reject(call.init.signal.reason));
      answer.then(resolve);
    });
  return Object.assign(give, { release });
}

/** A signal for callers who join; `heard(count)` resolves when so many have. */
export function signalOf(controller) {
  const { signal } = controller;
  const listen = signal.addEventListener.bind(signal);
  let joined = 0;
  let enough = () => {};
  signal.addEventListener = (...args) => {
    listen(...args);
    joined += 1;
    enough();
  };
  const heard = (count) => new Promise((resolve) => (enough = () => joined >= count && resolve())());
  return { signal, heard };
}

export const lost = () => new TypeError('fetch failed');

/** A guarded fetch over such answers. */
export function guardedBy(answers, options = {}) {
  const fetch = scripted(...answers);
  const around = new Surroundings();
  const guarded = oncegate({ fetch, environment: around, ...options });
  return { guarded, fetch, around };
}

/** A memory that outlives the guarded fetches that use it, as a tab's does its pages. */
export function lasting() {
  const entries = new Map();
  return {
    entries,
    async update(name, change) {
      const next = change(entries.get(name));
      if (next) entries.set(name, JSON.parse(JSON.stringify(next)));
      else entries.delete(name);
      return next;
    },
  };
}
