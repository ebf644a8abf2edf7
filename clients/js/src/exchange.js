// One sending and its answer, read as far as is needed to know that it arrived, within a time.

/** @typedef {import('./verdict.js').Seen} Seen */

/**
 * Sends, and gives what came of it. Only the caller's own abort is an error.
 * @param {(signal: AbortSignal) => Promise<Response>} send
 * @param {{ timeout: number, stream: boolean, signal: AbortSignal }} how
 * @param {import('../types/index.d.ts').Environment} environment
 * @returns {Promise<Seen & { whole: boolean, sent: number, received: number }>} `whole`: the answer has arrived to its end
 */
export async function exchange(send, { timeout, stream, signal }, environment) {
  if (signal.aborted) throw signal.reason;
  const one = new AbortController();
  const aborted = () => one.abort(signal.reason);
  signal.addEventListener('abort', aborted);
  const late = () => one.abort(new DOMException(`no answer within ${timeout} ms`, 'TimeoutError'));
  const inTime = environment.deadline(timeout, late);
  const sent = environment.now();
  let received = sent;
  let whole = true;
  try {
    const response = await send(one.signal);
    received = environment.now();
    const own = response.headers.get('oncegate-source') === 'gateway';
    whole = own || !(stream || typeOf(response).startsWith('text/event-stream'));
    return { response, problem: whole ? await read(response, own) : undefined, whole, sent, received };
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    return { error, whole, sent, received };
  } finally {
    inTime();
    // An abort ends also an answer that is still being read.
    if (whole) signal.removeEventListener('abort', aborted);
  }
}

/**
 * Reads a copy of the answer to its end, so that one that breaks off is one that did not arrive; the answer itself is
 * still unread. Gives the problem that the gateway tells of.
 * @returns {Promise<import('../types/index.d.ts').Problem | undefined>}
 */
async function read(response, own) {
  const text = await response.clone().text();
  return own && typeOf(response).startsWith('application/problem+json') ? parse(text) : undefined;
}

const typeOf = (response) => response.headers.get('content-type') ?? '';

function parse(text) {
  try {
    const problem = JSON.parse(text);
    return typeof problem?.code === 'string' ? problem : undefined;
  } catch {
    return undefined;
  }
}
