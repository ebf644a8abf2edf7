//! The framing of HTTP/1.1, read strictly (RFC 9112): where each message ends, and whether anybody could read that in
//! another way. Pure: it is shown bytes, and says what they are.

mod body;
mod chunks;
mod fields;
mod lines;
mod names;
mod request;
mod response;

#[cfg(test)]
pub(crate) mod tests;

use http::StatusCode;

pub use fields::Span;
pub use names::Known;
pub(super) use names::is_spelling;
pub use request::{Behind, Head, Requests};
pub use response::{Answer, Answers};

const TOO_MANY_FIELDS: &str = "Too many fields.";

/// How much of a head is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request's target.
    pub target: usize,
    /// Bytes of a whole head.
    pub head: usize,
    /// Fields of a head, or of a trailer section.
    pub fields: usize,
    /// Bytes of a trailer section.
    pub trailers: usize,
}

impl Limits {
    /// What is taken from clients.
    pub const REQUEST: Self = Self { target: 8 << 10, head: 64 << 10, fields: 100, trailers: 8 << 10 };
    /// What is taken from upstreams: they are ours, and may say more.
    pub const ANSWER: Self = Self { target: 0, head: 64 << 10, fields: 256, trailers: 16 << 10 };

    /// Judges a request's head that was read by somebody else, by the bytes of its target and its count of fields.
    ///
    /// # Errors
    /// When there are too many of either.
    pub fn judge(&self, target: usize, fields: usize) -> Result<(), Fault> {
        if target > self.target {
            return Err(Fault::target_too_long());
        }
        if fields > self.fields {
            return Err(Fault::too_large(TOO_MANY_FIELDS));
        }
        Ok(())
    }
}

/// Why bytes are refused. Nothing that comes after them on their connection can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Fault {
    /// What sort of refusal it is.
    pub kind: Kind,
    /// The reason, for people.
    pub detail: &'static str,
}

/// What sort of refusal it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// No HTTP, or its length could be read in two ways.
    Malformed,
    /// The request's target is too long.
    TargetTooLong,
    /// The head has too many bytes or fields.
    HeadTooLarge,
    /// A transfer coding that this gateway does not know.
    UnknownCoding,
    /// Another version of HTTP.
    UnknownVersion,
}

impl Kind {
    /// The status that says so.
    pub fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::TargetTooLong => StatusCode::URI_TOO_LONG,
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::UnknownCoding => StatusCode::NOT_IMPLEMENTED,
            Self::UnknownVersion => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
        }
    }
}

impl Fault {
    const fn malformed(detail: &'static str) -> Self {
        Self { kind: Kind::Malformed, detail }
    }

    const fn too_large(detail: &'static str) -> Self {
        Self { kind: Kind::HeadTooLarge, detail }
    }

    const fn target_too_long() -> Self {
        Self { kind: Kind::TargetTooLong, detail: "The request's target is too long." }
    }
}

/// A part of a body: bytes that frame it, and behind them a run of its data, if one has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// How many bytes were read.
    pub read: usize,
    /// How many of these are data: the last ones.
    pub data: usize,
    /// Whether the body ends with them.
    pub last: bool,
}

/// Follows the bytes of a connection in one direction.
pub trait Follow {
    /// Looks at bytes that directly follow those which were good before, and says how many of them are good too. What is
    /// left over begins something that is not whole yet: show it again, from there, with more behind it. Beside a fault,
    /// what is left over is the fault's.
    fn follow(&mut self, bytes: &[u8]) -> (usize, Result<(), Fault>);
}

/// Takes one step after the other. A step says how many bytes it took: none when it needs more of them to go on.
fn walk(bytes: &[u8], mut step: impl FnMut(&[u8]) -> (usize, Result<(), Fault>)) -> (usize, Result<(), Fault>) {
    let mut good = 0;
    while good < bytes.len() {
        let (read, done) = step(&bytes[good..]);
        good += read;
        if read == 0 || done.is_err() {
            return (good, done);
        }
    }
    (good, Ok(()))
}
