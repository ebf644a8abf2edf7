//! Client-made fingerprints: what the gateway makes of a request, against the definition's vectors, against the
//! JavaScript that clients use, and against what must and must not change them. No gateway is started.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod cross;
#[path = "../simulation/dice.rs"]
mod dice;
mod meaning;
mod vectors;
mod wild;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method};
use oncegate::config::parse;
use oncegate::keys::{self, Caller, ClientPiece, Framed, Hashed, Request, explain, path};
use serde::{Deserialize, Serialize};

/// A request, as the vectors have it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Given {
    method: String,
    target: String,
    content_type: Option<String>,
    content_encoding: Option<String>,
    body: Option<String>,
    body_hex: Option<String>,
    timestamp: String,
}

impl Given {
    fn body(&self) -> Vec<u8> {
        match &self.body_hex {
            Some(digits) => unhex(digits),
            None => self.body.clone().unwrap_or_default().into_bytes(),
        }
    }
}

/// How a route verifies fingerprints.
fn settings() -> keys::Settings {
    let file = "
upstreams: { orders: { servers: [\"http://127.0.0.1:1\"] } }
routes:
  - name: orders
    match: { methods: [POST], path: '/{*rest}' }
    upstream: orders
    idempotency:
      key: [ { header: Idempotency-Key } ]
      missing: pass
      scope: none
      fingerprint: { client: { mode: verify } }
";
    let loaded = parse("test.yaml", file, &|_| None).unwrap();
    loaded.settings.gateway.routes[0].guard.clone().unwrap().keys
}

/// The pre-image and the fingerprint that the gateway makes of a request; none when its path has no normal form.
fn made(settings: &keys::Settings, given: &Given) -> Option<(Vec<u8>, String)> {
    let (raw_path, query) = match given.target.split_once('?') {
        Some((path, query)) => (path, Some(query.to_owned())),
        None => (given.target.as_str(), None),
    };
    let mut headers = HeaderMap::new();
    for (name, value) in [(CONTENT_TYPE, &given.content_type), (CONTENT_ENCODING, &given.content_encoding)] {
        if let Some(value) = value {
            headers.append(name, HeaderValue::from_bytes(&latin1(value)).unwrap());
        }
    }
    headers.append("x-request-fingerprint", HeaderValue::from_str(&"0".repeat(64)).unwrap());
    headers.append("x-request-timestamp", HeaderValue::from_str(&given.timestamp).unwrap());
    let request = Request {
        method: Method::from_bytes(given.method.to_uppercase().as_bytes()).unwrap(),
        authority: "shop.example".to_owned(),
        path: path::normalize(raw_path).ok()?.into_owned(),
        query,
        raw_path: raw_path.to_owned(),
        headers,
        caller: Caller::default(),
        body: Bytes::from(given.body()),
    };
    let piece = explain(settings, &request).unwrap().client.unwrap();
    Some((preimage(&piece), piece.expected.unwrap()))
}

/// The parts side by side.
fn preimage(piece: &ClientPiece) -> Vec<u8> {
    let framed = |part: &Framed| match &part.hashed {
        Hashed::Part(bytes) => [bytes.len().to_string().as_bytes(), b":", bytes, b","].concat(),
        other => unreachable!("{other:?}"),
    };
    piece.parts.iter().map(framed).collect::<Vec<_>>().concat()
}

/// A field's value as JavaScript has it: one character for each byte.
fn latin1(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |all, byte| all + &format!("{byte:02x}"))
}

fn unhex(digits: &str) -> Vec<u8> {
    let pair = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(pair).collect()
}

/// A file of the JavaScript client's.
fn of_the_client(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/js").join(name)
}
