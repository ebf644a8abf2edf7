// What became of a call, told beside its answer or its error. Neither is changed for it.

const told = new WeakMap();

/**
 * What is known of an answer, or of the error of a call that got none; undefined of anything else, copies included.
 * @param {unknown} subject
 * @returns {import('../types/index.d.ts').Info | undefined}
 */
export const info = (subject) => (isObject(subject) ? told.get(subject) : undefined);

/**
 * @param {unknown} subject
 * @param {import('../types/index.d.ts').Info} about
 */
export function tell(subject, about) {
  if (isObject(subject)) told.set(subject, about);
}

/** @returns {subject is object} */
const isObject = (subject) => (typeof subject === 'object' && subject !== null) || typeof subject === 'function';
