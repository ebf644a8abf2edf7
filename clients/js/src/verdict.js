// What an answer says of an operation and what to do next. Pure: it reads marks, and neither waits nor sends.

/** Statuses by which an application says "not now". Together with `Retry-After` nothing was done. */
const BUSY = [425, 429, 503];
/** The operation is done, though this answer is not its own. */
const DONE = ['duplicate-request', 'already-executed'];
/** The operation may be done, whatever else the refusal says. */
const PERHAPS = ['request-in-flight', 'outcome-unknown', 'record-unreadable'];
/** Refusals of a key for its age. */
const UNTIMELY = ['key-expired', 'key-invalid'];
const OF_TOKENS = ['token-invalid', 'token-expired'];

/**
 * @typedef {object} Seen what came of one sending: an answer, or an error in its place
 * @property {Response} [response]
 * @property {import('../types/index.d.ts').Problem} [problem] the body of a refusal of the gateway's
 * @property {unknown} [error]
 *
 * @typedef {object} Known what was known before
 * @property {boolean} [unsure] the key was sent before, and nobody knows what came of it
 * @property {boolean} [token] the key is a token, of which another can be had
 * @property {boolean} [signed] the request says when it was made
 * @property {boolean} [clockWasOff] the answer shows that the key was made by a wrong clock
 * @property {boolean} [newKey] the caller allows a new key
 *
 * @typedef {object} Verdict
 * @property {'hand' | 'again' | 'renew' | 'retime'} step give it to the caller; send again with the same key, with
 *   another one, with another time
 * @property {boolean} final the intent is settled: the next one like it is another
 * @property {boolean} doubt the operation may be done, or running
 * @property {number} [after] how many milliseconds to wait at least
 */

/**
 * @param {Seen} seen
 * @param {Known} known
 * @param {number} now the machine's own time, for dates in `Retry-After`
 * @returns {Verdict}
 */
export function judge(seen, known, now) {
  const { response } = seen;
  if (!response) return { step: 'again', final: false, doubt: true };
  const { status, headers } = response;
  const after = wait(response, seen.problem, now);
  if (headers.get('oncegate-source') === 'gateway') return refusal(seen, known, after);
  if (isRecorded(headers)) return { step: 'hand', final: true, doubt: false };
  if (isUnknown(headers)) return { step: 'hand', final: false, doubt: true };
  if (BUSY.includes(status) && after !== undefined) return { step: 'again', final: false, doubt: false, after };
  // A bare 5xx may come from something in between that lost the answer. To keep the key does no harm then, nor
  // otherwise: a key that the gateway has freed is as good as a new one.
  const doubt = status >= 500;
  return { step: 'hand', final: status < 400 || (!doubt && !known.unsure), doubt };
}

/**
 * @param {Seen} seen
 * @param {Known} known
 * @returns {Verdict}
 */
function refusal({ response, problem }, known, after) {
  const { status, headers } = response;
  const code = problem?.code;
  const advice = problem?.retry ?? (after === undefined ? 'stop' : 'same-key');
  const doubt = isUnknown(headers) || PERHAPS.includes(code);
  if (DONE.includes(code) || headers.get('x-idempotent-retry') === 'true') {
    return { step: 'hand', final: true, doubt: false };
  }
  if (advice === 'same-key') return { step: 'again', final: false, doubt, after };
  // Under another time it may be another operation: not where the first one's outcome is unknown.
  if (code === 'timestamp-invalid' && known.signed && !known.unsure) return { step: 'retime', final: false, doubt };
  if (mayRenew(code, advice, known)) return { step: 'renew', final: false, doubt };
  // A key that somebody else's request has, or that is too old, settles nothing: what to do, a person may know.
  const settled = advice !== 'new-key' || OF_TOKENS.includes(code);
  return { step: 'hand', final: settled && status < 500 && !known.unsure && !doubt, doubt };
}

/** Whether the same request may go out under a new key without anybody having looked. */
function mayRenew(code, advice, known) {
  if (UNTIMELY.includes(code)) return Boolean(known.clockWasOff) && !known.unsure;
  if (OF_TOKENS.includes(code)) return Boolean(known.token) && !known.unsure;
  return advice === 'new-key' && Boolean(known.newKey);
}

/** @param {Headers} headers */
const isRecorded = (headers) => headers.has('idempotency-expires') || isReplayed(headers);
/** @param {Headers} headers */
export const isReplayed = (headers) => headers.get('idempotent-replayed') === 'true';
/** @param {Headers} headers */
const isUnknown = (headers) => headers.get('oncegate-outcome') === 'unknown';

/**
 * The server's time, as an answer tells it; no number where it does not. A refused key is worth a look at the date.
 * @param {Seen} seen
 */
export function toldTime({ response, problem }) {
  const told = response?.headers.get('oncegate-time') ?? problem?.server_time;
  if (told !== undefined && told !== null) return Number(told);
  return UNTIMELY.includes(problem?.code) ? Date.parse(response.headers.get('date') ?? '') : NaN;
}

/** @returns {number | undefined} */
function wait(response, problem, now) {
  if (typeof problem?.retry_after === 'number' && problem.retry_after >= 0) return problem.retry_after * 1000;
  const text = response.headers.get('retry-after')?.trim();
  if (!text) return undefined;
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const date = Date.parse(text);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}
