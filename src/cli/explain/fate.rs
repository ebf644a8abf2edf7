//! What the gateway would make of a request, as far as that shows without the store: by the steps of its own door.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use http::request;
use http_body_util::BodyExt;

use super::page::Page;
use crate::clock::Clock;
use crate::config::Settings;
use crate::gateway::{Found, Guard, Place, Problem, Route, Routes, Target, check_fields};
use crate::jwt::Standing;
use crate::keys::{self, Caller, Explanation, TokenParts};
use crate::upstream::headers::Kinds;

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
    /// What is in its single-use token, where there is one.
    pub(super) single_use: Option<TokenParts>,
    pub(super) end: End<'a>,
}

/// How far it comes.
pub(super) enum End<'a> {
    Refused(Problem),
    /// It is forwarded; why nothing guards it.
    Unguarded(&'static str),
    /// The gateway itself answers, by this setting.
    Own(&'static str),
    Guarded(Box<Named<'a>>),
}

/// A request that its route's guard lets in.
pub(super) struct Named<'a> {
    pub(super) guard: &'a Guard,
    /// Who vouches for the token that it says its caller by, if it does.
    pub(super) token: Option<String>,
    pub(super) explanation: Explanation,
}

impl<'a> Fate<'a> {
    pub(super) fn of(settings: &'a Settings, asked: &Asked) -> Self {
        if let Some(setting) = settings.gateway.own_path(asked.head.uri.path()) {
            return Self { route: None, single_use: None, end: End::Own(setting) };
        }
        let Way { target, found: Found { index, preflight }, parameters, fields } = match find(settings, asked) {
            Ok(found) => found,
            Err(problem) => return Self { route: None, single_use: None, end: End::Refused(problem) },
        };
        let route = &settings.gateway.routes[index];
        let mut single_use = None;
        let end = match (&route.guard, fields) {
            (_, Err(problem)) => End::Refused(problem),
            (_, Ok(())) if preflight => End::Unguarded("none: a preflight goes to the upstream"),
            (None, Ok(())) => End::Unguarded("none: every request goes to the upstream"),
            (Some(guard), Ok(())) if !guard.takes(&asked.head) => {
                End::Unguarded("none for this request: see `safe_methods`")
            }
            (Some(guard), Ok(())) => {
                let caller = Caller { parameters, ..asked.caller.clone() };
                let named = vouched(settings, guard, &asked.head, caller).and_then(|vouched| {
                    single_use = keys::token_parts(&guard.clone().acting().keys, &asked.head.headers, &vouched.0);
                    named(guard, &target, asked, vouched)
                });
                named.unwrap_or_else(End::Refused)
            }
        };
        Self { route: Some(route), single_use, end }
    }
}

/// How a request comes to its route.
struct Way {
    target: Target,
    found: Found,
    /// Those of the route's path that its scope asks for.
    parameters: Vec<(String, String)>,
    /// What is wrong with its fields there.
    fields: Result<(), Problem>,
}

fn find(settings: &Settings, asked: &Asked) -> Result<Way, Problem> {
    let kinds = Kinds::of(&asked.head.headers);
    let target = Target::of(&asked.head, kinds)?;
    let place = Place::of(&target, asked.head.uri.path())?;
    let routes = Routes::new(&settings.gateway.routes);
    let found = routes.find(&asked.head, &place).ok_or(Problem::NoRoute)?;
    let fields = check_fields(&asked.head, kinds, &place, &routes, settings.gateway.underscore_headers);
    let parameters = place.parameters(&settings.gateway.routes[found.index]);
    Ok(Way { target, found, parameters, fields })
}

fn named<'a>(
    guard: &'a Guard,
    target: &Target,
    asked: &Asked,
    (caller, token): (Caller, Option<String>),
) -> Result<End<'a>, Problem> {
    if asked.body.len() > guard.request_body_limit {
        return Err(Problem::BodyTooLarge { limit: guard.request_body_limit });
    }
    let request = target.request(&mut asked.head.clone(), asked.body.clone(), caller);
    let explanation = keys::explain(&guard.clone().acting().keys, &request)?;
    Ok(End::Guarded(Box::new(Named { guard, token, explanation })))
}

/// The caller with what its token says, where the scope reads one, and a word on who vouches for that.
fn vouched(
    settings: &Settings,
    guard: &Guard,
    head: &request::Parts,
    caller: Caller,
) -> Result<(Caller, Option<String>), Problem> {
    let Some((carrier, jwt)) = guard.keys.scope.carrier().zip(settings.gateway.jwt.as_ref()) else {
        return Ok((caller, None));
    };
    let (claims, standing) = jwt.explain(&carrier.token(&head.headers)?, Clock::wall())?;
    let word = match standing {
        Standing::Signed(algorithm) => format!("verified, signed with {}", algorithm.name()),
        Standing::Trusted => "not verified: a proxy in front has to do that".to_owned(),
        Standing::Unverified => "not verified here: `jwks_url` is not asked".to_owned(),
    };
    Ok((Caller { claims: Some(Arc::new(claims)), ..caller }, Some(word)))
}

/// What the client would get, in the gateway's own words.
pub(super) fn refused(page: &mut Page, settings: &Settings, problem: &Problem) {
    let response = problem.response(&settings.gateway.problem_types, None, false);
    page.line("refused", response.status().to_string());
    // It is there already: nothing is waited for.
    let body = response.into_body().collect().now_or_never().and_then(Result::ok);
    page.line("answer", body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned()).unwrap_or_default());
}
