//! From the routes as written to the gateway's, with the checks across routes. One route's guard is in `guard`.

use std::collections::BTreeMap;

use super::file::File;
use super::finding::{Place, Report};
use super::reader::{At, Field, remedy, values};
use super::route::Route;
use super::upstreams::Upstream;
use super::values::{Name, Named, not_empty};
use super::{guard, reach};
use crate::gateway;

/// Translates all routes.
pub(super) fn compile(file: &File, report: &mut Report) -> Option<Vec<gateway::Route>> {
    let list = file.routes.at()?;
    not_empty(
        &list.place,
        list.value.is_empty(),
        "`- { name: all, match: { path: \"/{*rest}\" }, upstream: orders }`",
        report,
    );
    let upstreams = file.upstreams.value();
    let buffered_bodies = file.limits.value().and_then(|limits| limits.buffered_bodies.value()).map(|size| size.0);
    let routes: Vec<_> =
        list.value.iter().map(|field| route(field.at()?, upstreams, buffered_bodies, report)).collect();
    unique_names(&list.value, report);
    shared_namespaces(&list.value, report);
    unused_upstreams(&list.value, upstreams, report);
    let places = list.value.iter().map(|field| field.at().map(|at| &at.place));
    reach::warn(
        &routes.iter().zip(places).filter_map(|(route, place)| route.as_ref().zip(place)).collect::<Vec<_>>(),
        report,
    );
    routes.into_iter().collect()
}

fn route(
    at: &At<Route>,
    upstreams: Option<&Named<Upstream>>,
    buffered_bodies: Option<usize>,
    report: &mut Report,
) -> Option<gateway::Route> {
    let route = &at.value;
    let upstream = route.upstream.at().zip(upstreams).and_then(|(name, named)| find_upstream(name, named, report));
    let section = upstream.and_then(|place| upstreams?.0.get(place)?.1.value());
    let around = guard::Around { upstream: section, buffered_bodies };
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
        upstream: upstream?,
        websocket: *route.websocket.value()?,
        guard: guard?,
    })
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

fn unused_upstreams(routes: &[Field<Route>], upstreams: Option<&Named<Upstream>>, report: &mut Report) {
    let used: Vec<&str> = routes.iter().filter_map(|field| Some(field.value()?.upstream.value()?.0.as_str())).collect();
    for (name, _) in upstreams.iter().flat_map(|named| &named.0) {
        if !used.contains(&name.value.0.as_str()) {
            report.warn(&name.place, "no route goes to this upstream");
        }
    }
}
