// Which key an intent has, and until when. Keys live in a memory; every change names the key that it changes, so tabs
// that share a memory cannot undo each other's.

/** How long a key that was never sent is good, in milliseconds: a gateway may refuse old ones. */
const UNSENT_FOR = 600_000;
/** How long before its end a token is not begun with any more. */
const MARGIN = 10_000;
/** How long a request that is equal to one without an outcome is the same intent, where nobody has named it. */
const UNNAMED_FOR = 3_600_000;

/** @typedef {import('../types/index.d.ts').Entry} Entry */

export class Intents {
  #memory;
  #clock;
  #rememberFor;
  /** Who takes a key just now, by the intent's name. @type {Map<string, Promise<unknown>>} */
  #turns = new Map();

  /**
   * @param {import('../types/index.d.ts').Memory} memory
   * @param {import('./clock.js').Clock} clock
   * @param {number} rememberFor
   */
  constructor(memory, clock, rememberFor) {
    this.#memory = memory;
    this.#clock = clock;
    this.#rememberFor = rememberFor;
  }

  /** Whether an entry's key is still the one to use. */
  #isGood(name, entry) {
    const age = this.#clock.wall() - entry.made;
    if (entry.sent) return age < (name.startsWith('r:') ? Math.min(UNNAMED_FOR, this.#rememberFor) : this.#rememberFor);
    return age < UNSENT_FOR && !this.isEnding(entry);
  }

  /** Whether the entry is a token that is over, or nearly. */
  isEnding(entry) {
    return entry.until !== undefined && entry.until - MARGIN <= this.#clock.now();
  }

  /**
   * Takes a key. Calls of one intent do so one after the other: one that were slow to get its own would find the intent
   * settled by then, and begin it anew.
   * @template T
   * @param {string} name
   * @param {() => Promise<T>} take
   */
  async inTurn(name, take) {
    const turn = (this.#turns.get(name) ?? Promise.resolve()).then(take);
    const over = turn.catch(() => {});
    this.#turns.set(name, over);
    try {
      return await turn;
    } finally {
      if (this.#turns.get(name) === over) this.#turns.delete(name);
    }
  }

  /** The key of an intent; undefined when it has none. @returns {Promise<Entry | undefined>} */
  async known(name) {
    return this.#memory.update(name, (stored) => (stored && this.#isGood(name, stored) ? stored : undefined));
  }

  /** Gives the intent this key, unless it has got one meanwhile. @returns {Promise<Entry>} */
  async claim(name, fresh) {
    return this.#memory.update(name, (stored) => (stored && this.#isGood(name, stored) ? stored : fresh));
  }

  /**
   * Notes that the key goes out now. If the intent has another key meanwhile, that one does.
   * @returns {Promise<Entry>}
   */
  async sending(name, entry) {
    const sent = { ...entry, sent: true, time: entry.time ?? this.#clock.now() };
    return this.#memory.update(name, (stored) => {
      const other = stored && stored.key !== entry.key;
      return other ? { ...stored, sent: true, time: stored.time ?? this.#clock.now() } : sent;
    });
  }

  /** Puts another key, or the same with other particulars, in an entry's place. @returns {Promise<Entry>} */
  async replace(name, entry, fresh) {
    return this.#memory.update(name, (stored) => (stored && stored.key !== entry.key ? stored : fresh));
  }

  /** The key went out, and for certain nothing came of it. */
  async unsent(name, entry) {
    await this.#memory.update(name, (stored) => (stored?.key === entry.key ? { ...stored, sent: false } : stored));
  }

  /** The intent is settled, or given up. */
  async settle(name, entry) {
    await this.#memory.update(name, (stored) => (stored?.key === entry.key ? undefined : stored));
  }

  /** Forgets an intent, whatever its key. */
  async forget(name) {
    await this.#memory.update(name, () => undefined);
  }
}
