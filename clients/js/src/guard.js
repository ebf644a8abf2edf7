// fetch, guarded: which calls are, who joins whom, and the methods beside it.

import { addressOf, methodOf, nameOf, plain, prepare } from './call.js';
import { Clock } from './clock.js';
import { Flight } from './flight.js';
import { Intents } from './intents.js';
import { Run } from './run.js';
import { Tokens } from './tokens.js';
import { settingsOf } from './options.js';
import { statusOf } from './status.js';

/**
 * @param {import('../types/index.d.ts').Options | undefined} options
 * @param {Crypto} crypto
 * @returns {import('../types/index.d.ts').GuardedFetch}
 */
export function build(options, crypto) {
  const settings = settingsOf(options);
  const clock = new Clock(settings.environment.now);
  const intents = new Intents(settings.memory, clock, settings.rememberFor);
  const tokens = settings.tokens && new Tokens(settings.tokens);
  const house = { settings, clock, intents, tokens, crypto };
  const flights = new Map();

  const guarded = async (input, init = {}) => {
    const url = addressOf(input, settings.base);
    if (!isGuarded(settings, url, methodOf(input, init), init)) {
      return settings.fetch(typeof input === 'string' ? url : input, plain(init));
    }
    const call = await prepare(input, init, { url, header: tokens?.header ?? settings.header, maxBuffer: settings.maxBuffer });
    if (call.signal?.aborted) throw call.signal.reason;
    return flightOf(flights, house, call).join(call.signal);
  };
  guarded.intent = (name) => {
    const own = (input, init) => guarded(input, { ...init, intent: name });
    own.key = async () => (await intents.known(nameOf(name)))?.key;
    own.forget = () => intents.forget(nameOf(name));
    return own;
  };
  guarded.status = (key, init = {}) => statusOf(key, init, settings);
  return guarded;
}

/** Whether a call is one of those that change something at the gateway. */
function isGuarded({ gateway, methods }, url, method, init) {
  const isThere = gateway === undefined || new URL(url).origin === new URL(gateway).origin;
  return isThere && (methods.includes(method) || init.intent !== undefined);
}

/**
 * The flight of an equal call that is under way, or a new one. Whoever joins gets its answer, so all fields must be equal:
 * one of them says who is calling. But forms that are equal have a boundary each, and what they say is in the digest.
 */
function flightOf(flights, house, call) {
  const isBoundary = ([name, value]) => name === 'content-type' && value.startsWith('multipart/form-data;');
  const fields = [...call.headers].filter((field) => !isBoundary(field));
  const id = JSON.stringify([call.name, call.digest, ...fields]);
  const found = flights.get(id);
  if (found) return found;
  const ended = () => {
    if (flights.get(id) === flight) flights.delete(id);
  };
  const flight = new Flight((signal) => new Run(house, call, signal).toTheEnd(), ended);
  flights.set(id, flight);
  return flight;
}
