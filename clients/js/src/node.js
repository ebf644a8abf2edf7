// The package as Node loads it: Node 18 has Web Crypto, but not under its global name.

import { webcrypto } from 'node:crypto';

import { build } from './guard.js';

export { info } from './info.js';
export { fingerprint } from './fingerprint.js';
export { StatusError } from './status.js';

/** @type {import('../types/index.d.ts').oncegate} */
export const oncegate = (options) => build(options, globalThis.crypto ?? webcrypto);
