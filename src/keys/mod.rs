//! From a request to an arrival: its key, its scope, its fingerprint. Pure: bytes in, values out.

mod also;
mod caller;
mod carrier;
mod claims;
mod client_print;
mod coding;
mod content;
mod dated;
mod difference;
mod explain;
mod fingerprint;
mod frame;
mod hasher;
mod header;
mod inquiry;
mod issued;
mod json;
mod keyed;
mod leaves;
mod multipart;
mod names;
mod naming;
mod netstring;
mod normalize;
mod number;
pub mod path;
mod pointer;
mod preimage;
mod probe;
pub mod query;
mod scope;
mod settings;
mod source;
mod spelling;
mod token;
mod value;

pub use caller::Caller;
pub use carrier::Carrier;
pub use claims::{Claim, Claims, claim_pointer};
pub use coding::{Coding, Decoding, Undecoded};
pub use difference::{Difference, Differences, differences};
pub use explain::{ClientPiece, Explanation, Piece, Second, explain};
pub use fingerprint::BodyForm;
pub use frame::{Framed, Hashed};
pub use inquiry::inquire;
pub use issued::{TokenParts, TokenStanding, issue, token_parts};
pub use naming::{Head, Naming};
pub use normalize::{Step, Steps};
pub use probe::{Known, ProbeTemplate, Template, TemplateError};
pub use settings::{
    Also, CertificateName, ClientPrints, ClientWord, FingerprintSettings, Missing, Scope, Settings, Source, Typed,
};
pub use token::{TOKEN_SECRET_LEN, TOKEN_SKEW, TokenKey, Tokens};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method};

use crate::machine::{Arrival, NamespaceTag, OperationId, Print, Probe, Time};
use crate::upstream::headers::Kinds;
use client_print::Shown;
use frame::Frame;
use issued::Issued;
use names::Names;
use probe::Filling;
use source::{Body, Found, View};

/// The domain of an operation's digest.
const OPERATION: &str = "oncegate operation 1";

/// A request, as far as keys and fingerprints look at it.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The authority that the request is addressed to (`Host`, or the absolute form's), as sent.
    pub authority: String,
    /// The path in normal form (RFC 3986 section 6).
    pub path: String,
    /// The query as sent, without the `?`; none when there is no `?`.
    pub query: Option<String>,
    /// The path as sent: part of the request as sent.
    pub raw_path: String,
    /// The headers as sent.
    pub headers: HeaderMap,
    /// Who sends it.
    pub caller: Caller,
    /// The whole body.
    pub body: Bytes,
}

/// What came of a request.
#[derive(Debug)]
pub enum Named<'a> {
    /// It names an operation.
    Operation(Arrival<'a>),
    /// It has no key, and the route lets such requests pass.
    Unkeyed,
}

impl Settings {
    /// All header fields that decide on a request.
    pub fn headers(&self) -> Vec<HeaderName> {
        let probed = self.probe.iter().flat_map(ProbeTemplate::header_names);
        let more = self.require_same.iter().chain(&self.fingerprint.headers).chain(probed).cloned();
        let second = self.also.iter().flat_map(|also| &also.scope).flat_map(scope::header_names);
        scope::header_names(&self.scope).chain(second).chain(self.key_headers()).chain(more).collect()
    }

    /// The sources of each key.
    fn all_sources(&self) -> impl Iterator<Item = &[Source]> {
        std::iter::once(&self.sources[..]).chain(self.also.as_ref().map(|also| &also.sources[..]))
    }

    /// Values of the key that count in one form there, and as they were sent where requests are compared.
    pub fn typed_in_the_key_alone(&self) -> Vec<&Source> {
        source::typed(&self.sources).filter(|source| !self.fingerprint.typed.holds(source)).collect()
    }

    /// How many bytes a body of this length may decode to while its request is looked at; 0 when it is not decoded.
    pub fn decoded_limit(&self, headers: &HeaderMap, sent: usize) -> usize {
        let decoding = self.fingerprint.decode.as_ref();
        let known = decoding.filter(|decoding| decoding.known(&content::encodings(headers)).is_some());
        known.map_or(0, |decoding| decoding.limit(sent))
    }

    /// The header fields that keys come in, and what clients say of their requests beside them.
    pub fn key_headers(&self) -> Vec<HeaderName> {
        let prints = self.fingerprint.client.iter().flat_map(ClientPrints::headers);
        self.all_sources().flat_map(source::header_names).chain(prints).cloned().collect()
    }
}

/// Why a request names no operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No source had a key.
    #[error("{0}")]
    KeyMissing(String),
    /// A key is there but is not one: blank, malformed, over-long, on several lines.
    #[error("{0}")]
    KeyInvalid(String),
    /// A token is there but is not one that was issued here, for this route and caller.
    #[error("{0}")]
    TokenInvalid(String),
    /// The scope's value is not there, or is there twice.
    #[error("{0}")]
    ScopeMissing(String),
    /// A fingerprint that the client made is missing, malformed, or another request's.
    #[error("{0}")]
    FingerprintInvalid(String),
    /// The time that goes with it is missing or malformed.
    #[error("{0}")]
    TimestampInvalid(String),
    /// The key is in a body that would decode to more than this many bytes, or is its fingerprint.
    #[error("The body decodes to more than {limit} bytes.")]
    BodyTooLarge {
        /// How many bytes it may decode to.
        limit: usize,
    },
    /// A field that decides whether requests are equal, or who may see a replay, would not reach the upstream.
    #[error("{0}")]
    Unreliable(String),
}

/// Says which namespace a record belongs to.
pub fn namespace_tag(namespace: &str) -> NamespaceTag {
    NamespaceTag(frame::word(&frame::sha256(namespace.as_bytes())))
}

/// A request's key and scope, and what its client says of it.
struct Derived<'a> {
    /// None when there is no key and the route lets such requests pass.
    key: Option<Key<'a>>,
    scope: Vec<scope::Value<'a>>,
    /// None when there is no second key, or none is asked for.
    also: Option<also::Second<'a>>,
    /// A fingerprint that the client made.
    shown: Option<Shown<'a>>,
}

impl Derived<'_> {
    /// Holds the client's fingerprint against the request.
    fn check_print(&self, body: &Body<'_>) -> Result<(), Refusal> {
        self.shown.as_ref().map_or(Ok(()), |shown| shown.check(body))
    }

    /// The client's fingerprint, where it is taken for the gateway's own.
    fn told_print(&self) -> Option<Print> {
        self.shown.as_ref().and_then(Shown::print)
    }

    /// How the upstream can be asked about the operation, or why not; none where nobody is to ask.
    fn probe(&self, settings: &Settings, request: &Request, body: &Body<'_>) -> Option<Result<Probe, String>> {
        let (template, key) = settings.probe.as_ref().zip(self.key.as_ref())?;
        let view = View { headers: &request.headers, query: request.query.as_deref(), body: Some(body) };
        let filling = Filling { request, view: &view, key: &key.parts, scope: &self.scope, operation: &key.operation };
        Some(template.fill(&filling))
    }
}

struct Key<'a> {
    parts: Vec<source::Part<'a>>,
    operation: OperationId,
    made: Option<Time>,
    /// Where it is a token.
    issued: Option<Issued>,
}

/// What a request shows of its key and its caller.
#[derive(Debug)]
struct Seen<'a> {
    found: Found<'a>,
    made: Option<Time>,
    scope: Vec<scope::Value<'a>>,
    issued: Option<Issued>,
}

impl<'a> Seen<'a> {
    fn of(settings: &'a Settings, view: &View<'_>, caller: &Caller) -> Result<Self, Refusal> {
        let found = source::find(&settings.sources, view)?;
        refuse_missing(settings, &found, view)?;
        let made = dated::made(settings, &found)?;
        // Even a request without a key must show whose it is.
        let scope = scope::values(&settings.scope, view.headers, caller)?;
        let issued = issued::recognise(settings, &found, &scope)?;
        Ok(Self { found, made, scope, issued })
    }
}

fn derive<'a>(
    settings: &'a Settings,
    names: &Names,
    request: &'a Request,
    body: &Body<'_>,
) -> Result<Derived<'a>, Refusal> {
    names.check(&request.headers, Kinds::of(&request.headers))?;
    let shown = client_print::shown(settings.fingerprint.client.as_ref(), &request.headers)?;
    let view = View { headers: &request.headers, query: request.query.as_deref(), body: Some(body) };
    let seen = Seen::of(settings, &view, &request.caller)?;
    let also = also::derive(settings, &view, &request.caller, &seen.scope)?;
    Ok(Derived { also, shown, ..derive_from(settings, seen) })
}

/// All that there is where the rest of the request shows nothing more.
fn derive_from<'a>(settings: &Settings, seen: Seen<'a>) -> Derived<'a> {
    let Seen { found, made, scope, issued } = seen;
    let key = match found {
        Found::Key(parts) => {
            Some(Key { operation: operation(&settings.namespace, &scope, &parts), parts, made, issued })
        }
        Found::Absent | Found::NeedsBody => None,
    };
    Derived { key, scope, also: None, shown: None }
}

fn operation(namespace: &str, scope: &[scope::Value<'_>], key: &[source::Part<'_>]) -> OperationId {
    OperationId(frame::hash(OPERATION, |frame| frame_operation(frame, namespace, scope, key)))
}

fn frame_operation(frame: &mut Frame, namespace: &str, scope: &[scope::Value<'_>], key: &[source::Part<'_>]) {
    frame.label("namespace").part(namespace);
    scope::frame_values(frame, scope);
    source::frame_parts(frame, key);
}

fn refuse_missing(settings: &Settings, found: &Found<'_>, view: &View<'_>) -> Result<(), Refusal> {
    if !matches!(found, Found::Absent) || settings.missing == Missing::Pass {
        return Ok(());
    }
    Err(missing("key", &settings.sources, view))
}

/// What is said where there is no key: where it would be, which of its parts are not there, and what the body is not.
fn missing(what: &str, sources: &[Source], view: &View<'_>) -> Refusal {
    let listed =
        |sources: &mut dyn Iterator<Item = &Source>| sources.map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let absent = listed(&mut source::absent_parts(sources, view).into_iter());
    let places = listed(&mut sources.iter());
    let absent = if absent.is_empty() { absent } else { format!(" Not there, null or blank: {absent}.") };
    let unfit = source::unfit(sources, view).map(|why| format!(" {why}")).unwrap_or_default();
    let detail = format!("The request has no {what}; it is looked for in: {places}.{absent}{unfit}");
    Refusal::KeyMissing(detail)
}

#[cfg(test)]
mod tests;
