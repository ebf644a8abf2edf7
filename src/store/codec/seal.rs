//! Keys that stored answers are sealed under: AES-256-GCM, a random nonce each time. Knows keys and bytes, no records.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::CodecError;
use crate::packed::Malformed;
use crate::store::StoreError;

/// Length of a key's secret, in bytes.
pub const SECRET_LEN: usize = 32;

/// The longest id of a key, in bytes.
pub const KEY_ID_LEN: usize = 64;

/// A key with its id. The secret itself is not kept: only the cipher that was set up with it.
pub struct Key {
    id: String,
    /// SHA-256 of the secret: whether two keys are the same.
    digest: [u8; 32],
    cipher: RandomizedNonceKey,
}

/// Why a key cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// The id could not be told from other text when it is read back.
    #[error("a key's id is 1 to {KEY_ID_LEN} visible ASCII characters")]
    Id,
    /// The cryptography takes no key of it.
    #[error("the secret cannot be used as a key for AES-256-GCM")]
    Secret,
}

/// A record could not be sealed, so it was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the record cannot be sealed")]
pub struct SealError;

impl From<SealError> for StoreError {
    fn from(error: SealError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// The keys that a gateway has, the one that seals first. Without any, records are stored in the clear.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Keyring(Arc<[Key]>);

impl Key {
    /// A key with this id and secret.
    ///
    /// # Errors
    /// When one of them cannot be used.
    pub fn new(id: &str, secret: &[u8; SECRET_LEN]) -> Result<Self, BadKey> {
        if !is_id(id.as_bytes()) {
            return Err(BadKey::Id);
        }
        let cipher = RandomizedNonceKey::new(&AES_256_GCM, secret).map_err(|_| BadKey::Secret)?;
        Ok(Self { id: id.to_owned(), digest: Sha256::digest(secret).into(), cipher })
    }

    /// What the key is called, in the configuration and in records.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Nonce, ciphertext and tag; they open only together with `bound`.
    pub(super) fn seal(&self, bound: &[u8], mut secret: Vec<u8>) -> Result<Vec<u8>, SealError> {
        let nonce = self.cipher.seal_in_place_append_tag(Aad::from(bound), &mut secret).map_err(|_| SealError)?;
        Ok([nonce.as_ref(), &secret[..]].concat())
    }

    fn open(&self, bound: &[u8], sealed: &[u8]) -> Result<Bytes, CodecError> {
        let (nonce, secret) = sealed.split_first_chunk::<NONCE_LEN>().ok_or(Malformed::Truncated("seal"))?;
        let mut secret = secret.to_vec();
        let opened = self.cipher.open_in_place(Nonce::from(nonce), Aad::from(bound), &mut secret);
        let length = opened.map_err(|_| CodecError::BrokenSeal(self.id.clone()))?.len();
        secret.truncate(length);
        Ok(secret.into())
    }
}

impl Keyring {
    /// These keys; the first one seals.
    pub fn new(keys: Vec<Key>) -> Self {
        Self(keys.into())
    }

    /// The keys' ids, in order.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(Key::id)
    }

    /// The key that seals, if anything is sealed.
    pub(super) fn sealing(&self) -> Option<&Key> {
        self.0.first()
    }

    /// What was sealed under the key of this id, bound to `bound`.
    pub(super) fn open(&self, id: &[u8], bound: &[u8], sealed: &[u8]) -> Result<Bytes, CodecError> {
        let text = std::str::from_utf8(id).ok().filter(|text| is_id(text.as_bytes()));
        let id = text.ok_or(Malformed::OutOfRange("key id"))?;
        let key = self.0.iter().find(|key| key.id == id).ok_or_else(|| CodecError::UnknownKey(id.to_owned()))?;
        key.open(bound, sealed)
    }
}

fn is_id(bytes: &[u8]) -> bool {
    (1..=KEY_ID_LEN).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic)
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.digest == other.digest
    }
}

impl Eq for Key {}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ids()).finish()
    }
}
