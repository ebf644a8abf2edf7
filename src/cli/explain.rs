//! `oncegate explain`: what the gateway would make of a request. Asks no store and no upstream.

mod diff;
mod fate;
mod message;
mod page;
mod token;

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use bytes::Bytes;
use clap::Args;
use http::header::HOST;
use http::{Method, Request, Uri, request};

use crate::config::{Settings, span_text};
use crate::gateway::{Guard, Mode, Problem};
use crate::keys::{BodyForm, Caller, ClientPiece, Explanation, Piece};
use crate::machine::{FINGERPRINT_VERSION, Time, Window};
use crate::tls::pem;
use crate::wire::Certificate;
use fate::{Asked, End, Fate, refused};
use page::Page;

/// A request to explain.
#[derive(Debug, Args)]
pub(super) struct Explain {
    #[command(flatten)]
    pub(super) file: super::ConfigFile,
    /// A file with the whole request: its request line, fields, an empty line, its body; `.http` files of editors too.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["method", "url", "headers", "data", "data_file"])]
    request: Option<PathBuf>,
    /// Two files with a request each: says whether the second counts as the first one again, and in what they differ. Exit code 0: it does, 1: it does not.
    #[arg(long, num_args = 2, value_names = ["FIRST", "SECOND"], conflicts_with_all = ["request", "method", "url", "headers", "data", "data_file"])]
    diff: Option<Vec<PathBuf>>,
    /// The method; by default GET, or POST with a body.
    #[arg(long, value_name = "METHOD")]
    method: Option<Method>,
    /// The target, such as `/orders?x=1`; with a host when routes ask for one, such as `http://api.example/orders`.
    #[arg(long, value_name = "URL")]
    url: Option<Uri>,
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
    /// Show long values whole.
    #[arg(long)]
    full: bool,
    /// Answer in JSON, with nothing cut.
    #[arg(long)]
    json: bool,
}

/// What is said, and whether the answer to what was asked is yes.
pub(super) struct Explained {
    pub(super) text: String,
    pub(super) yes: bool,
}

/// The explanation.
///
/// # Errors
/// When the arguments are no request. A request that would be refused is explained too.
pub(super) fn explain(settings: &Settings, given: &Explain) -> anyhow::Result<Explained> {
    let (page, yes) = match given.diff.as_deref() {
        Some([first, second]) => {
            let read = |path| asked(message::read(path)?, given.client_certificate.as_deref());
            diff::compare(settings, [&read(first)?, &read(second)?], given.full || given.json)
        }
        _ => (told(settings, &given.asked()?), true),
    };
    let text = if given.json { format!("{:#}\n", page.json()) } else { page.text(given.full) };
    Ok(Explained { text, yes })
}

fn told(settings: &Settings, asked: &Asked) -> Page {
    let mut page = Page::default();
    let fate = Fate::of(settings, asked);
    if let Some(route) = fate.route {
        page.line("route", &route.name);
        if let Some(upstream) = settings.upstreams.get(route.upstream) {
            page.line("upstream", &upstream.name);
        }
        if route.guard.as_ref().is_some_and(|guard| guard.mode == Mode::Shadow) {
            page.line("mode", "shadow: nothing is refused, and its records have a namespace of their own");
        }
    }
    if let Some(parts) = &fate.single_use {
        token::show(&mut page, parts);
    }
    match fate.end {
        End::Refused(problem) => refused(&mut page, settings, &problem),
        End::Unguarded(why) => page.line("guard", why),
        End::Own(setting) => page.line("answered", format!("by the gateway itself: `{setting}`")),
        End::Guarded(named) => {
            if let Some(word) = &named.token {
                page.line("token", word);
            }
            operation(&mut page, named.guard, &named.explanation);
            second(&mut page, named.guard, &named.explanation);
            fingerprint(&mut page, &named.explanation);
            record(&mut page, named.guard, &named.explanation);
            if let Some(client) = &named.explanation.client {
                client_print(&mut page, settings, named.guard, client);
            }
        }
    }
    page
}

/// Whose operation it is.
fn operation(page: &mut Page, guard: &Guard, explanation: &Explanation) {
    let Some(operation) = explanation.operation else {
        page.line("key", "none: the request passes without guard");
        return;
    };
    page.list("key", explanation.key.iter().map(piece), "none");
    if let Some(made) = explanation.made.and_then(Time::rfc3339) {
        page.line("key made", made);
    }
    page.list("scope", explanation.scope.iter().map(piece), "none: all callers share their keys");
    page.line("namespace", &guard.keys.namespace);
    if guard.mode == Mode::Enforce {
        page.line("operation", operation.to_string());
        page.framed("operation parts", explanation.operation_parts.clone());
    }
}

/// The second operation, of which the request needs the right to act as well.
fn second(page: &mut Page, guard: &Guard, explanation: &Explanation) {
    let (Some(keys), Some(rules), Some(_)) = (&guard.keys.also, &guard.also, explanation.operation) else { return };
    let Some(also) = &explanation.also else {
        page.line("second key", "none: the first one guards alone");
        return;
    };
    page.list("second key", also.key.iter().map(piece), "none");
    page.list("second scope", also.scope.iter().map(piece), "none: all callers share their keys");
    page.line("second namespace", &keys.namespace);
    if guard.mode == Mode::Enforce {
        page.line("second operation", also.operation.to_string());
        page.framed("second parts", also.parts.clone());
    }
    let (outcome, doubt) = (span_text(rules.policy.retention), span_text(rules.policy.doubt_retention));
    page.line("second kept for", format!("{outcome}, in doubt {doubt}"));
    page.line("second compared", compared(rules.policy.compare));
}

fn compared(compare: bool) -> &'static str {
    if compare { "yes: a changed request gets 422" } else { "no: it is a duplicate" }
}

fn piece(piece: &Piece) -> String {
    format!("{} = {}", piece.from, piece.value)
}

/// What makes it equal to another.
fn fingerprint(page: &mut Page, explanation: &Explanation) {
    match explanation.decoded {
        Some(Ok(length)) => page.line("content coding", format!("taken off: {length} bytes of content")),
        Some(Err(why)) => page.line("content coding", format!("left on: {why}")),
        None => {}
    }
    page.line("body read as", form(explanation.body));
    if let Some(json) = &explanation.canonical_json {
        page.line("canonical JSON", json);
    }
    page.line("raw fingerprint", explanation.raw.to_string());
    page.framed("raw parts", explanation.raw_parts.clone());
    page.line("fingerprint", explanation.canonical.to_string());
    page.framed("fingerprint parts", explanation.canonical_parts.clone());
}

fn form(form: BodyForm) -> &'static str {
    match form {
        BodyForm::Json => "JSON",
        BodyForm::Form => "form",
        BodyForm::Multipart => "multipart",
        BodyForm::Raw => "raw bytes",
    }
}

/// What would be kept of it, and what a duplicate is held against.
fn record(page: &mut Page, guard: &Guard, explanation: &Explanation) {
    if explanation.operation.is_none() {
        return;
    }
    let settings = explanation.settings;
    let kept = "the fingerprint, and a keyed hash of the request as sent";
    page.line("record", format!("{kept} (version {FINGERPRINT_VERSION}), settings {settings:08x}"));
    let credentials = explanation.credentials.map_or_else(
        || "not asked for".to_owned(),
        |digest| format!("{digest}: a replay needs the same {}", names(&guard.keys.require_same)),
    );
    page.line("credentials", credentials);
    let (outcome, doubt) = (span_text(guard.policy.retention), span_text(guard.policy.doubt_retention));
    let anew = if guard.policy.window == Window::Sliding { " (anew from each duplicate)" } else { "" };
    page.line("kept for", format!("{outcome}{anew}, in doubt {doubt}"));
    match &explanation.probe {
        _ if guard.mode == Mode::Shadow => {}
        Some(Ok(target)) => page.line("probe", format!("GET {target}")),
        Some(Err(why)) => page.line("probe", format!("none, so a doubt is held: {why}")),
        None => {}
    }
    page.line("compared", compared(guard.policy.compare));
}

/// The fingerprint that the client made, what it was to be made of, and what comes of the difference.
fn client_print(page: &mut Page, settings: &Settings, guard: &Guard, client: &ClientPiece) {
    page.line("client print", &client.shown);
    page.line("expected", client.expected.as_deref().unwrap_or("none: there are several lines of Content-Type"));
    page.framed("pre-image", client.parts.clone());
    if let Some(refusal) = &client.refusal
        && guard.mode == Mode::Enforce
    {
        refused(page, settings, &Problem::from(refusal.clone()));
    }
}

fn names(names: &[http::HeaderName]) -> String {
    names.iter().map(http::HeaderName::as_str).collect::<Vec<_>>().join(", ")
}

impl Explain {
    fn asked(&self) -> anyhow::Result<Asked> {
        let message = match &self.request {
            Some(path) => message::read(path)?,
            None => self.message()?,
        };
        asked(message, self.client_certificate.as_deref())
    }

    fn message(&self) -> anyhow::Result<message::Message> {
        let fields = self.headers.iter().map(|text| message::field(text.as_bytes())).collect::<anyhow::Result<_>>()?;
        let target = self.url.clone().context(
            "of which request? Give `--url /orders`, with `-H` and `--data` as needed, or a file: `--request a.http`",
        )?;
        Ok(message::Message { method: self.method(), target, fields, body: self.body()? })
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

/// The request as a client would send it.
fn asked(message: message::Message, certificate: Option<&Path>) -> anyhow::Result<Asked> {
    Ok(Asked { head: head(&message)?, body: message.body, caller: caller(certificate)? })
}

/// The target in origin form, and the host beside it. With neither a Host field nor a host in the target, the request is
/// one to this machine.
fn head(message: &message::Message) -> anyhow::Result<request::Parts> {
    let target = &message.target;
    ensure!(target.path().starts_with('/'), "`{target}` is no target: write `/path` or `http://host/path`");
    let mut request = Request::builder().method(&message.method);
    for (name, value) in &message.fields {
        request = request.header(name, value);
    }
    if request.headers_ref().is_some_and(|headers| !headers.contains_key(HOST)) {
        request = request.header(HOST, target.authority().map_or("localhost", |authority| authority.as_str()));
    }
    Ok(request.uri(target.path_and_query().map_or("/", |target| target.as_str())).body(())?.into_parts().0)
}

fn caller(certificate: Option<&Path>) -> anyhow::Result<Caller> {
    let Some(path) = certificate else { return Ok(Caller::default()) };
    let shown = pem::certificates(path, &pem::read(path)?)?;
    Ok(Caller { certificate: shown.first().map(Certificate::of), ..Caller::default() })
}
