// A page that uses the SDK, for the compiler alone: what it may write, and what it may not. It is never run.

import { fingerprint, info, oncegate, StatusError } from 'oncegate';
import type { Entry, GuardedFetch, Info, Memory, Options, Problem, Status } from 'oncegate';

const options: Options = {
  gateway: new URL('https://api.example'),
  remember: 'session',
  retry: { attempts: 3, newKey: false },
  offline: true,
  fingerprint: true,
  tokens: { route: 'create-order' },
  onReplay: (response, about) => console.log(response.status, about.expires?.toISOString()),
  onRetry: ({ reason, wait, problem }) => console.log(reason, wait.toFixed(), problem?.code),
};
const guarded: GuardedFetch = oncegate(options);
// It can stand wherever fetch does.
const asFetch: (input: string | URL | Request, init?: RequestInit) => Promise<Response> = guarded;

const entries = new Map<string, Entry>();
const memory: Memory = {
  async update(name, change) {
    const next = change(entries.get(name));
    if (next) entries.set(name, next);
    else entries.delete(name);
    return next;
  },
};

export async function buy(): Promise<string> {
  const response = await guarded('/orders', { method: 'POST', body: '{}', intent: 'cart-1', once: true, signal: AbortSignal.timeout(1) });
  const about: Info | undefined = info(response);
  const problem: Problem | undefined = about?.problem;
  if (problem?.retry === 'new-key') await about?.forget();
  const pay = oncegate({ remember: memory, retry: false }).intent('pay-1');
  await pay(new Request('/payments', { method: 'POST' }), { stream: true });
  const key: string | undefined = await pay.key();
  await asFetch('/orders');
  return key ?? (await fingerprint({ method: 'POST', url: '/orders', timestamp: Date.now() }));
}

export async function look(key: string): Promise<number | undefined> {
  try {
    const status: Status = await guarded.status(key, { wait: 2000, headers: { Authorization: 'Bearer a' } });
    return status.state === 'completed' ? status.status : undefined;
  } catch (error) {
    if (error instanceof StatusError) console.log(error.problem?.code);
    throw error;
  }
}

// @ts-expect-error: there is no such option
oncegate({ retries: 3 });
// @ts-expect-error: nor such a memory
oncegate({ remember: 'always' });
// @ts-expect-error: an intent is a name
void guarded('/orders', { intent: 42 });
// @ts-expect-error: what is known is not for changing
info(undefined)!.attempts = 2;
// @ts-expect-error: nothing is known of an operation that is not there
(await guarded.status('a')).state === 'unknown' && (await guarded.status('a')).attempt;
