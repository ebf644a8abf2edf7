//! What differs between two configurations: for the log, and for what a running gateway cannot change. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::config::{Settings, show};
use crate::gateway::Route;
use crate::jwt::{Origin, Proof};
use crate::{admin, server, store, upstream};

/// The settings that differ and that a gateway reads at its start only, by name.
pub(super) fn fixed(old: &Settings, new: &Settings) -> Vec<&'static str> {
    // Whole structures are compared, but for what can change: a setting that is not thought of here is a fixed one.
    let server = server::Settings {
        drain: old.server.drain,
        front: old.server.front.clone(),
        limits: old.server.limits,
        preserve_header_case: old.server.preserve_header_case,
        ..new.server.clone()
    };
    let admin = admin::Settings {
        token: old.admin.token.clone(),
        ready: old.admin.ready,
        connections: old.admin.connections,
        ..new.admin.clone()
    };
    let store = store::Settings { encryption: old.store.encryption.clone(), ..new.store.clone() };
    let filter = store::filter::Settings { lifetime: old.filter.lifetime, ..new.filter };
    let (workers, shared) = (server.workers != old.server.workers, server.listen_shared != old.server.listen_shared);
    let elsewhere = server::Settings { workers: old.server.workers, listen_shared: old.server.listen_shared, ..server };
    let all = [
        ("listen", elsewhere != old.server),
        ("listen_shared", shared),
        ("workers", workers),
        ("admin.listen", admin != old.admin),
        ("admin.connections", new.admin.connections != old.admin.connections),
        ("store", store != old.store),
        ("filter", filter != old.filter),
        ("replay_cache", new.arbiter.replay_cache != old.arbiter.replay_cache),
        ("log.format", new.log.format != old.log.format),
        ("log.audit", new.log.audit != old.log.audit),
    ];
    all.into_iter().filter_map(|(name, differs)| differs.then_some(name)).collect()
}

/// What differs, in a line. Secrets do not show, nor that they differ.
pub(super) fn summary(old: &Settings, new: &Settings) -> String {
    let mut parts = Vec::new();
    let routes = |settings: &Settings| settings.gateway.routes.iter().map(|r| route(r, settings)).collect::<Vec<_>>();
    parts.extend(by_name("routes", &routes(old), &routes(new)));
    let upstreams =
        |settings: &Settings| settings.upstreams.iter().map(|u| (u.name.clone(), u.clone())).collect::<Vec<_>>();
    parts.extend(by_name("upstreams", &upstreams(old), &upstreams(new)));
    parts.extend(others(old, new));
    parts.extend(keys_in_a_file(old, new));
    if parts.is_empty() { "nothing changed".to_owned() } else { parts.join("; ") }
}

/// A route under its name, with its upstream by name too: the place in a list says nothing.
fn route(route: &Route, settings: &Settings) -> (String, (Option<String>, Route)) {
    let upstream = settings.upstreams.get(route.upstream).map(|upstream: &upstream::Settings| upstream.name.clone());
    (route.name.clone(), (upstream, Route { upstream: 0, ..route.clone() }))
}

fn by_name<T: PartialEq>(what: &str, old: &[(String, T)], new: &[(String, T)]) -> Option<String> {
    let find = |list: &[(String, T)], name: &str| list.iter().position(|(own, _)| own == name);
    let mut words = Vec::new();
    for (name, value) in new {
        match find(old, name) {
            None => words.push(format!("{name} added")),
            Some(at) if old[at].1 != *value => words.push(format!("{name} changed")),
            Some(_) => {}
        }
    }
    words.extend(old.iter().filter(|(name, _)| find(new, name).is_none()).map(|(name, _)| format!("{name} removed")));
    let order = |list: &[(String, T)], other: &[(String, T)]| -> Vec<String> {
        list.iter().map(|(name, _)| name.clone()).filter(|name| find(other, name).is_some()).collect()
    };
    if order(old, new) != order(new, old) {
        words.push("in another order".to_owned());
    }
    (!words.is_empty()).then(|| format!("{what}: {}", words.join(", ")))
}

/// The keys for tokens, where a file of the same name has others now. They are public, and so is that they differ.
fn keys_in_a_file(old: &Settings, new: &Settings) -> Option<String> {
    let set = |settings: &Settings| match &settings.gateway.jwt.as_ref()?.proof {
        Proof::Keys(Origin::File { path, set }, _) => Some((path.clone(), Arc::clone(set))),
        _ => None,
    };
    let ((old_path, old_set), (new_path, new_set)) = set(old).zip(set(new))?;
    (old_path == new_path && old_set != new_set).then(|| "the keys in `jwt.jwks_file`".to_owned())
}

/// The names of further top-level settings that differ.
fn others(old: &Settings, new: &Settings) -> Vec<String> {
    let (old, new) = (show(old), show(new));
    let (old, new) = (sections(&old), sections(&new));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let differs =
        |name: &&&String| !["routes", "upstreams"].contains(&name.as_str()) && old.get(**name) != new.get(**name);
    names.iter().filter(differs).map(|name| (*name).clone()).collect()
}

/// The lines of each top-level setting, in their order: it says which of several keys seals.
fn sections(text: &str) -> BTreeMap<String, Vec<&str>> {
    let mut sections: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut name = "";
    for line in text.lines() {
        if !line.starts_with(' ') {
            name = line.split(':').next().unwrap_or_default();
        }
        sections.entry(name.to_owned()).or_default().push(line);
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    const BASE: &str = "
upstreams:
  a: { servers: [\"http://127.0.0.1:1\"] }
  b: { servers: [\"http://127.0.0.1:2\"] }
routes:
  - { name: one, match: { path: /one }, upstream: a }
  - { name: two, match: { path: /two }, upstream: b }
";

    fn settings(text: &str) -> Settings {
        parse("test", text, &|_| None).unwrap().settings
    }

    fn told(text: &str) -> String {
        summary(&settings(BASE), &settings(text))
    }

    #[test]
    fn the_log_names_what_changed() {
        assert_eq!(told(BASE), "nothing changed");
        assert_eq!(told(&BASE.replace("/one", "/uno")), "routes: one changed");
        assert_eq!(told(&BASE.replace("127.0.0.1:2", "127.0.0.1:3")), "upstreams: b changed");
        let other =
            BASE.replace("name: two", "name: three").replace("  b:", "  c:").replace("upstream: b", "upstream: c");
        assert_eq!(told(&other), "routes: three added, two removed; upstreams: c added, b removed");
        assert_eq!(told(&format!("limits: {{ in_flight: 7 }}\ndrain_delay: 1s\n{BASE}")), "drain_delay; limits");
    }

    #[test]
    fn another_order_of_keys_is_a_change_and_needs_no_restart() {
        let key = |id: &str| format!("{{ id: {id}, secret: '{}' }}", "ab".repeat(32));
        let with = |keys: [String; 2]| format!("store: {{ encryption: {{ keys: [ {} ] }} }}\n{BASE}", keys.join(", "));
        let (old, new) = (settings(&with([key("a"), key("b")])), settings(&with([key("b"), key("a")])));
        assert_eq!(summary(&old, &new), "store");
        let none: [&str; 0] = [];
        assert_eq!(fixed(&old, &new), none);
    }

    #[test]
    fn another_order_of_upstreams_changes_no_route() {
        let turned = BASE.replace("  a: { servers: [\"http://127.0.0.1:1\"] }\n", "");
        let turned = turned.replace("routes:", "  a: { servers: [\"http://127.0.0.1:1\"] }\nroutes:");
        assert_eq!(told(&turned), "upstreams: in another order");
    }

    #[test]
    fn what_is_fixed_is_named() {
        let fixed = |top: &str| fixed(&settings(BASE), &settings(&format!("{top}\n{BASE}")));
        let none: [&str; 0] = [];
        assert_eq!(fixed("access_log: { path: stdout }"), none);
        assert_eq!(fixed("drain_timeout: 1s\nlimits: { in_flight: 7 }\nadmin: { ready: process }"), none);
        assert_eq!(fixed("listen: 127.0.0.1:1"), ["listen"]);
        assert_eq!(fixed("admin: { connections: 77 }"), ["admin.connections"]);
        assert_eq!(fixed("workers: 77\nreplay_cache: 0"), ["workers", "replay_cache"]);
        assert_eq!(fixed("admin: { listen: none }"), ["admin.listen"]);
        assert_eq!(fixed("store: { path: elsewhere }\nfilter: { capacity: 5000 }"), ["store", "filter"]);
        assert_eq!(fixed("log: { format: json, level: debug, audit: elsewhere }"), ["log.format", "log.audit"]);
    }
}
