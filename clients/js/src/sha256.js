// SHA-256 (FIPS 180-4) for pages without `crypto.subtle`, which browsers give to secure contexts only. Hashes public
// data; it does not try to hide its timing.

const K = constants();

/**
 * The SHA-256 of some bytes.
 * @param {Uint8Array} bytes
 * @returns {Uint8Array} 32 bytes
 */
export function sha256(bytes) {
  const state = Uint32Array.of(
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
  );
  const words = new Uint32Array(64);
  const whole = bytes.length - (bytes.length % 64);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < whole; at += 64) compress(state, words, view, at);
  const tail = ending(bytes, whole);
  for (let at = 0; at < tail.byteLength; at += 64) compress(state, words, tail, at);
  const digest = new DataView(new ArrayBuffer(32));
  state.forEach((word, index) => digest.setUint32(index * 4, word));
  return new Uint8Array(digest.buffer);
}

/** What is left after the whole blocks, with the padding: a 1, zeros, and the length in bits. */
function ending(bytes, whole) {
  const left = bytes.length - whole;
  const tail = new Uint8Array(left < 56 ? 64 : 128);
  tail.set(bytes.subarray(whole));
  tail[left] = 0x80;
  const view = new DataView(tail.buffer);
  view.setUint32(tail.length - 8, Math.floor(bytes.length / 0x20000000));
  view.setUint32(tail.length - 4, (bytes.length << 3) >>> 0);
  return view;
}

function compress(state, words, view, start) {
  for (let i = 0; i < 16; i += 1) words[i] = view.getUint32(start + i * 4);
  for (let i = 16; i < 64; i += 1) {
    const [before, last] = [words[i - 15], words[i - 2]];
    const low = turn(before, 7) ^ turn(before, 18) ^ (before >>> 3);
    const high = turn(last, 17) ^ turn(last, 19) ^ (last >>> 10);
    words[i] = words[i - 16] + low + words[i - 7] + high;
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let i = 0; i < 64; i += 1) {
    const chosen = (e & f) ^ (~e & g);
    const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + chosen + K[i] + words[i]) | 0;
    const most = (a & b) ^ (a & c) ^ (b & c);
    const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + most) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((word, index) => {
    state[index] += word;
  });
}

function turn(word, by) {
  return (word >>> by) | (word << (32 - by));
}

/** The first 32 bits of the fractional parts of the cube roots of the first 64 primes, by exact integers. */
function constants() {
  const primes = [];
  for (let candidate = 2n; primes.length < 64; candidate += 1n) {
    if (primes.every((prime) => candidate % prime !== 0n)) primes.push(candidate);
  }
  return Uint32Array.from(primes, (prime) => Number(cubeRoot(prime << 96n) & 0xffffffffn));
}

/** The largest integer whose cube is not above `value`, which is below 2 to the 105th. */
function cubeRoot(value) {
  let root = 0n;
  for (let bit = 1n << 35n; bit > 0n; bit >>= 1n) {
    if ((root | bit) ** 3n <= value) root |= bit;
  }
  return root;
}
