// A call as its caller made it, made ready to be sent more than once: its bytes, and a name for what it says.

import { fingerprint } from './fingerprint.js';

/** What a caller may say beside what fetch knows. */
const OWN = ['intent', 'once', 'buffer', 'stream'];

/**
 * @typedef {object} Call
 * @property {string} name its intent's
 * @property {string | undefined} given a key of the caller's own
 * @property {string} digest of what it asks for: equal calls have equal ones
 * @property {string | Request} target what fetch is given
 * @property {RequestInit} init the caller's, without what is below
 * @property {string} url
 * @property {string} method
 * @property {Headers} headers
 * @property {Uint8Array<ArrayBuffer> | undefined} body
 * @property {AbortSignal | undefined} signal
 * @property {boolean} once
 * @property {boolean} stream
 */

/** @returns {input is Request} */
export const isRequest = (input) => typeof input === 'object' && typeof input.clone === 'function';

/** The address of a call as a whole, without its fragment. */
export function addressOf(input, base) {
  const text = isRequest(input) ? input.url : String(input);
  let url;
  try {
    url = new URL(text, base);
  } catch {
    const reason = base ? 'is no URL' : 'is relative: say in `gateway` to which address';
    throw new TypeError(`oncegate: "${text}" ${reason}`);
  }
  url.hash = '';
  return url.href;
}

export const methodOf = (input, init) => (init.method ?? (isRequest(input) ? input.method : 'GET')).toUpperCase();

/** What is fetch's of what the caller said. */
export function plain(init) {
  const rest = { ...init };
  for (const name of OWN) delete rest[name];
  return rest;
}

/**
 * @param {string | URL | Request} input
 * @param {import('../types/index.d.ts').GuardedInit} init
 * @param {{ url: string, header: string, maxBuffer: number }} how
 * @returns {Promise<Call>}
 */
export async function prepare(input, init, { url, header, maxBuffer }) {
  const { intent, once = false, buffer = false, stream = false } = init;
  const { signal = isRequest(input) ? input.signal : undefined, body: said, headers: _, method: __, ...rest } = plain(init);
  if ((rest.mode ?? (isRequest(input) && input.mode)) === 'no-cors') {
    throw new TypeError('oncegate: with `mode: "no-cors"` a page cannot send a key: use "cors"');
  }
  if (once && intent === undefined) throw new TypeError('oncegate: `once` needs an `intent` to be once');
  const method = methodOf(input, init);
  const source = isStream(said) ? await collect(said, buffer, maxBuffer) : said;
  const request = requestOf(input, init, url, method, source);
  const bytes = new Uint8Array(await request.arrayBuffer());
  const hasBody = (source !== undefined && source !== null) || bytes.length > 0;
  const headers = new Headers(request.headers);
  const body = hasBody ? bytes : undefined;
  const digest = await digestOf(url, method, headers, bytes);
  const given = headers.get(header) ?? undefined;
  const name = nameOf(intent, given, digest);
  const target = isRequest(input) ? input : url;
  return { name, given, digest, target, init: rest, url, method, headers, body, signal: signal ?? undefined, once, stream };
}

/** The name of an intent: that of a key that the caller brings (`k`), the developer's own (`n`), or what the call says (`r`). */
export function nameOf(intent, given, digest) {
  if (intent !== undefined && (typeof intent !== 'string' || intent === '')) {
    throw new TypeError('oncegate: `intent` is a name, such as "checkout-42"');
  }
  if (given !== undefined) return `k:${given}`;
  return intent === undefined ? `r:${digest}` : `n:${intent}`;
}

/** A request to read the call's bytes and fields from; what the caller gave is left unread. */
function requestOf(input, init, url, method, source) {
  if (!isRequest(input)) return new Request(url, { method, headers: init.headers, body: source });
  if (source !== undefined && source !== null) {
    return new Request(url, { method, headers: init.headers ?? input.headers, body: source });
  }
  return init.headers ? new Request(input.clone(), { method, headers: init.headers }) : input.clone();
}

const isStream = (body) =>
  typeof body === 'object' && body !== null && (typeof body.getReader === 'function' || Symbol.asyncIterator in body);

/** Reads a stream, so that it can be sent again. */
async function collect(stream, buffer, limit) {
  if (!buffer) {
    throw new TypeError(
      'oncegate: a stream can be sent only once, so this call could not be repeated: ' +
        'give its bytes, or say `buffer: true` to have it read first',
    );
  }
  const chunks = [];
  let length = 0;
  for await (const chunk of chunksOf(stream)) {
    length += chunk.byteLength ?? chunk.length;
    if (length > limit) throw new RangeError(`oncegate: the body has more than ${limit} bytes (\`maxBuffer\`)`);
    chunks.push(chunk);
  }
  return new Blob(chunks);
}

/** A stream's chunks, also where streams cannot be iterated. */
async function* chunksOf(stream) {
  if (Symbol.asyncIterator in stream) return yield* stream;
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

/** Equal for calls that ask for the same, spelled this way or that: it is a fingerprint of no time, with the origin. */
async function digestOf(url, method, headers, body) {
  const contentType = headers.get('content-type') ?? '';
  return `${new URL(url).origin} ${await fingerprint({ method, url, contentType, body, timestamp: 0 })}`;
}
