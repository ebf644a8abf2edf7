//! Tokens that were verified a moment ago, by their digest: a signature costs more than all else that is done with a
//! token. What it holds is only believed while the keys are the same.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use sha2::{Digest, Sha256};

use super::keyset::KeySet;
use super::rules::Term;
use crate::keys::Claims;

/// What an entry weighs beside its claims, in bytes.
const BASE_WEIGHT: usize = 192;

/// Verified tokens, bounded by bytes. With a size of zero it holds nothing.
pub(super) struct Verified(Option<Cache<[u8; 32], Entry, ByBytes>>);

/// A verified token.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) claims: Arc<Claims>,
    pub(super) term: Term,
    /// The keys that it was verified with.
    pub(super) by: Arc<KeySet>,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<[u8; 32], Entry> for ByBytes {
    fn weight(&self, _: &[u8; 32], entry: &Entry) -> u64 {
        u64::try_from(BASE_WEIGHT + entry.claims.size()).unwrap_or(u64::MAX)
    }
}

impl Verified {
    pub(super) fn new(bytes: usize) -> Self {
        let typical = BASE_WEIGHT + 512;
        let cache = || Cache::with_weighter((bytes / typical).max(16), bytes as u64, ByBytes);
        Self((bytes > 0).then(cache))
    }

    /// The token, if these keys have verified it.
    pub(super) fn get(&self, token: &[u8], by: &Arc<KeySet>) -> Option<Entry> {
        self.0.as_ref()?.get(&digest(token)).filter(|entry| Arc::ptr_eq(&entry.by, by))
    }

    pub(super) fn put(&self, token: &[u8], entry: Entry) {
        if let Some(cache) = &self.0 {
            cache.insert(digest(token), entry);
        }
    }
}

fn digest(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}
