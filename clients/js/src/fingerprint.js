// Client-made fingerprints, byte by byte as docs/fingerprint.md defines them. Sends nothing; needs nothing but the
// platform, a browser's or Node's.
//
// Bytes are held in strings whose characters are all below U+0100: then `<` is the order of bytes, and `length` counts
// them. What a document says is never parsed into numbers or objects, only spelled anew.

import { bytesOf, lower, netstring, pairs, sha256Hex, textOf, trim, utf8 } from './bytes.js';
import { canonicalJson } from './canonical.js';
import { boundaryOf, brokenMultipart, canonicalMultipart } from './multipart.js';
import { normalPath } from './path.js';

const VERSION = 'oncegate-client-1';
const TIMESTAMP = /^(0|[1-9][0-9]{0,14})$/;

/**
 * A request, as far as its fingerprint looks at it.
 * @typedef {object} FingerprintInput
 * @property {string} method Such as `POST`.
 * @property {string | URL} [url] Where it goes, as given to `fetch`; relative ones against the page.
 * @property {string} [target] Instead of `url`: path and query exactly as they will be on the wire, for clients that do
 *   not go through `URL`.
 * @property {string} [contentType] The `Content-Type` that will be sent; without it, what `fetch` would send for the body.
 * @property {string} [contentEncoding] The `Content-Encoding` that will be sent, if the route does not decode bodies.
 * @property {BodyInit | null} [body] The body, as given to `fetch`: text, bytes, Blob, URLSearchParams or FormData. No
 *   stream: it could be read only once.
 * @property {number | bigint | string} timestamp Milliseconds since 1970; a retry gives the first one again.
 */

/**
 * The fingerprint of a request: what goes into `X-Request-Fingerprint`, with the same timestamp in `X-Request-Timestamp`.
 * @param {FingerprintInput} request
 * @returns {Promise<string>} 64 lower-case hex digits
 * @throws {TypeError} When the request cannot have one: no normal path, a stream for a body, a timestamp that is none.
 */
export async function fingerprint(request) {
  return sha256Hex(await preimage(request));
}

/**
 * The bytes that are hashed, for those who want to see why two fingerprints differ.
 * @param {FingerprintInput} request
 * @returns {Promise<Uint8Array>}
 * @throws {TypeError} As `fingerprint` does.
 */
export async function preimage(request) {
  const timestamp = String(request.timestamp);
  if (!TIMESTAMP.test(timestamp)) throw new TypeError(`no timestamp in milliseconds: ${timestamp}`);
  const [path, query] = target(request);
  const { bytes, contentType } = await content(request.body, request.contentType);
  const type = lower(trim(contentType.split(';', 1)[0]));
  const coding = codingOf(request.contentEncoding ?? '');
  const [form, body] = await canonicalBody(type, contentType, coding, bytes);
  const parts = [VERSION, request.method.toUpperCase(), path, query, type, coding, form, body, timestamp];
  return bytesOf(parts.map(netstring).join(''));
}

/** Path in normal form and framed query. */
function target(request) {
  let wire = request.target;
  if (wire === undefined) {
    const url = new URL(String(request.url), globalThis.location?.href ?? 'http://localhost');
    wire = url.pathname + url.search;
  }
  const text = utf8(wire);
  const mark = text.indexOf('?');
  const [path, query] = mark < 0 ? [text, ''] : [text.slice(0, mark), text.slice(mark + 1)];
  return [normalPath(path), pairs(query)];
}

/** The bytes that the platform puts on the wire for a body, and the type that goes with them. */
async function content(body, given) {
  if (globalThis.ReadableStream !== undefined && body instanceof ReadableStream) {
    throw new TypeError('a stream has no fingerprint: it can be read only once');
  }
  const whole = new Response(body ?? null);
  const bytes = new Uint8Array(await whole.arrayBuffer());
  const contentType = given ?? whole.headers.get('content-type') ?? '';
  return { bytes, contentType: fieldValue(contentType) };
}

function codingOf(value) {
  const coding = lower(trim(fieldValue(value)));
  return coding === 'identity' ? '' : coding;
}

/** A field's value as bytes: `fetch` takes no other characters. */
function fieldValue(value) {
  if (/[^\0-\xff]/.test(value)) throw new TypeError(`no value of a header field: ${value}`);
  return value;
}

/** How the body is read, and its canonical form. */
async function canonicalBody(type, contentType, coding, bytes) {
  const raw = async () => ['raw', await sha256Hex(bytes)];
  if (coding !== '') return raw();
  if (type === 'application/json' || type === 'text/json' || type.endsWith('+json')) {
    const json = canonicalJson(bytes);
    return json === null ? raw() : ['json', json];
  }
  if (type === 'application/x-www-form-urlencoded') return ['form', pairs(textOf(bytes))];
  if (type === 'multipart/form-data') {
    const boundary = boundaryOf(contentType);
    if (boundary === null) return raw();
    const parts = await canonicalMultipart(bytes, boundary);
    return parts === null ? ['broken-multipart', await brokenMultipart(bytes, boundary)] : ['multipart', parts];
  }
  return raw();
}
