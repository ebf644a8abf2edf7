//! From the routes as written to the gateway's, with the checks across routes. One route's guard is in `guard`.

use std::collections::BTreeMap;

use super::around::Around;
use super::file::File;
use super::finding::{Place, Report};
use super::issuing::Issuing;
use super::reader::{At, Field, remedy, values};
use super::route::{Cors, Route};
use super::upstreams::Upstream;
use super::values::{Name, Named, not_empty};
use super::{front, guard, jwt, reach, second};
use crate::gateway;

/// Translates all routes.
pub(super) fn compile(file: &File, tokens: &Issuing, report: &mut Report) -> Option<Vec<gateway::Route>> {
    let list = file.routes.at()?;
    not_empty(
        &list.place,
        list.value.is_empty(),
        "`- { name: all, match: { path: \"/{*rest}\" }, upstream: orders }`",
        report,
    );
    let routes: Vec<_> = list.value.iter().map(|field| route(field.at()?, file, tokens, report)).collect();
    unique_names(&list.value, report);
    shared_namespaces(&list.value, report);
    shared_doubts(&routes, &list.value, report);
    second::in_one_order(&routes, &list.value, report);
    unused_upstreams(&list.value, file.upstreams.value(), report);
    unreached_bounds(&list.value, file, report);
    let places = list.value.iter().map(|field| field.at().map(|at| &at.place));
    reach::warn(
        &routes.iter().zip(places).filter_map(|(route, place)| route.as_ref().zip(place)).collect::<Vec<_>>(),
        report,
    );
    routes.into_iter().collect()
}

fn anybody_connects(file: &File) -> bool {
    let is_open = file.listen.value().is_some_and(|address| !address.ip().is_loopback());
    is_open && file.trusted_proxies.value().is_some_and(Vec::is_empty)
}

fn route(at: &At<Route>, file: &File, tokens: &Issuing, report: &mut Report) -> Option<gateway::Route> {
    let (route, upstreams) = (&at.value, file.upstreams.value());
    let upstream = route.upstream.at().zip(upstreams).and_then(|(name, named)| find_upstream(name, named, report));
    let around = Around {
        upstream: upstream.and_then(|place| upstreams?.0.get(place)?.1.value()),
        client_certificates: front::asks_clients(&file.tls),
        buffered_bodies: file.limits.value().and_then(|limits| limits.buffered_bodies.value()).map(|size| size.0),
        underscores: file.underscore_headers.value().copied(),
        issuing: tokens,
        anybody_connects: anybody_connects(file),
        tokens: jwt::tokens(&file.jwt),
        path: route.r#match.value().and_then(|matching| matching.path.value()),
    };
    let cors = match &route.cors {
        Field::Absent => Some(None),
        Field::Broken => None,
        Field::Given(at) => cors(&at.value, report).map(Some),
    };
    let guard = match &route.idempotency {
        Field::Absent => Some(None),
        Field::Broken => None,
        Field::Given(at) => guard::compile(route, at, &around, report).map(Some),
    };
    if let (Field::Given(_), Some(websocket)) = (&route.idempotency, route.websocket.at())
        && websocket.stated
        && websocket.value
    {
        report.fault(&websocket.place, "a guarded route takes no WebSocket: give it a plain route of its own");
    }
    let matching = route.r#match.value()?;
    Some(gateway::Route {
        name: route.name.value()?.0.clone(),
        methods: values(matching.methods.value()?)?,
        path: matching.path.value()?.clone(),
        hosts: values(matching.hosts.value()?)?.into_iter().map(|host| host.0).collect(),
        case: *matching.case.value()?,
        path_parameters: *matching.path_parameters.value()?,
        method_override: *matching.method_override.value()?,
        upstream: upstream?,
        concurrency: route.concurrency.either(|most| Some(most.value.0), || None)?,
        websocket: *route.websocket.value()?,
        cors: cors?,
        guard: guard?,
    })
}

fn cors(section: &Cors, report: &mut Report) -> Option<gateway::Cors> {
    let list = section.origins.at()?;
    if list.value.is_empty() {
        report.warn(&list.place, "lets no page read anything: list origins, such as \"https://shop.example\"");
    }
    let all: Vec<String> = values(&list.value)?.into_iter().map(|origin| origin.0).collect();
    let (any, origins): (Vec<_>, Vec<_>) = all.into_iter().partition(|origin| origin == "*");
    Some(gateway::Cors { origins, any: !any.is_empty() })
}

fn find_upstream(name: &At<Name>, named: &Named<Upstream>, report: &mut Report) -> Option<usize> {
    let found = named.0.iter().position(|(known, _)| known.value == name.value);
    if found.is_none() {
        let known: Vec<&str> = named.0.iter().map(|(known, _)| known.value.0.as_str()).collect();
        report
            .fault(&name.place, format!("no upstream is called `{}`: {}", name.value.0, remedy(&name.value.0, &known)));
    }
    found
}

fn unique_names(routes: &[Field<Route>], report: &mut Report) {
    let mut seen: BTreeMap<&str, &Place> = BTreeMap::new();
    for name in routes.iter().filter_map(|field| field.value()?.name.at()) {
        if let Some(first) = seen.get(name.value.0.as_str()) {
            let message =
                format!("`{}` is the name of the route in line {} too: give each its own", name.value.0, first.line);
            report.fault(&name.place, message);
        } else {
            seen.insert(&name.value.0, &name.place);
        }
    }
}

/// Routes may share their operations, but seldom mean to.
fn shared_namespaces(routes: &[Field<Route>], report: &mut Report) {
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for route in routes.iter().filter_map(Field::value) {
        let Some((guard, name)) = route.idempotency.at().zip(route.name.value()) else { continue };
        let (namespace, place) = match guard.value.namespace.at() {
            Some(stated) => (&stated.value.0, &stated.place),
            None => (&name.0, &guard.place),
        };
        match seen.get(namespace.as_str()) {
            Some(first) if *first != name.0 => {
                report.warn(
                    place,
                    format!(
                        "shares the namespace `{namespace}` with route `{first}`: one key is one operation on both"
                    ),
                );
            }
            _ => drop(seen.insert(namespace, &name.0)),
        }
    }
}

/// Doubts are known by their namespace: whichever route's they are, one upstream is asked about them.
fn shared_doubts(routes: &[Option<gateway::Route>], written: &[Field<Route>], report: &mut Report) {
    let namespace = |route: &gateway::Route| route.guard.as_ref().map(|guard| guard.keys.namespace.clone());
    let asks = |route: &&gateway::Route| route.guard.as_ref().is_some_and(|guard| guard.probing.is_some());
    for (number, route) in routes.iter().enumerate() {
        let Some(route) = route.as_ref().filter(asks) else { continue };
        let before = routes[..number].iter().flatten().filter(asks);
        let other = before.into_iter().find(|one| namespace(one) == namespace(route) && one.upstream != route.upstream);
        if let (Some(other), Some(at)) = (other, written[number].value().and_then(|route| route.upstream.at())) {
            let message = format!(
                "route `{}` has the same namespace and goes to another upstream, and `in_doubt: probe` could not tell \
                 which one to ask: give one of them a `namespace` of its own",
                other.name
            );
            report.fault(&at.place, message);
        }
    }
}

/// A route's own bound says nothing above the bound of all.
fn unreached_bounds(routes: &[Field<Route>], file: &File, report: &mut Report) {
    let Some(all) = file.limits.value().and_then(|limits| limits.in_flight.value()) else { return };
    for most in routes.iter().filter_map(|field| field.value()?.concurrency.at()) {
        if most.value.0 > all.0 {
            report.warn(&most.place, format!("is above `limits.in_flight` ({}), which is reached first", all.0));
        }
    }
}

fn unused_upstreams(routes: &[Field<Route>], upstreams: Option<&Named<Upstream>>, report: &mut Report) {
    let used: Vec<&str> = routes.iter().filter_map(|field| Some(field.value()?.upstream.value()?.0.as_str())).collect();
    for (name, _) in upstreams.iter().flat_map(|named| &named.0) {
        if !used.contains(&name.value.0.as_str()) {
            report.warn(&name.place, "no route goes to this upstream");
        }
    }
}
