// The fingerprints of requests, one a line on the standard input, by the JavaScript that clients use.

import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [, , client] = process.argv;
const { fingerprint } = await import(pathToFileURL(`${client}/src/fingerprint.js`));
const { requestOf } = await import(pathToFileURL(`${client}/test/request.js`));

for await (const line of createInterface({ input: process.stdin })) {
  const print = await fingerprint(requestOf(JSON.parse(line))).catch((error) => {
    if (error instanceof TypeError) return 'none';
    throw error;
  });
  process.stdout.write(`${print}\n`);
}
