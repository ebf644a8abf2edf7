//! How a route names its operations, as the configuration states it.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;

use super::{Carrier, Decoding, ProbeTemplate, Steps, Tokens};

/// How a guarded route derives key, scope and fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Part of every operation's identity: routes with the same namespace share their operations.
    pub namespace: String,
    /// Tried in order; the first that is present is the key.
    pub sources: Vec<Source>,
    /// Whether every key is a UUID of version 7, which says when it was made.
    pub dated: bool,
    /// What a request without any key gets.
    pub missing: Missing,
    /// Whose key it is.
    pub scope: Scope,
    /// Headers that a replay must show with the same values as the first request did; none where the scope's proof of the
    /// caller is enough.
    pub require_same: Vec<HeaderName>,
    /// What belongs to a request's identity.
    pub fingerprint: FingerprintSettings,
    /// How the upstream is asked about an operation in doubt; none: it is not.
    pub probe: Option<ProbeTemplate>,
    /// The second operation that a request names; none: it names one.
    pub also: Option<Also>,
}

/// How a route's second key is derived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Also {
    /// Part of the second operation's identity.
    pub namespace: String,
    /// Tried in order; the first that is present is the key.
    pub sources: Vec<Source>,
    /// What a request without it gets.
    pub missing: Missing,
    /// Whose key it is; none: whose the first one is.
    pub scope: Option<Scope>,
}

/// Where a key comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A request header. `Idempotency-Key` follows the draft (an RFC 8941 string, or bare).
    Header(HeaderName),
    /// A query parameter.
    Query(String),
    /// A JSON pointer (RFC 6901) into the body.
    Json(String),
    /// A field of a form-urlencoded body.
    Form(String),
    /// A value that people type, of one of these kinds, in the form that the steps give it.
    Typed(Box<Source>, Steps),
    /// Several parts, none of them of this kind; all must be there.
    All(Vec<Source>),
    /// A single-use token that a gateway issued.
    Token(Arc<Tokens>),
    /// The request itself.
    Fingerprint,
}

/// What happens to a request without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// 400 `key-missing`.
    Reject,
    /// It is forwarded unguarded.
    Pass,
}

/// Whose a key is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// A header that an authenticating proxy sets: proves the caller.
    TrustedHeader(HeaderName),
    /// A header that the client sets: its own word.
    Header(HeaderName),
    /// A cookie.
    Cookie(String),
    /// The digest of the `Authorization` header. Changes when the credentials are refreshed.
    Authorization,
    /// What the client has proven by its certificate.
    ClientCertificate(CertificateName),
    /// A claim of the client's token: a JSON pointer, and what the token comes in. Proves the caller.
    JwtClaim(String, Carrier),
    /// A parameter of the route's path, by name.
    PathParameter(String),
    /// Several values together, none of them of this kind.
    All(Vec<Scope>),
    /// One scope for all callers.
    None,
}

/// What of a client's certificate names the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateName {
    /// The certificate itself. Changes when it is renewed.
    Fingerprint,
    /// Its subject. The authorities must give no two clients the same.
    Subject,
}

impl CertificateName {
    /// As the configuration writes it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Fingerprint => "fingerprint",
            Self::Subject => "subject",
        }
    }
}

/// What belongs to a request's fingerprint beside method, authority, path, query, content type and body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FingerprintSettings {
    /// Further headers.
    pub headers: Vec<HeaderName>,
    /// JSON pointers into the body whose values do not count.
    pub ignore_json: Vec<String>,
    /// Query parameters that do not count.
    pub ignore_query: Vec<String>,
    /// Values that people type, which count in one form.
    pub typed: Typed,
    /// How encoded bodies are decoded for this; none: they are compared as sent.
    pub decode: Option<Decoding>,
    /// What is made of fingerprints that clients make; none: nothing.
    pub client: Option<ClientPrints>,
}

/// What is made of fingerprints that clients make of their requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientPrints {
    /// Whether a client's word for it is enough.
    pub word: ClientWord,
    /// Whether every request must have one.
    pub required: bool,
    /// How far from the store's time the time of a new operation may be.
    pub skew: Duration,
    /// What carries the fingerprint.
    pub header: HeaderName,
    /// What carries the time.
    pub timestamp_header: HeaderName,
}

/// Whether a client's word for its fingerprint is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientWord {
    /// It is not: the fingerprint is made anew and compared.
    Verify,
    /// It is, and takes the place of the gateway's own.
    Trust,
}

impl ClientPrints {
    /// The header fields that they come in.
    pub(super) fn headers(&self) -> [&HeaderName; 2] {
        [&self.header, &self.timestamp_header]
    }
}

/// Values that people type, by where they stand, with what is done to each before it is compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Typed {
    /// By JSON pointer into the body.
    pub json: Vec<(String, Steps)>,
    /// By field of a form-urlencoded body.
    pub form: Vec<(String, Steps)>,
    /// By query parameter.
    pub query: Vec<(String, Steps)>,
}

impl Typed {
    /// Whether a source's value is one of these; a header's is none that is compared.
    pub(super) fn holds(&self, source: &Source) -> bool {
        let holds = |values: &[(String, Steps)], name: &String| values.iter().any(|(other, _)| other == name);
        match source {
            Source::Json(pointer) => holds(&self.json, pointer),
            Source::Form(name) => holds(&self.form, name),
            Source::Query(name) => holds(&self.query, name),
            _ => true,
        }
    }
}
