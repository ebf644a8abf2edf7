//! A route's second key, such as an order number beside a request number. It is found as the first one is.

use http::HeaderMap;

use super::frame::{Frame, print};
use super::source::{self, Found, Part, View};
use super::{Caller, Missing, Refusal, Settings, Source, missing, operation, scope, settings};
use crate::machine::{self, NamespaceTag, OperationId, Print};

/// A request's second key and scope.
pub(super) struct Second<'a> {
    pub(super) parts: Vec<Part<'a>>,
    pub(super) operation: OperationId,
    /// Its own scope; none: the first one's.
    pub(super) scope: Option<Vec<scope::Value<'a>>>,
    pub(super) settings: &'a settings::Also,
}

/// What is named by a request's second key; none where there is none, and it need not be there. `scope` is the first one's.
pub(super) fn derive<'a>(
    settings: &'a Settings,
    view: &View<'_>,
    caller: &Caller,
    scope: &[scope::Value<'_>],
) -> Result<Option<Second<'a>>, Refusal> {
    let Some(also) = &settings.also else { return Ok(None) };
    let found = source::find(&also.sources, view)?;
    refuse_missing(also, &found, view)?;
    let own = also.scope.as_ref().map(|own| scope::values(own, view.headers, caller)).transpose()?;
    let Found::Key(parts) = found else { return Ok(None) };
    let operation = operation(&also.namespace, own.as_deref().unwrap_or(scope), &parts);
    Ok(Some(Second { parts, operation, scope: own, settings: also }))
}

/// Refuses what the head alone shows to be refused.
pub(super) fn check_head(settings: &Settings, view: &View<'_>, caller: &Caller) -> Result<(), Refusal> {
    let Some(also) = &settings.also else { return Ok(()) };
    refuse_missing(also, &source::find(&also.sources, view)?, view)?;
    also.scope.as_ref().map_or(Ok(()), |own| scope::values(own, view.headers, caller).map(|_| ()))
}

fn refuse_missing(also: &settings::Also, found: &Found<'_>, view: &View<'_>) -> Result<(), Refusal> {
    if !matches!(found, Found::Absent) || also.missing == Missing::Pass {
        return Ok(());
    }
    Err(missing("second key", &also.sources, view))
}

fn names(sources: &[Source]) -> String {
    sources.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Settings {
    /// Where the second key comes from, as people are told.
    pub fn second_key(&self) -> String {
        self.also.as_ref().map(|also| names(&also.sources)).unwrap_or_default()
    }
}

impl Second<'_> {
    /// The second operation. `caller` is the first one's scope, `credentials` what a replay by that has to show.
    pub(super) fn named(
        &self,
        settings: &Settings,
        namespace: NamespaceTag,
        headers: &HeaderMap,
        caller: &[scope::Value<'_>],
        credentials: Option<Print>,
    ) -> machine::Also {
        // Callers who share an order number are not one caller: the answer is shown to the first request's alone.
        let own = self.scope.as_ref().map(|_| {
            let mut frame = Frame::new("oncegate caller 1");
            scope::frame_values(&mut frame, caller);
            scope::frame_headers(&mut frame, &settings.require_same, headers);
            print(&frame.finish())
        });
        machine::Also { operation: self.operation, namespace, credentials: own.or(credentials) }
    }
}
