// The parts of a multipart/form-data body (RFC 7578), strictly: what is not well-formed has no parts.

import { byBytes, bytesOf, cut, lower, netstring, sha256Hex, textOf, trim, trimStart } from './bytes.js';

const TOKEN = /^[A-Za-z0-9!#$%&'*+\-.^_`|~]+$/;
const MAX_PARAMETERS = 16;

/** The boundary that a `Content-Type` names; null when it names none. */
export function boundaryOf(contentType) {
  return parameterized(contentType)?.parameters.get('boundary') ?? null;
}

/** The framed parts, sorted by name; null when the body is malformed. */
export async function canonicalMultipart(bytes, boundary) {
  const body = textOf(bytes);
  const parts = split(body, boundary)?.map(([start, end]) => readPart(body.slice(start, end))) ?? [null];
  if (parts.includes(null)) return null;
  parts.sort((one, other) => byBytes(one.name, other.name));
  return (await Promise.all(parts.map(frame))).join('');
}

/** What a malformed body counts as. What a server makes of it depends on the boundary. */
export async function brokenMultipart(bytes, boundary) {
  return netstring(boundary) + netstring(await sha256Hex(bytes));
}

/** Where the parts begin and end; null when text stands before the first or behind the last, or there is no end. */
function split(body, boundary) {
  const [delimiter, opening] = [`\r\n--${boundary}`, `--${boundary}`];
  if (boundary === '' || boundary.length > 70 || !body.startsWith(opening)) return null;
  const parts = [];
  let at = opening.length;
  for (;;) {
    if (body.startsWith('--', at)) return ['', '\r\n'].includes(body.slice(at + 2)) ? parts : null;
    while (body[at] === ' ' || body[at] === '\t') at += 1;
    if (!body.startsWith('\r\n', at)) return null;
    at += 2;
    const end = body.indexOf(delimiter, at);
    if (end < 0 || body.startsWith(opening, at)) return null;
    parts.push([at, end]);
    at = end + delimiter.length;
  }
}

function readPart(part) {
  const [head, content] = cut(part, '\r\n\r\n');
  if (content === null) return null;
  let [disposition, type] = [null, null];
  const fields = [];
  for (const line of head.split('\r\n')) {
    const [field, text] = cut(line, ':');
    if (text === null) return null;
    const [name, value] = [lower(field), trim(text)];
    if (name === 'content-disposition') {
      const parsed = parameterized(value);
      if (parsed === null || disposition !== null) return null;
      disposition = parsed;
    } else if (name === 'content-type') {
      if (type !== null) return null;
      type = value;
    } else {
      fields.push([name, value]);
    }
  }
  const name = disposition?.essence === 'form-data' ? disposition.parameters.get('name') : undefined;
  if (name === undefined) return null;
  return { name, parameters: disposition.parameters, type, fields, content };
}

async function frame({ parameters, type, fields, content }) {
  const framed = (list) => list.map(([name, value]) => netstring(name) + netstring(value)).join('');
  const sorted = [...parameters].sort(([one], [other]) => byBytes(one, other));
  const hash = await sha256Hex(bytesOf(content));
  const parts = [framed(sorted), type === null ? '' : netstring(type), framed(fields), hash];
  return netstring(parts.map(netstring).join(''));
}

/** Reads `essence; name=value; name="value"`; null when malformed. */
function parameterized(value) {
  let [essence, rest] = cut(value, ';');
  const parameters = new Map();
  for (;;) {
    rest = trimStart(rest ?? '');
    if (rest === '') return { essence: lower(trim(essence)), parameters };
    const [text, after] = cut(rest, '=');
    const found = after === null ? null : parameterValue(after);
    const name = lower(trim(text));
    if (found === null || parameters.size === MAX_PARAMETERS || !TOKEN.test(name) || parameters.has(name)) return null;
    parameters.set(name, found.value);
    rest = found.rest;
  }
}

/** A parameter's value, and what follows the `;` behind it. */
function parameterValue(text) {
  if (!text.startsWith('"')) {
    const [value, rest] = cut(text, ';');
    return /["\\]/.test(value) ? null : { value: trim(value), rest };
  }
  let end = 1;
  while (end < text.length && text[end] !== '"') end += text[end] === '\\' ? 2 : 1;
  if (end >= text.length) return null;
  const [between, rest] = cut(text.slice(end + 1), ';');
  return trim(between) === '' ? { value: text.slice(1, end), rest } : null;
}
