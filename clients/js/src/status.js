// What became of an operation, asked of the gateway without doing anything.

import { addressOf } from './call.js';

/** The gateway would not say. Its answer is `response`. */
export class StatusError extends Error {
  /** @param {Response} response @param {import('../types/index.d.ts').Problem | undefined} problem */
  constructor(response, problem) {
    const detail = problem?.detail ? `: ${problem.detail}` : '';
    const hint = response.status === 404 ? ' (the gateway answers where its configuration says `operations: {}`)' : '';
    super(`oncegate: no status: ${problem?.code ?? response.status}${detail}${hint}`);
    this.name = 'StatusError';
    this.response = response;
    this.problem = problem;
  }
}

/**
 * @param {string} key
 * @param {import('../types/index.d.ts').StatusInit} init
 * @param {{ fetch: typeof fetch, base: string | undefined, operations: { path: string, route?: string } }} settings
 * @returns {Promise<import('../types/index.d.ts').Status>}
 */
export async function statusOf(key, { wait, route, ...init }, { fetch, base, operations }) {
  const url = new URL(addressOf(`${operations.path}/${encodeURIComponent(key)}`, base));
  const named = route ?? operations.route;
  if (named !== undefined) url.searchParams.set('route', named);
  if (wait !== undefined) url.searchParams.set('wait', `${Math.round(wait)}ms`);
  const response = await fetch(url.href, { ...init, method: 'GET' });
  const told = await response.clone().json().catch(() => undefined);
  if (response.ok && typeof told?.state === 'string') return told;
  if (told?.code === 'operation-unknown') return { state: 'unknown', retry: told.retry };
  throw new StatusError(response, typeof told?.code === 'string' ? told : undefined);
}
