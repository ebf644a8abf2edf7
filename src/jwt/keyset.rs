//! An issuer's public keys (RFC 7517), and whether one of them has signed. Where they come from is not its matter.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, ParsedPublicKey, RsaPublicKeyComponents,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::algorithm::{Algorithm, Method};
use super::compact::Compact;

/// How many keys are tried for a token that does not say which one has signed it.
const MOST_TRIED: usize = 8;

/// Keys that signatures can be verified with.
#[derive(Debug)]
pub struct KeySet {
    keys: Vec<Key>,
    /// Of the text.
    digest: [u8; 32],
}

/// Two sets are one when they were read from the same text.
impl PartialEq for KeySet {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for KeySet {}

/// What is wrong with a set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSet {
    /// Its file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// It takes more room than it may.
    #[error("is larger than {0} bytes")]
    TooLarge(usize),
    /// It is none.
    #[error("is no JSON Web Key Set: it is `{{\"keys\": [...]}}`")]
    NoSet,
    /// It has no key that can verify a signature.
    #[error("has no key for signatures that can be used here (RSA from 2048 bits, P-256, P-384, Ed25519)")]
    Empty,
}

/// Whether a token was signed with a key of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signed {
    Yes,
    No,
    /// It names a key that the set does not have.
    ByAnother,
}

#[derive(Debug)]
struct Key {
    id: Option<String>,
    /// The only algorithm that it is for, where it says so.
    only: Option<Algorithm>,
    material: Material,
}

#[derive(Debug)]
enum Material {
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    Curve(Algorithm, ParsedPublicKey),
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<Value>,
}

/// A key as written (RFC 7517 section 4, RFC 7518 section 6, RFC 8037 section 2).
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    r#use: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// Reads a set. Keys for other purposes, and kinds that are not known here, are left out.
    ///
    /// # Errors
    /// When it is none, or nothing in it is of use.
    pub fn read(text: &[u8]) -> Result<Self, BadSet> {
        let set: Set = serde_json::from_slice(text).map_err(|_| BadSet::NoSet)?;
        let keys: Vec<Key> = set.keys.into_iter().filter_map(Key::read).collect();
        if keys.is_empty() { Err(BadSet::Empty) } else { Ok(Self { keys, digest: Sha256::digest(text).into() }) }
    }

    /// Reads a set from a file of at most so many bytes.
    ///
    /// # Errors
    /// The same, and when the file cannot be read.
    pub fn load(file: &Path, size_limit: usize) -> Result<Self, BadSet> {
        let mut text = Vec::new();
        let most = u64::try_from(size_limit).unwrap_or(u64::MAX).saturating_add(1);
        let read = File::open(file).and_then(|file| file.take(most).read_to_end(&mut text));
        read.map_err(|error| BadSet::Unreadable(error.to_string()))?;
        if text.len() > size_limit { Err(BadSet::TooLarge(size_limit)) } else { Self::read(&text) }
    }

    pub(super) fn signed(&self, token: &Compact<'_>) -> Signed {
        let named = |key: &&Key| token.key.is_none() || key.id == token.key;
        if !self.keys.iter().any(|key| named(&key)) {
            return Signed::ByAnother;
        }
        let fits = |key: &&Key| key.is_for(token.algorithm);
        let mut tried = self.keys.iter().filter(named).filter(fits).take(MOST_TRIED);
        if tried.any(|key| key.material.has_signed(token)) { Signed::Yes } else { Signed::No }
    }
}

impl Key {
    /// The key, if it is one for signatures, of a kind that is known here, and well-formed.
    fn read(value: Value) -> Option<Self> {
        let key: Jwk = serde_json::from_value(value).ok()?;
        let signs = key.r#use.as_deref().is_none_or(|r#use| r#use == "sig");
        let verifies = key.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        if !signs || !verifies {
            return None;
        }
        let only = key.alg.as_deref().map(|name| Algorithm::of(name).ok_or(())).transpose().ok()?;
        Some(Self { material: Material::read(&key)?, id: key.kid, only })
    }

    /// Whether it can have signed by this algorithm. A public key is no secret: whoever takes it for one believes everybody.
    fn is_for(&self, algorithm: Algorithm) -> bool {
        let is_kind = match &self.material {
            Material::Rsa(_) => matches!(algorithm.method(), Method::Rsa(_)),
            Material::Curve(own, _) => *own == algorithm,
        };
        is_kind && self.only.is_none_or(|only| only == algorithm)
    }
}

impl Material {
    fn read(key: &Jwk) -> Option<Self> {
        let bytes = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_ref()?).ok();
        let point = |size: usize| {
            let (x, y) = (bytes(&key.x)?, bytes(&key.y)?);
            (x.len() == size && y.len() == size).then(|| [&[4][..], &x, &y].concat())
        };
        let (algorithm, parsed) = match (key.kty.as_str(), key.crv.as_deref()) {
            ("RSA", _) => {
                let whole = |text| bytes(text).map(|number| number.into_iter().skip_while(|byte| *byte == 0).collect());
                return Self::rsa(RsaPublicKeyComponents { n: whole(&key.n)?, e: whole(&key.e)? });
            }
            ("EC", Some("P-256")) => (Algorithm::Es256, ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point(32)?)),
            ("EC", Some("P-384")) => (Algorithm::Es384, ParsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point(48)?)),
            ("OKP", Some("Ed25519")) => (Algorithm::EdDsa, ParsedPublicKey::new(&ED25519, bytes(&key.x)?)),
            _ => return None,
        };
        Some(Self::Curve(algorithm, parsed.ok()?))
    }

    fn rsa(key: RsaPublicKeyComponents<Vec<u8>>) -> Option<Self> {
        (256..=1024).contains(&key.n.len()).then_some(Self::Rsa(key))
    }

    fn has_signed(&self, token: &Compact<'_>) -> bool {
        match (self, token.algorithm.method()) {
            (Self::Rsa(key), Method::Rsa(parameters)) => {
                key.verify(parameters, token.message, &token.signature).is_ok()
            }
            (Self::Curve(_, key), Method::Curve) => key.verify_sig(token.message, &token.signature).is_ok(),
            _ => false,
        }
    }
}
