// Where keys are kept until their intents are settled: the page, the tab, or all of an origin. No rules: those are in
// intents.js. Each memory has one method, which changes one entry in one step.

/** How many intents a page keeps in mind, and how many settled keys a tab. */
const LIMIT = 1000;
const PREFIX = 'oncegate:';
const DONE = 'oncegate.done:';

/** @typedef {import('../types/index.d.ts').Memory} Memory */

/**
 * @param {'page' | 'session' | 'origin' | Memory} remember
 * @param {number} rememberFor
 * @returns {Memory}
 */
export function memoryOf(remember, rememberFor) {
  if (remember === 'page') return pageMemory();
  if (remember === 'origin') return originMemory(rememberFor);
  return remember === 'session' ? sessionMemory() : remember;
}

/** As long as the page, or the process. @returns {Memory} */
export function pageMemory() {
  const entries = new Map();
  return {
    async update(name, change) {
      const stored = entries.get(name);
      const next = change(stored);
      if (next === stored) return next;
      entries.delete(name);
      if (next) entries.set(name, next);
      if (entries.size > LIMIT) entries.delete(entries.keys().next().value);
      return next;
    },
  };
}

/**
 * As long as the tab, over reloads. A tab that was opened or duplicated from another begins with a copy of its entries,
 * so settled keys are noted where all tabs see them: a copy of one is worth nothing. Where the user lets nothing be
 * stored, or there is no room, it is a page's memory.
 * @returns {Memory}
 */
function sessionMemory() {
  const [session, local] = [storage('sessionStorage'), storage('localStorage')];
  const spare = new Map();
  const read = (name) => {
    if (spare.has(name)) return spare.get(name);
    const entry = parse(attempt(() => session.getItem(PREFIX + name)));
    return entry && !attempt(() => local.getItem(DONE + entry.key)) ? entry : undefined;
  };
  const write = (name, entry) => {
    const written = attempt(() => {
      if (entry) session.setItem(PREFIX + name, JSON.stringify(entry));
      else session.removeItem(PREFIX + name);
      return true;
    });
    spare.delete(name);
    if (entry && !written) spare.set(name, entry);
  };
  return {
    async update(name, change) {
      const stored = read(name);
      const next = change(stored);
      if (next === stored) return next;
      write(name, next);
      if (stored && stored.key !== next?.key) attempt(() => noteDone(local, stored.key));
      return next;
    },
  };
}

/** Notes a settled key, and forgets the oldest of too many. */
function noteDone(local, key) {
  local.setItem(DONE + key, String(Date.now()));
  const noted = Object.keys(local).filter((name) => name.startsWith(DONE));
  if (noted.length <= LIMIT) return;
  const byAge = noted.sort((a, b) => Number(local.getItem(a)) - Number(local.getItem(b)));
  for (const name of byAge.slice(0, noted.length - LIMIT)) local.removeItem(name);
}

/** What the browser has under this name; undefined where its user does not let it be used. */
const storage = (name) => attempt(() => globalThis[name]);

const attempt = (action) => {
  try {
    return action();
  } catch {
    return undefined;
  }
};

const parse = (text) => {
  const entry = attempt(() => JSON.parse(text));
  return typeof entry?.key === 'string' && typeof entry.made === 'number' ? entry : undefined;
};

/**
 * Shared by all tabs and workers of the origin: a transaction of IndexedDB is one step for all of them. Where it cannot
 * be used, it is a page's memory.
 * @returns {Memory}
 */
function originMemory(rememberFor) {
  const spare = pageMemory();
  let opened;
  const database = () => {
    opened ??= open(() => (opened = undefined)).then(async (db) => {
      await forget(db, Date.now() - rememberFor);
      return db;
    });
    return opened;
  };
  return {
    async update(name, change) {
      try {
        return await inOneStep(await database(), name, change);
      } catch {
        opened = undefined;
        return spare.update(name, change);
      }
    },
  };
}

/** @returns {Promise<IDBDatabase>} */
function open(closed) {
  return new Promise((resolve, reject) => {
    const request = globalThis.indexedDB.open('oncegate', 1);
    request.onupgradeneeded = () => request.result.createObjectStore('intents');
    request.onerror = () => reject(request.error);
    request.onsuccess = () => {
      const db = request.result;
      // Somebody wants to delete or change it: out of the way.
      db.onversionchange = () => (db.close(), closed());
      db.onclose = closed;
      resolve(db);
    };
  });
}

function inOneStep(db, name, change) {
  return transaction(db, (intents, done) => {
    const request = intents.get(name);
    request.onsuccess = () => {
      const stored = request.result;
      const next = change(stored);
      if (next === undefined) intents.delete(name);
      else if (next !== stored) intents.put(next, name);
      done(next);
    };
  });
}

/** Removes what was made before this time: an intent that nobody asked for again. */
function forget(db, before) {
  return transaction(db, (intents) => {
    const request = intents.openCursor();
    request.onsuccess = () => {
      const cursor = request.result;
      if (!cursor) return;
      if (cursor.value.made < before) cursor.delete();
      cursor.continue();
    };
  });
}

function transaction(db, work) {
  return new Promise((resolve, reject) => {
    const running = db.transaction('intents', 'readwrite');
    let result;
    running.oncomplete = () => resolve(result);
    running.onabort = () => reject(running.error);
    work(running.objectStore('intents'), (value) => (result = value));
  });
}
