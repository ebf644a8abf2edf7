//! The file as written: every section but routes, each setting with its meaning, bounds and default. Checks nothing
//! across fields.

use super::access_log::AccessLog;
use super::client_tls::ClientTls;
use super::define::{choice, section};
use super::encryption::Encryption;
use super::front::{Http2, ProxyProtocol, Tls};
use super::jwt::Jwt;
use super::limits::Limits;
use super::operations::Operations;
use super::reader::Field;
use super::route::Route;
use super::sentinels::{RedisCluster, RedisSentinel};
use super::tokens::Tokens;
use super::upstreams::Upstream;
use super::values::{Count, Door, GIB, HOUR, KIB, MINUTE, Named, Pseudonym, SECOND, Share, Size, Span, Text};
use crate::wire::Network;
use crate::{admin, gateway, store, telemetry};
use std::net::SocketAddr;

section! {
    /// The configuration of oncegate.
    File {
        /// Where clients connect: an IP address and a port.
        listen: SocketAddr = Default("127.0.0.1:8080"),
        /// Whether other gateways of this user may listen there too, to take over from each other; with `store.kind: redis` only.
        listen_shared: bool = Default("false"),
        /// How many single-threaded runtimes; by default one per core.
        workers: Count<1, 1024> = Optional,
        /// TLS in front; absent: plain.
        tls: Tls = Optional,
        /// HTTP/2 in front.
        http2: Http2 = Default("{}"),
        /// The PROXY protocol; absent: no peer speaks it.
        proxy_protocol: ProxyProtocol = Optional,
        /// The operators' door.
        admin: Admin = Default("{}"),
        /// Where records live.
        store: Store = Default("{}"),
        /// The Bloom filter in front of the store.
        filter: Filter = Default("{}"),
        /// What may be held at once, over all workers.
        limits: Limits = Default("{}"),
        /// Networks whose X-Forwarded-* and Forwarded are believed and appended to; from others they are replaced.
        trusted_proxies: Vec<Field<Network>> = Default("[]"),
        /// What this gateway calls itself in Via, with an id of its own behind it; a request that comes round to it is 508. `none`: no Via, and no loop is seen.
        via: Pseudonym = Default("oncegate"),
        /// Request fields with an underscore in their name, which CGI-like servers cannot tell from a hyphen: left behind, refused with 400, or passed on.
        underscore_headers: gateway::Underscores = Default("drop"),
        /// Whether field names keep their case; else they are in lower case.
        preserve_header_case: bool = Default("true"),
        /// Completed records kept in memory, per gateway; 0 turns it off.
        replay_cache: Size<0, { 64 * GIB }> = Default("64MiB"),
        /// How often leases that nobody looks at are swept.
        sweep_interval: Span<SECOND, HOUR> = Default("60s"),
        /// How long a gateway that stops still takes connections after `/readyz` has turned to 503, so that balancers notice.
        drain_delay: Span<0, HOUR> = Default("0s"),
        /// How long what is under way may take after that; what is not done by then is in doubt.
        drain_timeout: Span<0, HOUR> = Default("30s"),
        /// What stands before the code in a problem's `type`.
        problem_types: Text = Default("\"urn:oncegate:problem:\""),
        /// When a changed file is read again.
        reload: Reload = Default("{}"),
        /// Log lines.
        log: Log = Default("{}"),
        /// The access log; absent: none is written.
        access_log: AccessLog = Optional,
        /// The APIs behind the gateway, by name.
        upstreams: Named<Upstream> = Required("write `upstreams: { orders: { servers: [\"http://127.0.0.1:9001\"] } }`"),
        /// JSON Web Tokens that say who calls; needed where a scope is a `jwt_claim`.
        jwt: Jwt = Optional,
        /// Where clients may ask what became of their operations; absent: nowhere.
        operations: Operations = Optional,
        /// Where clients get single-use tokens, for routes with `token` keys; absent: nowhere.
        tokens: Tokens = Optional,
        /// Routes; the first match wins, no match is 404.
        routes: Vec<Field<Route>> = Required("write a list of routes, each with `name`, `match` and `upstream`"),
    }
    later { "claims", "tracing", "otlp" }
}

section! {
    /// The operators' door: /metrics, /livez, /readyz, /api/v1.
    Admin {
        /// Where it listens; `none` for no door.
        listen: Door = Default("127.0.0.1:9900"),
        /// The bearer token that /api demands; needed beyond loopback. Empty: none.
        token: String = Default("\"\""),
        /// What /readyz asks: whether the store can take a reservation, or only whether the process serves.
        ready: admin::Ready = Default("store"),
        /// Operators' connections at once; a quarter of them may be sending a body.
        connections: Count<8, 10_000> = Default("256"),
    }
    later { "tls", "console", "users" }
}

choice! {
    gateway::Underscores { "drop" => Self::Drop, "refuse" => Self::Refuse, "pass" => Self::Pass }
    later {}
}

choice! { admin::Ready { "store" => Self::Store, "process" => Self::Process } later {} }

section! {
    /// Where records live.
    Store {
        /// `embedded` is a database file of this gateway, durable; `redis` is shared by gateways; `memory` forgets all at exit.
        kind: StoreKind = Default("embedded"),
        /// The directory of the embedded store (default ./oncegate-data).
        path: Text = Optional,
        /// Whether the embedded store's file is checked page by page before the first request (default true).
        check_at_start: bool = Optional,
        /// The address of one Redis 7 or Valkey: redis://[user:password@]host:port/db, or rediss:// for TLS.
        url: Text = Optional,
        /// Instead of `url`: the primary that these sentinels name.
        sentinel: RedisSentinel = Optional,
        /// Instead of `url`: a Redis Cluster.
        cluster: RedisCluster = Optional,
        /// The ACL user of the servers that keep the records (default: the default user).
        username: Text = Optional,
        /// Its password.
        password: String = Optional,
        /// The file whose first line is the password, read for every connection.
        password_file: Text = Optional,
        /// The database's number behind sentinels (default 0).
        database: Count<0, 1_000_000> = Optional,
        /// TLS with the servers that keep the records.
        tls: ClientTls = Optional,
        /// What is spoken with them: `resp2`, which every server and proxy knows, or `resp3` (default resp2).
        protocol: store::redis::Protocol = Optional,
        /// How many connections each worker has to a server (default 1; 4 with `wait_replicas`).
        connections: Count<1, 64> = Optional,
        /// How many replicas must have a claim before its request is forwarded (default 0).
        wait_replicas: Count<0, 16> = Optional,
        /// How long they may take; below `command_timeout` (default: half of it).
        wait_timeout: Span<1, MINUTE> = Optional,
        /// What every key in Redis begins with (default og).
        key_prefix: Text = Optional,
        /// Whether a Redis that may evict records is accepted (default false).
        allow_eviction: bool = Optional,
        /// How long a single call may take.
        command_timeout: Span<10, MINUTE> = Default("500ms"),
        /// Whether this is the only gateway that uses the store. Then its routes may say `store_failure: open_if_unseen`.
        sole_gateway: bool = Default("false"),
        /// With `sole_gateway`: the file that keeps what began while the store was away (default ./oncegate-journal).
        journal: Text = Optional,
        /// With `sole_gateway`: from this size of that file on nothing more begins while the store is away (default 64MiB).
        journal_size: Size<{ 64 * KIB }, { 4 * GIB }> = Optional,
        /// Encryption of stored answers; absent: they are stored in the clear.
        encryption: Encryption = Optional,
    }
    later { "ledger", "servers" }
}

/// The kinds of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreKind {
    Embedded,
    Redis,
    Memory,
}

choice! {
    StoreKind { "embedded" => Self::Embedded, "redis" => Self::Redis, "memory" => Self::Memory }
    later { "postgres", "postgresql" }
}

choice! { store::redis::Protocol { "resp2" => Self::Resp2, "resp3" => Self::Resp3 } later {} }

section! {
    /// The Bloom filter; it saves work and decides nothing.
    Filter {
        /// Operations that one generation holds at the stated rate.
        capacity: Count<1_000, 1_000_000_000> = Default("4000000"),
        /// Share of new operations that may be called perhaps seen, at capacity.
        false_positive_rate: Share = Default("0.00001"),
    }
    later {}
}

section! {
    /// When a changed file is read again; SIGHUP does it at any time.
    Reload {
        /// Whether the file is watched, and read whenever its content changes.
        watch: bool = Default("false"),
    }
    later {}
}

section! {
    /// Log lines.
    Log {
        /// `text` for people, `json` for machines.
        format: telemetry::LogFormat = Default("text"),
        /// A level (error, warn, info, debug, trace), or filter directives of `tracing`.
        level: Text = Default("info"),
        /// A file that what operators did is added to as well, a JSON object a line; no level silences it (default: none).
        audit: Text = Optional,
    }
    later { "file", "otlp" }
}

choice! { telemetry::LogFormat { "text" => Self::Text, "json" => Self::Json } later {} }
