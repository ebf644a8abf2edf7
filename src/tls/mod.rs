//! TLS: certificates and keys from files, what is agreed with clients and with servers behind, and how the front stays up
//! to date. Accepts no connection and opens none.

pub mod client;
pub mod pem;
mod server;
mod sni;

pub use server::{ClientCertificates, Oldest, Pair, Server, Settings};

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use rustls::crypto::CryptoProvider;

/// What cannot be used, and why. Never says anything of a key's content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct Error {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

impl Error {
    fn new(path: &Path, why: impl Into<String>) -> Self {
        Self { path: path.to_owned(), why: why.into() }
    }
}

/// The cryptography behind all TLS here. It is named wherever it is used: with a process-wide default, a crate that
/// brings another one along would decide.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    Arc::clone(&PROVIDER)
}
