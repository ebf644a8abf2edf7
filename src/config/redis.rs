//! The store in Redis: what its fields and sections become. They are defined in `file` and `sentinels`.

use std::path::PathBuf;
use std::time::Duration;

use http::uri::Authority;

use super::client_tls::{self, ClientTls};
use super::file::Store;
use super::finding::{Place, Report};
use super::reader::{At, Field};
use super::sentinels::RedisSentinel;
use super::values::{Text, not_empty, span_text};
use crate::store::redis::{Access, Address, Node, Password, Sentinel, Servers, Settings, Wait};
use crate::tls::client::{self, UNNAMED};

/// The ports that servers and sentinels listen on where nothing else is said.
const SERVER: u16 = 6_379;
const SENTINEL: u16 = 26_379;

/// Connections of a worker, where claims wait for replicas and hold up what comes behind them.
const WAITING_CONNECTIONS: usize = 4;

/// Where the fields stand that only this kind of store has.
pub(super) fn fields(section: &Store) -> [Option<&Place>; 14] {
    fn place<T>(field: &Field<T>) -> Option<&Place> {
        field.at().map(|at| &at.place)
    }
    [
        place(&section.url),
        place(&section.sentinel),
        place(&section.cluster),
        place(&section.username),
        place(&section.password),
        place(&section.password_file),
        place(&section.database),
        place(&section.tls),
        place(&section.protocol),
        place(&section.connections),
        place(&section.wait_replicas),
        place(&section.wait_timeout),
        place(&section.key_prefix),
        place(&section.allow_eviction),
    ]
}

/// Translates what the store's section says of Redis.
pub(super) fn compile(section: &Store, report: &mut Report) -> Option<Settings> {
    let reached = reached(section, report);
    let prefix = section.key_prefix.either(|prefix| key_prefix(prefix, report), || Some("og".to_owned()));
    let allow_eviction = section.allow_eviction.either(|allow| allow.value, || false)?;
    if let Some(at) = section.allow_eviction.at().filter(|_| allow_eviction) {
        report.warn(&at.place, "a Redis that evicts records forgets operations, which may then run twice");
    }
    let wait = wait(section, report).ok()?;
    let by_default = if wait.is_some() { WAITING_CONNECTIONS } else { 1 };
    let connections = section.connections.either(|at| at.value.0, || by_default)?;
    if let Some(at) = section.connections.at().filter(|_| connections == 1 && wait.is_some()) {
        report.warn(&at.place, "claims that wait for replicas hold up everything else: use 2 or more");
    }
    let (servers, access) = reached?;
    Some(Settings { servers, access, key_prefix: prefix??, allow_eviction, connections, wait })
}

/// What cannot be used; the report says why.
struct Refused;

/// How many replicas a claim waits for, and how long.
fn wait(section: &Store, report: &mut Report) -> Result<Option<Wait>, Refused> {
    let replicas = section.wait_replicas.either(|at| at.value.0, || 0).ok_or(Refused)?;
    let whole = section.command_timeout.value().ok_or(Refused)?.0;
    let timeout = section.wait_timeout.either(|at| at.value.0, || whole / 2).ok_or(Refused)?;
    if let Some(at) = section.wait_timeout.at() {
        let fault = if replicas == 0 {
            Some("waits for nothing: set `wait_replicas`, or remove it".to_owned())
        } else {
            let message =
                || format!("is not below `command_timeout` ({}): a call would end before it", span_text(whole));
            (timeout >= whole).then(message)
        };
        if let Some(fault) = fault {
            report.fault(&at.place, fault);
            return Err(Refused);
        }
    }
    let replicas = u32::try_from(replicas).map_err(|_| Refused)?;
    Ok((replicas > 0).then_some(Wait { replicas, timeout: timeout.max(Duration::from_millis(1)) }))
}

/// Which servers there are, and how they let this gateway in.
fn reached(section: &Store, report: &mut Report) -> Option<(Servers, Access)> {
    let ways = [
        ("url", section.url.at().map(|at| &at.place), matches!(section.url, Field::Broken)),
        ("sentinel", section.sentinel.at().map(|at| &at.place), matches!(section.sentinel, Field::Broken)),
        ("cluster", section.cluster.at().map(|at| &at.place), matches!(section.cluster, Field::Broken)),
    ];
    let mut said = ways.iter().filter_map(|(name, place, _)| Some((name, (*place)?)));
    if let (Some((first, _)), Some((second, place))) = (said.next(), said.next()) {
        report.fault(place, format!("`{second}` stands beside `{first}`: keep one of them"));
        return None;
    }
    if ways.iter().all(|(_, place, broken)| place.is_none() && !broken) {
        let message = "`redis` needs one of `url`, `sentinel` and `cluster`: write `url: redis://127.0.0.1:6379/0`";
        report.fault(&section.kind.at()?.place, message);
        return None;
    }
    let database = section.database.at();
    if let Some(at) = database.filter(|_| section.sentinel.at().is_none()) {
        let remedy = if section.cluster.at().is_some() { "a cluster has none but 0" } else { "write it in `url`" };
        report.fault(&at.place, format!("belongs to `sentinel` only: {remedy}"));
        return None;
    }
    if let Some(url) = section.url.at() {
        return one(url, section, report);
    }
    let who = credentials(&section.username, &section.password, &section.password_file, report);
    let tls = tls(&section.tls, report);
    let servers = match (section.sentinel.at(), section.cluster.at()) {
        (Some(at), _) => Servers::Sentinel(Box::new(sentinel(&at.value, report)?)),
        (None, Some(at)) => Servers::Cluster(nodes(&at.value.nodes, SERVER, report)?),
        (None, None) => return None,
    };
    let (username, password) = who?;
    let database = database.and_then(|at| u32::try_from(at.value.0).ok()).unwrap_or(0);
    let protocol = section.protocol.either(|at| at.value, Default::default)?;
    Some((servers, Access { username, password, database, protocol, tls: tls.ok()? }))
}

/// A single server.
fn one(url: &At<Text>, section: &Store, report: &mut Report) -> Option<(Servers, Access)> {
    let address = address(url, report)?;
    let mut access = address.access;
    let (username, password) = credentials(&section.username, &section.password, &section.password_file, report)?;
    let stated = [
        section.username.at().map(|at| &at.place),
        section.password.at().map(|at| &at.place),
        section.password_file.at().map(|at| &at.place),
    ];
    if let Some(place) = stated.into_iter().flatten().next() {
        if access.username.is_some() || access.password.is_some() {
            report.fault(place, "is said in `url` too: write user and password in one place");
            return None;
        }
        (access.username, access.password) = (username, password);
    }
    access.protocol = section.protocol.either(|at| at.value, || access.protocol)?;
    if let Some(at) = section.tls.at().filter(|_| !address.secure) {
        report.fault(&at.place, "needs a `rediss://` url: write that, or remove it");
        return None;
    }
    if address.secure {
        let settings = client_tls::settings(&section.tls, report)?;
        access.tls = Some(client_tls::load(settings, UNNAMED, &section.tls, Some(&url.place), report)?);
    }
    Some((Servers::One(address.node), access))
}

/// Says nothing of the URL itself: it may hold a password.
fn address(url: &At<Text>, report: &mut Report) -> Option<Address> {
    let scheme = url.value.0.split("://").next().unwrap_or_default();
    if matches!(scheme, "unix" | "redis+unix" | "valkey+unix") {
        report.fault(&url.place, "Unix sockets are not in this version yet: use `redis://`");
        return None;
    }
    Address::parse(&url.value.0).map_err(|error| report.fault(&url.place, error.to_string())).ok()
}

fn sentinel(section: &RedisSentinel, report: &mut Report) -> Option<Sentinel> {
    let who = credentials(&section.username, &section.password, &section.password_file, report);
    let tls = tls(&section.tls, report);
    let nodes = nodes(&section.nodes, SENTINEL, report)?;
    let (username, password) = who?;
    let access = Access { username, password, tls: tls.ok()?, ..Access::default() };
    Some(Sentinel { master: section.master.value()?.0.clone(), nodes, access })
}

/// TLS where its section is there.
fn tls(section: &Field<ClientTls>, report: &mut Report) -> Result<Option<client::Client>, Refused> {
    let place = match section {
        Field::Absent => return Ok(None),
        Field::Broken => return Err(Refused),
        Field::Given(at) => &at.place,
    };
    let settings = client_tls::settings(section, report).ok_or(Refused)?;
    client_tls::load(settings, UNNAMED, section, Some(place), report).map(Some).ok_or(Refused)
}

fn credentials(
    username: &Field<Text>,
    password: &Field<String>,
    file: &Field<Text>,
    report: &mut Report,
) -> Option<(Option<String>, Option<Password>)> {
    // Empty is what an environment gives that says nothing.
    let text = password.either(|at| Some(at).filter(|at| !at.value.is_empty()), || None)?;
    let file = file.either(Some, || None)?;
    let username = username.either(Some, || None)?;
    let password = match (text, file) {
        (Some(text), Some(_)) => {
            report.fault(&text.place, "stands beside `password_file`: keep one of them");
            return None;
        }
        (Some(text), None) => Some(Password::Text(text.value.clone())),
        (None, Some(file)) => Some(Password::File(PathBuf::from(&file.value.0))),
        (None, None) => None,
    };
    if let (Some(user), None) = (username, &password) {
        report.fault(&user.place, "stands alone: `password` or `password_file` belongs to it");
        return None;
    }
    Some((username.map(|at| at.value.0.clone()), password))
}

fn nodes(list: &Field<Vec<Field<Text>>>, port: u16, report: &mut Report) -> Option<Vec<Node>> {
    let list = list.at()?;
    not_empty(&list.place, list.value.is_empty(), format!("\"10.0.0.1:{port}\""), report);
    let nodes: Vec<_> = list.value.iter().map(|field| field.at().and_then(|at| node(at, port, report))).collect();
    nodes.into_iter().collect::<Option<Vec<_>>>().filter(|nodes| !nodes.is_empty())
}

fn node(at: &At<Text>, by_default: u16, report: &mut Report) -> Option<Node> {
    let text = &at.value.0;
    let authority = text.parse::<Authority>().ok().filter(|authority| !authority.as_str().contains('@'));
    let node = authority.and_then(|authority| {
        let port = if authority.as_str() == authority.host() { by_default } else { authority.port_u16()? };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        (!host.is_empty() && port != 0).then(|| Node { host: host.to_owned(), port })
    });
    if node.is_none() {
        report.fault(&at.place, format!("is no server: write `host:port`, such as `10.0.0.1:{by_default}`"));
    }
    node
}

fn key_prefix(prefix: &At<Text>, report: &mut Report) -> Option<String> {
    let text = &prefix.value.0;
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.:".contains(letter);
    if text.len() <= 64 && text.chars().all(fits) {
        return Some(text.clone());
    }
    report.fault(&prefix.place, format!("`{text}` is no prefix: up to 64 of letters, digits, `-`, `_`, `.` and `:`"));
    None
}
