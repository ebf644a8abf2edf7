//! What `oncegate explain` shows of a request: the pieces that its identity is made of.

use super::fingerprint::{self, BodyForm};
use super::frame::{hex, print};
use super::source::Body;
use super::token::Token;
use super::{Refusal, Request, Settings, Source, derive, scope, source};
use crate::machine::{OperationId, Print, Probe};

/// The pieces of a request's identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The operation that it names; none when it has no key and its route lets such requests pass.
    pub operation: Option<OperationId>,
    /// The parts of the key, with where each came from.
    pub key: Vec<Piece>,
    /// The parts of the scope. Empty: all callers share their keys.
    pub scope: Vec<Piece>,
    /// In which form the body entered the canonical fingerprint.
    pub body: BodyForm,
    /// The body as canonical JSON without the ignored values, when `body` says JSON.
    pub canonical_json: Option<String>,
    /// What the upstream would be asked for, or why it could not be asked; none where nobody is to ask.
    pub probe: Option<Result<String, String>>,
    /// Digest of the request as sent.
    pub raw: Print,
    /// Digest of the request in canonical form.
    pub canonical: Print,
    /// Digest of the fingerprint settings.
    pub settings: u32,
}

/// One piece of a key or scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Where it came from, such as `header idempotency-key`.
    pub from: String,
    /// Its value; credentials and fingerprints as hex digests.
    pub value: String,
}

/// Takes a request apart as [`identify`](super::identify) would.
///
/// # Errors
/// As of [`identify`](super::identify).
pub fn explain(settings: &Settings, request: &Request) -> Result<Explanation, Refusal> {
    let body = Body::new(request, settings);
    let derived = derive(settings, request, &body)?;
    let canonical = body.canonical();
    let target = |probe: Probe| String::from_utf8_lossy(&probe.target).into_owned();
    let probe = derived.probe(settings, request, &body).map(|probe| probe.map(target));
    let (key, operation) = match &derived.key {
        Some(key) => (key.parts.iter().map(key_piece).collect(), Some(key.operation)),
        None => (Vec::new(), None),
    };
    let canonical_json = match canonical.form {
        BodyForm::Json => fingerprint::scan(request, &settings.fingerprint, []).ok(),
        BodyForm::Form | BodyForm::Multipart | BodyForm::Raw => None,
    };
    Ok(Explanation {
        operation,
        key,
        scope: derived.scope.iter().map(scope_piece).collect(),
        body: canonical.form,
        canonical_json: canonical_json.map(|scan| String::from_utf8_lossy(&scan.canonical).into_owned()),
        probe,
        raw: fingerprint::raw(request, &settings.fingerprint),
        canonical: print(&canonical.hash),
        settings: fingerprint::settings_word(&settings.fingerprint),
    })
}

fn key_piece(part: &source::Part<'_>) -> Piece {
    let value = match &part.value {
        // Whoever has the whole of it can use it.
        source::Value::Text(text) if matches!(part.source, Source::Token(_)) => {
            Token::read(text).map_or_else(String::new, |token| format!("number {}", hex(&token.number)))
        }
        source::Value::Text(text) | source::Value::Number(text) => text.clone(),
        source::Value::Digest(digest) => hex(digest),
    };
    Piece { from: part.source.to_string(), value }
}

fn scope_piece(value: &scope::Value<'_>) -> Piece {
    let shown = if [scope::CREDENTIALS, scope::CERTIFICATE].contains(&value.kind) {
        hex(&value.bytes)
    } else {
        String::from_utf8_lossy(&value.bytes).into_owned()
    };
    Piece { from: format!("{} {}", value.kind, value.name), value: shown }
}
