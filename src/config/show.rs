//! The settings as they will run, written as a configuration file with every default put in. Secrets are masked.

use std::fmt::Display;
use std::path::Path;

use super::Settings;
use super::values::{size_text, span_text};
use crate::gateway::{
    Case, Guard, MethodOverride, Mode, OnDuplicate, OnInFlight, PathParameters, Route, StoreFailure, Underscores,
};
use crate::keys::{Missing, Scope, Source};
use crate::machine::{InDoubt, Judgement, Outcomes, Preset, StatusRule};
use crate::{admin, store, telemetry, upstream};

/// What stands where a secret stands.
const MASK: &str = "***";

/// The settings as YAML that loads again, but for its masked secrets.
pub fn show(settings: &Settings) -> String {
    let mut page = Page::default();
    page.put("listen", quoted(settings.server.listen));
    page.put("workers", settings.server.workers);
    page.section("admin", |page| admin(page, &settings.admin));
    page.section("store", |page| store(page, &settings.store));
    page.section("filter", |page| {
        page.put("capacity", settings.filter.capacity);
        page.put("false_positive_rate", settings.filter.false_positive_rate);
    });
    page.section("limits", |page| limits(page, settings));
    page.put("trusted_proxies", list(&settings.gateway.trusted_proxies));
    page.put("via", quoted(settings.gateway.via.as_deref().unwrap_or("none")));
    let underscores = match settings.gateway.underscore_headers {
        Underscores::Drop => "drop",
        Underscores::Refuse => "refuse",
        Underscores::Pass => "pass",
    };
    page.put("underscore_headers", underscores);
    page.put("preserve_header_case", settings.server.preserve_header_case);
    page.put("replay_cache", size(settings.replay_cache));
    page.put("sweep_interval", span_text(settings.sweep_interval));
    page.put("drain_timeout", span_text(settings.server.drain_timeout));
    page.put("problem_types", quoted(&settings.gateway.problem_types));
    page.section("log", |page| {
        let format = match settings.log.format {
            telemetry::LogFormat::Text => "text",
            telemetry::LogFormat::Json => "json",
        };
        page.put("format", format);
        page.put("level", quoted(&settings.log.level));
    });
    page.section("upstreams", |page| {
        for upstream in &settings.upstreams {
            page.section(&quoted(&upstream.name), |page| show_upstream(page, upstream));
        }
    });
    page.section("routes", |page| {
        for route in &settings.gateway.routes {
            page.item(|page| show_route(page, route, &settings.upstreams));
        }
    });
    page.text
}

fn admin(page: &mut Page, settings: &admin::Settings) {
    page.put("listen", settings.listen.map_or("none".to_owned(), quoted));
    page.put("token", quoted(settings.token.as_ref().map_or("", |_| MASK)));
    let ready = match settings.ready {
        admin::Ready::Store => "store",
        admin::Ready::Process => "process",
    };
    page.put("ready", ready);
}

fn store(page: &mut Page, settings: &store::Settings) {
    match &settings.kind {
        store::Kind::Memory => page.put("kind", "memory"),
        store::Kind::Embedded { path } => {
            page.put("kind", "embedded");
            page.put("path", quoted(Path::display(path)));
        }
        store::Kind::Redis(redis) => {
            page.put("kind", "redis");
            page.put("url", quoted(masked(&redis.url)));
            page.put("key_prefix", quoted(&redis.key_prefix));
            page.put("allow_eviction", redis.allow_eviction);
        }
    }
    page.put("command_timeout", span_text(settings.command_timeout));
}

/// The URL with its password masked, and anything that may be one.
fn masked(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let place = rest.rsplit_once('@').map_or(rest.to_owned(), |(_, place)| format!("{MASK}:{MASK}@{place}"));
    let place = place.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}://{place}")
}

fn limits(page: &mut Page, settings: &Settings) {
    let limits = &settings.gateway.limits;
    page.put("connections", limits.connections);
    page.put("in_flight", limits.in_flight);
    page.put("waiters", limits.waiters);
    page.put("buffered_bodies", size(limits.buffered_bodies));
    page.put("header_timeout", span_text(limits.header_timeout));
    page.put("body_timeout", span_text(limits.body_timeout));
    page.put("websocket_idle_timeout", span_text(limits.websocket_idle_timeout));
}

fn show_upstream(page: &mut Page, settings: &upstream::Settings) {
    let servers = settings.servers.iter().map(|server| format!("http://{}:{}", server.host, server.port));
    page.put("servers", list(servers));
    page.put("connect_timeout", span_text(settings.connect_timeout));
    page.put("idle_timeout", span_text(settings.idle_timeout));
    let host = match settings.host {
        upstream::Host::Preserve => "preserve",
        upstream::Host::Server => "server",
    };
    page.put("host", host);
    page.put("response_timeout", span_text(settings.response_timeout));
    page.put("attempt_timeout", span_text(settings.attempt_timeout));
}

fn show_route(page: &mut Page, route: &Route, upstreams: &[upstream::Settings]) {
    page.put("name", quoted(&route.name));
    page.section("match", |page| {
        page.put("methods", list(&route.methods));
        page.put("path", quoted(&route.path));
        page.put("hosts", list(&route.hosts));
        page.put("case", if route.case == Case::Sensitive { "sensitive" } else { "insensitive" });
        page.put("path_parameters", if route.path_parameters == PathParameters::Ignore { "ignore" } else { "keep" });
        page.put("method_override", if route.method_override == MethodOverride::Refuse { "refuse" } else { "ignore" });
    });
    if let Some(upstream) = upstreams.get(route.upstream) {
        page.put("upstream", quoted(&upstream.name));
    }
    if route.guard.is_none() {
        page.put("websocket", route.websocket);
    }
    if let Some(cors) = &route.cors {
        let any = cors.any.then_some("*");
        page.section("cors", |page| page.put("origins", list(cors.origins.iter().map(String::as_str).chain(any))));
    }
    if let Some(guard) = &route.guard {
        page.section("idempotency", |page| show_guard(page, guard));
    }
}

fn show_guard(page: &mut Page, guard: &Guard) {
    page.section("key", |page| {
        for part in &guard.keys.sources {
            page.item(|page| page.line(&source(part)));
        }
    });
    page.put("namespace", quoted(&guard.keys.namespace));
    page.put("missing", if guard.keys.missing == Missing::Reject { "reject" } else { "pass" });
    page.put("scope", scope(&guard.keys.scope));
    page.put("duplicate", if guard.duplicate == OnDuplicate::Replay { "replay" } else { "reject" });
    page.put("duplicate_status", guard.duplicate_status.as_u16());
    page.put("in_flight", if guard.in_flight == OnInFlight::Reject { "reject" } else { "wait" });
    page.put("in_flight_status", guard.in_flight_status.as_u16());
    page.put("patience", span_text(guard.patience));
    page.put("retention", span_text(guard.policy.retention));
    page.put("lease", span_text(guard.policy.lease));
    page.section("outcomes", |page| outcomes(page, &guard.policy.outcomes));
    page.put("in_doubt", if guard.policy.in_doubt == InDoubt::Hold { "hold" } else { "retry" });
    page.put("doubt_retention", span_text(guard.policy.doubt_retention));
    page.put("store_failure", if guard.store_failure == StoreFailure::Closed { "closed" } else { "open" });
    page.section("replay", |page| {
        page.put("require_same", list(&guard.keys.require_same));
        page.put("allow_headers", list(&guard.allow_headers));
    });
    page.put("mode", if guard.mode == Mode::Enforce { "enforce" } else { "shadow" });
    page.put("request_body_limit", size(guard.request_body_limit));
    page.put("response_body_limit", size(guard.response_body_limit));
    page.section("fingerprint", |page| {
        let settings = &guard.keys.fingerprint;
        page.put("compare", guard.policy.compare);
        page.put("headers", list(&settings.headers));
        page.section("ignore", |page| {
            page.put("json", list(&settings.ignore_json));
            page.put("query", list(&settings.ignore_query));
        });
    });
}

fn source(source: &Source) -> String {
    match source {
        Source::Header(name) => format!("header: {}", quoted(name)),
        Source::Query(name) => format!("query: {}", quoted(name)),
        Source::Json(pointer) => format!("json: {}", quoted(pointer)),
        Source::Form(name) => format!("form: {}", quoted(name)),
        Source::All(parts) => {
            let parts: Vec<String> = parts.iter().map(|part| format!("{{ {} }}", self::source(part))).collect();
            format!("all: [{}]", parts.join(", "))
        }
        Source::Fingerprint => "fingerprint: {}".to_owned(),
    }
}

fn scope(scope: &Scope) -> String {
    match scope {
        Scope::TrustedHeader(name) => format!("{{ trusted_header: {} }}", quoted(name)),
        Scope::Header(name) => format!("{{ header: {} }}", quoted(name)),
        Scope::Cookie(name) => format!("{{ cookie: {} }}", quoted(name)),
        Scope::Authorization => "{ authorization: hash }".to_owned(),
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

fn size(bytes: usize) -> String {
    size_text(u64::try_from(bytes).unwrap_or(u64::MAX))
}

/// A JSON string is a double-quoted scalar of YAML.
fn quoted(text: impl Display) -> String {
    serde_json::Value::String(text.to_string()).to_string()
}

fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(quoted).collect();
    format!("[{}]", items.join(", "))
}

/// YAML in block style.
#[derive(Default)]
struct Page {
    text: String,
    depth: usize,
}

impl Page {
    fn line(&mut self, text: &str) {
        self.text.push_str(&"  ".repeat(self.depth));
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn put(&mut self, name: &str, value: impl Display) {
        self.line(&format!("{name}: {value}"));
    }

    fn section(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        self.line(&format!("{name}:"));
        self.depth += 1;
        body(self);
        self.depth -= 1;
    }

    /// One item of a list: its first line begins with a dash.
    fn item(&mut self, body: impl FnOnce(&mut Self)) {
        let start = self.text.len() + 2 * self.depth;
        self.depth += 1;
        body(self);
        self.depth -= 1;
        self.text.replace_range(start..start + 2, "- ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_url_that_may_be_secret_is_shown() {
        for (url, shown) in [
            ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
            ("redis://:s3cret@db:6379/1", "redis://***:***@db:6379/1"),
            ("redis://me:p@ss@db", "redis://***:***@db"),
            ("redis://db/0?password=s3cret", "redis://db/0"),
        ] {
            assert_eq!(masked(url), shown);
        }
    }
}
