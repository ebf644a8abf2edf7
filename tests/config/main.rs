//! The configuration file as users meet it: defaults, faults with their places, warnings, schema, the command line.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod access_log;
mod also;
mod callers;
mod client_print;
mod command_line;
mod decode;
mod encryption;
mod explain;
mod explain_diff;
mod in_doubt;
mod key_age;
mod normalize;
mod operations;
mod probe;
mod reads;
mod redis;
mod reference;
mod schema;
mod sole;
mod tokens;
mod upstreams;
mod warnings;
mod window;

use std::collections::BTreeMap;
use std::time::Duration;

use oncegate::config::{self, Errors, Loaded, Settings};
use oncegate::gateway::{
    Case, Guard, MethodOverride, Mode, OnDuplicate, OnInFlight, OutcomeHeaders, PathParameters, StoreFailure,
    Underscores,
};
use oncegate::keys::{CertificateName, FingerprintSettings, Missing, Scope, Source};
use oncegate::machine::{InDoubt, Judgement, Outcomes, Preset, StatusRule};
use oncegate::server::Drain;
use oncegate::tls::ClientCertificates;
use oncegate::wire::Network;
use oncegate::{admin, arbiter, store, telemetry, upstream};
use proptest::prelude::*;

/// The least that loads and guards a route. The guard begins in line 7.
const LEAST: &str = "\
upstreams:
  orders: { servers: [\"http://127.0.0.1:9001\"] }
routes:
  - name: create-order
    match: { methods: [POST], path: /orders }
    upstream: orders
    idempotency:
      key: [{ header: Idempotency-Key }]
      scope: { trusted_header: X-Customer-Id }
";

fn parse(text: &str) -> Result<Loaded, Errors> {
    config::parse("f.yaml", text, &|_| None)
}

fn loaded(text: &str) -> Loaded {
    parse(text).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// The least file with further lines in its guard.
fn with_guard(lines: &str) -> String {
    format!("{LEAST}      {}\n", lines.replace('\n', "\n      "))
}

fn guard(settings: &Settings) -> &Guard {
    settings.gateway.routes[0].guard.as_ref().expect("the route is guarded")
}

/// All errors as `line:column path message`.
fn errors(text: &str) -> Vec<String> {
    let errors = parse(text).expect_err(text);
    errors.iter().map(|it| format!("{}:{} {} {}", it.place.line, it.place.column, it.place.path, it.message)).collect()
}

/// Asserts that the text has exactly one error, at this place, and that it says this.
fn refused(text: &str, place: &str, says: &str) {
    let errors = errors(text);
    assert_eq!(errors.len(), 1, "{errors:#?}\n{text}");
    assert!(errors[0].starts_with(&format!("{place} ")), "{} instead of {place}\n{text}", errors[0]);
    assert!(errors[0].contains(says), "{} does not say {says:?}", errors[0]);
}

fn refused_guard(line: &str, place: &str, says: &str) {
    refused(&with_guard(line), place, says);
}

fn warnings(text: &str) -> Vec<String> {
    loaded(text).warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn an_almost_empty_file_gets_the_documented_defaults() {
    let Settings { server, admin, store, filter, log, access_log, upstreams, gateway, arbiter, sweep_interval, watch } =
        loaded(LEAST).settings;
    assert_eq!(access_log, None);
    assert_eq!(server.listen, "127.0.0.1:8080".parse().unwrap());
    assert_eq!(server.workers, std::thread::available_parallelism().unwrap().get());
    assert_eq!(server.drain, Drain { delay: Duration::ZERO, timeout: Duration::from_secs(30) });
    assert_eq!(admin.listen, Some("127.0.0.1:9900".parse().unwrap()));
    assert_eq!((admin.token, admin.ready, admin.connections), (None, admin::Ready::Store, 256));
    assert!(
        matches!(store.kind, store::Kind::Embedded(file) if file.path.as_os_str() == "./oncegate-data" && file.check_at_start)
    );
    assert_eq!(store.command_timeout, Duration::from_millis(500));
    assert_eq!((filter.capacity, filter.false_positive_rate), (4_000_000, 0.000_01));
    assert_eq!(
        log,
        telemetry::LogSettings { format: telemetry::LogFormat::Text, level: "info".to_owned(), audit: None }
    );
    let arbiter::Settings { replay_cache, waiters, dispatched, outcomes_waiting, alone } = arbiter;
    assert_eq!(outcomes_waiting, 10_000);
    assert_eq!((replay_cache, waiters, dispatched, alone), (64 << 20, 10_000, 100_000, true));
    assert_eq!(sweep_interval, Duration::from_mins(1));
    assert_eq!((server.listen_shared, watch), (false, false));
    assert_eq!(gateway.problem_types, "urn:oncegate:problem:");
    assert!(gateway.trusted_proxies.is_empty());
    assert_eq!((gateway.via.as_deref(), gateway.underscore_headers), (Some("oncegate"), Underscores::Drop));
    assert!(server.preserve_header_case && upstreams[0].preserve_header_case);
    let route = &gateway.routes[0];
    assert_eq!((route.case, route.path_parameters), (Case::Sensitive, PathParameters::Ignore));
    assert_eq!((route.method_override, &route.cors), (MethodOverride::Refuse, &None));
    let limits = gateway.limits;
    assert_eq!((limits.in_flight, limits.buffered_bodies), (4_096, 256 << 20));
    assert_eq!((limits.body_timeout, limits.upload_timeout), (Duration::from_secs(30), Duration::from_hours(1)));
    let limits = server.limits;
    assert_eq!((limits.connections, limits.headers), (10_000, 100));
    assert_eq!((limits.target, limits.header_bytes), (8 << 10, 64 << 10));
    assert_eq!((limits.header_timeout, limits.keep_alive_timeout), (Duration::from_secs(30), Duration::from_secs(75)));
    assert_eq!((limits.body_idle_timeout, limits.send_timeout), (Duration::from_secs(30), Duration::from_mins(1)));
    assert_eq!(limits.connection_age, Duration::from_hours(1));
    let orders = &upstreams[0];
    assert_eq!(orders.servers, [upstream::Server { host: "127.0.0.1".to_owned(), port: 9001 }]);
    assert_eq!((orders.name.as_str(), orders.host), ("orders", upstream::Host::Preserve));
    assert_eq!((orders.connect_timeout, orders.idle_timeout), (Duration::from_secs(1), Duration::from_secs(4)));
    assert_eq!((orders.balance, &orders.health), (upstream::Balance::RoundRobin, &None));
    assert_eq!(orders.ejection, upstream::Ejection { failures: 3, lasts: Duration::from_secs(10) });
    assert_eq!((orders.idle_connections, orders.max_connections), (128, 0));
    assert_eq!((orders.connection_age, orders.resolve_interval), (Duration::from_hours(1), Duration::from_secs(30)));
    assert_eq!((orders.response_timeout, orders.attempt_timeout), (Duration::from_secs(30), Duration::from_mins(5)));
    assert_eq!((orders.first_byte_timeout, orders.answer_idle_timeout, orders.total_timeout), (None, None, None));
    assert_eq!(gateway.routes[0].concurrency, None);
}

#[test]
fn a_guard_gets_the_documented_defaults() {
    let settings = loaded(LEAST).settings;
    let Guard { keys, policy, .. } = guard(&settings);
    assert_eq!(keys.namespace, "create-order");
    assert_eq!(keys.sources, [Source::Header("idempotency-key".parse().unwrap())]);
    assert_eq!((keys.missing, &keys.scope), (Missing::Reject, &Scope::TrustedHeader("x-customer-id".parse().unwrap())));
    assert_eq!(keys.fingerprint, FingerprintSettings::default());
    assert_eq!((policy.lease, policy.attempt_timeout), (Duration::from_secs(15), Duration::from_mins(5)));
    assert_eq!(policy.retention, Duration::from_hours(24));
    assert_eq!(policy.doubt_retention, Duration::from_hours(72));
    assert_eq!((policy.in_doubt, policy.compare), (InDoubt::Hold, true));
    assert_eq!(policy.outcomes, Outcomes::new(Preset::SuccessOnly, BTreeMap::new()));
    let guard = guard(&settings);
    assert_eq!((guard.duplicate, guard.duplicate_status.as_u16()), (OnDuplicate::Replay, 409));
    assert_eq!((guard.in_flight, guard.in_flight_status.as_u16()), (OnInFlight::Reject, 409));
    assert_eq!((guard.patience, guard.store_failure), (Duration::from_secs(2), StoreFailure::Closed));
    assert_eq!((guard.mode, guard.allow_headers.len()), (Mode::Enforce, 0));
    assert_eq!(guard.outcome_headers, OutcomeHeaders::Ignore);
    assert_eq!((guard.request_body_limit, guard.response_body_limit), (1 << 20, 256 << 10));
}

#[test]
fn defaults_that_follow_from_other_settings() {
    let of = |lines: &str| {
        let text = with_guard(lines);
        guard(&loaded(&text).settings).clone()
    };
    assert_eq!(of("retention: 30d").policy.doubt_retention, Duration::from_hours(720));
    assert_eq!(of("namespace: old").keys.namespace, "old");
    assert!(of("mode: enforce").keys.require_same.is_empty(), "a trusted header proves the caller");
    assert_eq!(of("replay: { require_same: [Cookie] }").keys.require_same, ["cookie"]);
    let unproven = LEAST.replace("trusted_header", "header");
    assert_eq!(guard(&loaded(&unproven).settings).keys.require_same, ["authorization"]);
    for (key, compare) in [
        ("header: A", true),
        ("query: a", true),
        ("json: /a", false),
        ("form: a", false),
        ("all: [{ header: A }, { json: /a }]", false),
        ("header: A }, { json: /a", true),
    ] {
        let text = LEAST.replace("header: Idempotency-Key", key);
        assert_eq!(guard(&loaded(&text).settings).policy.compare, compare, "{key}");
        let text = format!("{text}      fingerprint: {{ compare: {} }}\n", !compare);
        assert_eq!(guard(&loaded(&text).settings).policy.compare, !compare, "{key}");
    }
}

#[test]
fn the_filter_remembers_as_long_as_any_record_may_live() {
    let settings = loaded(&with_guard("retention: 100h\ndoubt_retention: 200h")).settings;
    assert_eq!(settings.filter.lifetime, Duration::from_hours(300) + Duration::from_mins(5));
    // A trusted upstream may have an outcome remembered for as long as a doubt.
    let trusting = "retention: 100h\ndoubt_retention: 200h\noutcome_headers: trust";
    let settings = loaded(&with_guard(trusting)).settings;
    assert_eq!(guard(&settings).outcome_headers, OutcomeHeaders::Trust);
    assert_eq!(settings.filter.lifetime, Duration::from_hours(400) + Duration::from_mins(5));
}

#[test]
fn everything_that_can_be_set_arrives() {
    let text = with_guard(
        "missing: pass\nduplicate: reject\nduplicate_status: 200\nin_flight: wait\nin_flight_status: 503\npatience: 9s\n\
         outcomes: { default: strict, 422: release, \"404\": keep, 5xx: doubt, 503+retry-after: keep }\nin_doubt: retry\n\
         store_failure: open\nmode: shadow\nrequest_body_limit: 2KiB\nresponse_body_limit: 0\n\
         replay: { allow_headers: [Set-Cookie] }\nlease: 100ms\n\
         fingerprint: { headers: [X-A], ignore: { json: [/sent_at], query: [ts] } }",
    );
    let text = format!(
        "{text}listen: '[::]:80'\nworkers: 3\nadmin: {{ listen: none, ready: process }}\ntrusted_proxies: [10.0.0.0/8]\n\
         store: {{ kind: redis, url: 'redis://db/1', key_prefix: 'a:b', command_timeout: 1s }}\nreplay_cache: 0\n\
         log: {{ format: json, level: 'info,oncegate=debug' }}\n"
    );
    let settings = loaded(&text).settings;
    assert_eq!((settings.server.listen.port(), settings.server.workers, settings.arbiter.replay_cache), (80, 3, 0));
    assert!(!settings.arbiter.alone);
    assert_eq!((settings.admin.listen, settings.admin.ready), (None, admin::Ready::Process));
    assert_eq!(settings.gateway.trusted_proxies, [Network::parse("10.0.0.0/8").unwrap()]);
    assert_eq!(settings.log.format, telemetry::LogFormat::Json);
    let store::Kind::Redis(redis) = &settings.store.kind else { panic!("{:?}", settings.store) };
    assert_eq!((redis.servers.to_string().as_str(), redis.access.database), ("db:6379", 1));
    assert_eq!((redis.key_prefix.as_str(), redis.allow_eviction), ("a:b", false));
    let guard = guard(&settings);
    assert_eq!(
        (guard.keys.missing, guard.duplicate, guard.duplicate_status.as_u16()),
        (Missing::Pass, OnDuplicate::Reject, 200)
    );
    assert_eq!((guard.in_flight, guard.in_flight_status.as_u16()), (OnInFlight::Wait, 503));
    assert_eq!(
        (guard.patience, guard.mode, guard.store_failure),
        (Duration::from_secs(9), Mode::Shadow, StoreFailure::Open)
    );
    assert_eq!((guard.request_body_limit, guard.response_body_limit), (2048, 0));
    assert_eq!((guard.allow_headers[0].as_str(), guard.policy.in_doubt), ("set-cookie", InDoubt::Retry));
    assert_eq!(guard.keys.fingerprint.ignore_json, ["/sent_at"]);
    let rules = [
        (StatusRule::WithRetryAfter(503), Judgement::Keep),
        (StatusRule::Exact(422), Judgement::Release),
        (StatusRule::Exact(404), Judgement::Keep),
        (StatusRule::Class(5), Judgement::Doubt),
    ];
    assert_eq!(guard.policy.outcomes, Outcomes::new(Preset::Strict, rules.into_iter().collect()));
}

/// A file with everything that a route says of paths and pages, and what stands around it, set to other than the default.
fn odd_route() -> String {
    let text = LEAST
        .replace("/orders }", "/orders, case: insensitive, path_parameters: keep, method_override: ignore }")
        .replace("    upstream:", "    cors: { origins: [\"HTTPS://Shop.example:8443\", \"*\"] }\n    upstream:");
    format!("{text}via: none\nunderscore_headers: pass\npreserve_header_case: false\n")
}

#[test]
fn what_a_route_says_of_paths_and_pages_arrives() {
    let settings = loaded(&odd_route()).settings;
    let route = &settings.gateway.routes[0];
    assert_eq!((route.case, route.path_parameters), (Case::Insensitive, PathParameters::Keep));
    assert_eq!(route.method_override, MethodOverride::Ignore);
    let cors = route.cors.as_ref().unwrap();
    assert_eq!((cors.origins.as_slice(), cors.any), (&["https://shop.example:8443".to_owned()][..], true));
    assert_eq!((settings.gateway.via, settings.gateway.underscore_headers), (None, Underscores::Pass));
    assert!(!settings.server.preserve_header_case && !settings.upstreams[0].preserve_header_case);
}

#[test]
fn names_that_say_nothing_of_a_request_are_refused_in_its_identity() {
    let counted = "10:32 routes[0].idempotency.fingerprint.headers[0]";
    for name in ["Via", "Connection", "Oncegate-Attempt"] {
        refused_guard(&format!("fingerprint: {{ headers: [{name}] }}"), counted, "belongs to the connection");
    }
    for name in ["Forwarded", "X-Forwarded-For"] {
        refused_guard(&format!("fingerprint: {{ headers: [{name}] }}"), counted, "which way a request came");
    }
    let shown = "10:32 routes[0].idempotency.replay.require_same[0]";
    refused_guard("replay: { require_same: [TE] }", shown, "belongs to the connection");
    let text = LEAST.replace("Idempotency-Key", "request_id");
    refused(&text, "8:7 routes[0].idempotency", "`underscore_headers: pass`");
    assert_eq!(warnings(&format!("{text}underscore_headers: pass\n")), Vec::<String>::new());
}

#[test]
fn origins_are_written_as_browsers_write_them() {
    let with =
        |origins: &str| LEAST.replace("    upstream:", &format!("    cors: {{ origins: [{origins}] }}\n    upstream:"));
    for bad in ["shop.example", "https://shop.example/", "'null'", "https://", "'https://a b'", "'https://*.example'"] {
        refused(&with(bad), "6:23 routes[0].cors.origins[0]", "no origin");
    }
    assert!(warnings(&with(""))[0].contains("lets no page read"));
    refused(
        &LEAST.replace("    upstream:", "    cors: {}\n    upstream:"),
        "6:11 routes[0].cors",
        "`origins` is missing",
    );
}

#[test]
fn the_known_mistakes_are_refused_with_place_and_remedy() {
    let route = "routes[0].idempotency";
    refused(&LEAST.replace("idempotency:", "idempotancy:"), "7:5 routes[0].idempotancy", "did you mean `idempotency`?");
    refused(&LEAST.replace("POST", "PSOT"), "5:24 routes[0].match.methods[0]", "did you mean `POST`?");
    for method in ["TRACE", "CONNECT"] {
        refused(&LEAST.replace("POST", method), "5:24 routes[0].match.methods[0]", "is never forwarded");
    }
    refused(&LEAST.replace("/orders }", "/a/../b }"), "5:37 routes[0].match.path", "can never match");
    refused_guard("lease: 5s\nlease: 6s", &format!("11:7 {route}.lease"), "`lease` is here twice, first in line 10");
    for empty in ["", "\n", "# nothing\n", "---\n", "~", "--- \n...\n"] {
        refused(empty, "1:1 ", "the file is empty");
    }
    let unscoped = LEAST.replace("      scope: { trusted_header: X-Customer-Id }\n", "");
    refused(&unscoped, &format!("8:7 {route}"), "`scope` is missing: say whose a key is");
    refused_guard("retention: 24", &format!("10:18 {route}.retention"), "`24h`");
    refused_guard("retention: 0s", &format!("10:18 {route}.retention"), "between 1s and 3650d");
    refused_guard("request_body_limit: -1", &format!("10:27 {route}.request_body_limit"), "a size such as `512B`");
}

#[test]
fn websockets_are_for_plain_routes() {
    let with = |line: &str| LEAST.replace("    upstream:", &format!("    {line}\n    upstream:"));
    refused(&with("websocket: true"), "6:16 routes[0].websocket", "a guarded route takes no WebSocket");
    loaded(&with("websocket: false"));
    let plain = LEAST.split("    idempotency:").next().unwrap();
    for (line, passes) in [("", true), ("    websocket: false\n", false), ("    websocket: true\n", true)] {
        assert_eq!(loaded(&format!("{plain}{line}")).settings.gateway.routes[0].websocket, passes, "{line}");
    }
}

#[test]
fn all_mistakes_come_at_once_in_the_order_of_the_file() {
    let text = LEAST
        .replace("routes:", "listen: here\nroutes:")
        .replace("upstream: orders", "upstream: oders")
        .replace("/orders }", "orders }")
        .replace("scope:", "scoop:");
    let found: Vec<String> =
        errors(&text).iter().map(|it| it.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    let expected = [
        "3:9 listen",
        "6:37 routes[0].match.path",
        "7:15 routes[0].upstream",
        "9:7 routes[0].idempotency",
        "10:7 routes[0].idempotency.scoop",
    ];
    assert_eq!(found, expected);
    assert_eq!(
        parse(&text).unwrap_err().to_string().lines().next(),
        Some(
            "f.yaml:3:9: listen: `here` is no address: write an IP address and a port, such as 127.0.0.1:8080, 0.0.0.0:8080 or [::]:8080"
        )
    );
}

#[test]
fn a_mistake_draws_no_second_one_after_it() {
    refused(&LEAST.replace("[\"http://127.0.0.1:9001\"]", "5"), "2:22 upstreams.orders.servers", "expected a list");
    refused_guard("retention: x\ndoubt_retention: 1s", "10:18 routes[0].idempotency.retention", "a duration");
    refused(&format!("{LEAST}store: {{ kind: rediss, url: x }}"), "10:16 store.kind", "did you mean `redis`?");
}

#[test]
fn scalars_are_checked_one_by_one() {
    for (line, says) in [
        ("lease: 50ms", "between 100ms and 1h"),
        ("lease: [1s]", "expected a duration"),
        ("lease:", "has no value"),
        ("patience: 1.5s", "a duration such as"),
        ("request_body_limit: 0", "between 1B and 1GiB"),
        ("request_body_limit: 64KB", "a size such as"),
        ("request_body_limit: 1024", "`1024KiB`"),
        ("duplicate_status: 302", "2xx, 4xx or 5xx"),
        ("in_flight_status: 99", "2xx, 4xx or 5xx"),
        ("duplicate: replays", "did you mean `replay`?"),
        ("missing: [a]", "expected one of `reject`, `pass`"),
        ("namespace: a b", "is no name"),
        ("outcomes: { 4x: keep }", "a class such as `5xx`"),
        ("outcomes: { 600: keep }", "a status such as `422`"),
        ("outcomes: { 503+retry: keep }", "`503+retry-after`"),
        ("fingerprint: { compare: yes }", "neither `true` nor `false`"),
        ("fingerprint: { ignore: { json: [sent_at] } }", "it begins with `/`"),
        ("fingerprint: { headers: [\"a b\"] }", "no header name"),
        ("replay: { allow_headers: [Connection] }", "belongs to the connection"),
    ] {
        let errors = errors(&with_guard(line));
        assert_eq!(errors.len(), 1, "{errors:#?}");
        assert!(errors[0].starts_with("10:") && errors[0].contains(says), "{} does not say {says:?}", errors[0]);
    }
    for (line, says) in [
        ("workers: 0", "between 1 and 1024"),
        ("filter: { capacity: 10 }", "between 1000 and"),
        ("filter: { false_positive_rate: 0.9 }", "out of bounds"),
        ("filter: { false_positive_rate: NaN }", "out of bounds"),
        ("trusted_proxies: [10.0.0.0/33]", "no network"),
        ("log: { level: 'a=b=c' }", "no log level"),
        ("log: { level: warning }", "no log level"),
        ("log: { level: 'verbose,oncegate=debug' }", "no log level"),
        ("problem_types: 'not a uri'", "no beginning of a URI"),
        ("admin: { listen: 127.0.0.1:8080 }", "is the address of `listen` too"),
        ("admin: { listen: 0.0.0.0:9900 }", "beyond loopback"),
        ("admin: { token: 'with space 12345678' }", "printable ASCII"),
        ("store: { kind: memory, path: x }", "belongs to `kind: embedded` only"),
        ("listen_shared: true", "needs `store: { kind: redis }`"),
        ("admin: x", "expected fields here"),
        ("tls: {}", "`certificates` is missing"),
        ("tls: { certificates: [] }", "is empty"),
        ("tls: { certificates: [ { certificate: a } ] }", "`key` is missing"),
        ("tls: { certificates: [ { certificate: a, key: a } ], min_version: 1.1 }", "`1.1` is not known"),
        ("tls: { certificates: [ { certificate: a, key: a } ], client_certificates: required }", "needs `client_ca`"),
        ("tls: { certificates: [ { certificate: a, key: a } ], client_ca: a }", "is for nothing"),
        ("http2: { max_concurrent_streams: 0 }", "between 1 and 10000"),
        ("http2: { enabled: false, stream_window: 2MiB }", "above `connection_window`"),
        ("proxy_protocol: {}", "`from` is missing"),
        ("proxy_protocol: { from: [] }", "is empty"),
        ("proxy_protocol: { from: [here] }", "is no network"),
    ] {
        let errors = errors(&format!("{LEAST}{line}\n"));
        assert_eq!(errors.len(), 1, "{errors:#?}");
        assert!(errors[0].starts_with("10:") && errors[0].contains(says), "{} does not say {says:?}", errors[0]);
    }
}

/// The least file with further settings of its upstream.
fn with_upstream(more: &str) -> String {
    LEAST.replace("9001\"]", &format!("9001\"], {more}"))
}

#[test]
fn an_upstream_says_how_its_servers_are_used() {
    let text = with_upstream(
        "balance: least_requests, ejection: { failures: 0, for: 1m }, max_connections: 9, \
         health: { path: \"/up?a=b\", host: \"api.example:81\", status: 204, healthy_after: 2 }",
    );
    let orders = &loaded(&text).settings.upstreams[0];
    assert_eq!((orders.balance, orders.max_connections), (upstream::Balance::LeastRequests, 9));
    assert_eq!(orders.ejection, upstream::Ejection { failures: 0, lasts: Duration::from_mins(1) });
    let check = upstream::HealthCheck {
        path: "/up?a=b".parse().unwrap(),
        host: Some("api.example:81".parse().unwrap()),
        interval: Duration::from_secs(5),
        timeout: Duration::from_secs(1),
        healthy_after: 2,
        unhealthy_after: 3,
        status: 204..=204,
    };
    assert_eq!(orders.health, Some(check));
    assert_eq!(loaded(&config::show(&loaded(&text).settings)).settings.upstreams[0], *orders);
    for (more, says) in [
        ("balance: round-robin", "did you mean `round_robin`?"),
        ("balance: random", "known here: `round_robin`, `least_requests`"),
        ("ejection: { for: 5ms }", "between 100ms and 1h"),
        ("health: {}", "`path` is missing"),
        ("health: { path: healthz }", "it begins with `/`"),
        ("health: { path: \"/a b\" }", "is no path"),
        ("health: { path: /, host: \"a b\" }", "is no host"),
        ("health: { path: /, status: 399-200 }", "no range of statuses"),
        ("health: { path: /, status: 2xx }", "no range of statuses"),
        ("health: { path: /, status: 200-600 }", "no range of statuses"),
        ("resolve_interval: 0s", "between 1s and 1h"),
        ("retries: 2", "not in this version yet"),
    ] {
        let errors = errors(&with_upstream(more));
        assert_eq!(errors.len(), 1, "{errors:#?}");
        assert!(errors[0].starts_with("2:") && errors[0].contains(says), "{} does not say {says:?}", errors[0]);
    }
}

#[test]
fn a_scope_by_certificate_needs_clients_that_are_asked() {
    let scoped = LEAST.replace("trusted_header: X-Customer-Id", "client_certificate: subject");
    refused(&scoped, "9:14 routes[0].idempotency.scope", "set `tls.client_certificates`");
    let tls = |more: &str| format!("{scoped}tls: {{ certificates: [ {{ certificate: c, key: k }} ]{more} }}\n");
    refused(&tls(""), "9:14 routes[0].idempotency.scope", "set `tls.client_certificates`");
    let settings = loaded(&tls(", client_certificates: optional, client_ca: ca")).settings;
    let guard = guard(&settings);
    assert_eq!(guard.keys.scope, Scope::ClientCertificate(CertificateName::Subject));
    assert!(guard.keys.require_same.is_empty(), "it proves the caller");
    let tls = settings.server.front.tls.as_ref().unwrap();
    assert_eq!(tls.certificates.clients, ClientCertificates::Optional("ca".into()));
    assert_eq!(settings.server.front.http2.unwrap().streams, 100);
}

#[test]
fn settings_are_checked_against_each_other() {
    refused(
        &with_upstream("attempt_timeout: 20s"),
        "2:66 upstreams.orders.attempt_timeout",
        "`response_timeout` (30s)",
    );
    refused(
        &with_upstream("first_byte_timeout: 6m"),
        "2:69 upstreams.orders.first_byte_timeout",
        "above `attempt_timeout` (5m)",
    );
    refused(
        &format!("{LEAST}limits: {{ target: 16KiB, header_bytes: 16KiB }}\n"),
        "10:19 limits.target",
        "below `header_bytes`",
    );
    refused(
        &format!("{LEAST}limits: {{ header_bytes: 8KiB }}\n"),
        "10:25 limits.header_bytes",
        "below `header_bytes` (8KiB)",
    );
    refused(
        &format!("{LEAST}limits: {{ body_idle_timeout: 61m }}\n"),
        "10:30 limits.body_idle_timeout",
        "between 100ms and 1h",
    );
    refused(
        &format!("{LEAST}limits: {{ body_idle_timeout: 2m, upload_timeout: 1m }}\n"),
        "10:30 limits.body_idle_timeout",
        "(1m): it would never pass",
    );
    refused(
        &with_upstream("response_timeout: 5s, attempt_timeout: 15s"),
        "8:7 routes[0].idempotency.lease",
        "must be below the upstream's `attempt_timeout` (15s)",
    );
    let bound = LEAST.replace("    upstream: orders\n", "    upstream: orders\n    concurrency: 5000\n");
    assert!(warnings(&bound).iter().any(|it| it.contains("above `limits.in_flight` (4096)")), "{:?}", warnings(&bound));
    refused_guard("doubt_retention: 23h", "10:24 routes[0].idempotency.doubt_retention", "below `retention` (1d)");
    refused_guard(
        "request_body_limit: 257MiB",
        "10:27 routes[0].idempotency.request_body_limit",
        "limits.buffered_bodies",
    );
    let print = LEAST.replace("header: Idempotency-Key", "fingerprint: {}");
    refused(&print, "8:13 routes[0].idempotency.key[0]", "must state `retention` itself");
    loaded(&format!("{print}      retention: 24h\n"));
    let twice = format!("{LEAST}  - {{ name: create-order, match: {{ path: /x }}, upstream: orders }}\n");
    refused(&twice, "10:13 routes[1].name", "the name of the route in line 4 too");
    refused(&LEAST.replace("upstream: orders", "upstream: order"), "6:15 routes[0].upstream", "did you mean `orders`?");
    let empty = errors("upstreams: {}\nroutes: []\n");
    assert!(empty.len() == 2 && empty.iter().all(|it| it.contains("is empty")), "{empty:?}");
}

#[test]
fn what_is_for_later_is_refused_as_such() {
    for (text, place) in [
        (LEAST.replace("path: /orders", "path: /orders, query: {}"), "5:46 routes[0].match.query"),
        (format!("{LEAST}store: {{ kind: redis, url: 'redis+unix:///s' }}\n"), "10:28 store.url"),
        (format!("{LEAST}claims: {{}}\n"), "10:1 claims"),
    ] {
        refused(&text, place, "not in this version yet");
    }
}

#[test]
fn yaml_that_is_none_or_too_clever_is_refused_with_its_place() {
    assert!(errors("a: [\n")[0].contains("this is no YAML"));
    assert!(errors("a: b: c\n")[0].starts_with("1:"), "{:?}", errors("a: b: c\n"));
    refused("- a\n", "1:1 ", "expected fields here");
    refused(&format!("{LEAST}---\na: b\n"), "10:1 ", "a second document");
    assert!(errors(&LEAST.replace("upstream: orders", "upstream: !x orders"))[0].contains("tags"));
    let aliased = LEAST.replace("[POST]", "[&post POST, *post]");
    refused(&aliased, "5:36 routes[0].match.methods[1]", "write the value out");
    assert!(errors(&format!("{LEAST}? [a]\n: b\n"))[0].contains("a plain word"));
    assert!(!errors(&"[".repeat(100_000)).is_empty());
    assert!(!errors(&"- ".repeat(100_000)).is_empty());
}

#[test]
fn variables_are_taken_in_plain_and_double_quoted_text_after_parsing() {
    let env = |name: &str| match name {
        "PORT" => Some("81".to_owned()),
        "EVIL" => Some("x: y\nroutes: []".to_owned()),
        _ => None,
    };
    let parse = |text: &str| config::parse("f.yaml", text, &env);
    let listen =
        |line: &str| parse(&format!("{LEAST}{line}\n")).map(|loaded| loaded.settings.server.listen.to_string());
    assert_eq!(listen("listen: 127.0.0.1:${PORT}").unwrap(), "127.0.0.1:81");
    assert_eq!(listen("listen: \"127.0.0.1:${NONE:-82}\"").unwrap(), "127.0.0.1:82");
    for (line, says) in [
        ("listen: '127.0.0.1:${PORT}'", "use double quotes"),
        ("listen: |\n  127.0.0.1:${PORT}", "use double quotes"),
        ("listen: 127.0.0.1:${MISSING}", "`MISSING` is not set"),
        ("listen: \"127.0.0.1:${PORT\"", "not closed"),
    ] {
        let errors = listen(line).unwrap_err();
        let found = errors.iter().next().unwrap();
        let place = if line.contains('|') { (11, 3, "listen") } else { (10, 9, "listen") };
        assert_eq!((found.place.line, found.place.column, found.place.path.as_str()), place, "{line}");
        assert!(errors.iter().len() == 1 && found.message.contains(says), "{errors}");
    }
    let loaded = parse(&format!("{LEAST}problem_types: \"urn:${{EVIL}}\"\n")).unwrap();
    assert_eq!(loaded.settings.gateway.problem_types, "urn:x: y\nroutes: []", "a value stays one value");
}

#[test]
fn odd_settings_are_allowed_with_a_warning() {
    assert_eq!(warnings(LEAST), Vec::<String>::new());
    for (text, says) in [
        (LEAST.replace("trusted_header", "header"), "the client's own word"),
        (LEAST.replace("trusted_header: X-Customer-Id", "authorization: hash"), "each refresh of a token"),
        (LEAST.replace("trusted_header: X-Customer-Id", "cookie: sid"), "the client's own word"),
        (LEAST.replace("{ trusted_header: X-Customer-Id }", "none"), "all callers share their keys"),
        (LEAST.replace("methods: [POST], ", ""), "pass without guard"),
        (
            LEAST.replace("header: Idempotency-Key", "fingerprint: {} }, { query: a") + "      retention: 1h\n",
            "is never asked",
        ),
        (LEAST.replace("header: Idempotency-Key", "header: A }, { json: /a"), "state `fingerprint.compare`"),
        (with_guard("store_failure: open"), "while the store is down"),
        (with_guard("in_flight: wait\npatience: 31s"), "longer than a first request does"),
        (format!("{LEAST}store: {{ kind: memory }}\n"), "forgets every operation at exit"),
        (format!("{LEAST}admin: {{ token: short }}\n"), "is short"),
        (LEAST.replace("routes:", "  spare: { servers: [\"http://b\"] }\nroutes:"), "no route goes to this upstream"),
    ] {
        let warnings = warnings(&text);
        assert_eq!(warnings.len(), 1, "{warnings:#?}\n{text}");
        assert!(
            warnings[0].starts_with("f.yaml:") && warnings[0].contains(says),
            "{} does not say {says:?}",
            warnings[0]
        );
    }
}

#[test]
fn a_route_behind_one_that_takes_all_its_requests_is_named() {
    let behind = |matching: &str, more: &str| {
        format!("{LEAST}  - name: second\n    match: {matching}\n    upstream: orders\n{more}")
    };
    let warnings_of = |matching| warnings(&behind(matching, ""));
    assert_eq!(
        warnings_of("{ methods: [POST], path: /orders, hosts: [a] }"),
        ["f.yaml:10:5: routes[1]: route `second` is never reached: `create-order` before it takes all its requests"]
    );
    assert!(warnings_of("{ methods: [POST, PUT], path: /orders }").is_empty());
    assert!(warnings_of("{ methods: [POST], path: '/{id}' }").is_empty());
    assert!(warnings_of("{ methods: [POST], path: /orders, case: insensitive }").is_empty());
    assert_eq!(warnings_of("{ methods: [POST], path: /orders, path_parameters: keep }").len(), 1);
    let guard = "    idempotency: { key: [{ query: k }], scope: { trusted_header: A }, namespace: create-order }\n";
    let shared = warnings(&behind("{ methods: [PUT], path: /b }", guard));
    assert!(
        shared.len() == 1 && shared[0].contains("shares the namespace `create-order` with route `create-order`"),
        "{shared:?}"
    );
}

const REFERENCE: &str = "config/oncegate.yaml";

/// Name and text of every file that is shipped.
fn shipped() -> Vec<(String, String)> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let examples = std::fs::read_dir(root.join("config/examples")).unwrap().map(|file| file.unwrap().path());
    let named = ["deploy/oncegate.yaml", REFERENCE].map(|name| root.join(name));
    let files: Vec<_> = examples.filter(|path| path.extension().is_some_and(|it| it == "yaml")).chain(named).collect();
    assert!(files.len() > 5);
    files.iter().map(|path| (path.display().to_string(), std::fs::read_to_string(path).unwrap())).collect()
}

fn load_shipped(name: &str, text: &str) -> Loaded {
    // Secrets have no default.
    let env = |name: &str| name.starts_with("ONCEGATE_").then(|| "0123456789abcdef0123456789abcdef".to_owned());
    config::parse(name, text, &env).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn every_shipped_file_loads() {
    for (name, text) in shipped() {
        load_shipped(&name, &text);
    }
}

/// The reference claims to show the defaults: without what it shows, the same settings result.
#[test]
fn the_reference_shows_the_defaults() {
    let text = include_str!("../../config/oncegate.yaml").replace("${ONCEGATE_ADMIN_TOKEN:-}", "");
    let reference = load_shipped(REFERENCE, &text);
    assert_eq!(reference.warnings, []);
    assert_eq!(config::show(&reference.settings), config::show(&loaded(LEAST).settings));
}

#[test]
fn what_check_prints_loads_again_and_hides_secrets() {
    let secret = format!(
        "{LEAST}admin: {{ token: s3cret-s3cret-s3cret }}\nstore: {{ kind: redis, url: 'redis://me:s3cret@db:1/2' }}\n"
    );
    let pair = "[ { certificate: a b, key: 'c: d' } ]";
    let front = format!(
        "{LEAST}tls: {{ certificates: {pair}, client_certificates: required, client_ca: e, min_version: 1.3 }}\n\
         http2: {{ enabled: false }}\nproxy_protocol: {{ from: [10.0.0.0/8, '::1'] }}\n"
    )
    .replace("trusted_header: X-Customer-Id", "all: [ { client_certificate: fingerprint }, { cookie: sid } ]");
    let paged = odd_route();
    let further = [loaded(&secret), loaded(&front), loaded(&paged)];
    let texts =
        shipped().iter().map(|(name, text)| load_shipped(name, text)).collect::<Vec<_>>().into_iter().chain(further);
    for loaded_first in texts {
        let shown = config::show(&loaded_first.settings);
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(!shown.contains("0123456789abcdef"), "{shown}");
        // A mask is too short for a secret.
        let text = shown.replace("***", "0123456789abcdef0123456789abcdef");
        let again = config::parse("shown", &text, &|_| None).unwrap_or_else(|errors| panic!("{errors}\n{shown}"));
        assert_eq!(config::show(&again.settings), shown);
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in any::<String>()) {
        let _ = parse(&text);
    }

    /// Texts that look like a configuration get further in.
    #[test]
    fn no_mangled_configuration_makes_the_reader_panic(
        file in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), cut in 0..20_usize, put in "[-\\[\\]{}:#&*!|>'\"%@`,? a0~\n$]{0,8}"
    ) {
        let files = shipped();
        let letters: Vec<char> = file.get(&files).1.chars().collect();
        let at = at.index(letters.len());
        let behind = letters.iter().skip(at + cut);
        let text: String = letters[..at].iter().copied().chain(put.chars()).chain(behind.copied()).collect();
        if let Err(errors) = config::parse("f", &text, &|_| None) {
            prop_assert!(errors.iter().len() > 0);
            prop_assert!(errors.iter().is_sorted_by_key(|it| it.place.clone()));
            let lines = text.lines().count() + 1;
            prop_assert!(errors.iter().all(|it| (1..=lines).contains(&it.place.line)), "{errors}");
        }
    }
}
