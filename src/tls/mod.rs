//! TLS: certificates and keys from files, and what is agreed with whom. It opens no connection by itself.

pub mod client;
mod pem;

pub use pem::PemError;

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};

/// The one provider of cryptography. Named wherever it is used: a default of the process would be up to whoever is first.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}
