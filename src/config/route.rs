//! The file as written: routes, and how they stop duplicates. Checks nothing across fields.

use std::collections::BTreeMap;

use http::{HeaderName, Method};
use serde_json::{Value as Json, json};

use super::also::Also;
use super::client_print::ClientPrint;
use super::decode::Decode;
use super::define::{choice, section};
use super::doubt;
use super::finding::{Place, Report};
use super::key_source::KeySource;
use super::normalize::TypedValue;
use super::reader::{Field, Need, Schemas, Setting, entries, field_schema, read_field};
use super::scope::Scope;
use super::tree::Node;
use super::values::{
    Count, DAY, GIB, HOUR, HostName, MIB, MINUTE, Name, Origin, Pointer, RefusalStatus, SECOND, Size, Span, Text,
};
use crate::machine::{Judgement, Outcomes, Preset, StatusRule, Window};
use crate::{gateway, keys};

section! {
    /// A route: the first that matches takes the request.
    Route {
        /// Its name, which is also its label in metrics.
        name: Name = Required("give each route a name of its own, such as `create-order`"),
        /// Which requests it takes.
        r#match: Match = Required("write `match: { methods: [POST], path: \"/orders\" }`"),
        /// The upstream that its requests go to, by name.
        upstream: Name = Required("name one of `upstreams`"),
        /// How many of its requests may be under way at once (default: as many as `limits.in_flight`).
        concurrency: Count<1, 1_000_000> = Optional,
        /// Whether a request may become a WebSocket; only on a plain route.
        websocket: bool = Default("true"),
        /// Which pages of other origins may read what the gateway itself says; absent: none.
        cors: Cors = Optional,
        /// How duplicates are stopped; absent: a plain proxied route.
        idempotency: Idempotency = Optional,
    }
    later { "tls", "timeout", "retries", "claims", "ledger", "rewrite" }
}

section! {
    /// Which requests a route takes.
    Match {
        /// Methods; none: all.
        methods: Vec<Field<Method>> = Default("[]"),
        /// The path, in the syntax of axum: /orders/{id}, /v1/{*rest}.
        path: gateway::Pattern = Required("write `path: \"/orders\"`, or `/{*rest}` for all"),
        /// Host names without port; none: all.
        hosts: Vec<Field<HostName>> = Default("[]"),
        /// Whether the path's letters match in one case only: `sensitive`, or `insensitive`.
        case: gateway::Case = Default("sensitive"),
        /// Whether parameters in the path, such as `;x=1`, are cut before it is matched: `ignore`, or `keep` them.
        path_parameters: gateway::PathParameters = Default("ignore"),
        /// What a guard on this path does about requests that ask for another method, by X-HTTP-Method-Override and the like: `refuse` them with 400, or `ignore` that.
        method_override: gateway::MethodOverride = Default("refuse"),
    }
    later { "headers", "query" }
}

choice! { gateway::Case { "sensitive" => Self::Sensitive, "insensitive" => Self::Insensitive } later {} }
choice! { gateway::PathParameters { "ignore" => Self::Ignore, "keep" => Self::Keep } later {} }
choice! { gateway::MethodOverride { "refuse" => Self::Refuse, "ignore" => Self::Ignore } later {} }

section! {
    /// Which pages of other origins may read what the gateway itself says.
    Cors {
        /// Origins as browsers write them, such as `https://shop.example`; `*` for any, which may not send credentials.
        origins: Vec<Field<Origin>> = Required("write `origins: [\"https://shop.example\"]`"),
    }
    later {}
}

section! {
    /// How a route stops duplicates.
    Idempotency {
        /// Where keys come from, tried in order; the first that is present is the key.
        key: Vec<Field<KeySource>> = Required("write `key: [{ header: Idempotency-Key }]`"),
        /// Part of every operation's identity (default: the route's name); keep it when renaming the route.
        namespace: Name = Optional,
        /// A second key, of which a request needs the right to act as well; absent: there is none.
        also: Also = Optional,
        /// How keys say when they were made; absent: they do not. Then one that is too old to be new, and of which nothing is known, is 410.
        key_age: KeyAge = Optional,
        /// What becomes of GET, HEAD and OPTIONS: they `pass` without guard, are guarded like any other (`guard`), or reads that come at the same time share one answer (`collapse`).
        safe_methods: gateway::SafeMethods = Default("pass"),
        /// What a request without key gets: 400, or a pass without guard.
        missing: keys::Missing = Default("reject"),
        /// Whose a key is.
        scope: Scope = Required(
            "say whose a key is, such as `scope: { trusted_header: X-Customer-Id }`; `scope: none` makes all callers one"
        ),
        /// What a duplicate of a completed operation gets: the recorded answer, or a refusal.
        duplicate: gateway::OnDuplicate = Default("replay"),
        /// The status of that refusal.
        duplicate_status: RefusalStatus = Default("409"),
        /// What a duplicate of a running attempt gets: a refusal, or a wait for its answer.
        in_flight: gateway::OnInFlight = Default("reject"),
        /// The status of that refusal.
        in_flight_status: RefusalStatus = Default("409"),
        /// How long `in_flight: wait` waits.
        patience: Span<10, { 10 * MINUTE }> = Default("2s"),
        /// How long an outcome is remembered; a route keyed by fingerprint states it itself.
        retention: Span<SECOND, { 3650 * DAY }> = Default("24h"),
        /// When that ends: `fixed`, counted from the recording; `sliding`, counted anew from each duplicate that is told of it. Stating it says that the same key means another operation afterwards.
        window: Window = Default("fixed"),
        /// What the upstream gets as Idempotency-Key where the request has none: a name of the `operation`, the same in every window, or one for each (`window`). Default: `window` where `window` is stated, unless with `in_doubt: retry`.
        forwarded_key: gateway::ForwardedKey = Optional,
        /// How long an attempt may go unheard of before it counts as lost.
        lease: Span<100, HOUR> = Default("15s"),
        /// What the upstream's statuses say about the operation.
        outcomes: OutcomeTable = Default("{}"),
        /// Whether the upstream's own word (`Oncegate-Outcome`, `Oncegate-Store`, `Oncegate-TTL`) goes before `outcomes` and `retention`: `ignore`, or `trust`.
        outcome_headers: gateway::OutcomeHeaders = Default("ignore"),
        /// What duplicates of an operation in doubt get: a refusal until the doubt ends (`hold`), or a further attempt (`retry`); or a refusal, and the upstream is asked (`probe`).
        in_doubt: doubt::Word = Default("hold"),
        /// The status of that refusal; 4xx or 5xx.
        in_doubt_status: doubt::Status = Default("409"),
        /// How the upstream is asked, with `in_doubt: probe`.
        probe: doubt::Probe = Optional,
        /// How long a doubt is remembered (default: the larger of 72h and retention).
        doubt_retention: Span<SECOND, { 3650 * DAY }> = Optional,
        /// What happens while the store cannot be asked: 503, or a pass without guard.
        store_failure: gateway::StoreFailure = Default("closed"),
        /// Who may have the recorded answer, and what it carries.
        replay: Replay = Default("{}"),
        /// `enforce` acts; `shadow` counts what would have happened.
        mode: gateway::Mode = Default("enforce"),
        /// The largest request body.
        request_body_limit: Size<1, GIB> = Default("1MiB"),
        /// The largest answer kept for replay; larger ones stream through and leave a tombstone.
        response_body_limit: Size<0, { 64 * MIB }> = Default("256KiB"),
        /// What belongs to a request's identity.
        fingerprint: Fingerprint = Default("{}"),
    }
    later { "claims" }
}

section! {
    /// How keys say when they were made.
    KeyAge {
        /// `uuid_v7`: every key is a UUID of version 7; any other is 400.
        from: AgeSource = Required("write `key_age: { from: uuid_v7 }`"),
        /// How far off the clocks of those who make keys may be, against the store's.
        clock_skew: Span<0, HOUR> = Default("5m"),
    }
    later {}
}

/// The only form of a key that says when it was made.
#[derive(Debug, Clone, Copy)]
pub(super) struct AgeSource;

choice! { AgeSource { "uuid_v7" => Self } later { "ulid" } }

section! {
    /// Who may have the recorded answer, and what it carries.
    Replay {
        /// Headers that a duplicate must show as the first request did (default: Authorization, unless the scope proves the caller).
        require_same: Vec<Field<HeaderName>> = Optional,
        /// Headers to replay although replays drop them.
        allow_headers: Vec<Field<HeaderName>> = Default("[]"),
    }
    later {}
}

section! {
    /// What belongs to a request's identity, beside method, authority, path, query, content type and body.
    Fingerprint {
        /// Whether a changed request under the same key is refused with 422 (default: true for header, query and token keys, false for json, form and all).
        compare: bool = Optional,
        /// Further headers that count.
        headers: Vec<Field<HeaderName>> = Default("[]"),
        /// What does not count.
        ignore: Ignore = Default("{}"),
        /// Values that people type, which count in one form however they are typed.
        normalize: Vec<Field<TypedValue>> = Default("[]"),
        /// What is made of fingerprints that clients make.
        client: ClientPrint = Default("{}"),
        /// How compressed bodies are decoded, so that their content counts and keys can be in it; absent: they are compared as sent.
        decode: Decode = Optional,
    }
    later { "version" }
}

section! {
    /// What does not count for a fingerprint.
    Ignore {
        /// JSON pointers into the body.
        json: Vec<Field<Pointer>> = Default("[]"),
        /// Query parameters.
        query: Vec<Field<Text>> = Default("[]"),
    }
    later { "form", "headers" }
}

choice! { keys::Missing { "reject" => Self::Reject, "pass" => Self::Pass } later {} }
choice! { gateway::OnDuplicate { "replay" => Self::Replay, "reject" => Self::Reject } later {} }
choice! { gateway::OnInFlight { "reject" => Self::Reject, "wait" => Self::Wait } later {} }
choice! {
    gateway::StoreFailure { "closed" => Self::Closed, "open" => Self::Open, "open_if_unseen" => Self::OpenIfUnseen } later {}
}
choice! { gateway::OutcomeHeaders { "ignore" => Self::Ignore, "trust" => Self::Trust } later {} }
choice! { gateway::Mode { "enforce" => Self::Enforce, "shadow" => Self::Shadow } later {} }
choice! { Judgement { "keep" => Self::Keep, "release" => Self::Release, "doubt" => Self::Doubt } later {} }
choice! {
    Preset { "success-only" => Self::SuccessOnly, "cautious" => Self::Cautious, "strict" => Self::Strict }
    later {}
}

/// `outcomes`: a preset under `default`, and entries by status.
#[derive(Debug, Clone)]
pub(super) struct OutcomeTable(pub(super) Outcomes);

impl Setting for OutcomeTable {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        let mut preset = Some(Preset::SuccessOnly);
        let mut rules = BTreeMap::new();
        let mut whole = true;
        for entry in entries(node, report)? {
            if entry.key == "default" {
                preset = Preset::read(&entry.node, report);
                continue;
            }
            let rule = status_rule(&entry.key, &entry.place, report);
            let judgement = read_field::<Judgement>(&entry.node, true, report);
            match (rule, judgement.value()) {
                (Some(rule), Some(judgement)) => drop(rules.insert(rule, *judgement)),
                _ => whole = false,
            }
        }
        preset.filter(|_| whole).map(|preset| Self(Outcomes::new(preset, rules)))
    }

    fn schema(schemas: &mut Schemas) -> Json {
        let preset = Preset::schema(schemas);
        let doc = "The preset that the entries stand over: only success is remembered; Stripe's rule; or every 5xx but 503 in doubt.";
        json!({
            "type": "object",
            "properties": { "default": field_schema(preset, doc, Need::Default("success-only")) },
            "patternProperties": { "^([1-5][0-9][0-9]|[1-5]xx|503\\+retry-after)$": Judgement::schema(schemas) },
            "additionalProperties": false,
        })
    }
}

fn status_rule(key: &str, place: &Place, report: &mut Report) -> Option<StatusRule> {
    let rule = match key {
        "503+retry-after" => Some(StatusRule::WithRetryAfter(503)),
        _ if key.len() != 3 => None,
        _ => key.strip_suffix("xx").map_or_else(
            || key.parse().ok().filter(|status| (100..=599).contains(status)).map(StatusRule::Exact),
            |class| class.parse().ok().filter(|class| (1..=5).contains(class)).map(StatusRule::Class),
        ),
    };
    if rule.is_none() {
        let message = format!(
            "unknown field `{key}`: write `default`, a status such as `422`, a class such as `5xx`, or `503+retry-after`"
        );
        report.fault(place, message);
    }
    rule
}
