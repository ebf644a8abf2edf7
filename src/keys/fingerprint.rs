//! The fingerprint: what makes two requests equal. It hashes; it never changes what is forwarded.

use http::header::CONTENT_TYPE;

use super::content::{self, Content, Entity};
use super::frame::{Frame, Hash, print, word};
use super::json::{self, Fault, Scan};
use super::{FingerprintSettings, Request, multipart, query, scope};
use crate::machine::{FINGERPRINT_VERSION, Print};

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

/// Digest of the request as sent, but for the header fields that do not count.
pub(super) fn raw(request: &Request, settings: &FingerprintSettings) -> Print {
    let mut frame = Frame::new("oncegate raw request");
    frame.part([FINGERPRINT_VERSION]);
    frame.part(request.method.as_str());
    frame.part(&request.authority);
    frame.part(&request.raw_path);
    frame.optional(request.query.as_ref());
    // With its parameters: the same bytes under another boundary are other parts.
    let types = request.headers.get_all(CONTENT_TYPE);
    frame.count(types.iter().count());
    types.iter().for_each(|line| frame.part(line));
    frame_counted_headers(&mut frame, &content::encodings(&request.headers), request, settings);
    frame.part(&request.body);
    print(&frame.finish())
}

/// Digest of the request in canonical form, with `entity` for its body. `scanned` is that as JSON, when it was read already.
pub(super) fn canonical(
    request: &Request,
    settings: &FingerprintSettings,
    entity: &Entity,
    scanned: Option<&Result<Scan, Fault>>,
) -> Canonical {
    let mut frame = Frame::new("oncegate request");
    frame.part([FINGERPRINT_VERSION]);
    frame.part(request.method.as_str());
    frame.part(request.authority.to_ascii_lowercase());
    frame.part(&request.path);
    query::frame_sorted(&mut frame, request.query.as_deref().unwrap_or_default().as_bytes(), &settings.ignore_query);
    frame.list(content::essences(&request.headers).iter());
    frame_counted_headers(&mut frame, &entity.encodings, request, settings);
    let form = frame_body(&mut frame, entity, settings, scanned);
    Canonical { hash: frame.finish(), form }
}

/// The body as JSON without the values that do not count, picking up those under `wanted`.
pub(super) fn scan<'a>(
    entity: &Entity,
    settings: &'a FingerprintSettings,
    wanted: impl IntoIterator<Item = &'a str>,
) -> Result<Scan, Fault> {
    json::scan(&entity.bytes, settings.ignore_json.iter().map(String::as_str), wanted)
}

/// Digest of the settings themselves: canonical digests compare only under equal ones.
pub(super) fn settings_word(settings: &FingerprintSettings) -> u32 {
    let mut frame = Frame::new("oncegate fingerprint settings 1");
    frame.list(settings.headers.iter());
    frame.list(settings.ignore_json.iter());
    frame.list(settings.ignore_query.iter());
    // Without it, the word is that of before there was such a setting.
    if let Some(decoding) = &settings.decode {
        frame.part("decode");
        frame.list(decoding.codings.iter().map(|coding| coding.word()));
        frame.count(decoding.ratio);
        frame.count(decoding.size);
    }
    word(&frame.finish())
}

fn frame_counted_headers(frame: &mut Frame, encodings: &[Vec<u8>], request: &Request, settings: &FingerprintSettings) {
    frame.list(encodings.iter());
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
                frame.part("json");
                frame.part(&scan.canonical);
                return BodyForm::Json;
            }
        }
        Content::Form => {
            frame.part("form");
            query::frame_sorted(frame, &entity.bytes, &[]);
            return BodyForm::Form;
        }
        Content::Multipart(boundary) => {
            let mut parts = Frame::new("multipart");
            if multipart::frame_sorted(&mut parts, &entity.bytes, boundary).is_some() {
                frame.part("multipart");
                frame.part(parts.finish());
                return BodyForm::Multipart;
            }
            // What the upstream makes of these bytes depends on the boundary.
            frame.part("malformed multipart");
            frame.part(boundary);
        }
        Content::Opaque => {}
    }
    frame.part("raw");
    frame.part(&entity.bytes);
    BodyForm::Raw
}

fn has_duplicates(scan: &Result<Scan, Fault>) -> bool {
    scan.as_ref().is_ok_and(|scan| scan.duplicates)
}
