//! What the gateway would make of a request, as far as that shows without the store: by the steps of its own door.

use bytes::Bytes;
use futures_util::FutureExt;
use http::request;
use http_body_util::BodyExt;

use super::page::Page;
use crate::config::Settings;
use crate::gateway::{Found, Guard, Place, Problem, Route, Routes, Target, check_fields};
use crate::keys::{self, Caller, Explanation, TokenParts};

/// A request, whole.
pub(super) struct Asked {
    pub(super) head: request::Parts,
    pub(super) body: Bytes,
    pub(super) caller: Caller,
}

/// What becomes of it.
pub(super) struct Fate<'a> {
    /// None where no route is found.
    pub(super) route: Option<&'a Route>,
    /// What is in its token, where there is one.
    pub(super) token: Option<TokenParts>,
    pub(super) end: End<'a>,
}

/// How far it comes.
pub(super) enum End<'a> {
    Refused(Problem),
    /// It is forwarded; why nothing guards it.
    Unguarded(&'static str),
    Guarded(Box<Named<'a>>),
}

/// A request that its route's guard lets in.
pub(super) struct Named<'a> {
    pub(super) guard: &'a Guard,
    pub(super) explanation: Explanation,
}

impl<'a> Fate<'a> {
    pub(super) fn of(settings: &'a Settings, asked: &Asked) -> Self {
        let (target, Found { index, preflight }, fields) = match find(settings, asked) {
            Ok(found) => found,
            Err(problem) => return Self { route: None, token: None, end: End::Refused(problem) },
        };
        let route = &settings.gateway.routes[index];
        let end = match (&route.guard, fields) {
            (_, Err(problem)) => End::Refused(problem),
            (_, Ok(())) if preflight => End::Unguarded("none: a preflight goes to the upstream"),
            (None, Ok(())) => End::Unguarded("none: every request goes to the upstream"),
            (Some(guard), Ok(())) => named(guard, &target, asked).unwrap_or_else(End::Refused),
        };
        let acting = route.guard.as_ref().map(|guard| guard.clone().acting().keys);
        let token = acting.and_then(|keys| keys::token_parts(&keys, &asked.head.headers, &asked.caller));
        Self { route: Some(route), token, end }
    }
}

/// Its route, and what is wrong with its fields there.
fn find(settings: &Settings, asked: &Asked) -> Result<(Target, Found, Result<(), Problem>), Problem> {
    let target = Target::of(&asked.head)?;
    let place = Place::of(&target, asked.head.uri.path())?;
    let routes = Routes::new(&settings.gateway.routes);
    let found = routes.find(&asked.head, &place).ok_or(Problem::NoRoute)?;
    let fields = check_fields(&asked.head, &place, &routes, settings.gateway.underscore_headers);
    Ok((target, found, fields))
}

fn named<'a>(guard: &'a Guard, target: &Target, asked: &Asked) -> Result<End<'a>, Problem> {
    if asked.body.len() > guard.request_body_limit {
        return Err(Problem::BodyTooLarge { limit: guard.request_body_limit });
    }
    let request = target.request(&asked.head, asked.body.clone(), asked.caller.clone());
    let explanation = keys::explain(&guard.clone().acting().keys, &request)?;
    Ok(End::Guarded(Box::new(Named { guard, explanation })))
}

/// What the client would get, in the gateway's own words.
pub(super) fn refused(page: &mut Page, settings: &Settings, problem: &Problem) {
    let response = problem.response(&settings.gateway.problem_types);
    page.line("refused", response.status().to_string());
    // It is there already: nothing is waited for.
    let body = response.into_body().collect().now_or_never().and_then(Result::ok);
    page.line("answer", body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned()).unwrap_or_default());
}
