// From a request as the vectors have it to one as the function takes it.

/** What `fingerprint` is asked for. Text stays text, so that its encoding is tested too. */
export function requestOf({ method, target, contentType, contentEncoding, body, bodyHex, timestamp }) {
  const bytes = bodyHex === undefined ? body : new Uint8Array(Buffer.from(bodyHex, 'hex'));
  return { method, target, contentType: contentType ?? '', contentEncoding, body: bytes, timestamp };
}
