// JSON in canonical form: from text to text, so that no number loses a digit and no member its place in the order of
// bytes. It validates nothing beyond the grammar.

import { byBytes, textOf, utf8 } from './bytes.js';

const MAX_DEPTH = 64;
/** Exponents from here on are beyond all measure. */
const FAR = 10n ** 36n;
const NUMBER = /(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?)([0-9]+))?/y;
/** Up to a quote, a backslash or a control character. */
const STRAIGHT = /[^"\\\0-\x1f]*/y;
const HEX4 = /[0-9A-Fa-f]{4}/y;
const ESCAPES = { '"': '"', '\\': '\\', '/': '/', b: '\b', t: '\t', n: '\n', f: '\f', r: '\r' };
const SHORT = { '"': '\\"', '\\': '\\\\', '\b': '\\b', '\t': '\\t', '\n': '\\n', '\f': '\\f', '\r': '\\r' };

/** Why a document has no canonical form. */
class Uncanonical extends Error {}

/** The canonical form of a document in UTF-8, as a string of bytes; null when it has none. */
export function canonicalJson(bytes) {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
  try {
    return new Reader(textOf(bytes)).document();
  } catch (error) {
    if (error instanceof Uncanonical) return null;
    throw error;
  }
}

class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  document() {
    const value = this.value(0);
    if (this.peek() !== undefined) throw new Uncanonical();
    return value;
  }

  value(depth) {
    const first = this.peek();
    if ((first === '{' || first === '[') && depth === MAX_DEPTH) throw new Uncanonical();
    if (first === '{') return this.object(depth);
    if (first === '[') return this.array(depth);
    if (first === '"') return this.string();
    const word = ['true', 'false', 'null'].find((known) => this.text.startsWith(known, this.at));
    if (word === undefined) return this.number();
    this.at += word.length;
    return word;
  }

  object(depth) {
    const members = this.list('}', () => {
      if (this.peek() !== '"') throw new Uncanonical();
      const name = this.string();
      if (!this.take(':')) throw new Uncanonical();
      return { name, text: `${name}:${this.value(depth + 1)}` };
    });
    members.sort((one, other) => byBytes(one.name, other.name));
    if (members.some(({ name }, index) => index > 0 && members[index - 1].name === name)) throw new Uncanonical();
    return `{${members.map(({ text }) => text).join(',')}}`;
  }

  array(depth) {
    return `[${this.list(']', () => this.value(depth + 1)).join(',')}]`;
  }

  /** What stands between an opening bracket, which is next, and the closing one. */
  list(close, read) {
    this.at += 1;
    const items = [];
    if (this.take(close)) return items;
    for (;;) {
      items.push(read());
      if (this.take(close)) return items;
      if (!this.take(',')) throw new Uncanonical();
    }
  }

  number() {
    const [whole, sign, before, after = '', direction, power = '0'] = this.match(NUMBER);
    // What a number cannot end with: the grammar stops before it, and so does what follows.
    const digits = before + after;
    const significant = digits.replace(/0+$/, '');
    if (significant === '') return '0';
    const shift = BigInt(digits.length - significant.length - after.length);
    const exponent = (direction === '-' ? -BigInt(power) : BigInt(power)) + shift;
    if (exponent >= FAR || exponent <= -FAR) throw new Uncanonical();
    const spelled = sign + significant.replace(/^0+/, '');
    return exponent === 0n ? spelled : `${spelled}e${exponent}`;
  }

  string() {
    this.at += 1;
    let out = '"';
    for (;;) {
      out += this.match(STRAIGHT)[0];
      const stop = this.text[this.at];
      this.at += 1;
      if (stop === '"') return `${out}"`;
      if (stop !== '\\') throw new Uncanonical();
      out += spell(this.escape());
    }
  }

  /** The character that the escape after a backslash stands for. */
  escape() {
    const kind = this.text[this.at];
    this.at += 1;
    if (kind === 'u') return this.unicode();
    if (kind === undefined || !Object.hasOwn(ESCAPES, kind)) throw new Uncanonical();
    return ESCAPES[kind];
  }

  unicode() {
    const first = this.hex4();
    if (first < 0xd800 || first > 0xdfff) return String.fromCharCode(first);
    if (first > 0xdbff || !this.text.startsWith('\\u', this.at)) throw new Uncanonical();
    this.at += 2;
    const second = this.hex4();
    if (second < 0xdc00 || second > 0xdfff) throw new Uncanonical();
    return String.fromCharCode(first, second);
  }

  hex4() {
    return parseInt(this.match(HEX4)[0], 16);
  }

  /** What a sticky pattern finds here. */
  match(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found === null) throw new Uncanonical();
    this.at += found[0].length;
    return found;
  }

  /** The next character that is no white space. */
  peek() {
    while (this.at < this.text.length && ' \t\n\r'.includes(this.text[this.at])) this.at += 1;
    return this.text[this.at];
  }

  take(char) {
    const here = this.peek() === char;
    if (here) this.at += 1;
    return here;
  }
}

/** The one spelling of a character that was escaped. */
function spell(char) {
  if (Object.hasOwn(SHORT, char)) return SHORT[char];
  if (char < ' ') return `\\u00${char.charCodeAt(0).toString(16).padStart(2, '0')}`;
  return utf8(char);
}
