//! Single-use tokens: what is in one, how it is signed and recognised. It reads no clock and asks nobody; that a token was
//! used is known by the record of its operation alone.

use std::fmt;
use std::time::Duration;

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderName;

use super::frame::{Frame, Hash, hex};
use super::scope;
use crate::machine::{Time, Untimely, Validity};

/// How far ahead of the store's time a token may have been issued: gateways read that time each for itself.
pub const TOKEN_SKEW: Duration = Duration::from_secs(30);

/// The shortest secret, in bytes.
pub const TOKEN_SECRET_LEN: usize = 32;

const VERSION: u8 = 1;
const ID_LEN: usize = 4;
const NUMBER_LEN: usize = 16;
/// Version, id of the key, issued, expires, number.
const HEAD_LEN: usize = 1 + ID_LEN + 8 + 8 + NUMBER_LEN;
const TAG_LEN: usize = 32;
/// A multiple of three: base64 then has no bits to spare, and each token has one spelling.
const LEN: usize = HEAD_LEN + TAG_LEN;
/// How long its text is.
const TEXT_LEN: usize = LEN / 3 * 4;

/// How tokens are made and taken, over all routes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    /// What carries a token.
    pub header: HeaderName,
    /// How long one is good for, from its issue.
    pub lifetime: Duration,
    /// The keys, the one that signs first.
    pub keys: Vec<TokenKey>,
}

/// A key that signs tokens, or signed them once. Of its secret only what was set up with it is kept.
#[derive(Clone)]
pub struct TokenKey {
    digest: Hash,
    key: hmac::Key,
}

/// What a token says of itself. It counts for nothing before [`Tokens::is_signed`] has said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) key: [u8; ID_LEN],
    pub(super) issued: Time,
    pub(super) expires: Time,
    pub(super) number: [u8; NUMBER_LEN],
    tag: [u8; TAG_LEN],
}

/// What a token is good for: a namespace, and the caller.
pub(super) struct Bound {
    namespace: String,
    caller: Hash,
}

impl TokenKey {
    /// A key of this secret; none when that is too short.
    pub fn new(secret: &[u8]) -> Option<Self> {
        let mut frame = Frame::new("oncegate token key 1");
        frame.part(secret);
        let key = || Self { digest: frame.finish(), key: hmac::Key::new(HMAC_SHA256, secret) };
        (secret.len() >= TOKEN_SECRET_LEN).then(key)
    }

    /// What tokens call it. It says nothing of the secret that could be used.
    pub fn id(&self) -> String {
        hex(&self.short())
    }

    fn short(&self) -> [u8; ID_LEN] {
        let mut id = [0; ID_LEN];
        id.copy_from_slice(&self.digest[..ID_LEN]);
        id
    }
}

impl PartialEq for TokenKey {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for TokenKey {}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenKey({})", self.id())
    }
}

impl Bound {
    pub(super) fn new(namespace: &str, scope: &[scope::Value<'_>]) -> Self {
        let mut frame = Frame::new("oncegate token scope 1");
        scope::frame_values(&mut frame, scope);
        Self { namespace: namespace.to_owned(), caller: frame.finish() }
    }

    /// What is signed: length-framed, so that no namespace can be taken for a part of another field.
    fn signed(&self, head: &[u8; HEAD_LEN]) -> Vec<u8> {
        let name = self.namespace.as_bytes();
        [b"oncegate token 1\0", &(name.len() as u64).to_be_bytes()[..], name, &self.caller, head].concat()
    }
}

impl Tokens {
    /// A new token, and when it expires; none without a key. `number` is random.
    pub(super) fn issue(&self, bound: &Bound, now: Time, number: [u8; NUMBER_LEN]) -> Option<(String, Time)> {
        let key = self.keys.first()?;
        let expires = now.plus(self.lifetime);
        let token = Token { key: key.short(), issued: now, expires, number, tag: [0; TAG_LEN] };
        let tag = hmac::sign(&key.key, &bound.signed(&token.head()));
        Some((URL_SAFE_NO_PAD.encode([&token.head()[..], tag.as_ref()].concat()), expires))
    }

    /// Whether a token was signed for this, with one of the keys. Its own word on the key only says which to try.
    pub(super) fn is_signed(&self, token: &Token, bound: &Bound) -> bool {
        let signed = bound.signed(&token.head());
        let mut named = self.keys.iter().filter(|key| key.short() == token.key);
        // The comparison takes as long for every tag.
        named.any(|key| hmac::verify(&key.key, &signed, &token.tag).is_ok())
    }

    /// Whether this is the id of one of the keys.
    pub(super) fn knows(&self, token: &Token) -> bool {
        self.keys.iter().any(|key| key.short() == token.key)
    }

    /// Until when a token gives a right to act under the present settings.
    pub(super) fn until(&self, token: &Token) -> Time {
        token.expires.min(token.issued.plus(self.lifetime))
    }

    /// Outside of which spans a token gives no right to act, if nothing is known of its operation.
    pub(super) fn spans(&self, token: &Token) -> [Validity; 2] {
        let early = u64::try_from(TOKEN_SKEW.as_millis()).unwrap_or(u64::MAX);
        let from = Time(token.issued.0.saturating_sub(early));
        let until = self.until(token);
        [
            Validity { from: Time(0), until, otherwise: Untimely::TokenExpired },
            Validity { from, until, otherwise: Untimely::TokenEarly },
        ]
    }
}

impl Token {
    /// Takes a text apart that has the form of a token.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut bytes = [0; LEN];
        let whole = text.len() == TEXT_LEN && URL_SAFE_NO_PAD.decode_slice(text, &mut bytes) == Ok(LEN);
        let (&[version], rest) = bytes.split_first_chunk().filter(|_| whole)?;
        let (&key, rest) = rest.split_first_chunk()?;
        let (&issued, rest) = rest.split_first_chunk()?;
        let (&expires, rest) = rest.split_first_chunk()?;
        let (&number, rest) = rest.split_first_chunk()?;
        let tag = rest.try_into().ok()?;
        let (issued, expires) = (Time(u64::from_be_bytes(issued)), Time(u64::from_be_bytes(expires)));
        (version == VERSION).then_some(Self { key, issued, expires, number, tag })
    }

    fn head(&self) -> [u8; HEAD_LEN] {
        let mut head = [VERSION; HEAD_LEN];
        let parts = [&self.key[..], &self.issued.0.to_be_bytes(), &self.expires.0.to_be_bytes(), &self.number];
        let bytes = parts.into_iter().flatten();
        head[1..].iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
        head
    }
}

#[cfg(test)]
mod tests;
