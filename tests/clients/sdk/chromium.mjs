// Chromium without a window, driven over a pipe by its own protocol (CDP). It knows nothing of what it is used for.

import { spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { eventually } from './house.mjs';

const FLAGS = [
  '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-proxy-server', '--disable-quic',
  '--no-first-run', '--disable-sync', '--disable-component-update', '--disable-background-networking',
  '--password-store=basic', '--disable-background-timer-throttling', '--disable-renderer-backgrounding',
  '--disable-backgrounding-occluded-windows', '--disable-popup-blocking',
];

export class Chromium {
  #calls = new Map();
  #count = 0;

  static async open() {
    const browser = new Chromium();
    browser.folder = await mkdtemp(join(tmpdir(), 'oncegate-chromium-'));
    const log = createWriteStream(join(browser.folder, 'log'));
    await new Promise((resolve) => log.on('open', resolve));
    browser.child = spawn('chromium', [...FLAGS, '--remote-debugging-pipe', `--user-data-dir=${join(browser.folder, 'profile')}`], {
      detached: true,
      env: { PATH: process.env.PATH, HOME: browser.folder, LANG: 'C.UTF-8' },
      stdio: ['ignore', log, log, 'pipe', 'pipe'],
    });
    browser.ended = new Promise((resolve) => browser.child.on('exit', resolve));
    browser.child.on('error', (error) => browser.#fail(`no Chromium: ${error.message}; \`tests/prepare\` installs it`));
    browser.ended.then(async () => browser.#fail(`Chromium ended:\n${await browser.log()}`));
    browser.child.stdio[3].on('error', () => {});
    browser.#listen(browser.child.stdio[4]);
    await browser.call('Browser.getVersion');
    return browser;
  }

  log() {
    return readFile(join(this.folder, 'log'), 'utf8').catch(() => '');
  }

  /** Calls a method of the protocol. */
  call(method, params = {}, sessionId = undefined) {
    const id = (this.#count += 1);
    this.child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return new Promise((resolve, reject) => this.#calls.set(id, { method, resolve, reject }));
  }

  /** A context with cookies and storage of its own, as a browser with a fresh profile. */
  async profile() {
    const { browserContextId } = await this.call('Target.createBrowserContext');
    return new Profile(this, browserContextId);
  }

  async close() {
    try {
      // All of its processes: they are a group of their own.
      process.kill(-this.child.pid, 'SIGKILL');
    } catch {
      // It has ended already.
    }
    await this.ended;
    await eventually('the profile is gone', () => rm(this.folder, { recursive: true, force: true }).then(() => true, () => false));
  }

  #listen(pipe) {
    let rest = '';
    pipe.setEncoding('utf8');
    pipe.on('data', (text) => {
      const messages = (rest + text).split('\0');
      rest = messages.pop();
      messages.forEach((message) => this.#hear(JSON.parse(message)));
    });
  }

  #hear({ id, result, error }) {
    const call = this.#calls.get(id);
    if (!call) return;
    this.#calls.delete(id);
    if (error) call.reject(new Error(`${call.method}: ${error.message}`));
    else call.resolve(result);
  }

  #fail(message) {
    for (const { reject } of this.#calls.values()) reject(new Error(message));
    this.#calls.clear();
  }
}

class Profile {
  constructor(browser, id) {
    this.browser = browser;
    this.id = id;
  }

  /** A tab, as soon as its page is there. */
  async open(url) {
    const { targetId } = await this.browser.call('Target.createTarget', { url, browserContextId: this.id });
    return this.#tab(targetId);
  }

  /** The tab that a page opened. */
  async opened(by) {
    const { targetInfos } = await this.browser.call('Target.getTargets');
    const found = targetInfos.find(({ browserContextId, openerId }) => browserContextId === this.id && openerId === by.target);
    return found && this.#tab(found.targetId);
  }

  async #tab(targetId) {
    const { sessionId } = await this.browser.call('Target.attachToTarget', { targetId, flatten: true });
    const tab = new Tab(this.browser, targetId, sessionId);
    await tab.isThere();
    return tab;
  }
}

/** A page says that it is there by setting `ready`. */
class Tab {
  constructor(browser, target, session) {
    this.browser = browser;
    this.target = target;
    this.session = session;
  }

  call(method, params) {
    return this.browser.call(method, params, this.session);
  }

  /** What this script gives, in the page. */
  async run(expression) {
    const { result, exceptionDetails } = await this.call('Runtime.evaluate', {
      expression, awaitPromise: true, returnByValue: true, userGesture: true,
    });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  /** Looks until this script gives something; meanwhile the page may go and another come. */
  until(expression) {
    return eventually(expression, () => this.run(expression).catch(() => undefined));
  }

  isThere() {
    return this.until('window.ready');
  }

  /** F5. */
  async reload() {
    await this.run('window.ready = false');
    await this.call('Page.reload');
    await this.isThere();
  }

  offline(offline) {
    return this.call('Network.emulateNetworkConditions', { offline, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
  }

  /** So many clicks of the mouse, as fast as can be. */
  async click(selector, times = 1) {
    const place = `(({ x, y, width, height }) => ({ x: x + width / 2, y: y + height / 2 }))(document.querySelector('${selector}').getBoundingClientRect())`;
    const { x, y } = await this.run(place);
    const mouse = (type, clickCount) => this.call('Input.dispatchMouseEvent', { type, x, y, button: 'left', clickCount });
    const events = [];
    for (let click = 1; click <= times; click += 1) events.push(mouse('mousePressed', click), mouse('mouseReleased', click));
    await Promise.all(events);
  }
}
