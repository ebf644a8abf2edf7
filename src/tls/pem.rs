//! Certificates and keys out of PEM files. What they are good for is not its matter.

use std::io;
use std::path::{Path, PathBuf};

use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// Why a file gives nothing that can be used.
#[derive(Debug, thiserror::Error)]
pub enum PemError {
    /// It cannot be read.
    #[error("`{0}` cannot be read: {1}")]
    Unreadable(PathBuf, io::Error),
    /// It begins as PEM and goes wrong.
    #[error("`{0}` is broken: {1}")]
    Broken(PathBuf, pem::Error),
    /// It holds no certificate.
    #[error("`{0}` holds no certificate: it must have `-----BEGIN CERTIFICATE-----`")]
    NoCertificate(PathBuf),
    /// It holds no private key.
    #[error("`{0}` holds no private key that can be used: it must have `-----BEGIN PRIVATE KEY-----`, not encrypted")]
    NoKey(PathBuf),
}

/// All certificates of a file, at least one, in their order.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let text = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if found.is_empty() => Err(PemError::NoCertificate(path.to_owned())),
        Ok(found) => Ok(found),
        Err(error) => Err(PemError::Broken(path.to_owned(), error)),
    }
}

/// The first private key of a file.
pub(super) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, PemError> {
    match PrivateKeyDer::from_pem_slice(&read(path)?) {
        Ok(key) => Ok(key),
        Err(pem::Error::NoItemsFound) => Err(PemError::NoKey(path.to_owned())),
        Err(error) => Err(PemError::Broken(path.to_owned(), error)),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, PemError> {
    std::fs::read(path).map_err(|error| PemError::Unreadable(path.to_owned(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_lacks_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("some.pem");
        let said = |text: &str| {
            std::fs::write(&file, text).unwrap();
            let (certificates, key) = (certificates(&file).unwrap_err(), private_key(&file).unwrap_err());
            [certificates.to_string(), key.to_string()]
        };
        for (text, certificate, key) in [
            ("", "holds no certificate", "holds no private key"),
            (
                "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
                "holds no",
                "not encrypted",
            ),
            ("-----BEGIN CERTIFICATE-----\n????\n-----END CERTIFICATE-----\n", "is broken", ""),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n", "is broken", "is broken"),
        ] {
            let [about_certificate, about_key] = said(text);
            assert!(about_certificate.contains(certificate), "{about_certificate}");
            assert!(about_key.contains(key), "{about_key}");
        }
        assert!(certificates(&folder.path().join("none")).unwrap_err().to_string().contains("cannot be read"));
    }
}
