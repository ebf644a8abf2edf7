// The normal form of a path (RFC 3986, section 6), for hashing only: what is sent stays as it is.

import { hexPair } from './bytes.js';

const UNRESERVED = /[A-Za-z0-9\-._~]/;
const PLAIN = /[A-Za-z0-9\-._~!$&'()*+,;=:@]/;

/**
 * The normal form of a path, whose characters are bytes.
 * @throws {TypeError} When it has none.
 */
export function normalPath(path) {
  if (path === '*') return path;
  if (path === '') return '/';
  if (!path.startsWith('/')) throw new TypeError('the path does not begin with a slash');
  const segments = [];
  for (const raw of path.split('/')) {
    if (raw !== '') push(segments, normalSegment(raw));
  }
  return `/${segments.join('/')}`;
}

function push(segments, segment) {
  if (segment === '.') return;
  if (segment === '..') {
    if (/%2F|%5C/.test(segments.pop() ?? '')) throw encodedSlash();
    return;
  }
  const hidden = segment.split(/%2F|%5C/);
  if (hidden.length > 1 && hidden.some((part) => part === '.' || part === '..')) throw encodedSlash();
  segments.push(segment);
}

function encodedSlash() {
  return new TypeError('the path has an encoded slash or backslash next to a dot segment');
}

function normalSegment(raw) {
  let out = '';
  for (let at = 0; at < raw.length; at += 1) {
    let char = raw[at];
    const escaped = char === '%';
    if (escaped) {
      const value = hexPair(raw, at + 1);
      if (value === null) throw new TypeError('the path has a malformed escape');
      char = String.fromCharCode(value);
      at += 2;
    } else if (char === '\\') {
      throw new TypeError('the path holds a backslash');
    }
    if (char === '\0') throw new TypeError('the path holds a NUL');
    out += (escaped ? UNRESERVED : PLAIN).test(char) ? char : escape(char);
  }
  return out;
}

function escape(char) {
  return `%${char.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`;
}
