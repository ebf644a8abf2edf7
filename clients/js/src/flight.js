// A call under way, and those who wait for it: whoever asks for the same meanwhile joins it. It ends when it is done,
// or when nobody waits any more.

import { tell } from './info.js';

/**
 * @typedef {object} Landed
 * @property {Response} response
 * @property {import('../types/index.d.ts').Info} about
 * @property {boolean} whole it has arrived to its end
 */

export class Flight {
  #waiting = new Set();
  #abort = new AbortController();
  #joined = 0;

  /**
   * @param {(signal: AbortSignal) => Promise<Landed>} go
   * @param {() => void} ended nobody can join it any more
   */
  constructor(go, ended) {
    this.ended = ended;
    go(this.#abort.signal).then(
      (answer) => (ended(), this.#deliver(answer)),
      (error) => (ended(), this.#fail(error)),
    );
  }

  /** Waits for the answer, as long as the caller's signal allows. @returns {Promise<Response>} */
  join(signal) {
    return new Promise((resolve, reject) => {
      const leave = () => signal?.removeEventListener('abort', aborted);
      const place = {
        joined: (this.#joined += 1) > 1,
        resolve(response, whole) {
          // What is still coming can still be aborted.
          if (whole) leave();
          resolve(response);
        },
        reject: (error) => (leave(), reject(error)),
      };
      const aborted = () => {
        place.reject(signal.reason);
        this.#leave(place, signal.reason);
      };
      this.#waiting.add(place);
      signal?.addEventListener('abort', aborted);
    });
  }

  #leave(place, reason) {
    this.#waiting.delete(place);
    if (this.#waiting.size > 0) return;
    this.ended();
    this.#abort.abort(reason);
  }

  /** Everybody gets an answer of their own, since each can be read once. */
  #deliver({ response, about, whole }) {
    const waiting = [...this.#waiting];
    const copies = waiting.map((_, at) => (at < waiting.length - 1 ? response.clone() : response));
    waiting.forEach((place, at) => {
      tell(copies[at], { ...about, joined: place.joined });
      place.resolve(copies[at], whole);
    });
    if (waiting.length === 0) response.body?.cancel().catch(() => {});
  }

  #fail(error) {
    for (const place of this.#waiting) place.reject(error);
  }
}
