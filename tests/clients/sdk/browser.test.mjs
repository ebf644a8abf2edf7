// The SDK in Chromium, on pages of a shop behind the real gateway: what customers do to buttons, tabs and networks.

import assert from 'node:assert/strict';
import { readFile, readdir } from 'node:fs/promises';
import { after, before, test } from 'node:test';

import { Chromium } from './chromium.mjs';
import { Gateway, PATIENCE, Shop, Way, eventually, yaml } from './house.mjs';

const SOURCES = new URL('../../../clients/js/src/', import.meta.url);

let browser;
before(async () => (browser = await Chromium.open()), { timeout: 2 * PATIENCE });
after(() => browser?.close());

/** The pages, and the SDK that they load. */
async function furnish(shop) {
  const script = (text) => ({ type: 'text/javascript', text });
  for (const name of await readdir(SOURCES)) {
    shop.pages.set(`/sdk/${name}`, script(await readFile(new URL(name, SOURCES), 'utf8')));
  }
  for (const name of ['page.mjs', 'worker.mjs']) {
    shop.pages.set(`/${name}`, script(await readFile(new URL(name, import.meta.url), 'utf8')));
  }
  const text = '<!doctype html><link rel=icon href="data:,"><body><script type=module src=/page.mjs></script>';
  shop.pages.set('/shop', { type: 'text/html', text });
}

/** A test in a profile of its own: a shop, a gateway that has duplicates wait, and a way to it that can break. */
function tried(name, settings, body) {
  test(name, { timeout: 2 * PATIENCE }, async () => {
    const shop = await Shop.open();
    await furnish(shop);
    const text = typeof settings === 'function' ? settings(shop) : yaml(shop, { guard: 'in_flight: wait', ...settings });
    const gateway = await Gateway.start(text);
    const way = await Way.to(gateway.port);
    const profile = await browser.profile();
    const open = (options = {}, origin = way.url) => profile.open(`${origin}/shop#${encodeURIComponent(JSON.stringify(options))}`);
    try {
      await body({ shop, gateway, way, profile, open });
    } catch (error) {
      console.error(`the browser's log:\n${await browser.log()}\nthe gateway's log:\n${gateway.log.join('\n')}`);
      throw error;
    } finally {
      await browser.call('Target.disposeBrowserContext', { browserContextId: profile.id });
      await way.close();
      await gateway.stop();
      await shop.close();
    }
  });
}

const ordered = (shop, count) => eventually(`${count} orders`, () => shop.orders.length >= count);
const texts = (seen) => seen.map(({ text, error }) => text ?? error);
const seen = async (tab, count) => {
  await tab.until(`seen.length >= ${count}`);
  return tab.run('seen');
};

tried('a double click is one order, and each click sees it', {}, async ({ shop, open }) => {
  const tab = await open();
  const release = shop.hold();
  await tab.click('#buy', 2);
  await ordered(shop, 1);
  await tab.until('joined === 2');
  release();
  const answers = await seen(tab, 2);
  assert.deepEqual(texts(answers), ['order-1', 'order-1']);
  assert.equal(shop.orders.length, 1);
  await tab.click('#buy');
  assert.equal((await seen(tab, 3))[2].text, 'order-2');
});

/** Clicks, reloads before the answer comes, and clicks again. */
async function reloaded({ shop, open }, remember) {
  const tab = await open({ remember });
  const release = shop.hold();
  await tab.click('#buy');
  await ordered(shop, 1);
  await tab.reload();
  await tab.click('#buy');
  if (remember === 'page') await ordered(shop, 2);
  release();
  return { tab, answers: await seen(tab, 1) };
}

for (const remember of ['session', 'origin']) {
  tried(`F5 during a submit: the second click gets the first one's order (${remember})`, {}, async (house) => {
    const { tab, answers } = await reloaded(house, remember);
    assert.deepEqual([answers[0].text, answers[0].replayed], ['order-1', true]);
    assert.equal(house.shop.orders[0].key, answers[0].key);
    await tab.click('#buy');
    assert.equal((await seen(tab, 2))[1].text, 'order-2');
    assert.equal(house.shop.orders.length, 2);
  });
}

tried('F5 without remembering is two orders: what the tests above are for', {}, async (house) => {
  const { answers } = await reloaded(house, 'page');
  assert.equal(answers[0].replayed, false);
  assert.equal(house.shop.orders.length, 2);
});

tried('offline before the click: it is sent when the network is back', {}, async ({ shop, open }) => {
  const tab = await open({ offline: true });
  await tab.offline(true);
  await tab.until('!navigator.onLine');
  await tab.click('#buy');
  await tab.click('#buy');
  await tab.until('joined === 2');
  assert.deepEqual([await tab.run('seen'), shop.orders.length], [[], 0]);
  await tab.offline(false);
  assert.deepEqual(texts(await seen(tab, 2)), ['order-1', 'order-1']);
  assert.equal(shop.orders.length, 1);
});

tried('offline during a submit: the answer is there when the network is back', {}, async ({ shop, way, open }) => {
  const tab = await open({ offline: true, retry: { attempts: 2, base: 20 } });
  const release = shop.hold();
  await tab.click('#buy');
  await ordered(shop, 1);
  await tab.offline(true);
  await tab.until('!navigator.onLine');
  way.breakDown();
  release();
  way.down = false;
  await tab.offline(false);
  const [answer] = await seen(tab, 1);
  assert.deepEqual([answer.text, answer.replayed], ['order-1', true]);
  assert.equal(shop.orders.length, 1);
});

tried('two tabs that submit one checkout make one order', {}, async ({ shop, open }) => {
  const tabs = [await open({ remember: 'origin' }), await open({ remember: 'origin' })];
  const release = shop.hold();
  for (const tab of tabs) await tab.run('document.querySelector("#pay").click()');
  await ordered(shop, 1);
  // Both must be on their way before the first is done: it is settled then.
  for (const tab of tabs) await tab.until('sent === 1');
  release();
  const answers = (await Promise.all(tabs.map((tab) => seen(tab, 1)))).flat();
  assert.deepEqual(texts(answers), ['order-1', 'order-1']);
  assert.equal(answers[0].key, answers[1].key);
  assert.equal(shop.orders.length, 1);
});

tried('a tab that was opened from another one makes no old order of a new one', {}, async ({ shop, profile, open }) => {
  const tab = await open({ remember: 'session' });
  const release = shop.hold();
  await tab.click('#buy');
  await ordered(shop, 1);
  await tab.run('void window.open(location.href)');
  const second = await eventually('the second tab', () => profile.opened(tab));
  assert.equal(await second.run('Object.keys(sessionStorage).length'), 1, 'the browser copies it');
  release();
  await seen(tab, 1);
  await second.run('document.querySelector("#buy").click()');
  const [answer] = await seen(second, 1);
  assert.deepEqual([answer.text, answer.replayed], ['order-2', false]);
});

tried('a service worker orders once, whoever asks it', {}, async ({ shop, way, open }) => {
  const tab = await open();
  await tab.run(`(async () => {
    await navigator.serviceWorker.register('/worker.mjs', { type: 'module' });
    const { active } = await navigator.serviceWorker.ready;
    window.tell = () => new Promise((resolve) => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = ({ data }) => (data === 'joined' ? (window.joined += 1) : resolve(data));
      active.postMessage('order', [port2]);
    });
  })()`);
  const release = shop.hold();
  const asked = [tab.run('tell()'), tab.run('tell()')];
  await ordered(shop, 1);
  await tab.until('joined === 2');
  release();
  assert.deepEqual((await Promise.all(asked)).map(({ text }) => text), ['order-1', 'order-1']);
  way.cutNext();
  assert.deepEqual(await tab.run('tell()'), { text: 'order-2', replayed: true });
  assert.equal(shop.orders.length, 2);
});

const elsewhere = (shop) =>
  yaml(shop, {
    guard: 'in_flight: wait\nfingerprint: { client: { mode: verify, required: true } }',
    route: `    cors: { origins: [ "http://127.0.0.1:${shop.port}" ] }`,
    top: 'operations: {}',
  });

tried('a page of another origin reads marks, refusals and the status of its order', elsewhere, async ({ shop, way, open }) => {
  const tab = await open({ gateway: way.url, fingerprint: true }, `http://127.0.0.1:${shop.port}`);
  way.cutNext();
  await tab.click('#buy');
  const [answer] = await seen(tab, 1);
  assert.deepEqual([answer.text, answer.replayed, answer.expires], ['order-1', true, true]);
  const status = await tab.run(`guarded.status('${answer.key}', { headers: { 'X-Customer-Id': '42' }, wait: 10 })`);
  assert.deepEqual([status.state, status.status], ['completed', 201]);
  await tab.run('order({ headers: {} })');
  assert.equal((await seen(tab, 2))[1].code, 'scope-missing');
  assert.equal(shop.orders.length, 1);
});

const elsewhereByAge = (shop) =>
  yaml(shop, {
    guard: 'key_age: { from: uuid_v7 }',
    route: `    cors: { origins: [ "http://127.0.0.1:${shop.port}" ] }`,
  });

tried('a page of another origin whose clock is days off sets it by the gateway\'s', elsewhereByAge, async ({ shop, way, open }) => {
  for (const [days, order] of [[-3, 'order-1'], [2, 'order-2']]) {
    const tab = await open({ gateway: way.url }, `http://127.0.0.1:${shop.port}`);
    await tab.run(`void (Date.now = ((now) => () => now() + ${days * 86_400_000})(Date.now))`);
    await tab.click('#buy');
    const [answer] = await seen(tab, 1);
    assert.deepEqual([answer.text ?? answer, answer.replayed, await tab.run('sent')], [order, false, 2]);
  }
});

const elsewhereByNumber = (shop) =>
  yaml(shop, {
    key: '{ token: {} }',
    route: `    cors: { origins: [ "http://127.0.0.1:${shop.port}" ] }`,
    top: 'tokens: { secrets: [ "a-secret-of-32-bytes-or-more-for-tests" ] }',
  });

tried('a page of another origin takes a number first', elsewhereByNumber, async ({ shop, way, open }) => {
  const tab = await open({ gateway: way.url, tokens: { route: 'order' } }, `http://127.0.0.1:${shop.port}`);
  way.cutNext('order-1');
  await tab.click('#buy');
  const [answer] = await seen(tab, 1);
  assert.deepEqual([answer.text, answer.replayed], ['order-1', true]);
  assert.equal(shop.orders.length, 1);
});
