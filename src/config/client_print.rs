//! The file as written: fingerprints that clients make. Checks nothing across fields.

use http::HeaderName;

use super::define::{choice, section};
use super::values::{HOUR, SECOND, Span};

section! {
    /// Fingerprints that clients make of their requests; docs/fingerprint.md says how.
    ClientPrint {
        /// `verify`: made anew and compared, another one is 400. `trust`: taken in the place of the gateway's own, on the client's word alone. `ignore`: not looked at.
        mode: Mode = Default("ignore"),
        /// Whether a request without one is 400.
        required: bool = Default("false"),
        /// How far from the store's time the timestamp of a new operation may be.
        skew: Span<SECOND, HOUR> = Default("30s"),
        /// What carries the fingerprint.
        header: HeaderName = Default("X-Request-Fingerprint"),
        /// What carries the timestamp.
        timestamp_header: HeaderName = Default("X-Request-Timestamp"),
    }
    later {}
}

/// What a route makes of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Verify,
    Trust,
    Ignore,
}

choice! { Mode { "verify" => Self::Verify, "trust" => Self::Trust, "ignore" => Self::Ignore } later {} }
