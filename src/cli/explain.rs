//! `oncegate explain`: what the gateway would make of a request. Asks no store and no upstream.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Context, anyhow, ensure};
use bytes::Bytes;
use clap::Args;
use futures_util::FutureExt;
use http::header::HOST;
use http::{HeaderName, HeaderValue, Method, Request, Uri, request};
use http_body_util::BodyExt;

use crate::clock::Clock;
use crate::config::Settings;
use crate::gateway::{Found, Guard, Mode, Place, Problem, Route, Routes, Target, check_fields};
use crate::keys::{self, BodyForm, Caller, Explanation, Piece, TokenParts, TokenStanding};
use crate::machine::Time;
use crate::tls::pem;
use crate::wire::Certificate;

/// A request to explain.
#[derive(Debug, Args)]
pub(super) struct Explain {
    #[command(flatten)]
    pub(super) file: super::ConfigFile,
    /// The method; by default GET, or POST with a body.
    #[arg(long, value_name = "METHOD")]
    method: Option<Method>,
    /// The target, such as `/orders?x=1`; with a host when routes ask for one, such as `http://api.example/orders`.
    #[arg(long, value_name = "URL")]
    url: Uri,
    /// A header, as `Name: value`; may be repeated.
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    headers: Vec<String>,
    /// A PEM file with the certificate that the client shows. It is not verified here.
    #[arg(long, value_name = "FILE")]
    client_certificate: Option<PathBuf>,
    /// The body. No Content-Type is added.
    #[arg(long, value_name = "TEXT", conflicts_with = "data_file")]
    data: Option<String>,
    /// A file with the body.
    #[arg(long, value_name = "FILE")]
    data_file: Option<PathBuf>,
}

/// The explanation, as lines for people.
///
/// # Errors
/// When the arguments are no request. A request that would be refused is explained too.
pub(super) fn explain(settings: &Settings, given: &Explain) -> anyhow::Result<String> {
    let (head, body) = (given.head()?, given.body()?);
    let target = match Target::of(&head) {
        Ok(target) => target,
        Err(problem) => return refused(settings, &problem),
    };
    let place = match Place::of(&target, head.uri.path()) {
        Ok(place) => place,
        Err(problem) => return refused(settings, &problem),
    };
    let routes = Routes::new(&settings.gateway.routes);
    let Some(Found { index, preflight }) = routes.find(&head, &place) else {
        return refused(settings, &Problem::NoRoute);
    };
    let route = &settings.gateway.routes[index];
    let mut page = heading(settings, route);
    if let Err(problem) = check_fields(&head, &place, &routes, settings.gateway.underscore_headers) {
        return Ok(page + &refused(settings, &problem)?);
    }
    if preflight {
        line(&mut page, "guard", "none: a preflight goes to the upstream");
        return Ok(page);
    }
    let Some(guard) = &route.guard else {
        line(&mut page, "guard", "none: every request goes to the upstream");
        return Ok(page);
    };
    page.push_str(&guarded(settings, guard, &target.request(&head, body, given.caller()?))?);
    Ok(page)
}

fn guarded(settings: &Settings, guard: &Guard, request: &keys::Request) -> anyhow::Result<String> {
    let mut page = String::new();
    if guard.mode == Mode::Shadow {
        line(&mut page, "mode", "shadow: nothing is refused, and its records have a namespace of their own");
    }
    if request.body.len() > guard.request_body_limit {
        let problem = Problem::BodyTooLarge { limit: guard.request_body_limit };
        return Ok(page + &refused(settings, &problem)?);
    }
    let acting = guard.clone().acting().keys;
    if let Some(parts) = keys::token_parts(&acting, &request.headers, &request.caller) {
        token(&mut page, guard, &parts);
    }
    match keys::explain(&acting, request) {
        Ok(explanation) => identity(&mut page, guard, &explanation),
        Err(refusal) => page.push_str(&refused(settings, &Problem::from(refusal))?),
    }
    Ok(page)
}

/// What is in the token, and how it stands to route and caller. Whether it was used, the store knows.
fn token(page: &mut String, guard: &Guard, parts: &TokenParts) {
    let time = |time: Time| time.rfc3339().unwrap_or_else(|| "no time".to_owned());
    line(page, "token", &format!("number {}, signed by the key {}", parts.number, parts.key));
    line(page, "token's time", &format!("{} to {}", time(parts.issued), time(parts.until)));
    let standing = match parts.standing {
        TokenStanding::UnknownKey => "no good: none of `tokens.secrets` is the one of its key".to_owned(),
        TokenStanding::Foreign => format!(
            "no good: it was issued for another namespace than {} or for another caller, or it was changed",
            guard.keys.namespace
        ),
        TokenStanding::Good if parts.until <= Clock::wall() => {
            "its time is over, by this machine's clock: 410, unless the store knows of its use".to_owned()
        }
        TokenStanding::Good => "issued for this route and this caller".to_owned(),
    };
    line(page, "token stands", &standing);
}

fn heading(settings: &Settings, route: &Route) -> String {
    let mut page = String::new();
    line(&mut page, "route", &route.name);
    if let Some(upstream) = settings.upstreams.get(route.upstream) {
        line(&mut page, "upstream", &upstream.name);
    }
    page
}

fn identity(page: &mut String, guard: &Guard, explanation: &Explanation) {
    match explanation.operation {
        Some(operation) => {
            pieces(page, "key", &explanation.key, "");
            pieces(page, "scope", &explanation.scope, "none: all callers share their keys");
            line(page, "namespace", &guard.keys.namespace);
            if guard.mode == Mode::Enforce {
                line(page, "operation", &operation.to_string());
            }
        }
        None => line(page, "key", "none: the request passes without guard"),
    }
    let body = match explanation.body {
        BodyForm::Json => "JSON",
        BodyForm::Form => "form",
        BodyForm::Multipart => "multipart",
        BodyForm::Raw => "raw bytes",
    };
    line(page, "body read as", body);
    if let Some(json) = &explanation.canonical_json {
        line(page, "canonical JSON", json);
    }
    line(page, "raw fingerprint", &explanation.raw.to_string());
    line(page, "fingerprint", &explanation.canonical.to_string());
    match &explanation.probe {
        _ if guard.mode == Mode::Shadow => {}
        Some(Ok(target)) => line(page, "probe", &format!("GET {target}")),
        Some(Err(why)) => line(page, "probe", &format!("none, so a doubt is held: {why}")),
        None => {}
    }
    let compared = if guard.policy.compare { "yes: a changed request gets 422" } else { "no: it is a duplicate" };
    line(page, "compared", compared);
}

fn pieces(page: &mut String, name: &str, pieces: &[Piece], none: &str) {
    if pieces.is_empty() {
        line(page, name, none);
    }
    for piece in pieces {
        line(page, name, &format!("{} = {}", piece.from, piece.value));
    }
}

/// What the client would get, in the gateway's own words.
fn refused(settings: &Settings, problem: &Problem) -> anyhow::Result<String> {
    let response = problem.response(&settings.gateway.problem_types);
    let status = response.status();
    let body = response.into_body().collect().now_or_never().ok_or_else(|| anyhow!("the refusal has no body"))?;
    let body = body.map_err(|error| anyhow!("the refusal cannot be read: {error}"))?.to_bytes();
    let mut page = String::new();
    line(&mut page, "refused", &status.to_string());
    line(&mut page, "answer", &String::from_utf8_lossy(&body));
    Ok(page)
}

fn line(page: &mut String, name: &str, text: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(page, "{name:<17}{text}");
}

impl Explain {
    /// The head as a client would send it: the target in origin form, and the host beside it. With neither a Host field
    /// nor a host in the target, the request is one to this machine.
    fn head(&self) -> anyhow::Result<request::Parts> {
        ensure!(self.url.path().starts_with('/'), "`{}` is no target: write `/path` or `http://host/path`", self.url);
        let mut request = Request::builder().method(self.method());
        for text in &self.headers {
            let (name, value) = text.split_once(':').with_context(|| format!("`{text}` is not `Name: value`"))?;
            let name: HeaderName = name.trim().parse().with_context(|| format!("`{text}`"))?;
            request = request.header(name, HeaderValue::from_str(value.trim()).with_context(|| format!("`{text}`"))?);
        }
        if request.headers_ref().is_some_and(|headers| !headers.contains_key(HOST)) {
            request = request.header(HOST, self.url.authority().map_or("localhost", |authority| authority.as_str()));
        }
        let target = self.url.path_and_query().map_or("/", |target| target.as_str());
        Ok(request.uri(target).body(())?.into_parts().0)
    }

    fn caller(&self) -> anyhow::Result<Caller> {
        let Some(path) = &self.client_certificate else { return Ok(Caller::default()) };
        let shown = pem::certificates(path, &pem::read(path)?)?;
        Ok(Caller { certificate: shown.first().map(Certificate::of) })
    }

    fn method(&self) -> Method {
        let with_body = self.data.is_some() || self.data_file.is_some();
        self.method.clone().unwrap_or(if with_body { Method::POST } else { Method::GET })
    }

    fn body(&self) -> anyhow::Result<Bytes> {
        Ok(match (&self.data, &self.data_file) {
            (Some(text), _) => Bytes::from(text.clone()),
            (None, Some(file)) => std::fs::read(file).with_context(|| file.display().to_string())?.into(),
            (None, None) => Bytes::new(),
        })
    }
}
