// What the SDK's tests need around it: a shop that books every order that reaches it, the real gateway before it, and a
// way to the gateway that can be cut.

import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/** How long anything may take on a machine that is busy. */
export const PATIENCE = 60_000;

/** Looks again and again until it is so; fails after a long while. */
export async function eventually(what, holds) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const found = await holds();
    if (found) return found;
    if (Date.now() > end) throw new Error(`never came true: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const listening = (server) =>
  new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server.address().port)));

/**
 * The shop. Every POST is an order and gets a number, unless `answer` says something else of it; `hold()` keeps answers
 * back until what it gives is called. `pages` are served as they are.
 */
export class Shop {
  orders = [];
  pages = new Map();
  answer = (order) => ({ status: 201, body: `order-${order.number}` });
  #gate = Promise.resolve();

  static async open() {
    const shop = new Shop();
    shop.server = createServer((request, response) => shop.#serve(request, response));
    shop.port = await listening(shop.server);
    return shop;
  }

  hold() {
    let open;
    this.#gate = new Promise((resolve) => (open = resolve));
    return open;
  }

  async close() {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  async #serve(request, response) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    if (request.method !== 'POST') return this.#page(request, response);
    const { headers } = request;
    const order = { number: this.orders.length + 1, headers, body: Buffer.concat(chunks).toString(), url: request.url };
    order.key = headers['idempotency-key'];
    this.orders.push(order);
    await this.#gate;
    const { status, body, fields = {}, cut } = this.answer(order);
    if (cut) return request.socket.destroy();
    response.writeHead(status, { 'Content-Type': 'text/plain', ...open(request), ...fields }).end(body);
  }

  #page(request, response) {
    const { pathname } = new URL(request.url, 'http://shop');
    if (request.method === 'OPTIONS') return response.writeHead(204, open(request)).end();
    const page = this.pages.get(pathname);
    if (!page) return response.writeHead(404, { 'Content-Type': 'text/plain' }).end('no such page');
    response.writeHead(200, { 'Content-Type': page.type, 'Cache-Control': 'no-store' }).end(page.text);
  }
}

/** Lets the pages of every origin in, as the API of a shop elsewhere would. */
const open = ({ headers }) =>
  headers.origin && {
    'Access-Control-Allow-Origin': headers.origin,
    'Access-Control-Allow-Credentials': 'true',
    'Access-Control-Allow-Headers': 'Content-Type, X-Customer-Id',
    Vary: 'Origin',
  };

/** `oncegate serve` on a configuration. */
export class Gateway {
  static async start(yaml) {
    const gateway = new Gateway();
    gateway.folder = await mkdtemp(join(tmpdir(), 'oncegate-sdk-'));
    const file = join(gateway.folder, 'oncegate.yaml');
    await writeFile(file, yaml);
    gateway.child = spawn(process.env.ONCEGATE, ['serve', '--config', file], { stdio: ['ignore', 'ignore', 'pipe'] });
    gateway.log = [];
    gateway.ended = new Promise((resolve) => gateway.child.on('close', resolve));
    await new Promise((resolve, reject) => {
      gateway.child.on('error', reject);
      gateway.child.on('exit', () => reject(new Error(`the gateway ended:\n${gateway.log.join('\n')}`)));
      createInterface(gateway.child.stderr).on('line', (line) => {
        gateway.log.push(line);
        const found = /listening.*address=127\.0\.0\.1:(\d+)/.exec(line);
        if (found) resolve((gateway.port = Number(found[1])));
      });
    });
    gateway.url = `http://127.0.0.1:${gateway.port}`;
    return gateway;
  }

  async stop() {
    this.child.kill('SIGKILL');
    await this.ended;
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** A way to a port. `cutNext()` lets a request through and closes before an answer that begins so; `down` refuses whoever comes. */
export class Way {
  #sockets = new Set();
  #cut = undefined;
  down = false;

  static async to(port) {
    const way = new Way();
    way.server = net.createServer((client) => way.#carry(client, port));
    way.url = `http://127.0.0.1:${await listening(way.server)}`;
    return way;
  }

  cutNext(beginning = 'HTTP/1.1 201') {
    this.#cut = beginning;
  }

  /** Breaks all connections, and refuses new ones until it is up again. */
  breakDown() {
    this.down = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  async close() {
    this.breakDown();
    await new Promise((resolve) => this.server.close(resolve));
  }

  #carry(client, port) {
    if (this.down) return client.destroy();
    const server = net.connect(port, '127.0.0.1');
    for (const [socket, other] of [[client, server], [server, client]]) {
      this.#sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
    client.pipe(server);
    server.on('data', (bytes) => {
      if (!this.#cut || !bytes.includes(this.#cut)) return client.write(bytes);
      this.#cut = undefined;
      client.destroy();
    });
  }
}

/** A gateway before the shop: `/orders` is guarded by what `guard` says, all else passes. */
export const yaml = (shop, { guard = '', top = '', route = '', key = '{ header: Idempotency-Key }' } = {}) => `
listen: 127.0.0.1:0
admin: { listen: 127.0.0.1:0 }
store: { kind: memory }
${top}
upstreams:
  shop: { servers: [ "http://127.0.0.1:${shop.port}" ] }
routes:
  - name: order
    match: { methods: [POST], path: /orders }
    upstream: shop
${route}
    idempotency:
      key: [ ${key} ]
      scope: { header: X-Customer-Id }
${guard.replace(/^/gm, '      ')}
  - name: rest
    match: { path: "/{*rest}" }
    upstream: shop
`;
