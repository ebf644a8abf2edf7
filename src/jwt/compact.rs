//! A token in its compact form (RFC 7515 section 7.1), taken apart. Nothing of it is believed here.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::algorithm::Algorithm;

/// A token's parts.
pub(super) struct Compact<'a> {
    /// What is signed: header and payload as sent.
    pub(super) message: &'a [u8],
    /// How it says that it is signed.
    pub(super) algorithm: Algorithm,
    /// Which key it says has signed it.
    pub(super) key: Option<String>,
    pub(super) payload: Vec<u8>,
    pub(super) signature: Vec<u8>,
}

/// What counts of a header. Keys and addresses of keys in it (`jwk`, `jku`, `x5u`) are nobody's word.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions that have to be understood; none is.
    crit: Option<IgnoredAny>,
}

impl<'a> Compact<'a> {
    /// Takes a token apart.
    ///
    /// # Errors
    /// Why it is none that can be verified here, to be read after "The token".
    pub(super) fn read(token: &'a [u8]) -> Result<Self, &'static str> {
        let dots: Vec<usize> =
            token.iter().enumerate().filter_map(|(at, byte)| (*byte == b'.').then_some(at)).collect();
        let (first, second) = match dots[..] {
            [first, second] => (first, second),
            [_, _, _, _] => return Err("is encrypted, and only signed ones can be read"),
            _ => return Err("is no JSON Web Token"),
        };
        let part = |text: &[u8]| URL_SAFE_NO_PAD.decode(text).map_err(|_| "is not in base64url");
        let header: Header =
            serde_json::from_slice(&part(&token[..first])?).map_err(|_| "has no header that can be read")?;
        if header.crit.is_some() {
            return Err("asks for extensions (`crit`) that are not known here");
        }
        let algorithm = Algorithm::of(&header.alg).ok_or("is signed with an algorithm that is not known here")?;
        Ok(Self {
            message: &token[..second],
            algorithm,
            key: header.kid,
            payload: part(&token[first + 1..second])?,
            signature: part(&token[second + 1..])?,
        })
    }
}
