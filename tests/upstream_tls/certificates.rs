//! Authorities and certificates, made for a test in a folder of its own. They prove nothing to anybody else.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::crypto::aws_lc_rs;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// An authority, and where its files are.
pub(crate) struct Authority {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, as files.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, folder.path().display().to_string());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        std::fs::write(folder.path().join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { folder, issuer: Issuer::new(params, key) }
    }

    /// Its own certificate.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A certificate for a name.
    pub(crate) fn issue(&self, name: &str) -> Pair {
        self.write(name, &CertificateParams::new(vec![name.to_owned()]).unwrap())
    }

    /// A certificate that was good once.
    pub(crate) fn issue_expired(&self, name: &str) -> Pair {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        self.write(&format!("{name}-expired"), &params)
    }

    fn write(&self, file: &str, params: &CertificateParams) -> Pair {
        let key = KeyPair::generate().unwrap();
        let path = |end: &str| self.folder.path().join(format!("{file}{end}"));
        let pair = Pair { certificate: path(".pem"), key: path(".key") };
        std::fs::write(&pair.certificate, params.signed_by(&key, &self.issuer).unwrap().pem()).unwrap();
        std::fs::write(&pair.key, key.serialize_pem()).unwrap();
        pair
    }
}

/// How a server shows itself, which versions it speaks, and whose clients it takes: everybody, or an authority's.
pub(crate) fn server(
    pair: &Pair,
    versions: &[&'static SupportedProtocolVersion],
    clients_of: Option<&Authority>,
) -> ServerConfig {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions).unwrap();
    let builder = match clients_of {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_file(authority.file()).unwrap()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let chain = vec![CertificateDer::from_pem_file(&pair.certificate).unwrap()];
    builder.with_single_cert(chain, PrivateKeyDer::from_pem_file(&pair.key).unwrap()).unwrap()
}
