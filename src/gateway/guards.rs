//! The guards of routes, ready for use. What they do with a request is in the files beside this one.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Guard, Route};
use crate::arbiter::Terms;
use crate::keys;
use crate::machine::NamespaceTag;
use crate::telemetry::RouteMetrics;

/// A route's guard, ready for use.
pub(super) struct Guarded {
    pub(super) guard: Arc<Guard>,
    pub(super) naming: keys::Naming,
    pub(super) terms: Arc<Terms>,
}

/// The guards of these routes, in order; none where a route has none.
pub(super) fn guards(routes: &[Route], metrics: &[Arc<RouteMetrics>]) -> Vec<Option<Guarded>> {
    routes.iter().zip(metrics).map(|(route, metrics)| Guarded::of(route, metrics)).collect()
}

/// The first route of each namespace that asks.
pub(super) fn probed(guards: &[Option<Guarded>]) -> HashMap<NamespaceTag, usize> {
    let asking = guards.iter().enumerate().filter_map(|(index, guarded)| {
        let guard = &guarded.as_ref()?.guard;
        guard.probing.as_ref().map(|_| (keys::namespace_tag(&guard.keys.namespace), index))
    });
    asking.rev().collect()
}

impl Guarded {
    fn of(route: &Route, metrics: &Arc<RouteMetrics>) -> Option<Self> {
        let guard = Arc::new(route.guard.clone()?.acting());
        let schedule = guard.probing.as_ref().map(|probing| Arc::from(&probing.schedule[..]));
        let terms = Arc::new(Terms {
            policy: Arc::new(guard.policy.clone()),
            beside: guard.also.as_ref().map(|also| Arc::new(also.policy.clone())),
            route: Arc::clone(metrics),
            schedule,
        });
        let naming = keys::Naming::new(guard.keys.clone());
        Some(Self { guard, naming, terms })
    }
}
