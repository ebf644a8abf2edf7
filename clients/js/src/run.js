// One call's whole way: a key, sendings until one of them settles it or the limits end it, and what is told of it.

import { isReplayed, judge, toldTime } from './verdict.js';
import { exchange } from './exchange.js';
import { fingerprint } from './fingerprint.js';
import { Pace } from './pace.js';
import { Refused } from './tokens.js';
import { tell } from './info.js';
import { uuid7 } from './clock.js';

/** A clock that is off by less than this makes no key too old. */
const OFF = 60_000;

/**
 * @typedef {object} House what all calls share
 * @property {ReturnType<import('./options.js').settingsOf>} settings
 * @property {import('./clock.js').Clock} clock
 * @property {import('./intents.js').Intents} intents
 * @property {import('./tokens.js').Tokens | undefined} tokens
 * @property {Crypto} crypto
 */

export class Run {
  #house;
  #call;
  #signal;
  #pace;
  #entry;
  #attempts = 0;
  /** The key was sent, and nobody knows what came of it. */
  #unsure = false;
  #fresh = false;
  #renewed = false;
  #retimed = false;

  /**
   * @param {House} house
   * @param {import('./call.js').Call} call
   * @param {AbortSignal} signal
   */
  constructor(house, call, signal) {
    this.#house = house;
    this.#call = call;
    this.#signal = signal;
    this.#pace = new Pace(house.settings.retry, house.settings.environment);
  }

  /** @returns {Promise<import('./flight.js').Landed>} */
  async toTheEnd() {
    try {
      await this.#takeKey();
      return await this.#sendings();
    } catch (error) {
      if (error instanceof Refused) return this.#handed(error.seen, false);
      tell(error, this.#about({}, false));
      throw error;
    }
  }

  async #takeKey() {
    const { intents } = this.#house;
    const { name } = this.#call;
    this.#entry = await intents.inTurn(name, async () => (await intents.known(name)) ?? this.#claim());
    this.#unsure = this.#entry.sent;
    this.#fresh = !this.#entry.sent;
  }

  async #claim() {
    const fresh = await this.#mint();
    const { intents, tokens } = this.#house;
    const entry = await intents.claim(this.#call.name, fresh);
    if (entry.key !== fresh.key) tokens?.giveBack(this.#call, fresh);
    return entry;
  }

  /** A key that nobody has used. @returns {Promise<import('../types/index.d.ts').Entry>} */
  async #mint() {
    const { clock, tokens, intents, crypto } = this.#house;
    const made = clock.wall();
    if (this.#call.given !== undefined) return { key: this.#call.given, made, sent: false };
    if (!tokens) return { key: uuid7(crypto, clock.now()), made, sent: false };
    const ask = (url, init) => this.#ask(url, init);
    return tokens.take(this.#call, (entry) => intents.isEnding(entry), ask, made);
  }

  /** Asks for something that may be asked for as often as one likes. */
  async #ask(url, init) {
    for (;;) {
      await this.#online();
      const seen = await this.#exchange((signal) => this.#house.settings.fetch(url, { ...init, signal }), false);
      const { step, after } = judge(seen, {}, this.#house.clock.wall());
      if (step !== 'again' || !(await this.#rest(seen, after))) {
        if (seen.error) throw seen.error;
        return seen;
      }
    }
  }

  async #sendings() {
    const { intents, clock } = this.#house;
    for (;;) {
      await this.#online();
      this.#entry = await intents.sending(this.#call.name, this.#entry);
      this.#attempts += 1;
      const seen = await this.#exchange((signal) => this.#send(signal), this.#call.stream);
      const verdict = judge(seen, this.#known(seen), clock.wall());
      this.#unsure ||= verdict.doubt;
      if (verdict.step === 'hand') return this.#handed(seen, verdict.final);
      if (verdict.step !== 'again') await this.#change(seen, verdict.step);
      else if (!(await this.#rest(seen, verdict.after))) {
        if (seen.error) throw seen.error;
        return this.#handed(seen, false);
      }
    }
  }

  async #send(signal) {
    const { settings, tokens } = this.#house;
    const { target, init, method, url, body } = this.#call;
    const headers = new Headers(this.#call.headers);
    headers.set(tokens?.header ?? settings.header, this.#entry.key);
    if (settings.fingerprint) {
      const contentType = headers.get('content-type') ?? undefined;
      const timestamp = this.#entry.time;
      headers.set('X-Request-Fingerprint', await fingerprint({ method, url, contentType, body, timestamp }));
      headers.set('X-Request-Timestamp', String(timestamp));
    }
    return settings.fetch(target, { ...init, method, headers, body, signal });
  }

  /** Sends, and learns from the answer what time it is. */
  async #exchange(send, stream) {
    const { settings, clock } = this.#house;
    const how = { timeout: settings.retry.timeout, stream, signal: this.#signal };
    const seen = await exchange(send, how, settings.environment);
    return { ...seen, jump: clock.learn(toldTime(seen), seen.sent, seen.received) };
  }

  #known(seen) {
    const { settings, tokens } = this.#house;
    const own = this.#call.given === undefined;
    return {
      unsure: this.#unsure,
      token: Boolean(tokens) && own && !this.#renewed,
      signed: Boolean(settings.fingerprint) && !this.#retimed,
      clockWasOff: this.#fresh && own && !this.#renewed && Math.abs(seen.jump) > OFF,
      newKey: settings.retry.newKey && own && !this.#renewed,
    };
  }

  /** Another key, or another time, in this entry's place. */
  async #change(seen, what) {
    const { intents, clock } = this.#house;
    this.#said({ reason: 'problem', wait: 0, ...seen });
    seen.response.body?.cancel().catch(() => {});
    if (what === 'retime') this.#retimed = true;
    else this.#renewed = true;
    const fresh = what === 'retime' ? { ...this.#entry, time: clock.now() } : await this.#mint();
    this.#entry = await intents.replace(this.#call.name, this.#entry, fresh);
    if (what === 'renew') this.#unsure = this.#entry.sent;
  }

  /** Waits for the next sending. False when there shall be none. */
  async #rest(seen, after) {
    const { settings } = this.#house;
    // What fails without a network says nothing: it is waited for, and not counted.
    const cutOff = Boolean(seen.error) && settings.offline > 0 && !settings.environment.isOnline();
    const wait = cutOff ? 0 : this.#pace.next(after);
    if (wait === undefined) return false;
    const reason = seen.error ? 'network' : seen.problem ? 'problem' : 'status';
    this.#said({ reason, wait, ...seen });
    seen.response?.body?.cancel().catch(() => {});
    if (wait > 0) await settings.environment.sleep(wait, this.#signal);
    return true;
  }

  /** Waits for the network, where that is wished for. */
  async #online() {
    const { offline, environment } = this.#house.settings;
    if (offline === 0 || environment.isOnline()) return;
    const began = environment.now();
    this.#said({ reason: 'offline', wait: offline });
    const late = () => new DOMException(`no network for ${offline} ms`, 'TimeoutError');
    await within(this.#signal, offline, late, environment, (signal) => environment.whenOnline(signal));
    this.#pace.pardon(environment.now() - began);
  }

  /** Gives the answer to those who wait, and closes the intent if it is settled. */
  async #handed(seen, final) {
    const { settings } = this.#house;
    const { response, whole } = seen;
    const about = this.#about(seen, final);
    if (this.#entry) await this.#close(final, response);
    if (about.replayed && settings.onReplay) hook(() => settings.onReplay(response.clone(), about));
    return { response, about, whole };
  }

  async #close(final, response) {
    const { intents } = this.#house;
    const { name, once } = this.#call;
    const kept = once && response.ok;
    if (final && !kept) await intents.settle(name, this.#entry);
    else if (!final && !this.#unsure) await intents.unsent(name, this.#entry);
  }

  /**
   * @param {import('./verdict.js').Seen} seen
   * @returns {import('../types/index.d.ts').Info}
   */
  #about({ response, problem }, final) {
    const { intents } = this.#house;
    const { name } = this.#call;
    const mark = (field) => response?.headers.get(field) ?? undefined;
    const entry = this.#entry;
    const expires = Date.parse(mark('idempotency-expires') ?? '');
    return Object.freeze({
      key: entry?.key,
      attempts: this.#attempts,
      replayed: response ? isReplayed(response.headers) : false,
      joined: false,
      final,
      expires: Number.isNaN(expires) ? undefined : new Date(expires),
      source: mark('oncegate-source') ?? (response ? 'upstream' : undefined),
      outcome: mark('oncegate-outcome'),
      operation: mark('oncegate-operation'),
      problem,
      forget: async () => entry && intents.settle(name, entry),
    });
  }

  /** @param {Pick<import('../types/index.d.ts').RetryInfo, 'reason' | 'wait' | 'response' | 'problem' | 'error'>} what */
  #said({ reason, wait, response, problem, error }) {
    const { onRetry } = this.#house.settings;
    const told = { reason, wait, attempts: this.#attempts, key: this.#entry?.key, response, problem, error };
    if (onRetry) hook(() => onRetry(told));
  }
}

/** A listener's fault is its own: the call goes on. */
function hook(listener) {
  try {
    listener();
  } catch (error) {
    (globalThis.reportError ?? console.error)(error);
  }
}

/** Does something that can be aborted, for a time. */
async function within(signal, ms, late, environment, work) {
  const one = new AbortController();
  const stop = environment.deadline(ms, () => one.abort(late()));
  const aborted = () => one.abort(signal.reason);
  signal.addEventListener('abort', aborted);
  try {
    if (signal.aborted) throw signal.reason;
    await work(one.signal);
  } finally {
    stop();
    signal.removeEventListener('abort', aborted);
  }
}
