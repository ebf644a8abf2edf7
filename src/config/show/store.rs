//! The store's section, written out. Secrets are masked.

use super::super::values::span_text;
use super::{MASK, Page, list, quoted, show_client_tls, size};
use crate::store::redis::{Access, Password, Protocol, Servers, Settings as Redis};
use crate::store::{Kind, Settings};
use crate::tls::client;

pub(super) fn show_store(page: &mut Page, settings: &Settings) {
    match &settings.kind {
        Kind::Memory => page.put("kind", "memory"),
        Kind::Embedded(file) => {
            page.put("kind", "embedded");
            page.put("path", quoted(file.path.display()));
            page.put("check_at_start", file.check_at_start);
        }
        Kind::Redis(redis) => show_redis(page, redis),
    }
    page.put("command_timeout", span_text(settings.command_timeout));
    page.put("sole_gateway", settings.journal.is_some());
    if let Some(journal) = &settings.journal {
        page.put("journal", quoted(journal.path.display()));
        page.put("journal_size", size(usize::try_from(journal.size).unwrap_or(usize::MAX)));
    }
    if settings.encryption.ids().next().is_some() {
        page.section("encryption", |page| page.section("keys", |page| show_keys(page, settings)));
    }
}

fn show_keys(page: &mut Page, settings: &Settings) {
    for id in settings.encryption.ids() {
        page.item(|page| {
            page.put("id", quoted(id));
            page.put("secret", quoted(MASK));
        });
    }
}

fn show_redis(page: &mut Page, redis: &Redis) {
    page.put("kind", "redis");
    match &redis.servers {
        Servers::One(node) => {
            let scheme = if redis.access.tls.is_some() { "rediss" } else { "redis" };
            page.put("url", quoted(format_args!("{scheme}://{node}/{}", redis.access.database)));
            show_access(page, &redis.access, redis.access.tls.as_ref().filter(|tls| !is_default(tls)));
        }
        Servers::Sentinel(sentinel) => {
            page.section("sentinel", |page| {
                page.put("master", quoted(&sentinel.master));
                page.put("nodes", list(&sentinel.nodes));
                show_access(page, &sentinel.access, sentinel.access.tls.as_ref());
            });
            show_access(page, &redis.access, redis.access.tls.as_ref());
            page.put("database", redis.access.database);
        }
        Servers::Cluster(nodes) => {
            page.section("cluster", |page| page.put("nodes", list(nodes)));
            show_access(page, &redis.access, redis.access.tls.as_ref());
        }
    }
    page.put("protocol", if redis.access.protocol == Protocol::Resp2 { "resp2" } else { "resp3" });
    page.put("connections", redis.connections);
    if let Some(wait) = redis.wait {
        page.put("wait_replicas", wait.replicas);
        page.put("wait_timeout", span_text(wait.timeout));
    }
    page.put("key_prefix", quoted(&redis.key_prefix));
    page.put("allow_eviction", redis.allow_eviction);
}

fn show_access(page: &mut Page, access: &Access, tls: Option<&client::Client>) {
    // The user of a URL may have no password; then it is not used.
    if let (Some(username), Some(_)) = (&access.username, &access.password) {
        page.put("username", quoted(username));
    }
    match &access.password {
        None => {}
        Some(Password::Text(_)) => page.put("password", quoted(MASK)),
        Some(Password::File(path)) => page.put("password_file", quoted(path.display())),
    }
    match tls {
        None => {}
        // No line below it would make it empty.
        Some(tls) if is_default(tls) => page.put("tls", "{}"),
        Some(tls) => page.section("tls", |page| show_client_tls(page, tls.settings())),
    }
}

fn is_default(tls: &client::Client) -> bool {
    *tls.settings() == client::Settings::default()
}
