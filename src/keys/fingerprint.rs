//! The fingerprint: what makes two requests equal. It hashes; it never changes what is forwarded.

use http::header::CONTENT_TYPE;

use super::content::{self, Content, Entity};
use super::frame::{self, Frame, Hash, Pieces, print, word};
use super::json::{self, Fault, Scan};
use super::{FingerprintSettings, Request, Typed, multipart, query, scope};
use crate::machine::{FINGERPRINT_VERSION, Print, Salt};

/// The domain of the digest of a request as sent.
pub(super) const RAW: &str = "oncegate raw request";
/// The domain of the digest of a request in canonical form.
pub(super) const CANONICAL: &str = "oncegate request";

/// In which form a body entered the canonical fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyForm {
    /// As a JSON value.
    Json,
    /// As form-urlencoded pairs.
    Form,
    /// As the parts of multipart/form-data.
    Multipart,
    /// As bytes: of another type, encoded, malformed, over-deep, or with duplicate members.
    Raw,
}

/// A canonical fingerprint and how it came about.
pub(super) struct Canonical {
    pub(super) hash: Hash,
    pub(super) form: BodyForm,
}

/// Hash of the request as sent, but for the header fields that do not count, keyed by a salt.
pub(super) fn keyed(request: &Request, settings: &FingerprintSettings, salt: Salt) -> [u8; 8] {
    frame::keyed(salt, RAW, |frame| frame_raw(frame, request, settings))
}

/// Digest of the same, to show to people: a record keeps the keyed hash, which costs a fifth.
pub(super) fn raw(request: &Request, settings: &FingerprintSettings) -> Print {
    print(&frame::hash(RAW, |frame| frame_raw(frame, request, settings)))
}

/// Appends the request as sent.
pub(super) fn frame_raw<H: Pieces>(frame: &mut Frame<H>, request: &Request, settings: &FingerprintSettings) {
    frame.label("version").part([FINGERPRINT_VERSION]);
    frame.label("method").part(request.method.as_str());
    frame.label("authority").part(&request.authority);
    frame.label("path").part(&request.raw_path);
    frame.label("query").optional(request.query.as_ref());
    // With its parameters: the same bytes under another boundary are other parts.
    let types = request.headers.get_all(CONTENT_TYPE);
    frame.label("content type").count(types.iter().count());
    types.iter().for_each(|line| frame.part(line));
    frame_counted_headers(frame, &content::encodings(&request.headers), request, settings);
    frame.label("body").part(&request.body);
}

/// Digest of the request in canonical form, with `entity` for its body. `scanned` is that as JSON, when it was read already.
pub(super) fn canonical(
    request: &Request,
    settings: &FingerprintSettings,
    entity: &Entity,
    scanned: Option<&Result<Scan, Fault>>,
) -> Canonical {
    let mut form = BodyForm::Raw;
    let hash = frame::hash(CANONICAL, |frame| form = frame_canonical(frame, request, settings, entity, scanned));
    Canonical { hash, form }
}

/// Appends the request in canonical form.
pub(super) fn frame_canonical(
    frame: &mut Frame,
    request: &Request,
    settings: &FingerprintSettings,
    entity: &Entity,
    scanned: Option<&Result<Scan, Fault>>,
) -> BodyForm {
    frame.label("version").part([FINGERPRINT_VERSION]);
    frame.label("method").part(request.method.as_str());
    frame.label("authority").part(content::lower_case(request.authority.as_bytes()));
    frame.label("path").part(&request.path);
    let query = request.query.as_deref().unwrap_or_default().as_bytes();
    query::frame_sorted(frame, "query", query, &settings.ignore_query, &settings.typed.query);
    frame.label("content type").count(request.headers.get_all(CONTENT_TYPE).iter().count());
    content::essences(&request.headers).for_each(|essence| frame.part(essence));
    frame_counted_headers(frame, &entity.encodings, request, settings);
    frame_body(frame, entity, settings, scanned)
}

/// The body as JSON without the values that do not count, picking up those under `wanted`.
pub(super) fn scan<'a>(
    entity: &Entity,
    settings: &'a FingerprintSettings,
    wanted: impl IntoIterator<Item = &'a str>,
) -> Result<Scan, Fault> {
    json::scan(&entity.bytes, settings.ignore_json.iter().map(String::as_str), &settings.typed.json, wanted)
}

/// Digest of the settings themselves: canonical digests compare only under equal ones. One that a client has told
/// compares with others of that kind alone.
pub(super) fn settings_word(settings: &FingerprintSettings, told: bool) -> u32 {
    let mut frame = Frame::new("oncegate fingerprint settings 1");
    frame.list(settings.headers.iter());
    frame.list(settings.ignore_json.iter());
    frame.list(settings.ignore_query.iter());
    frame_typed(&mut frame, &settings.typed);
    // Without it, the word is that of before there was such a setting.
    if let Some(decoding) = &settings.decode {
        frame.part("decode");
        frame.list(decoding.codings.iter().map(|coding| coding.word()));
        frame.count(decoding.ratio);
        frame.count(decoding.size);
    }
    if told {
        frame.part("told by the client");
    }
    word(&frame.finish())
}

/// Appends what is done to typed values; nothing where there are none, as before there could be any.
fn frame_typed(frame: &mut Frame, typed: &Typed) {
    for (kind, values) in [("json", &typed.json), ("form", &typed.form), ("query", &typed.query)] {
        for (name, steps) in values {
            frame.part(kind);
            frame.part(name);
            frame.list(steps.words());
        }
    }
}

fn frame_counted_headers<H: Pieces>(
    frame: &mut Frame<H>,
    encodings: &[Vec<u8>],
    request: &Request,
    settings: &FingerprintSettings,
) {
    frame.label("content encoding").list(encodings.iter());
    scope::frame_headers(frame, &settings.headers, &request.headers);
}

/// Appends the body. The form's name comes first, so that bodies of different forms never meet.
fn frame_body(
    frame: &mut Frame,
    entity: &Entity,
    settings: &FingerprintSettings,
    scanned: Option<&Result<Scan, Fault>>,
) -> BodyForm {
    match &entity.content {
        // What reads nothing into it takes it as it is.
        _ if entity.is_encoded() => {}
        Content::Json => {
            let own = if scanned.is_none() { Some(scan(entity, settings, [])) } else { None };
            if let Some(Ok(scan)) = scanned.or(own.as_ref()).filter(|scan| !has_duplicates(scan)) {
                frame.label("body read as").part("json");
                frame.label("body").part(scan.canonical(&entity.bytes));
                return BodyForm::Json;
            }
        }
        Content::Form => {
            frame.label("body read as").part("form");
            query::frame_sorted(frame, "form field", &entity.bytes, &[], &settings.typed.form);
            return BodyForm::Form;
        }
        Content::Multipart(boundary) => {
            let mut parts = frame.inner("multipart");
            if multipart::frame_sorted(&mut parts, &entity.bytes, boundary).is_some() {
                frame.label("body read as").part("multipart");
                frame.label("body").digest(parts);
                return BodyForm::Multipart;
            }
            // What the upstream makes of these bytes depends on the boundary.
            frame.label("body read as").part("malformed multipart");
            frame.label("boundary").part(boundary);
        }
        Content::Opaque => {}
    }
    frame.label("body read as").part("raw");
    frame.label("body").part(&entity.bytes);
    BodyForm::Raw
}

fn has_duplicates(scan: &Result<Scan, Fault>) -> bool {
    scan.as_ref().is_ok_and(|scan| scan.duplicates)
}
