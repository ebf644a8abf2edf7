//! Whole requests: made at random, sent in any spelling and coding, changed in one place.

use std::fmt::Write;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use oncegate::keys::{
    Caller, Coding, Decoding, FingerprintSettings, Missing, Named, Naming, Request, Scope, Settings, Source,
};
use oncegate::machine::{Prints, Salt};

use crate::coded;
use crate::dice::Dice;
use crate::json::{self, Json};
use crate::multipart::{self, Part};
use crate::pairs::{self, Pairs};

/// Which bodies a run looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Json,
    Form,
    Multipart,
    Raw,
}

/// A request, apart from its spelling.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    method: Method,
    authority: String,
    path: String,
    query: Pairs,
    /// Lines of the one field that the route counts.
    counted: Vec<String>,
    body: Body,
}

#[derive(Debug, Clone)]
enum Body {
    Json(&'static str, Json),
    Form(Pairs),
    Multipart(Vec<Part>),
    /// Its type, and what it is.
    Raw(&'static str, Vec<u8>),
}

const COUNTED: HeaderName = HeaderName::from_static("x-tenant");
const KEY: HeaderName = HeaderName::from_static("idempotency-key");

impl Sent {
    pub(crate) fn any(kind: Kind, dice: &mut Dice) -> Self {
        let body = match kind {
            Kind::Json => Body::Json(dice.pick(&["application/json", "application/ld+json"]), Json::any(dice, 3)),
            Kind::Form => Body::Form(pairs::any(dice)),
            Kind::Multipart => Body::Multipart(multipart::any(dice)),
            Kind::Raw => {
                let types = ["text/plain", "application/octet-stream", "application/xml"];
                Body::Raw(dice.pick(&types), (0..dice.below(40)).map(|_| dice.next().to_le_bytes()[0]).collect())
            }
        };
        Self {
            method: dice.pick(&[Method::POST, Method::PUT, Method::PATCH]),
            authority: dice.pick(&["shop.example", "shop.example:8080"]).to_owned(),
            path: format!("/orders/{}", dice.below(3)),
            query: if dice.once_in(3) { pairs::any(dice) } else { Pairs::new() },
            counted: (0..dice.below(3)).map(|_| dice.below(3).to_string()).collect(),
            body,
        }
    }

    /// What it means, as a text that no other request has.
    pub(crate) fn meaning(&self) -> String {
        let Self { method, authority, path, query, counted, body } = self;
        let mut out = format!("{method} {authority}{path} {counted:?} ");
        pairs::meaning(query, &mut out);
        match body {
            Body::Json(kind, value) => {
                write!(out, "{kind} ").unwrap();
                value.meaning(&mut out);
            }
            Body::Form(pairs) => {
                out.push_str("form ");
                pairs::meaning(pairs, &mut out);
            }
            Body::Multipart(parts) => {
                out.push_str("multipart ");
                multipart::meaning(parts, &mut out);
            }
            Body::Raw(kind, bytes) => write!(out, "{kind} {bytes:?}").unwrap(),
        }
        out
    }

    /// Another request in one place: in its body mostly.
    pub(crate) fn changed(&self, dice: &mut Dice) -> Self {
        let (mut other, meaning) = (self.clone(), self.meaning());
        while other.meaning() == meaning {
            other.change(dice);
        }
        other
    }

    fn change(&mut self, dice: &mut Dice) {
        match dice.below(20) {
            0 => self.method = dice.pick(&[Method::POST, Method::PUT, Method::DELETE]),
            1 => self.authority.push('1'),
            2 => self.path.push_str("/more"),
            3 => pairs::change(&mut self.query, dice),
            4 => self.counted.push(String::new()),
            5 => self.counted.iter_mut().for_each(|line| json::change_ascii(line, dice)),
            _ => match &mut self.body {
                Body::Json(_, value) => value.change(dice),
                Body::Form(pairs) => pairs::change(pairs, dice),
                Body::Multipart(parts) => multipart::change(parts, dice),
                Body::Raw(_, bytes) => pairs::change_bytes(bytes, dice),
            },
        }
    }

    /// As a client might send it.
    pub(crate) fn spelled(&self, dice: &mut Dice) -> Request {
        let (mut kind, content) = self.body.spelled(dice);
        if dice.once_in(4) {
            kind = kind.replacen('a', "A", 1);
        }
        let (coding, body) = encoded(content, dice);
        let mut headers = HeaderMap::new();
        headers.insert(KEY, HeaderValue::from_static("k"));
        headers.insert(CONTENT_TYPE, HeaderValue::try_from(kind).unwrap());
        for line in &self.counted {
            headers.append(COUNTED, HeaderValue::from_str(line).unwrap());
        }
        if !coding.is_empty() {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
        }
        if dice.once_in(3) {
            headers.insert("x-trace", HeaderValue::from(dice.next()));
        }
        let query = (!self.query.is_empty() || dice.once_in(4)).then(|| pairs::write(&self.query, dice));
        let authority = if dice.once_in(4) { self.authority.to_ascii_uppercase() } else { self.authority.clone() };
        let (method, path) = (self.method.clone(), self.path.clone());
        let raw_path = path.clone() + dice.pick(&["", "/"]);
        Request { method, authority, path, query, raw_path, headers, caller: Caller::default(), body }
    }
}

impl Body {
    fn spelled(&self, dice: &mut Dice) -> (String, Vec<u8>) {
        let charset = dice.pick(&["", "; charset=utf-8", ";charset=utf-8"]);
        match self {
            Self::Json(kind, value) => {
                let mut out = String::new();
                value.write(&mut out, dice);
                (format!("{kind}{charset}"), out.into_bytes())
            }
            Self::Form(pairs) => {
                (format!("application/x-www-form-urlencoded{charset}"), pairs::write(pairs, dice).into_bytes())
            }
            Self::Multipart(parts) => {
                // So long that no content has it by chance.
                let boundary = format!("b{:016x}", dice.next());
                let quoted = if dice.once_in(2) { format!("\"{boundary}\"") } else { boundary.clone() };
                (format!("multipart/form-data; boundary={quoted}"), multipart::write(parts, &boundary, dice))
            }
            Self::Raw(kind, bytes) => (format!("{kind}{charset}"), bytes.clone()),
        }
    }
}

/// In some coding, or in none.
fn encoded(content: Vec<u8>, dice: &mut Dice) -> (&'static str, Bytes) {
    // The two with real compression set up large tables, so they come less often.
    let (coding, body) = match dice.below(40) {
        0 => ("gzip", coded::gzip(&content)),
        1 => ("zstd", coded::zstd(&content)),
        2 => ("br, gzip", coded::gzip_stored(&coded::brotli(&content))),
        3..=6 => ("br", coded::brotli(&content)),
        _ => ("", content),
    };
    (coding, body.into())
}

/// What the gateway keeps of it, under the same salt for all.
pub(crate) fn prints(settings: &Settings, request: &Request) -> Prints {
    let naming = Naming::new(settings.clone());
    match naming.identify(request, Salt([0x5a; 8])) {
        Ok(Named::Operation(arrival)) => arrival.prints(),
        other => panic!("it has a key, yet: {other:?}"),
    }
}

/// A route that looks at everything it can.
pub(crate) fn settings() -> Settings {
    let codings = vec![Coding::Gzip, Coding::Brotli, Coding::Zstd];
    Settings {
        namespace: "orders".to_owned(),
        sources: vec![Source::Header(KEY)],
        dated: false,
        missing: Missing::Reject,
        scope: Scope::None,
        require_same: Vec::new(),
        probe: None,
        also: None,
        fingerprint: FingerprintSettings {
            headers: vec![COUNTED],
            decode: Some(Decoding { codings, ratio: 100, size: 1 << 20 }),
            ..FingerprintSettings::default()
        },
    }
}
