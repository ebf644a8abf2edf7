//! What is printed of a route's guard.

use std::time::Duration;

use super::{Page, list, quoted, size};
use crate::config::values::span_text;
use crate::gateway::{
    ForwardedKey, Guard, Mode, OnDuplicate, OnInFlight, OutcomeHeaders, Probing, SafeMethods, StoreFailure,
};
use crate::keys::{ClientPrints, ClientWord, Missing, ProbeTemplate, Scope, Source, Steps, Typed};
use crate::machine::{InDoubt, Judgement, Outcomes, Preset, StatusRule, Window};
use crate::{gateway, keys};

pub(super) fn show_guard(page: &mut Page, guard: &Guard) {
    sources(page, &guard.keys.sources);
    page.put("namespace", quoted(&guard.keys.namespace));
    if let (Some(keys), Some(also)) = (&guard.keys.also, &guard.also) {
        page.section("also", |page| show_also(page, &guard.keys.namespace, keys, also));
    }
    if let Some(skew) = guard.policy.clock_skew {
        page.section("key_age", |page| {
            page.put("from", "uuid_v7");
            page.put("clock_skew", span_text(skew));
        });
    }
    page.put("scope", scope(&guard.keys.scope));
    let safe_methods = match guard.safe_methods {
        SafeMethods::Pass => "pass",
        SafeMethods::Guard => "guard",
        SafeMethods::Collapse => "collapse",
    };
    page.put("safe_methods", safe_methods);
    if guard.safe_methods != SafeMethods::Collapse {
        refusals(page, guard);
    }
    page.put("patience", span_text(guard.patience));
    page.put("retention", span_text(guard.policy.retention));
    page.put("lease", span_text(guard.policy.lease));
    page.section("outcomes", |page| outcomes(page, &guard.policy.outcomes));
    if guard.safe_methods != SafeMethods::Collapse {
        doubts(page, guard);
    }
    page.section("replay", |page| {
        page.put("require_same", list(&guard.keys.require_same));
        page.put("allow_headers", list(&guard.allow_headers));
    });
    page.put("mode", if guard.mode == Mode::Enforce { "enforce" } else { "shadow" });
    page.put("request_body_limit", size(guard.request_body_limit));
    page.put("response_body_limit", size(guard.response_body_limit));
    page.section("fingerprint", |page| fingerprint(page, guard));
}

fn fingerprint(page: &mut Page, guard: &Guard) {
    let settings = &guard.keys.fingerprint;
    page.put("compare", guard.policy.compare);
    page.put("headers", list(&settings.headers));
    page.section("ignore", |page| {
        page.put("json", list(&settings.ignore_json));
        page.put("query", list(&settings.ignore_query));
    });
    typed(page, &settings.typed);
    page.section("client", |page| client_prints(page, settings.client.as_ref()));
    if let Some(decoding) = &settings.decode {
        page.section("decode", |page| {
            page.put("codings", list(decoding.codings.iter().map(|coding| coding.word())));
            page.put("ratio", decoding.ratio);
            page.put("size", size(decoding.size));
        });
    }
}

fn sources(page: &mut Page, sources: &[Source]) {
    page.section("key", |page| {
        for part in sources {
            let shown = source(part);
            page.item(|page| match part {
                Source::Typed(..) => page.line(&format!("{{ {shown} }}")),
                _ => page.line(&shown),
            });
        }
    });
}

fn show_also(page: &mut Page, namespace: &str, keys: &keys::Also, also: &gateway::Also) {
    sources(page, &keys.sources);
    // The default is no name that a file may state.
    if keys.namespace != format!("{namespace}/also") {
        page.put("namespace", quoted(&keys.namespace));
    }
    page.put("missing", missing(keys.missing));
    if let Some(own) = &keys.scope {
        page.put("scope", scope(own));
    }
    page.put("duplicate", if also.duplicate == OnDuplicate::Replay { "replay" } else { "reject" });
    page.put("duplicate_status", also.duplicate_status.as_u16());
    page.put("retention", span_text(also.policy.retention));
    page.put("doubt_retention", span_text(also.policy.doubt_retention));
    page.section("fingerprint", |page| page.put("compare", also.policy.compare));
}

fn missing(missing: Missing) -> &'static str {
    if missing == Missing::Reject { "reject" } else { "pass" }
}

fn client_prints(page: &mut Page, prints: Option<&ClientPrints>) {
    let Some(prints) = prints else { return page.put("mode", "ignore") };
    page.put("mode", if prints.word == ClientWord::Verify { "verify" } else { "trust" });
    page.put("required", prints.required);
    page.put("skew", span_text(prints.skew));
    page.put("header", quoted(&prints.header));
    page.put("timestamp_header", quoted(&prints.timestamp_header));
}

/// What becomes of those who come again.
fn refusals(page: &mut Page, guard: &Guard) {
    page.put("missing", missing(guard.keys.missing));
    page.put("duplicate", if guard.duplicate == OnDuplicate::Replay { "replay" } else { "reject" });
    page.put("duplicate_status", guard.duplicate_status.as_u16());
    page.put("in_flight", if guard.in_flight == OnInFlight::Reject { "reject" } else { "wait" });
    page.put("in_flight_status", guard.in_flight_status.as_u16());
    page.put("window", if guard.policy.window == Window::Fixed { "fixed" } else { "sliding" });
    page.put("forwarded_key", if guard.forwarded_key == ForwardedKey::Operation { "operation" } else { "window" });
}

/// What becomes of operations whose outcome is not known, and while the store is away.
fn doubts(page: &mut Page, guard: &Guard) {
    page.put("outcome_headers", if guard.outcome_headers == OutcomeHeaders::Ignore { "ignore" } else { "trust" });
    let in_doubt = match guard.policy.in_doubt {
        InDoubt::Hold => "hold",
        InDoubt::Retry => "retry",
        InDoubt::Probe { .. } => "probe",
    };
    page.put("in_doubt", in_doubt);
    page.put("in_doubt_status", guard.in_doubt_status.as_u16());
    if let (Some(template), Some(probing), InDoubt::Probe { absent_after }) =
        (&guard.keys.probe, &guard.probing, guard.policy.in_doubt)
    {
        page.section("probe", |page| probe(page, template, probing, absent_after));
    }
    page.put("doubt_retention", span_text(guard.policy.doubt_retention));
    let store_failure = match guard.store_failure {
        StoreFailure::Closed => "closed",
        StoreFailure::Open => "open",
        StoreFailure::OpenIfUnseen => "open_if_unseen",
    };
    page.put("store_failure", store_failure);
}

fn probe(page: &mut Page, template: &ProbeTemplate, probing: &Probing, absent_after: Duration) {
    page.put("get", quoted(&template.target));
    let fields = template.headers.iter().map(|(name, value)| format!("{}: {}", quoted(name), quoted(value)));
    page.put("headers", format!("{{ {} }}", fields.collect::<Vec<_>>().join(", ")));
    page.put("absent_after", span_text(absent_after));
    page.put("schedule", list(probing.schedule.iter().map(|after| span_text(*after))));
    page.put("interval", span_text(probing.interval));
    page.put("timeout", span_text(probing.timeout));
    page.put("size_limit", size(template.size_limit));
}

fn typed(page: &mut Page, typed: &Typed) {
    let kinds = [("json", &typed.json), ("form", &typed.form), ("query", &typed.query)];
    let values = kinds.iter().flat_map(|(kind, values)| values.iter().map(move |(name, steps)| (kind, name, steps)));
    let shown: Vec<String> =
        values.map(|(kind, name, steps)| format!("{{ {kind}: {}, steps: {} }}", quoted(name), words(steps))).collect();
    page.put("normalize", format!("[{}]", shown.join(", ")));
}

fn words(steps: &Steps) -> String {
    format!("[{}]", steps.words().collect::<Vec<_>>().join(", "))
}

fn source(source: &Source) -> String {
    match source {
        Source::Header(name) => format!("header: {}", quoted(name)),
        Source::Query(name) => format!("query: {}", quoted(name)),
        Source::Json(pointer) => format!("json: {}", quoted(pointer)),
        Source::Form(name) => format!("form: {}", quoted(name)),
        Source::Typed(plain, steps) => format!("{}, normalize: {}", self::source(plain), words(steps)),
        Source::All(parts) => {
            let parts: Vec<String> = parts.iter().map(|part| format!("{{ {} }}", self::source(part))).collect();
            format!("all: [{}]", parts.join(", "))
        }
        Source::Token(_) => "token: {}".to_owned(),
        Source::Fingerprint => "fingerprint: {}".to_owned(),
    }
}

fn scope(scope: &Scope) -> String {
    match scope {
        Scope::TrustedHeader(name) => format!("{{ trusted_header: {} }}", quoted(name)),
        Scope::Header(name) => format!("{{ header: {} }}", quoted(name)),
        Scope::Cookie(name) => format!("{{ cookie: {} }}", quoted(name)),
        Scope::Authorization => "{ authorization: hash }".to_owned(),
        Scope::ClientCertificate(name) => format!("{{ client_certificate: {} }}", name.word()),
        Scope::JwtClaim(pointer, _) => format!("{{ jwt_claim: {} }}", quoted(pointer)),
        Scope::PathParameter(name) => format!("{{ path_parameter: {} }}", quoted(name)),
        Scope::All(parts) => {
            let parts: Vec<String> = parts.iter().map(self::scope).collect();
            format!("{{ all: [{}] }}", parts.join(", "))
        }
        Scope::None => "none".to_owned(),
    }
}

fn outcomes(page: &mut Page, outcomes: &Outcomes) {
    let preset = match outcomes.preset() {
        Preset::SuccessOnly => "success-only",
        Preset::Cautious => "cautious",
        Preset::Strict => "strict",
    };
    page.put("default", preset);
    for (rule, judgement) in outcomes.rules() {
        let status = match rule {
            StatusRule::WithRetryAfter(status) => format!("{status}+retry-after"),
            StatusRule::Exact(status) => status.to_string(),
            StatusRule::Class(class) => format!("{class}xx"),
        };
        let judgement = match judgement {
            Judgement::Keep => "keep",
            Judgement::Release => "release",
            Judgement::Doubt => "doubt",
        };
        page.put(&quoted(status), judgement);
    }
}
