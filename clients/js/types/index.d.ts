/** fetch for what must happen once, behind an oncegate gateway. */
export function oncegate(options?: Options): GuardedFetch;

/** What is known of an answer that a guarded fetch gave, or of the error that it threw; undefined of anything else. */
export function info(subject: unknown): Info | undefined;

/** The value of `X-Request-Fingerprint` for a request. `docs/fingerprint.md` defines it byte by byte. */
export function fingerprint(request: FingerprintInput): Promise<string>;

/** The gateway would not say what became of an operation. */
export class StatusError extends Error {
  readonly response: Response;
  readonly problem: Problem | undefined;
}

export interface GuardedFetch {
  /** As `fetch`. Calls that change something have a key, and are repeated until their outcome is known, within limits. */
  (input: string | URL | Request, init?: GuardedInit): Promise<Response>;
  /** One thing that a user wants, by a name of your own. */
  intent(name: string): Intent;
  /** What became of an operation, asked at the gateway's `operations`. Runs nothing. */
  status(key: string, init?: StatusInit): Promise<Status>;
}

export interface Intent {
  (input: string | URL | Request, init?: GuardedInit): Promise<Response>;
  /** Its key, as long as it is not settled. */
  key(): Promise<string | undefined>;
  /** Gives it up: the next call is a new operation. Only for somebody who knows what became of this one. */
  forget(): Promise<void>;
}

export interface GuardedInit extends RequestInit {
  /** The name of what the user wants. Without one, equal requests are one intent until it is settled. */
  intent?: string;
  /** With an `intent`: a success settles it for good. A later call gets the recorded answer again. */
  once?: boolean;
  /** Reads a stream into memory before it is sent. */
  buffer?: boolean;
  /** Gives the answer as soon as it begins. One that breaks off later is then not asked for again. */
  stream?: boolean;
}

export interface Options {
  /** What sends; the platform's `fetch`. */
  fetch?: (input: string | URL | Request, init?: RequestInit) => Promise<Response>;
  /** The gateway's address. Relative ones go there, and only what goes to its origin is guarded. */
  gateway?: string | URL;
  /** The field that the key goes in: `Idempotency-Key`. */
  header?: string;
  /** What is guarded: POST, PUT, PATCH and DELETE. */
  methods?: readonly string[];
  /** How long a key outlives what may end before its answer comes: `page`, `session` (reloads of a tab), `origin`. */
  remember?: 'page' | 'session' | 'origin' | Memory;
  /** How many milliseconds the key of an unsettled intent is kept: 72 hours. One without a name: an hour at most. */
  rememberFor?: number;
  /** How many bytes of a stream are read with `buffer`: 8 MiB. */
  maxBuffer?: number;
  /** `false`: never. */
  retry?: Retry | false;
  /** Waits for the network, at most so many milliseconds; `true` is an hour. */
  offline?: boolean | number;
  /** Sends `X-Request-Fingerprint` and `X-Request-Timestamp`. */
  fingerprint?: boolean;
  /** Keys are tokens that the gateway issues. */
  tokens?: { path?: string; route?: string; header?: string };
  /** Where `status` asks. */
  operations?: { path?: string; route?: string };
  /** An answer was a recorded one: what was wanted had been done already. */
  onReplay?: (response: Response, about: Info) => void;
  /** Something is sent again, or waited for. */
  onRetry?: (about: RetryInfo) => void;
  /** For tests: time, chance and network. */
  environment?: Partial<Environment>;
}

export interface Retry {
  /** Sendings of one call: 5. */
  attempts?: number;
  /** Milliseconds after which none begins: 120,000. Time without a network does not count. */
  total?: number;
  /** The first back-off is up to so many milliseconds, each further one up to twice as many: 500. */
  base?: number;
  /** No back-off is longer: 10,000 ms. What the gateway advises may be. */
  cap?: number;
  /** Milliseconds until a sending without an answer counts as lost: 45,000. */
  timeout?: number;
  /** Where the gateway advises a new key because another request has this one: takes one. Never for an expired one. */
  newKey?: boolean;
}

export interface Info {
  /** The key, or token, that the intent has. */
  readonly key: string | undefined;
  /** How often it was sent. */
  readonly attempts: number;
  /** The answer is the recorded one of an earlier sending. */
  readonly replayed: boolean;
  /** This caller joined a call that was under way. */
  readonly joined: boolean;
  /** The intent is settled: the next one like it is a new operation. */
  readonly final: boolean;
  /** Until when the gateway remembers the outcome. */
  readonly expires: Date | undefined;
  /** Who made the answer. */
  readonly source: 'upstream' | 'gateway' | 'operator' | 'probe' | (string & {}) | undefined;
  /** What the gateway knows of the operation, when the answer does not say it. */
  readonly outcome: 'unknown' | 'not-executed' | (string & {}) | undefined;
  /** By what an operator finds it. */
  readonly operation: string | undefined;
  /** The gateway's refusal. */
  readonly problem: Problem | undefined;
  /** Gives the intent up: the next call is a new operation. Only for somebody who knows what became of this one. */
  forget(): Promise<void>;
}

export interface RetryInfo {
  readonly reason: 'network' | 'problem' | 'status' | 'offline';
  /** Milliseconds until it is sent again; how long at most, for `offline`. */
  readonly wait: number;
  readonly attempts: number;
  readonly key: string | undefined;
  readonly response?: Response;
  readonly problem?: Problem;
  readonly error?: unknown;
}

/** A refusal of the gateway's (RFC 9457). */
export interface Problem {
  readonly code: string;
  readonly type?: string;
  readonly title?: string;
  readonly status?: number;
  readonly detail?: string;
  readonly retry?: 'same-key' | 'new-key' | 'stop';
  /** Seconds. */
  readonly retry_after?: number;
  readonly original_status?: number;
  /** Milliseconds since 1970. */
  readonly server_time?: number;
}

export interface StatusInit extends Omit<RequestInit, 'method' | 'body'> {
  /** Waits so many milliseconds for the end of what is running. */
  wait?: number;
  /** The route that is meant, where there are several. */
  route?: string;
}

export type Status =
  | { readonly state: 'unknown'; readonly retry: 'same-key' }
  | {
      readonly state: 'in-flight' | 'in-doubt' | 'completed';
      readonly operation: string;
      readonly attempt: number;
      readonly since: string;
      readonly expires: string;
      readonly retry: 'same-key' | 'stop';
      readonly retry_after?: number;
      readonly status?: number;
      readonly replayable?: boolean;
    };

/** Where keys are kept until their intents are settled. */
export interface Memory {
  /**
   * Puts what `change` makes of an intent's entry in its place, or removes it when that is undefined, in one step for
   * all who share this memory. `change` may be called again; it changes nothing itself.
   */
  update(name: string, change: (stored: Entry | undefined) => Entry | undefined): Promise<Entry | undefined>;
}

/** An intent's key. Plain data, as JSON has it. */
export interface Entry {
  readonly key: string;
  /** When it was made, by this machine's time in milliseconds. */
  readonly made: number;
  /** It was sent, and may have been carried out. */
  readonly sent: boolean;
  /** When it was first sent, by the server's time. */
  readonly time?: number;
  /** When a token ends, by the server's time. */
  readonly until?: number;
}

export interface Environment {
  /** Milliseconds since 1970. */
  now(): number;
  /** From 0 to 1. */
  random(): number;
  /** Calls back after so many milliseconds, unless what it gives is called before. */
  deadline(ms: number, callback: () => void): () => void;
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  isOnline(): boolean;
  whenOnline(signal: AbortSignal): Promise<void>;
}

export interface FingerprintInput {
  method: string;
  url?: string | URL;
  /** Instead of `url`: path and query exactly as they will be on the wire. */
  target?: string;
  contentType?: string;
  contentEncoding?: string;
  body?: BodyInit | null;
  /** Milliseconds since 1970; a retry gives the first one again. */
  timestamp: number | bigint | string;
}
