//! A client's certificate, as far as it says who the client is. Whether it is true was found out before.

use rustls_pki_types::CertificateDer;
use sha2::{Digest, Sha256};

/// Who a client has proven to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// SHA-256 of the whole certificate. A renewed one has another.
    pub fingerprint: [u8; 32],
    /// SHA-256 of the subject's name (its DER encoding); none when the name is empty.
    pub subject: Option<[u8; 32]>,
}

impl Certificate {
    /// What a verified certificate says.
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        let parsed = webpki::EndEntityCert::try_from(certificate).ok();
        let subject = parsed.as_ref().map(|parsed| parsed.subject()).filter(|name| !name.is_empty());
        Self {
            fingerprint: Sha256::digest(certificate).into(),
            subject: subject.map(|name| Sha256::digest(name).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn certificate(name: Option<&str>) -> Certificate {
        let mut params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        if let Some(name) = name {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        Certificate::of(params.self_signed(&KeyPair::generate().unwrap()).unwrap().der())
    }

    #[test]
    fn a_renewed_certificate_has_the_same_subject() {
        let (first, second) = (certificate(Some("shop")), certificate(Some("shop")));
        assert_ne!(first.fingerprint, second.fingerprint);
        assert!(first.subject.is_some());
        assert_eq!(first.subject, second.subject);
        assert_ne!(first.subject, certificate(Some("other")).subject);
    }

    #[test]
    fn an_empty_name_is_nobodys() {
        assert_eq!(certificate(None).subject, None);
    }
}
