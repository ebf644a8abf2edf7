// The settings, with their defaults, and what is wrong with those that were given. It finds out at once, not at the
// first order.

import { surroundings } from './environment.js';
import { memoryOf } from './memory.js';

const DEFAULTS = {
  fetch: (input, init) => globalThis.fetch(input, init),
  gateway: undefined,
  header: 'Idempotency-Key',
  methods: ['POST', 'PUT', 'PATCH', 'DELETE'],
  remember: 'page',
  rememberFor: 72 * 3_600_000,
  maxBuffer: 8 * 1024 * 1024,
  retry: {},
  offline: 0,
  fingerprint: false,
  tokens: undefined,
  operations: {},
  onReplay: undefined,
  onRetry: undefined,
  environment: {},
};
const RETRY = { attempts: 5, total: 120_000, base: 500, cap: 10_000, timeout: 45_000, newKey: false };
const ONCE = { ...RETRY, attempts: 1 };
const TOKENS = { path: '/idempotency-tokens', route: undefined, header: 'Idempotency-Token' };
const OPERATIONS = { path: '/_oncegate/operations', route: undefined };
const HOUR = 3_600_000;

/** @param {import('../types/index.d.ts').Options} given */
export function settingsOf(given = {}) {
  const options = over('', DEFAULTS, given);
  const base = options.gateway ?? globalThis.location?.href;
  const settings = {
    ...options,
    gateway: options.gateway === undefined ? undefined : address('gateway', options.gateway),
    base: base === undefined || base === 'about:blank' ? undefined : String(base),
    methods: options.methods.map((method) => method.toUpperCase()),
    retry: options.retry === false ? ONCE : over('retry.', RETRY, options.retry),
    offline: options.offline === true ? HOUR : Number(options.offline),
    tokens: options.tokens && over('tokens.', TOKENS, options.tokens),
    operations: over('operations.', OPERATIONS, options.operations),
    environment: { ...surroundings, ...options.environment },
  };
  checkNumbers(settings);
  checkFunctions(settings);
  checkMemory(options.remember);
  return { ...settings, memory: memoryOf(options.remember, options.rememberFor) };
}

/** Defaults and what was said over them. */
function over(place, defaults, given) {
  if (typeof given !== 'object' || given === null) throw wrong(place.slice(0, -1) || 'options', 'an object');
  for (const name of Object.keys(given)) {
    if (Object.hasOwn(defaults, name)) continue;
    throw new TypeError(`oncegate: there is no option \`${place}${name}\`; there are ${Object.keys(defaults).join(', ')}`);
  }
  const said = Object.entries(given).filter(([, value]) => value !== undefined);
  return { ...defaults, ...Object.fromEntries(said) };
}

function address(name, value) {
  try {
    return new URL(String(value), globalThis.location?.href).href;
  } catch {
    throw wrong(name, 'an address such as "https://api.example"');
  }
}

function checkNumbers({ retry, offline, rememberFor, maxBuffer }) {
  const { attempts, total, base, cap, timeout } = retry;
  if (!Number.isInteger(attempts) || attempts < 1) throw wrong('retry.attempts', 'a whole number from 1');
  const numbers = {
    'retry.total': total,
    'retry.base': base,
    'retry.cap': cap,
    'retry.timeout': timeout,
    offline,
    rememberFor,
    maxBuffer,
  };
  for (const [name, value] of Object.entries(numbers)) {
    if (typeof value !== 'number' || !(value >= 0)) throw wrong(name, 'a number from 0, milliseconds or bytes');
  }
}

function checkFunctions({ fetch, onReplay, onRetry }) {
  for (const [name, value] of Object.entries({ fetch, onReplay, onRetry })) {
    if (value !== undefined && typeof value !== 'function') throw wrong(name, 'a function');
  }
}

function checkMemory(remember) {
  if (typeof remember?.update === 'function' || remember === 'page') return;
  if (remember === 'session') {
    if ('sessionStorage' in globalThis) return;
    throw new TypeError('oncegate: `remember: "session"` needs sessionStorage, which workers and Node have not: use "origin" or "page"');
  }
  if (remember !== 'origin') throw wrong('remember', '"page", "session", "origin", or an object with `update`');
  if ('indexedDB' in globalThis) return;
  throw new TypeError('oncegate: `remember: "origin"` needs IndexedDB, which is not here: use "page", or a memory of your own');
}

const wrong = (name, what) => new TypeError(`oncegate: \`${name}\` must be ${what}`);
