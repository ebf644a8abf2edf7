//! Whose tokens are believed, as the configuration states it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;

use super::algorithm::Algorithm;
use super::keyset::KeySet;
use super::rules::Rules;
use crate::keys::Carrier;
use crate::tls::client;

/// How tokens are believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What proves a token.
    pub proof: Proof,
    /// What a request carries it in.
    pub carrier: Carrier,
    /// What it may be signed with.
    pub algorithms: Vec<Algorithm>,
    /// Who must have made it, for whom, and when.
    pub rules: Rules,
    /// The longest token, in bytes.
    pub size_limit: usize,
    /// How many bytes of verified tokens are kept in memory.
    pub cache: usize,
}

/// What proves a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// The issuer's public keys.
    Keys(Origin, Reading),
    /// A secret that is shared with the issuer.
    Secrets(Vec<Secret>),
    /// Nothing here: somebody in front has verified it.
    Elsewhere,
}

/// Where an issuer's keys are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In a file.
    File {
        /// The file.
        path: PathBuf,
        /// What it said when the configuration was read.
        set: Arc<KeySet>,
    },
    /// Behind an address.
    Url {
        /// The address, absolute, `http` or `https`.
        url: Uri,
        /// What is agreed over `https`.
        tls: Option<Box<client::Client>>,
    },
}

/// How an issuer's keys are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// How often.
    pub refresh: Duration,
    /// The least time between two readings, however many tokens name a key that is not there.
    pub pause: Duration,
    /// How long a reading may take.
    pub timeout: Duration,
    /// How many bytes the keys may take.
    pub size_limit: usize,
}

/// A secret. It never shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// The fewest bytes that make a secret.
    pub const LEAST: usize = 32;

    /// A secret of these bytes; none when they are too few.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Option<Self> {
        let bytes = bytes.into();
        (bytes.len() >= Self::LEAST).then_some(Self(bytes))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, .. } => path.display().fmt(f),
            Self::Url { url, .. } => url.fmt(f),
        }
    }
}
