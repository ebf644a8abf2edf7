//! Finding the key: the sources of a route, tried in order. It reads requests and hashes nothing but fingerprints.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;

use http::{HeaderMap, HeaderName};

use super::coding::Undecoded;
use super::content::{Content, Entity};
use super::fingerprint::{self, Canonical};
use super::frame::{Frame, sha256};
use super::header;
use super::json::{self, Fault, Scan};
use super::query::{self, Lookup};
pub(super) use super::value::{Value, boolean};
use super::value::{checked, json_key};
use super::{ProbeTemplate, Refusal, Request, Settings, Source, Steps};

/// What sources look at. Without a body, those that need one cannot tell yet.
pub(super) struct View<'a> {
    pub(super) headers: &'a HeaderMap,
    pub(super) query: Option<&'a str>,
    pub(super) body: Option<&'a Body<'a>>,
}

/// A request's body, read as JSON at most once, and its fingerprint, computed at most once.
pub(super) struct Body<'a> {
    request: &'a Request,
    settings: &'a Settings,
    entity: OnceCell<Entity>,
    pub(super) json: OnceCell<Result<Scan, Fault>>,
    pub(super) canonical: OnceCell<Canonical>,
}

/// What came of looking for a key.
#[derive(Debug)]
pub(super) enum Found<'a> {
    Key(Vec<Part<'a>>),
    Absent,
    NeedsBody,
}

/// One part of a key; most keys have one only.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    pub(super) source: &'a Source,
    pub(super) value: Value,
}

/// What one source says.
pub(super) enum Look {
    Here(Value),
    Absent,
    NeedsBody,
}

/// Tries the sources in order: the first that is present is the key.
pub(super) fn find<'a>(sources: &'a [Source], view: &View<'_>) -> Result<Found<'a>, Refusal> {
    for source in sources {
        match parts(source, view)? {
            Found::Absent => {}
            found => return Ok(found),
        }
    }
    Ok(Found::Absent)
}

/// Appends a key to an operation's identity.
pub(super) fn frame_parts(frame: &mut Frame, parts: &[Part<'_>]) {
    frame.label("key").count(parts.len());
    for part in parts {
        let (kind, name) = part.source.label();
        frame.label_of("key", name, "kind").part(kind);
        frame.label_of("key", name, "name").part(name);
        let digest;
        let (form, bytes) = match &part.value {
            Value::Text(text) | Value::Typed { text, .. } => ("text", text.as_bytes()),
            Value::Number(text) => ("number", text.as_bytes()),
            Value::Boolean(value) => ("boolean", boolean(*value).as_bytes()),
            Value::Digest(digest) => ("digest", digest.as_slice()),
            Value::Token(text) => {
                digest = sha256(text.as_bytes());
                ("token's digest", digest.as_slice())
            }
        };
        frame.label_of("key", name, "form").part(form);
        frame.label_of("key", name, "value").part(bytes);
    }
}

/// The header fields that the sources read.
pub(super) fn header_names(sources: &[Source]) -> impl Iterator<Item = &HeaderName> {
    sources.iter().flat_map(leaves).filter_map(|leaf| match leaf.plain() {
        Source::Header(name) => Some(name),
        Source::Token(tokens) => Some(&tokens.header),
        _ => None,
    })
}

/// Whether a source has its value from a request's head alone.
pub(super) fn is_in_head(source: &Source) -> bool {
    let is_one = |leaf: &Source| matches!(leaf.plain(), Source::Header(_) | Source::Token(_) | Source::Query(_));
    leaves(source).iter().all(is_one)
}

/// The sources whose values people type.
pub(super) fn typed(sources: &[Source]) -> impl Iterator<Item = &Source> {
    let leaves = sources.iter().flat_map(leaves);
    leaves.filter_map(|leaf| if let Source::Typed(source, _) = leaf { Some(&**source) } else { None })
}

/// All parts of one source. Every part is looked at even when one is absent: a malformed one is always refused.
fn parts<'a>(source: &'a Source, view: &View<'_>) -> Result<Found<'a>, Refusal> {
    let leaves = leaves(source);
    let (mut parts, mut absent, mut needs_body) = (Vec::with_capacity(leaves.len()), false, false);
    for source in leaves {
        let look = look(source, view).map_err(|what| match (source, view.body.and_then(Body::limit)) {
            (Source::Token(_), _) => Refusal::TokenInvalid(format!("The key ({source}) {what}.")),
            (_, Some(limit)) => Refusal::BodyTooLarge { limit },
            (_, None) => Refusal::KeyInvalid(format!("The key ({source}) {what}.")),
        })?;
        match look {
            Look::Here(value) => parts.push(Part { source, value }),
            Look::Absent => absent = true,
            Look::NeedsBody => needs_body = true,
        }
    }
    Ok(match (absent, needs_body) {
        (true, _) => Found::Absent,
        (false, true) => Found::NeedsBody,
        (false, false) => match parts.as_slice() {
            [] => Found::Absent,
            [Part { source, value: Value::Boolean(_) }] => {
                return Err(Refusal::KeyInvalid(format!("The key ({source}) is a boolean, which names no operation.")));
            }
            _ => Found::Key(parts),
        },
    })
}

/// The parts that are not there, of the sources that have several.
pub(super) fn absent_parts<'a>(sources: &'a [Source], view: &View<'_>) -> Vec<&'a Source> {
    let is_absent = |leaf: &&Source| matches!(look(leaf, view), Ok(Look::Absent));
    sources.iter().map(leaves).filter(|leaves| leaves.len() > 1).flatten().filter(is_absent).collect()
}

/// Why the body can have no value for one of these sources: it is not of the kind that they read.
pub(super) fn unfit(sources: &[Source], view: &View<'_>) -> Option<&'static str> {
    let body = view.body?;
    sources.iter().flat_map(leaves).find_map(|leaf| body.unfit_for(leaf.plain()))
}

/// Looks for the value of one source that has no parts.
pub(super) fn look(source: &Source, view: &View<'_>) -> Result<Look, &'static str> {
    let (source, steps) = source.taken_apart();
    let value = match (source, view.body) {
        (Source::Header(name), _) => header::key(view.headers, name)?.map(Value::Text),
        (Source::Token(tokens), _) => header::key(view.headers, &tokens.header)?.map(Value::Token),
        (Source::Query(name), _) => field(view.query.unwrap_or_default().as_bytes(), name)?,
        (Source::Json(_) | Source::Form(_) | Source::Fingerprint, None) => return Ok(Look::NeedsBody),
        (Source::Json(pointer), Some(body)) => body.json_value(pointer)?,
        (Source::Form(name), Some(body)) => body.form_field(name)?,
        (Source::Fingerprint, Some(body)) => Some(Value::Digest(body.fingerprint()?)),
        // Its parts speak for it.
        (Source::All(_) | Source::Typed(..), _) => None,
    };
    let value = value.map(|value| checked(value, steps)).transpose()?.flatten();
    Ok(value.map_or(Look::Absent, Look::Here))
}

/// A source's own parts, in order, with `all` taken apart.
fn leaves(source: &Source) -> &[Source] {
    match source {
        Source::All(parts) => parts,
        leaf => std::slice::from_ref(leaf),
    }
}

fn field(pairs: &[u8], name: &str) -> Result<Option<Value>, &'static str> {
    match query::find(pairs, name) {
        Lookup::Absent => Ok(None),
        Lookup::Several => Err("is there several times"),
        Lookup::Malformed => Err("has a malformed escape"),
        Lookup::Once(value) => utf8(value.into_owned()).map(Value::Text).map(Some),
    }
}

/// The part that a source would give for a key, if this is one of its kind.
pub(super) fn named(source: &Source, key: Vec<u8>) -> Result<Part<'_>, &'static str> {
    let (plain, steps) = source.taken_apart();
    let value = match plain {
        Source::Header(_) => Value::Text(header::printable(&key)?),
        Source::Token(_) => Value::Token(header::printable(&key)?),
        _ => Value::Text(utf8(key)?),
    };
    let value = checked(value, steps)?.ok_or("is blank")?;
    Ok(Part { source, value })
}

fn utf8(bytes: Vec<u8>) -> Result<String, &'static str> {
    String::from_utf8(bytes).map_err(|_| "is not UTF-8")
}

impl<'a> Body<'a> {
    pub(super) fn new(request: &'a Request, settings: &'a Settings) -> Self {
        let (entity, json, canonical) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Self { request, settings, entity, json, canonical }
    }

    /// The body as it is compared.
    pub(super) fn entity(&self) -> &Entity {
        self.entity.get_or_init(|| Entity::of(self.request, self.settings.fingerprint.decode.as_ref()))
    }

    /// Whether something came of it that costs more to make again than to keep.
    pub(super) fn was_decoded(&self) -> bool {
        self.entity.get().is_some_and(|entity| entity.decoded.is_some())
    }

    /// How many bytes it may decode to, if somebody asked for its content and it is more than that.
    fn limit(&self) -> Option<usize> {
        match self.entity.get()?.undecoded()? {
            Undecoded::TooLarge { limit } => Some(limit),
            Undecoded::Unknown | Undecoded::Broken => None,
        }
    }

    /// The canonical fingerprint.
    pub(super) fn canonical(&self) -> &Canonical {
        let settings = &self.settings.fingerprint;
        self.canonical.get_or_init(|| fingerprint::canonical(self.request, settings, self.entity(), self.json.get()))
    }

    /// The canonical fingerprint as a key. One of a body that nobody may decode would change with its compression.
    fn fingerprint(&self) -> Result<[u8; 32], &'static str> {
        match self.entity().undecoded() {
            Some(Undecoded::TooLarge { .. }) => Err("is of a body that decodes to too many bytes"),
            Some(Undecoded::Unknown | Undecoded::Broken) | None => Ok(self.canonical().hash),
        }
    }

    /// A body whose content is wanted and cannot be had may hold a key: that it has none must not be said.
    fn unreadable(&self) -> Option<&'static str> {
        self.entity().undecoded().map(|_| "is in a body that cannot be decoded")
    }

    /// The request that it is of.
    pub(super) fn request(&self) -> &Request {
        self.request
    }

    /// The body as canonical JSON with everything in it; none when it has no such form.
    pub(super) fn whole_json(&self) -> Option<Cow<'_, [u8]>> {
        if self.settings.fingerprint.ignore_json.is_empty() {
            let scan = self.scanned().as_ref().ok().filter(|scan| !scan.duplicates)?;
            return Some(Cow::Borrowed(scan.canonical(&self.entity().bytes)));
        }
        let body = &self.entity().bytes;
        let scan = json::scan(body, [], &[], []).ok().filter(|scan| !scan.duplicates)?;
        Some(Cow::Owned(scan.canonical(body).to_vec()))
    }

    fn scanned(&self) -> &Result<Scan, Fault> {
        self.json.get_or_init(|| fingerprint::scan(self.entity(), &self.settings.fingerprint, self.pointers()))
    }

    /// Where keys and probes look.
    fn pointers(&self) -> impl Iterator<Item = &'a str> {
        let probed = self.settings.probe.iter().flat_map(ProbeTemplate::pointers);
        self.settings.all_sources().flatten().flat_map(leaves).filter_map(Source::pointer).chain(probed)
    }

    fn unfit_for(&self, source: &Source) -> Option<&'static str> {
        let entity = self.entity();
        match source {
            Source::Json(_) | Source::Form(_) if entity.is_encoded() => Some("The body is compressed."),
            Source::Json(_) => self.scanned().is_err().then_some("The body is no JSON."),
            Source::Form(_) if entity.content != Content::Form => {
                Some("The body is no form, by its type: that would be application/x-www-form-urlencoded.")
            }
            _ => None,
        }
    }

    /// The value under a pointer. A body that is no JSON has none, whatever its type says.
    fn json_value(&self, pointer: &str) -> Result<Option<Value>, &'static str> {
        if self.entity().is_encoded() {
            return self.unreadable().map_or(Ok(None), Err);
        }
        let scan = match self.scanned() {
            Ok(scan) if scan.duplicates => return Err("is in a body with duplicate member names"),
            Ok(scan) => scan,
            Err(Fault::TooDeep) => return Err("is in a body that nests too deep"),
            Err(Fault::Invalid) => return Ok(None),
        };
        let place = self.pointers().position(|other| other == pointer);
        json_key(place.and_then(|place| scan.wanted[place].as_deref()))
    }

    fn form_field(&self, name: &str) -> Result<Option<Value>, &'static str> {
        let entity = self.entity();
        match entity.content {
            Content::Form if entity.is_encoded() => self.unreadable().map_or(Ok(None), Err),
            Content::Form => field(&entity.bytes, name),
            Content::Json | Content::Multipart(_) | Content::Opaque => Ok(None),
        }
    }
}

impl Source {
    /// The kind, and which one of its kind.
    fn label(&self) -> (&'static str, &str) {
        match self {
            Self::Typed(source, _) => source.label(),
            Self::Header(name) => ("header", name.as_str()),
            Self::Query(name) => ("query parameter", name),
            Self::Json(pointer) => ("JSON pointer", pointer),
            Self::Form(name) => ("form field", name),
            Self::All(_) => ("all", ""),
            // Which field carries it is no part of what it names.
            Self::Token(_) => ("token", ""),
            Self::Fingerprint => ("fingerprint", ""),
        }
    }

    /// The kind as the configuration calls it, and which one of its kind.
    pub(super) fn written(&self) -> (&'static str, &str) {
        let (kind, name) = self.label();
        let kind = match self.plain() {
            Self::Query(_) => "query",
            Self::Json(_) => "json",
            Self::Form(_) => "form",
            Self::Header(_) | Self::Typed(..) | Self::All(_) | Self::Token(_) | Self::Fingerprint => kind,
        };
        (kind, name)
    }

    /// Whether the key is one value of the request's own.
    pub(super) fn is_one_value(&self) -> bool {
        let parts = leaves(self);
        parts.len() == 1 && !matches!(&parts[0], Self::Fingerprint | Self::Token(_))
    }

    /// The source itself, without what is done to its value.
    pub(super) fn plain(&self) -> &Self {
        self.taken_apart().0
    }

    fn taken_apart(&self) -> (&Self, Option<&Steps>) {
        if let Self::Typed(source, steps) = self { (source, Some(steps)) } else { (self, None) }
    }

    pub(super) fn pointer(&self) -> Option<&str> {
        match self.plain() {
            Self::Json(pointer) => Some(pointer),
            _ => None,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::All(_) = self {
            let parts = leaves(self);
            return parts.iter().enumerate().try_for_each(|(at, part)| {
                let join = if at == 0 { "" } else { " with " };
                write!(f, "{join}{part}")
            });
        }
        if let Self::Token(tokens) = self {
            return write!(f, "token in {}", tokens.header);
        }
        let (kind, name) = self.label();
        f.write_str(kind)?;
        if name.is_empty() { Ok(()) } else { write!(f, " {name}") }
    }
}
