//! From the file as written to the settings of the floors below, with the checks across fields. Routes are in `routes`.

use std::path::PathBuf;
use std::time::Duration;

use super::Settings;
use super::file::{Admin, File, Filter, Log, Store, StoreKind};
use super::finding::Report;
use super::reader::{Field, values};
use super::values::Text;
use super::{
    access_log, encryption, front, journal, jwt, limits, operations, redis, routes, token_routes, tokens, upstreams,
};
use crate::{admin, arbiter, gateway, server, store, telemetry};

/// How long the filter remembers when no route keeps records.
const IDLE_FILTER: Duration = Duration::from_hours(1);

/// Translates the whole file. None when something was refused on the way; the report knows all of it.
pub(super) fn compile(file: &File, report: &mut Report) -> Option<Settings> {
    let keeps_case = file.preserve_header_case.value().copied();
    let upstreams = file.upstreams.at().and_then(|named| upstreams::compile(named, keeps_case?, report));
    let tokens = tokens::compile(&file.tokens, report);
    let routes = routes::compile(file, &tokens, report);
    let limits = file.limits.value().and_then(|section| limits::compile(section, report));
    let server = server(file, limits.map(|limits| limits.server), report);
    let admin = file.admin.value().and_then(|section| admin(section, report));
    let store = file.store.value().and_then(|section| store(section, report));
    let log = file.log.value().and_then(|section| log(section, report));
    let access_log = access_log::compile(&file.access_log, server.as_ref().map(|server| server.workers), report);
    one_door_each(file, report);
    one_store_for_all(file, report);
    journal::check(file, report);
    let problem_types = problem_types(&file.problem_types, report);
    let operations = operations::compile(&file.operations, report);
    token_routes::check(file, report);
    let proxies = file.trusted_proxies.value().is_some_and(|networks| !networks.is_empty());
    let jwt = jwt::compile(&file.jwt, proxies, report);
    let routes = routes?;
    unread_tokens(file, &routes, report);
    Some(Settings {
        server: server?,
        admin: admin?,
        store: store?,
        filter: filter(file.filter.value()?, &routes)?,
        log: log?,
        access_log: if matches!(file.access_log, Field::Absent) { None } else { Some(access_log?) },
        upstreams: upstreams?,
        gateway: gateway::Settings {
            routes,
            limits: limits?.gateway,
            trusted_proxies: values(file.trusted_proxies.value()?)?,
            problem_types: problem_types?,
            via: file.via.value()?.0.clone(),
            underscore_headers: *file.underscore_headers.value()?,
            jwt: if matches!(file.jwt, Field::Absent) { None } else { Some(jwt?) },
            operations: if matches!(file.operations, Field::Absent) { None } else { Some(operations?) },
            tokens: tokens.path(),
        },
        arbiter: arbiter(file, limits?)?,
        sweep_interval: file.sweep_interval.value()?.0,
        watch: *file.reload.value()?.watch.value()?,
    })
}

fn unread_tokens(file: &File, routes: &[gateway::Route], report: &mut Report) {
    let reads = |route: &gateway::Route| route.guard.as_ref().is_some_and(|guard| guard.keys.scope.carrier().is_some());
    if let Some(jwt) = file.jwt.at().filter(|_| !routes.iter().any(reads)) {
        report.warn(&jwt.place, "no route's scope reads a token: write `scope: { jwt_claim: sub }` on one");
    }
}

fn arbiter(file: &File, limits: limits::Compiled) -> Option<arbiter::Settings> {
    Some(arbiter::Settings {
        replay_cache: file.replay_cache.value()?.0,
        waiters: limits.waiters,
        dispatched: limits.dispatched,
        outcomes_waiting: limits.outcomes_waiting,
        // Only a Redis can be shared.
        alone: *file.store.value()?.sole_gateway.value()? || *file.store.value()?.kind.value()? != StoreKind::Redis,
    })
}

fn server(file: &File, limits: Option<server::Limits>, report: &mut Report) -> Option<server::Settings> {
    let front = front::compile(&file.tls, &file.http2, &file.proxy_protocol, report);
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Some(server::Settings {
        listen: *file.listen.value()?,
        listen_shared: *file.listen_shared.value()?,
        workers: file.workers.either(|workers| workers.value.0, cores)?,
        drain: server::Drain { delay: file.drain_delay.value()?.0, timeout: file.drain_timeout.value()?.0 },
        front: front?,
        limits: limits?,
        preserve_header_case: *file.preserve_header_case.value()?,
    })
}

fn one_door_each(file: &File, report: &mut Report) {
    let admin = file.admin.value().and_then(|admin| admin.listen.at());
    if let (Some(public), Some(admin)) = (file.listen.at(), admin)
        && admin.value.0 == Some(public.value)
        && public.value.port() != 0
    {
        report.fault(&admin.place, "is the address of `listen` too: give the operators' door another port");
    }
}

/// Gateways behind one address know of each other's operations through their store alone.
fn one_store_for_all(file: &File, report: &mut Report) {
    let kind = file.store.value().and_then(|store| store.kind.value());
    if let (Some(shared), Some(kind)) = (file.listen_shared.at(), kind)
        && shared.value
        && *kind != StoreKind::Redis
    {
        let message = "needs `store: { kind: redis }`: gateways that share an address, each with a store of its own, \
                       would each run the other's duplicates";
        report.fault(&shared.place, message);
    }
}

fn admin(section: &Admin, report: &mut Report) -> Option<admin::Settings> {
    let token = section.token.at().filter(|token| !token.value.is_empty());
    if let (Some(listen), Some(_)) = (section.listen.at(), section.token.at())
        && let Some(address) = listen.value.0
        && !address.ip().to_canonical().is_loopback()
        && token.is_none()
    {
        let message =
            format!("{address} is beyond loopback, so /api needs `admin.token`: set one, or listen on 127.0.0.1");
        report.fault(&listen.place, message);
    }
    if let Some(token) = token {
        if !token.value.bytes().all(|byte| byte.is_ascii_graphic()) {
            report.fault(&token.place, "cannot be sent in a header: use printable ASCII without spaces");
        } else if token.value.len() < 16 {
            report.warn(&token.place, "is short: use 16 random characters or more");
        }
    }
    Some(admin::Settings {
        listen: section.listen.value()?.0,
        token: section.token.value().filter(|token| !token.is_empty()).cloned(),
        ready: *section.ready.value()?,
        connections: section.connections.value()?.0,
    })
}

fn store(section: &Store, report: &mut Report) -> Option<store::Settings> {
    let kind = *section.kind.value()?;
    foreign_fields(section, kind, report);
    let encryption = encryption::compile(&section.encryption, report);
    let journal = journal::compile(section, report);
    let kind = match kind {
        StoreKind::Memory => {
            if let Some(at) = section.kind.at() {
                report.warn(&at.place, "`memory` forgets every operation at exit: for tests and trials only");
            }
            store::Kind::Memory
        }
        StoreKind::Embedded => {
            let path = section.path.either(|path| path.value.0.as_str(), || "./oncegate-data")?;
            let check_at_start = section.check_at_start.either(|check| check.value, || true)?;
            store::Kind::Embedded(store::embedded::Settings { path: PathBuf::from(path), check_at_start })
        }
        StoreKind::Redis => store::Kind::Redis(Box::new(redis::compile(section, report)?)),
    };
    Some(store::Settings {
        kind,
        command_timeout: section.command_timeout.value()?.0,
        encryption: encryption?,
        journal,
    })
}

/// Fields that only another kind of store has.
fn foreign_fields(section: &Store, kind: StoreKind, report: &mut Report) {
    let mut refuse = |place: Option<&super::Place>, owner: &str| {
        if let Some(place) = place {
            report.fault(place, format!("belongs to `kind: {owner}` only: remove it, or change `kind`"));
        }
    };
    if kind != StoreKind::Embedded {
        refuse(section.path.at().map(|at| &at.place), "embedded");
        refuse(section.check_at_start.at().map(|at| &at.place), "embedded");
    }
    if kind == StoreKind::Memory {
        refuse(section.encryption.at().map(|at| &at.place), "embedded` or `redis");
    }
    if kind != StoreKind::Redis {
        for field in redis::fields(section) {
            refuse(field, "redis");
        }
    }
}

/// A record lives longest when its attempt ends in doubt at the last moment, and a late answer ends the doubt then. An
/// upstream that is trusted may have its outcome remembered for as long as a doubt.
fn filter(section: &Filter, routes: &[gateway::Route]) -> Option<store::filter::Settings> {
    let guards = routes.iter().filter_map(|route| route.guard.as_ref());
    let lives = guards.flat_map(|guard| {
        let trusted = guard.outcome_headers == gateway::OutcomeHeaders::Trust;
        std::iter::once(&guard.policy).chain(guard.also.as_ref().map(|also| &also.policy)).map(move |policy| {
            let retention = if trusted { policy.doubt_retention } else { policy.retention };
            policy.attempt_timeout + policy.doubt_retention + retention + policy.slack()
        })
    });
    Some(store::filter::Settings {
        capacity: section.capacity.value()?.0,
        false_positive_rate: section.false_positive_rate.value()?.0,
        lifetime: lives.max().unwrap_or(IDLE_FILTER),
    })
}

fn log(section: &Log, report: &mut Report) -> Option<telemetry::LogSettings> {
    if let Some(level) = section.level.at()
        && !is_log_filter(&level.value.0)
    {
        let message = format!("`{}` is no log level: write error, warn, info, debug or trace", level.value.0);
        report.fault(&level.place, message);
    }
    let audit = section.audit.either(|audit| Some(PathBuf::from(&audit.value.0)), || None)?;
    Some(telemetry::LogSettings { format: *section.format.value()?, level: section.level.value()?.0.clone(), audit })
}

/// Whether a text selects log lines as it seems to. A lone word is a level here: `tracing` would take `warning` for the
/// name of a module, and log nothing else.
fn is_log_filter(text: &str) -> bool {
    let is_level = |word: &str| word.parse::<tracing::level_filters::LevelFilter>().is_ok();
    let mut parts = text.split(',').map(str::trim);
    parts.all(|part| part.contains(['=', '[']) || is_level(part))
        && tracing_subscriber::EnvFilter::try_new(text).is_ok()
}

fn problem_types(field: &Field<Text>, report: &mut Report) -> Option<String> {
    let at = field.at()?;
    if at.value.0.parse::<http::Uri>().is_err() && !at.value.0.starts_with("urn:") || !at.value.0.is_ascii() {
        report.fault(&at.place, "is no beginning of a URI: write `urn:...:` or `https://.../`");
    }
    Some(at.value.0.clone())
}
