//! Certificates for tests, and TLS clients that look at what they are shown. No part of the gateway.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oncegate::tls::provider;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};

use crate::client::connect;

/// An authority, and a folder that its certificates are written to.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    folder: tempfile::TempDir,
}

/// A certificate with its key, as files.
#[derive(Clone)]
pub(crate) struct Issued {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.crt"), certificate.pem()).unwrap();
        Self { certificate: certificate.der().clone(), issuer: Issuer::new(params, key), folder }
    }

    /// The authority's own certificate, as a file.
    pub(crate) fn file(&self) -> PathBuf {
        self.at("ca.crt")
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a certificate for a host or a client of this name to `file`, over what is there.
    pub(crate) fn issue(&self, file: &str, name: &str) -> Issued {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let issued = Issued { certificate: self.at(&format!("{file}.crt")), key: self.at(&format!("{file}.key")) };
        std::fs::write(&issued.certificate, certificate.pem()).unwrap();
        std::fs::write(&issued.key, key.serialize_pem()).unwrap();
        issued
    }

    /// A client that trusts this authority.
    pub(crate) fn client(&self) -> Visitor {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        Visitor { roots, protocols: Vec::new(), versions: rustls::ALL_VERSIONS, own: None }
    }
}

impl Issued {
    /// The lines of a configuration that serves with these.
    pub(crate) fn yaml(all: &[&Self], more: &str) -> String {
        let pairs = all.iter().map(|issued| {
            format!("{{ certificate: '{}', key: '{}' }}", issued.certificate.display(), issued.key.display())
        });
        format!("tls:\n  certificates: [ {} ]\n{more}", pairs.collect::<Vec<_>>().join(", "))
    }

    pub(crate) fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(&self.certificate).unwrap()
    }
}

/// A TLS client.
#[derive(Clone)]
pub(crate) struct Visitor {
    roots: RootCertStore,
    protocols: Vec<Vec<u8>>,
    versions: &'static [&'static SupportedProtocolVersion],
    own: Option<Issued>,
}

pub(crate) type Stream = StreamOwned<ClientConnection, TcpStream>;

impl Visitor {
    /// Which protocols it asks for.
    pub(crate) fn asking_for(mut self, protocols: &[&str]) -> Self {
        self.protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        self
    }

    /// Which versions of TLS it speaks.
    pub(crate) fn speaking(mut self, versions: &'static [&'static SupportedProtocolVersion]) -> Self {
        self.versions = versions;
        self
    }

    /// Which certificate it shows.
    pub(crate) fn showing(mut self, own: &Issued) -> Self {
        self.own = Some(own.clone());
        self
    }

    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(self.versions).unwrap();
        let builder = builder.with_root_certificates(self.roots.clone());
        let mut config = match &self.own {
            None => builder.with_no_client_auth(),
            Some(own) => builder.with_client_auth_cert(vec![own.der()], key(&own.key)).unwrap(),
        };
        config.alpn_protocols.clone_from(&self.protocols);
        Arc::new(config)
    }

    /// Connects and shakes hands. In TLS 1.3 the server may still refuse the client's certificate after that.
    pub(crate) fn visit(&self, to: SocketAddr, name: &str) -> io::Result<Stream> {
        self.shake_hands(connect(to)?, name)
    }

    pub(crate) fn shake_hands(&self, mut stream: TcpStream, name: &str) -> io::Result<Stream> {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut connection = ClientConnection::new(self.config(), name).unwrap();
        while connection.is_handshaking() {
            connection.complete_io(&mut stream)?;
        }
        Ok(StreamOwned::new(connection, stream))
    }
}

fn key(path: &Path) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_file(path).unwrap()
}
