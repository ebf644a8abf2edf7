// Bytes in strings, their framing, and their hash. It knows nothing of requests.

import { sha256 } from './sha256.js';

const CHUNK = 0x2000;
const SPACE = ' \t\n\f\r';

/** Bytes as a string of characters below U+0100. */
export function textOf(bytes) {
  const chunks = [];
  for (let at = 0; at < bytes.length; at += CHUNK) {
    chunks.push(String.fromCharCode.apply(null, bytes.subarray(at, at + CHUNK)));
  }
  return chunks.join('');
}

/** Such a string as bytes. */
export function bytesOf(text) {
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
  return bytes;
}

/** The UTF-8 of any string, as such a string. */
export function utf8(string) {
  return textOf(new TextEncoder().encode(string));
}

/** How many bytes, a colon, the bytes, a comma: nothing in them can be taken for an end. */
export function netstring(text) {
  return `${text.length}:${text},`;
}

/** A-Z in lower case, and nothing else: other letters are bytes of something. */
export function lower(text) {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** Without white space at its start. */
export function trimStart(text) {
  let start = 0;
  while (start < text.length && SPACE.includes(text[start])) start += 1;
  return text.slice(start);
}

/** Without white space around it. */
export function trim(text) {
  let end = text.length;
  while (end > 0 && SPACE.includes(text[end - 1])) end -= 1;
  return trimStart(text.slice(0, end));
}

/** What stands before the first `at`, and what behind it; the latter is null when there is none. */
export function cut(text, at) {
  const place = text.indexOf(at);
  return place < 0 ? [text, null] : [text.slice(0, place), text.slice(place + at.length)];
}

/** Orders by bytes, for `sort`. */
export function byBytes(one, other) {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

/** The value of two hex digits at a place; null when they are not there. */
export function hexPair(text, at) {
  const digits = text.slice(at, at + 2);
  return /^[0-9A-Fa-f]{2}$/.test(digits) ? parseInt(digits, 16) : null;
}

/** Lower-case hex digits of the SHA-256 of bytes. */
export async function sha256Hex(bytes) {
  const subtle = globalThis.crypto?.subtle;
  const digest = subtle === undefined ? sha256(bytes) : new Uint8Array(await subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** The framed pairs of a query or a form, sorted by name; those of equal names keep their order. */
export function pairs(text) {
  const read = text.split('&').filter((piece) => piece !== '').map(pair);
  read.sort((one, other) => byBytes(one.name, other.name));
  return read.map(({ mark, name, value }) => {
    const framed = netstring(mark) + netstring(name);
    return netstring(value === null ? framed : framed + netstring(value));
  }).join('');
}

function pair(piece) {
  const [name, value] = cut(piece, '=');
  const decoded = [decode(name), value === null ? '' : decode(value)];
  if (decoded.includes(null)) return { mark: '%', name, value };
  return { mark: '', name: decoded[0], value: value === null ? null : decoded[1] };
}

/** Without escapes; null when one is malformed. */
function decode(text) {
  const pieces = text.replaceAll('+', ' ').split('%');
  for (let index = 1; index < pieces.length; index += 1) {
    const value = hexPair(pieces[index], 0);
    if (value === null) return null;
    pieces[index] = String.fromCharCode(value) + pieces[index].slice(2);
  }
  return pieces.join('');
}
