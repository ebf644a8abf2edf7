//! PEM files: read, taken apart, and refused with the file's name and what is wrong with it.

use std::path::Path;

use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, RootCertStore};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::{Error, provider};

/// A file's bytes.
///
/// # Errors
/// When it cannot be read.
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|error| Error::new(path, format!("cannot be read: {error}")))
}

/// All certificates of a file, in order; at least one.
///
/// # Errors
/// When there is none, or one is broken.
pub fn certificates(path: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let found = found.map_err(|error| Error::new(path, format!("is no PEM file: {error}")))?;
    if found.is_empty() {
        return Err(Error::new(path, "has no certificate: expected -----BEGIN CERTIFICATE-----"));
    }
    Ok(found)
}

/// The one private key of a file: PKCS#8, PKCS#1 or SEC1, not encrypted.
///
/// # Errors
/// When there is none.
fn private_key(path: &Path, text: &[u8]) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            Error::new(path, "has no private key: expected -----BEGIN PRIVATE KEY-----, not encrypted")
        }
        error => Error::new(path, format!("is no PEM file: {error}")),
    })
}

/// A certificate with its chain, and the key that belongs to it.
///
/// # Errors
/// When one of them cannot be used, or they do not belong together.
pub fn certified(certificate: (&Path, &[u8]), key: (&Path, &[u8])) -> Result<CertifiedKey, Error> {
    let chain = certificates(certificate.0, certificate.1)?;
    let private = private_key(key.0, key.1)?;
    let signing = provider().key_provider.load_private_key(private);
    let signing = signing.map_err(|error| Error::new(key.0, format!("is no key that can be used: {error}")))?;
    let certified = CertifiedKey::new(chain, signing);
    match certified.keys_match() {
        // Some keys cannot say what they belong to.
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(rustls::Error::InconsistentKeys(_)) => {
            let first = certificate.0.display();
            Err(Error::new(key.0, format!("is not the key of the first certificate in {first}")))
        }
        Err(error) => Err(Error::new(certificate.0, format!("has a certificate that cannot be used: {error}"))),
    }
}

/// The authorities of a file.
///
/// # Errors
/// When there is none, or one cannot be used.
pub fn authorities(path: &Path, text: &[u8]) -> Result<RootCertStore, Error> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path, text)? {
        let added = store.add(certificate);
        added.map_err(|error| Error::new(path, format!("has an authority that cannot be used: {error}")))?;
    }
    Ok(store)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(name: &str) -> (String, String) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    fn refused(certificate: &str, key: &str) -> String {
        let certificate = (Path::new("tls.crt"), certificate.as_bytes());
        certified(certificate, (Path::new("tls.key"), key.as_bytes())).unwrap_err().to_string()
    }

    #[test]
    fn a_pair_that_belongs_together_is_taken() {
        let (certificate, key) = made("a.test");
        let both = format!("{key}{certificate}");
        for (certificate, key) in [(&certificate, &key), (&both, &both)] {
            let found = certified((Path::new("c"), certificate.as_bytes()), (Path::new("k"), key.as_bytes())).unwrap();
            assert_eq!(found.cert.len(), 1);
        }
    }

    #[test]
    fn what_is_wrong_is_said_of_the_right_file() {
        let (certificate, key) = made("a.test");
        let (_, other) = made("b.test");
        assert_eq!(refused(&certificate, &other), "tls.key: is not the key of the first certificate in tls.crt");
        for (certificate, key, start) in [
            ("", key.as_str(), "tls.crt: has no certificate"),
            (key.as_str(), key.as_str(), "tls.crt: has no certificate"),
            (certificate.as_str(), "", "tls.key: has no private key"),
            (certificate.as_str(), certificate.as_str(), "tls.key: has no private key"),
            ("-----BEGIN CERTIFICATE-----\nxx\n", key.as_str(), "tls.crt: is no PEM file"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", key.as_str(), "tls.crt: has a cert"),
            (
                certificate.as_str(),
                "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
                "tls.key: is no key",
            ),
        ] {
            let found = refused(certificate, key);
            assert!(found.starts_with(start), "{found}");
        }
    }

    #[test]
    fn authorities_are_certificates() {
        let (certificate, key) = made("ca.test");
        let two = format!("{certificate}{}", made("cb.test").0);
        assert_eq!(authorities(Path::new("ca.crt"), two.as_bytes()).unwrap().len(), 2);
        assert!(authorities(Path::new("ca.crt"), key.as_bytes()).is_err());
    }
}
