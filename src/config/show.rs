//! The settings as they will run, written as a configuration file with every default put in. Secrets are masked.

mod guard;
mod jwt;
mod store;
mod tokens;

use std::fmt::Display;
use std::time::Duration;

use super::Settings;
use super::values::{size_text, span_text};
use crate::gateway::{Case, MethodOverride, PathParameters, Route, Underscores};
use crate::telemetry::access;
use crate::tls::client;
use crate::{admin, server, telemetry, tls, upstream};

/// What stands where a secret stands.
const MASK: &str = "***";

/// The settings as YAML that loads again, but for its masked secrets.
pub fn show(settings: &Settings) -> String {
    let mut page = Page::default();
    page.put("listen", quoted(settings.server.listen));
    page.put("listen_shared", settings.server.listen_shared);
    page.put("workers", settings.server.workers);
    front(&mut page, &settings.server.front);
    page.section("admin", |page| admin(page, &settings.admin));
    page.section("store", |page| store::show_store(page, &settings.store));
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
    page.put("replay_cache", size(settings.arbiter.replay_cache));
    page.put("sweep_interval", span_text(settings.sweep_interval));
    page.put("drain_delay", span_text(settings.server.drain.delay));
    page.put("drain_timeout", span_text(settings.server.drain.timeout));
    page.put("problem_types", quoted(&settings.gateway.problem_types));
    if let Some(operations) = &settings.gateway.operations {
        page.section("operations", |page| {
            page.put("path", quoted(&operations.path));
            page.put("max_wait", span_text(operations.max_wait));
        });
    }
    tokens::show_tokens(&mut page, settings);
    if let Some(settings) = &settings.gateway.jwt {
        page.section("jwt", |page| jwt::show_jwt(page, settings));
    }
    page.section("reload", |page| page.put("watch", settings.watch));
    page.section("log", |page| {
        let format = match settings.log.format {
            telemetry::LogFormat::Text => "text",
            telemetry::LogFormat::Json => "json",
        };
        page.put("format", format);
        page.put("level", quoted(&settings.log.level));
        if let Some(audit) = &settings.log.audit {
            page.put("audit", quoted(audit.display()));
        }
    });
    if let Some(settings) = &settings.access_log {
        page.section("access_log", |page| access_log(page, settings));
    }
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

fn access_log(page: &mut Page, settings: &access::Settings) {
    match &settings.to {
        access::Destination::File(path) => page.put("path", quoted(path.display())),
        access::Destination::Stdout => page.put("path", "stdout"),
    }
    page.put("format", if settings.format == access::Format::Json { "json" } else { "combined" });
    page.put("query", if settings.query { "keep" } else { "drop" });
    page.put("buffer", size(settings.buffer));
    page.put("flush", span_text(settings.flush));
}

fn front(page: &mut Page, settings: &server::FrontSettings) {
    if let Some(tls) = &settings.tls {
        page.section("tls", |page| show_tls(page, &tls.certificates, tls.handshake_timeout));
    }
    page.section("http2", |page| match &settings.http2 {
        None => page.put("enabled", false),
        Some(http2) => {
            page.put("enabled", true);
            page.put("max_concurrent_streams", http2.streams);
            page.put("header_list_size", size_text(http2.header_list.into()));
            page.put("stream_window", size_text(http2.stream_window.into()));
            page.put("connection_window", size_text(http2.connection_window.into()));
            page.put("keep_alive_interval", span_text(http2.ping_interval));
            page.put("keep_alive_timeout", span_text(http2.ping_timeout));
            page.put("max_reset_streams", http2.resets);
        }
    });
    if !settings.proxies.is_empty() {
        page.section("proxy_protocol", |page| page.put("from", list(&settings.proxies)));
    }
}

fn show_tls(page: &mut Page, settings: &tls::Settings, timeout: Duration) {
    page.section("certificates", |page| {
        for pair in &settings.certificates {
            page.item(|page| {
                page.put("certificate", quoted(pair.certificate.display()));
                page.put("key", quoted(pair.key.display()));
            });
        }
    });
    page.put("min_version", quoted(if settings.oldest == tls::Oldest::Tls12 { "1.2" } else { "1.3" }));
    let (clients, authorities) = match &settings.clients {
        tls::ClientCertificates::None => ("none", None),
        tls::ClientCertificates::Optional(path) => ("optional", Some(path)),
        tls::ClientCertificates::Required(path) => ("required", Some(path)),
    };
    page.put("client_certificates", clients);
    if let Some(path) = authorities {
        page.put("client_ca", quoted(path.display()));
    }
    page.put("handshake_timeout", span_text(timeout));
}

fn admin(page: &mut Page, settings: &admin::Settings) {
    page.put("listen", settings.listen.map_or("none".to_owned(), quoted));
    page.put("token", quoted(settings.token.as_ref().map_or("", |_| MASK)));
    let ready = match settings.ready {
        admin::Ready::Store => "store",
        admin::Ready::Process => "process",
    };
    page.put("ready", ready);
    page.put("connections", settings.connections);
}

fn limits(page: &mut Page, settings: &Settings) {
    let (server, gateway) = (&settings.server.limits, &settings.gateway.limits);
    page.put("connections", server.connections);
    page.put("in_flight", gateway.in_flight);
    page.put("waiters", settings.arbiter.waiters);
    page.put("dispatched", settings.arbiter.dispatched);
    page.put("outcomes_waiting", settings.arbiter.outcomes_waiting);
    page.put("buffered_bodies", size(gateway.buffered_bodies));
    page.put("target", size(server.target));
    page.put("header_bytes", size(server.header_bytes));
    page.put("headers", server.headers);
    page.put("header_timeout", span_text(server.header_timeout));
    page.put("keep_alive_timeout", span_text(server.keep_alive_timeout));
    page.put("connection_age", span_text(server.connection_age));
    page.put("body_idle_timeout", span_text(server.body_idle_timeout));
    page.put("body_timeout", span_text(gateway.body_timeout));
    page.put("upload_timeout", span_text(gateway.upload_timeout));
    page.put("send_timeout", span_text(server.send_timeout));
    page.put("websocket_idle_timeout", span_text(gateway.websocket_idle_timeout));
}

fn show_upstream(page: &mut Page, settings: &upstream::Settings) {
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let servers = settings.servers.iter().map(|server| format!("{scheme}://{}:{}", server.host, server.port));
    page.put("servers", list(servers));
    let balance = match settings.balance {
        upstream::Balance::RoundRobin => "round_robin",
        upstream::Balance::LeastRequests => "least_requests",
    };
    page.put("balance", balance);
    page.section("ejection", |page| {
        page.put("failures", settings.ejection.failures);
        page.put("for", span_text(settings.ejection.lasts));
    });
    if let Some(check) = &settings.health {
        page.section("health", |page| show_health(page, check));
    }
    page.put("resolve_interval", span_text(settings.resolve_interval));
    page.put("connect_timeout", span_text(settings.connect_timeout));
    page.put("idle_timeout", span_text(settings.idle_timeout));
    page.put("idle_connections", settings.idle_connections);
    page.put("connection_age", span_text(settings.connection_age));
    page.put("max_connections", settings.max_connections);
    let host = match settings.host {
        upstream::Host::Preserve => "preserve",
        upstream::Host::Server => "server",
    };
    page.put("host", host);
    let protocol = match settings.protocol {
        upstream::Protocol::Http1 => "http1",
        upstream::Protocol::Http2 => "http2",
    };
    page.put("protocol", protocol);
    if let Some(tls) = settings.tls.as_ref().filter(|tls| *tls.settings() != client::Settings::default()) {
        page.section("tls", |page| show_client_tls(page, tls.settings()));
    }
    page.put("response_timeout", span_text(settings.response_timeout));
    page.put("attempt_timeout", span_text(settings.attempt_timeout));
    for (name, limit) in [
        ("first_byte_timeout", settings.first_byte_timeout),
        ("answer_idle_timeout", settings.answer_idle_timeout),
        ("total_timeout", settings.total_timeout),
    ] {
        if let Some(limit) = limit {
            page.put(name, span_text(limit));
        }
    }
}

/// Names of files; what is in them is nobody's to see here.
fn show_client_tls(page: &mut Page, settings: &client::Settings) {
    if let Some(ca) = &settings.ca {
        page.put("ca", quoted(ca.display()));
    }
    if let Some(name) = &settings.server_name {
        page.put("server_name", quoted(name));
    }
    if let Some(identity) = &settings.identity {
        page.put("certificate", quoted(identity.certificate.display()));
        page.put("key", quoted(identity.key.display()));
    }
}

fn show_health(page: &mut Page, check: &upstream::HealthCheck) {
    page.put("path", quoted(&check.path));
    if let Some(host) = check.host.as_ref().and_then(|host| host.to_str().ok()) {
        page.put("host", quoted(host));
    }
    page.put("interval", span_text(check.interval));
    page.put("timeout", span_text(check.timeout));
    page.put("healthy_after", check.healthy_after);
    page.put("unhealthy_after", check.unhealthy_after);
    page.put("status", quoted(format_args!("{}-{}", check.status.start(), check.status.end())));
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
    if let Some(most) = route.concurrency {
        page.put("concurrency", most);
    }
    if route.guard.is_none() {
        page.put("websocket", route.websocket);
    }
    if let Some(cors) = &route.cors {
        let any = cors.any.then_some("*");
        page.section("cors", |page| page.put("origins", list(cors.origins.iter().map(String::as_str).chain(any))));
    }
    if let Some(guard) = &route.guard {
        page.section("idempotency", |page| guard::show_guard(page, guard));
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
