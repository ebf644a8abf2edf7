//! Names and points in time: the small value types that records and requests are made of.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::time::Duration;

/// A point in the store's time, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

impl Time {
    /// This time plus `span`, stopping at the end of time instead of wrapping.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    }

    /// How long after `earlier` this is; zero when it is not after.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The same as RFC 3339 has it, in UTC; none after the year 9999, where that ends.
    pub fn rfc3339(self) -> Option<String> {
        let at = jiff::Timestamp::from_millisecond(i64::try_from(self.0).ok()?).ok()?;
        Some(at.to_string())
    }
}

/// The identity of an operation: SHA-256 over namespace, scope and key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationId(pub [u8; 32]);

/// Half of a digest tells as much as the whole, where a table has to find a place for it.
impl Hash for OperationId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for half in self.0[..16].as_chunks().0 {
            state.write_u64(u64::from_le_bytes(*half));
        }
    }
}

/// The random 128-bit name of one attempt; half of a [`Fence`](super::Fence).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttemptId(pub [u8; 16]);

/// The first 128 bits of a SHA-256, kept in records to tell an equal request from a changed one.
///
/// Only the caller that owns the key can choose both requests, so a forced collision would fool nobody but its maker.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Print(pub [u8; 16]);

/// What keys the hash of a request as sent: drawn for each request, and known to nobody but the store and its gateways.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Salt(pub [u8; 8]);

/// How a record knows its request as sent: by a salt, and the request's hash under that.
///
/// A request is compared by hashing it under the salt on record. Prints with different salts say nothing of each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RawPrint(pub [u8; 16]);

/// The first 32 bits of the SHA-256 of a route's namespace: enough to say which route a record belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NamespaceTag(pub u32);

impl OperationId {
    /// The first 12 hex digits: how the operation appears in logs.
    pub fn short(&self) -> Short<'_> {
        Short(self)
    }

    /// The bytes of which [`short`](Self::short) is the digits.
    pub fn beginning(&self) -> [u8; 6] {
        std::array::from_fn(|at| self.0[at])
    }

    /// All 64 hex digits: how the operation is named outside.
    pub fn digits(&self) -> [u8; 64] {
        let mut text = [0; 64];
        hex_digits(&self.0, &mut text);
        text
    }

    /// Reads the 64 hex digits that [`Display`](fmt::Display) writes.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
        }
        Some(Self(bytes))
    }
}

impl RawPrint {
    /// The hash of a request under this salt.
    pub fn new(salt: Salt, hash: [u8; 8]) -> Self {
        let mut both = [0; 16];
        both[..8].copy_from_slice(&salt.0);
        both[8..].copy_from_slice(&hash);
        Self(both)
    }

    /// The salt that an equal request has to be hashed under.
    pub fn salt(self) -> Salt {
        let [salt @ .., _, _, _, _, _, _, _, _] = self.0;
        Salt(salt)
    }
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// Writes each byte as two lower-case hex digits, as far as there is room.
pub fn hex_digits(bytes: &[u8], text: &mut [u8]) {
    let digit = |value: u8| value + if value < 10 { b'0' } else { b'a' - 10 };
    for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
        *pair = [digit(byte >> 4), digit(byte & 0xf)];
    }
}

/// Writes at most 32 bytes, in one piece.
fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = [0; 64];
    hex_digits(bytes, &mut text);
    f.write_str(std::str::from_utf8(&text[..2 * bytes.len()]).map_err(|_| fmt::Error)?)
}

/// An [`OperationId`] cut to 12 hex digits.
#[derive(Clone, Copy)]
pub struct Short<'a>(&'a OperationId);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0.0[..6], f)
    }
}

macro_rules! hex_text {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(&self.0, f)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    )*};
}
hex_text!(OperationId, AttemptId, Print);

/// Not its bytes: whoever knows a salt can look for another request with the same hash.
impl fmt::Debug for RawPrint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RawPrint")
    }
}
