// The server's time as far as it is known here, and keys that say when they were made (UUID version 7).

/** A clock that goes by the machine's own until the server has said what time it is. */
export class Clock {
  #offset = 0;
  #wall;

  /** @param {() => number} wall milliseconds since 1970, as this machine has them */
  constructor(wall) {
    this.#wall = wall;
  }

  /** The machine's own time. */
  wall() {
    return this.#wall();
  }

  /** The server's time, as well as it is known. */
  now() {
    return Math.round(this.#wall() + this.#offset);
  }

  /**
   * The server said its time between these two moments of the machine's own. What is known already and agrees with that
   * stays; the answer is how far the clock was off.
   * @param {number} server
   * @param {number} sent
   * @param {number} received
   */
  learn(server, sent, received) {
    if (!Number.isFinite(server)) return 0;
    const [least, most] = [server - received, server - sent];
    if (least <= this.#offset && this.#offset <= most) return 0;
    const jump = (least + most) / 2 - this.#offset;
    this.#offset += jump;
    return jump;
  }
}

/**
 * A fresh key.
 * @param {Crypto} crypto
 * @param {number} now
 */
export function uuid7(crypto, now) {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  for (let at = 5, rest = now; at >= 0; at -= 1, rest = Math.floor(rest / 256)) bytes[at] = rest % 256;
  bytes[6] = 0x70 | (bytes[6] & 0x0f);
  bytes[8] = 0x80 | (bytes[8] & 0x3f);
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
