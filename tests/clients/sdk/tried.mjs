// A test of the SDK in Node: a shop, the real gateway before it, and a way to the gateway that can be cut.

import { test } from 'node:test';

import { oncegate } from '../../../clients/js/src/node.js';
import { Gateway, PATIENCE, Shop, Way, yaml } from './house.mjs';

export const ORDER = { method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Customer-Id': '42' }, body: '{"sku":"tea"}' };

/** The body gets these, and a maker of guarded fetches that go that way. */
export function tried(name, settings, body) {
  test(name, { timeout: 2 * PATIENCE }, async () => {
    const shop = await Shop.open();
    const gateway = await Gateway.start(yaml(shop, settings));
    const way = await Way.to(gateway.port);
    const guarded = (options) => oncegate({ gateway: way.url, retry: { total: PATIENCE, base: 20, attempts: 30 }, ...options });
    try {
      await body({ shop, gateway, way, guarded });
    } catch (error) {
      console.error(`the gateway's log:\n${gateway.log.join('\n')}`);
      throw error;
    } finally {
      await way.close();
      await gateway.stop();
      await shop.close();
    }
  });
}
