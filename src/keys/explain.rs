//! What `oncegate explain` shows of a request: the pieces that its identity is made of, and all that is hashed of them.

use super::client_print::Shown;
use super::coding::Undecoded;
use super::fingerprint::{self, BodyForm};
use super::frame::{Frame, Framed, Hashed, hex, print};
use super::preimage::Preimage;
use super::source::Body;
use super::token::Token;
use super::{Names, OPERATION, Refusal, Request, Settings, derive, frame_operation, scope, source};
use crate::machine::{OperationId, Print, Probe, Time};

/// What a fingerprint is that was made by the client and is taken on its word.
const TAKEN: &str = "the client's own";

/// The pieces of a request's identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The operation that it names; none when it has no key and its route lets such requests pass.
    pub operation: Option<OperationId>,
    /// What the operation's digest is made of.
    pub operation_parts: Vec<Framed>,
    /// The parts of the key, with where each came from.
    pub key: Vec<Piece>,
    /// When the key says that it was made, where keys do.
    pub made: Option<Time>,
    /// The parts of the scope. Empty: all callers share their keys.
    pub scope: Vec<Piece>,
    /// The second operation that it names; none where a route has one key, or the second one is missing and need not be there.
    pub also: Option<Second>,
    /// In which form the body entered the canonical fingerprint.
    pub body: BodyForm,
    /// What came of decoding the body: its content's length, or why it is compared as sent; none when there was nothing
    /// to decode.
    pub decoded: Option<Result<usize, Undecoded>>,
    /// The body as canonical JSON without the ignored values, when `body` says JSON.
    pub canonical_json: Option<String>,
    /// What the upstream would be asked for, or why it could not be asked; none where nobody is to ask.
    pub probe: Option<Result<String, String>>,
    /// Digest of the request as sent.
    pub raw: Print,
    /// What it is made of.
    pub raw_parts: Vec<Framed>,
    /// Digest of the request in canonical form.
    pub canonical: Print,
    /// What it is made of.
    pub canonical_parts: Vec<Framed>,
    /// Digest of the fingerprint settings.
    pub settings: u32,
    /// Digest of the credentials that a replay must show again; none where none are asked for.
    pub credentials: Option<Print>,
    /// The fingerprint that the client made, and what it was to be made of; none where none is looked at, or shown.
    pub client: Option<ClientPiece>,
}

/// A fingerprint that a client made, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientPiece {
    /// The parts of the pre-image, each under its name. Empty: this request has none.
    pub parts: Vec<Framed>,
    /// The fingerprint of these.
    pub expected: Option<String>,
    /// The one that the client made.
    pub shown: String,
    /// Why the request is refused, if it is.
    pub refusal: Option<Refusal>,
}

/// The second operation that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Second {
    /// The operation.
    pub operation: OperationId,
    /// What its digest is made of.
    pub parts: Vec<Framed>,
    /// The parts of its key.
    pub key: Vec<Piece>,
    /// The parts of its scope.
    pub scope: Vec<Piece>,
}

/// One piece of a key or scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Where it came from, such as `header idempotency-key`.
    pub from: String,
    /// Its value; credentials and fingerprints as hex digests.
    pub value: String,
}

/// Takes a request apart as [`Naming::identify`](super::Naming::identify) would.
///
/// # Errors
/// As of that.
pub fn explain(settings: &Settings, request: &Request) -> Result<Explanation, Refusal> {
    let body = Body::new(request, settings);
    let derived = derive(settings, &Names::of(settings), request, &body)?;
    let canonical = body.canonical();
    let target = |probe: Probe| String::from_utf8_lossy(&probe.target).into_owned();
    let probe = derived.probe(settings, request, &body).map(|probe| probe.map(target));
    let canonical_json = match canonical.form {
        BodyForm::Json => fingerprint::scan(body.entity(), &settings.fingerprint, []).ok(),
        BodyForm::Form | BodyForm::Multipart | BodyForm::Raw => None,
    };
    let key = derived.key.as_ref();
    let operation_parts = |key: &super::Key<'_>| {
        parts(OPERATION, |frame| frame_operation(frame, &settings.namespace, &derived.scope, &key.parts))
    };
    Ok(Explanation {
        operation: key.map(|key| key.operation),
        operation_parts: key.map(operation_parts).unwrap_or_default(),
        key: key.map(|key| key.parts.iter().map(key_piece).collect()).unwrap_or_default(),
        made: key.and_then(|key| key.made),
        scope: derived.scope.iter().map(scope_piece).collect(),
        also: derived.also.as_ref().map(|also| Second {
            operation: also.operation,
            parts: parts(OPERATION, |frame| {
                let scope = also.scope.as_ref().unwrap_or(&derived.scope);
                frame_operation(frame, &also.settings.namespace, scope, &also.parts);
            }),
            key: also.parts.iter().map(key_piece).collect(),
            scope: also.scope.as_ref().unwrap_or(&derived.scope).iter().map(scope_piece).collect(),
        }),
        body: canonical.form,
        decoded: body.entity().decoded,
        canonical_json: canonical_json
            .map(|scan| String::from_utf8_lossy(scan.canonical(&body.entity().bytes)).into_owned()),
        probe,
        raw: fingerprint::raw(request, &settings.fingerprint),
        raw_parts: parts(fingerprint::RAW, |frame| fingerprint::frame_raw(frame, request, &settings.fingerprint)),
        canonical: derived.told_print().unwrap_or_else(|| print(&canonical.hash)),
        canonical_parts: match (derived.told_print(), &derived.shown) {
            // Taken as it came: nothing is hashed.
            (Some(_), Some(shown)) => vec![part(TAKEN, &shown.digest)],
            _ => parts(fingerprint::CANONICAL, |frame| {
                fingerprint::frame_canonical(frame, request, &settings.fingerprint, body.entity(), None);
            }),
        },
        settings: fingerprint::settings_word(&settings.fingerprint, derived.told_print().is_some()),
        credentials: scope::credentials(settings, &request.headers),
        client: derived.shown.as_ref().map(|shown| client_piece(shown, &body)),
    })
}

fn client_piece(shown: &Shown<'_>, body: &Body<'_>) -> ClientPiece {
    let own = Preimage::of(body, shown.timestamp);
    let parts = own.iter().flat_map(|own| &own.parts);
    ClientPiece {
        parts: parts.map(|(label, bytes)| part(label, bytes)).collect(),
        expected: own.as_ref().map(|own| hex(&own.digest())),
        shown: hex(&shown.digest),
        refusal: shown.check(body).err(),
    }
}

fn part(label: &'static str, bytes: &[u8]) -> Framed {
    Framed { item: String::new(), label, hashed: Hashed::Part(bytes.to_vec()) }
}

/// What goes into a digest, shown by the very code that hashes it.
fn parts(domain: &str, fill: impl FnOnce(&mut Frame)) -> Vec<Framed> {
    let mut frame = Frame::shown(domain);
    fill(&mut frame);
    frame.take_shown()
}

fn key_piece(part: &source::Part<'_>) -> Piece {
    let value = match &part.value {
        source::Value::Text(text) | source::Value::Number(text) => text.clone(),
        source::Value::Typed { text, sent } if text == sent => text.clone(),
        source::Value::Typed { text, sent } => format!("{text} (sent as {sent:?})"),
        source::Value::Boolean(value) => source::boolean(*value).to_owned(),
        source::Value::Digest(digest) => hex(digest),
        source::Value::Token(text) => {
            Token::read(text).map_or_else(String::new, |token| format!("number {}", hex(&token.number)))
        }
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
