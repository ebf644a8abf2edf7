// When to send again: exponential back-off with full jitter, within a number of sendings and a time.

export class Pace {
  #limits;
  #environment;
  #began;
  #sent = 0;

  /**
   * @param {Required<import('../types/index.d.ts').Retry>} limits
   * @param {import('../types/index.d.ts').Environment} environment
   */
  constructor(limits, environment) {
    this.#limits = limits;
    this.#environment = environment;
    this.#began = environment.now();
  }

  /** Milliseconds until the next sending, at least `after`; undefined when that were one too many, or too late. */
  next(after) {
    this.#sent += 1;
    const { attempts, total, base, cap } = this.#limits;
    const { now, random } = this.#environment;
    const backOff = random() * Math.min(cap, base * 2 ** (this.#sent - 1));
    const wait = Math.ceil(after === undefined ? backOff : after + random() * base);
    const late = now() - this.#began + wait > total;
    return this.#sent >= attempts || late ? undefined : wait;
  }

  /** Time that does not count, such as that without a network. */
  pardon(ms) {
    this.#began += ms;
  }
}
