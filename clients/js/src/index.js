// The package as pages and workers load it. What it does is in guard.js.

import { build } from './guard.js';

export { info } from './info.js';
export { fingerprint } from './fingerprint.js';
export { StatusError } from './status.js';

/** @type {import('../types/index.d.ts').oncegate} */
export const oncegate = (options) => build(options, globalThis.crypto);
