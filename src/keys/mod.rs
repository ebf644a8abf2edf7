//! From a request to an arrival: its key, its scope, its fingerprint. Pure: bytes in, values out.

pub mod path;
mod settings;

pub use settings::{FingerprintSettings, Missing, Scope, Settings, Source};

use bytes::Bytes;
use http::{HeaderMap, Method};

use crate::machine::Arrival;

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
    /// The path as sent: part of the raw digest.
    pub raw_path: String,
    /// The headers as sent.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// What came of a request.
#[derive(Debug)]
pub enum Named {
    /// It names an operation.
    Operation(Identity),
    /// It has no key, and the route lets such requests pass.
    Unkeyed,
}

/// An arrival, and what the gateway needs to know of its key.
#[derive(Debug)]
pub struct Identity {
    /// The request as the rules see it.
    pub arrival: Arrival,
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
    /// The scope's value is not there, or is there twice.
    #[error("{0}")]
    ScopeMissing(String),
}
