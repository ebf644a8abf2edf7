//! What a client-made fingerprint is the SHA-256 of, byte by byte as `docs/fingerprint.md` defines it: clients in other
//! languages make the same. What it is compared with, and what follows, is for others.

use std::borrow::Cow;

use http::header::CONTENT_TYPE;
use sha2::{Digest, Sha256};

use super::content::{self, Content};
use super::frame::{Hash, hex, sha256};
use super::multipart::{self, Part};
use super::netstring::Netstrings;
use super::query::{self, Pair};
use super::source::Body;

/// The definition, which is part of what is hashed.
const VERSION: &str = "oncegate-client-1";

/// The parts of a pre-image, each with its name.
pub(super) struct Preimage<'a> {
    pub(super) parts: [(&'static str, Cow<'a, [u8]>); 9],
}

impl<'a> Preimage<'a> {
    /// The pre-image of a request that was made at this time; none when it has several lines of `Content-Type`.
    pub(super) fn of(body: &'a Body<'_>, timestamp: &'a str) -> Option<Self> {
        let request = body.request();
        if request.headers.get_all(CONTENT_TYPE).iter().count() > 1 {
            return None;
        }
        let media = content::essences(&request.headers).last().unwrap_or_default();
        let coding = body.entity().encodings.join(&b", "[..]);
        let (form, canonical) = canonical_body(body);
        Some(Self {
            parts: [
                ("version", VERSION.as_bytes().into()),
                ("method", request.method.as_str().as_bytes().into()),
                ("path", request.path.as_bytes().into()),
                ("query", pairs(request.query.as_deref().unwrap_or_default().as_bytes()).into()),
                ("type", media),
                ("coding", coding.into()),
                ("form", form.as_bytes().into()),
                ("body", canonical),
                ("timestamp", timestamp.as_bytes().into()),
            ],
        })
    }

    /// In which form the body counted.
    pub(super) fn form(&self) -> &str {
        std::str::from_utf8(&self.parts[6].1).unwrap_or_default()
    }

    /// The fingerprint.
    pub(super) fn digest(&self) -> Hash {
        let mut hasher = Sha256::new();
        for (_, part) in &self.parts {
            hasher.update(format!("{}:", part.len()));
            hasher.update(part);
            hasher.update(",");
        }
        hasher.finalize().into()
    }
}

fn canonical_body<'a>(body: &'a Body<'_>) -> (&'static str, Cow<'a, [u8]>) {
    let entity = body.entity();
    let hash = || hex(&sha256(&entity.bytes));
    match &entity.content {
        _ if entity.is_encoded() => {}
        Content::Json => {
            if let Some(json) = body.whole_json() {
                return ("json", json);
            }
        }
        Content::Form => return ("form", pairs(&entity.bytes).into()),
        Content::Multipart(boundary) => {
            if let Some(parts) = multipart::sorted(&entity.bytes, boundary) {
                return ("multipart", framed(&parts).into());
            }
            // What the upstream makes of these bytes depends on the boundary.
            let mut broken = Netstrings::default();
            broken.put(boundary).put(hash());
            return ("broken-multipart", broken.into_bytes().into());
        }
        Content::Opaque => {}
    }
    ("raw", hash().into_bytes().into())
}

fn pairs(text: &[u8]) -> Vec<u8> {
    let mut all = Netstrings::default();
    for Pair { name, value, malformed } in query::sorted(text, &[]) {
        all.nest(|pair| {
            pair.put(if malformed { "%" } else { "" }).put(name);
            if let Some(value) = value {
                pair.put(value);
            }
        });
    }
    all.into_bytes()
}

fn framed(parts: &[Part<'_>]) -> Vec<u8> {
    let named = |list: &mut Netstrings, name: &[u8], value: &[u8]| {
        list.put(name).put(value);
    };
    let mut all = Netstrings::default();
    for part in parts {
        all.nest(|framed| {
            framed.nest(|list| part.disposition.iter().for_each(|(name, value)| named(list, name, value)));
            framed.nest(|list| {
                if let Some(value) = part.content_type {
                    list.put(value);
                }
            });
            framed.nest(|list| part.others.iter().for_each(|(name, value)| named(list, name, value)));
            framed.put(hex(&sha256(part.content)));
        });
    }
    all.into_bytes()
}
