// What the SDK needs of its surroundings: time, chance, and whether there is a network. Tests bring their own.

/** @type {import('../types/index.d.ts').Environment} */
export const surroundings = {
  now: () => Date.now(),
  random: () => Math.random(),
  deadline(ms, callback) {
    // Timers hold 31 bits.
    const timer = setTimeout(callback, Math.min(ms, 2 ** 31 - 1));
    return () => clearTimeout(timer);
  },
  sleep: (ms, signal) => until(signal, (resume) => surroundings.deadline(ms, resume)),
  isOnline: () => globalThis.navigator?.onLine !== false,
  whenOnline: (signal) =>
    until(signal, (resume) => {
      globalThis.addEventListener('online', resume);
      return () => globalThis.removeEventListener('online', resume);
    }),
};

/**
 * Waits for something to call `resume`; `begin` gives back what takes the wish away. An abort ends the wait.
 * @param {AbortSignal} signal
 * @param {(resume: () => void) => () => void} begin
 * @returns {Promise<void>}
 */
export function until(signal, begin) {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const over = () => signal.removeEventListener('abort', aborted);
    const stop = begin(() => {
      over();
      stop();
      resolve();
    });
    const aborted = () => {
      over();
      stop();
      reject(signal.reason);
    };
    signal.addEventListener('abort', aborted);
  });
}
