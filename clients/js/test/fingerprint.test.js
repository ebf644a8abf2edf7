// Client-made fingerprints against `vectors.json`, and SHA-256 against the platform's.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { fingerprint, preimage } from '../src/fingerprint.js';
import { sha256 } from '../src/sha256.js';
import { requestOf } from './request.js';

const hex = (bytes) => Buffer.from(bytes).toString('hex');
const order = { method: 'POST', contentType: 'application/json', body: '{}', timestamp: 1732924800000 };

test('the example of the documentation', async () => {
  const request = { ...order, target: '/orders?b=2&a=1', body: '{"total": 12.50, "items": [1]}' };
  assert.equal(await fingerprint(request), 'c501cc2769a5ff9bbec642bac3863373c2cd71683459637a34048cae0391645a');
});

test('the own SHA-256 is the one of the platform', () => {
  for (let length = 0; length < 300; length += 1) {
    const bytes = randomBytes(length);
    assert.equal(hex(sha256(bytes)), createHash('sha256').update(bytes).digest('hex'), `${length} bytes`);
  }
});

test('a page without crypto.subtle makes the same fingerprint', async () => {
  const request = { ...order, target: '/orders' };
  const expected = await fingerprint(request);
  const platform = Object.getOwnPropertyDescriptor(globalThis, 'crypto');
  Object.defineProperty(globalThis, 'crypto', { value: undefined, configurable: true });
  try {
    assert.equal(await fingerprint(request), expected);
  } finally {
    Object.defineProperty(globalThis, 'crypto', platform);
  }
});

test('form data is hashed as the platform writes it, whatever its boundary', async () => {
  const form = () => {
    const data = new FormData();
    data.append('a"b\nc', 'x\ny');
    data.append('file', new File(['hi'], 'ü"\n.txt', { type: 'text/plain' }));
    return data;
  };
  const request = { method: 'POST', url: 'http://shop.example/orders', timestamp: 1 };
  const [one, other] = await Promise.all([form(), form()].map((body) => preimage({ ...request, body })));
  assert.equal(hex(one), hex(other));
  const text = Buffer.from(one).toString();
  assert.ok(text.includes('4:name,12:a%22b%0D%0Ac,'), text);
  assert.ok(text.includes(`64:${createHash('sha256').update('x\r\ny').digest('hex')},`), text);
  assert.ok(text.includes('9:multipart,'), text);
});

test('what has no fingerprint is a TypeError', async () => {
  const bad = [
    { timestamp: -1 }, { timestamp: 1.5 }, { timestamp: '01' }, { timestamp: '' }, { timestamp: 10n ** 15n },
    { timestamp: Number.NaN }, { target: 'orders' }, { target: '/a%2' }, { target: '/a\\b' }, { target: '/a%00' },
    { target: '/a%2f..' }, { target: '/a%2Fb/..' }, { body: new ReadableStream() }, { contentType: 'a/\u{100}' },
  ];
  for (const change of bad) {
    await assert.rejects(fingerprint({ target: '/orders', ...order, ...change }), TypeError, JSON.stringify(change, String));
  }
});

test('the vectors that the gateway is tested with', async (t) => {
  const vectors = JSON.parse(await readFile(new URL('vectors.json', import.meta.url), 'utf8'));
  assert.ok(vectors.length >= 60);
  for (const vector of vectors) {
    await t.test(vector.name, async () => {
      const image = Buffer.from(await preimage(requestOf(vector)));
      const expected = 'preimageHex' in vector ? Buffer.from(vector.preimageHex, 'hex') : Buffer.from(vector.preimage);
      assert.equal(image.toString('latin1'), expected.toString('latin1'));
      assert.equal(hex(sha256(image)), vector.fingerprint);
      assert.equal(await fingerprint(requestOf(vector)), vector.fingerprint);
    });
  }
});
