// Tokens of the gateway's: a number is taken first, and the call that it is spent on has it for a key.

import { addressOf, isRequest } from './call.js';

/** The gateway gave no token: this is what it answered instead. */
export class Refused extends Error {
  /** @param {import('./verdict.js').Seen} seen */
  constructor(seen) {
    super('oncegate: no token was given');
    this.seen = seen;
  }
}

export class Tokens {
  #settings;
  /** Those that nobody spent, by what they are good for. @type {Map<string, import('../types/index.d.ts').Entry[]>} */
  #unspent = new Map();

  /** @param {{ path: string, route?: string, header: string }} settings */
  constructor(settings) {
    this.#settings = settings;
  }

  /** The name of the field that a token goes in. */
  get header() {
    return this.#settings.header;
  }

  /**
   * A token for a call: one that is left, or a new one.
   * @param {import('./call.js').Call} call
   * @param {(entry: import('../types/index.d.ts').Entry) => boolean} isEnding
   * @param {(url: string, init: RequestInit) => Promise<import('./verdict.js').Seen>} ask
   * @param {number} now
   */
  async take(call, isEnding, ask, now) {
    const left = (this.#unspent.get(this.#kind(call)) ?? []).splice(0);
    const good = left.filter((entry) => !isEnding(entry));
    const found = good.pop();
    good.forEach((entry) => this.giveBack(call, entry));
    return found ?? this.#fetch(call, ask, now);
  }

  /** Keeps a token that was not spent. */
  giveBack(call, entry) {
    const kind = this.#kind(call);
    this.#unspent.set(kind, [...(this.#unspent.get(kind) ?? []), entry]);
  }

  async #fetch(call, ask, now) {
    const headers = this.#fields(call);
    const credentials = call.init.credentials ?? (isRequest(call.target) ? call.target.credentials : undefined);
    const seen = await ask(this.#address(call), { ...call.init, credentials, method: 'POST', headers });
    if (seen.response.status !== 201) throw new Refused(seen);
    const { token, expires_at: until } = await seen.response.clone().json();
    const end = typeof until === 'number' ? until : Date.parse(until);
    if (typeof token !== 'string' || Number.isNaN(end)) {
      throw new TypeError('oncegate: what should give tokens gave none: look at `tokens.path`');
    }
    return { key: token, made: now, sent: false, until: end };
  }

  #address(call) {
    const url = new URL(addressOf(this.#settings.path, call.url));
    if (this.#settings.route !== undefined) url.searchParams.set('route', this.#settings.route);
    return url.href;
  }

  /** What says who is calling: all but what describes the body. */
  #fields(call) {
    const said = [...call.headers].filter(([name]) => !name.startsWith('content-'));
    return new Headers(said);
  }

  /** A token is good for one caller. */
  #kind(call) {
    return JSON.stringify([this.#address(call), ...this.#fields(call)]);
  }
}
