//! TLS towards a server behind: whose certificates are trusted, which name they must bear, and what is shown in return.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use sha2::{Digest, Sha256};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Error, pem, provider};

/// What is agreed with the servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// The authorities that are trusted, as a PEM file; without it, those of the system.
    pub ca: Option<PathBuf>,
    /// The name that is asked for and that certificates must bear; without it, each server's host.
    pub server_name: Option<String>,
    /// What is shown to servers that ask who connects.
    pub identity: Option<Identity>,
}

/// A certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate and its chain, as a PEM file.
    pub certificate: PathBuf,
    /// Its private key, as a PEM file.
    pub key: PathBuf,
}

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The file of authorities.
    #[error(transparent)]
    Ca(Error),
    /// The certificate that is shown, or its key: the error names the file.
    #[error(transparent)]
    Identity(Error),
    /// No file is named, and the system has none.
    #[error(
        "the system has no certificates of authorities: install them (Debian: `ca-certificates`), or name a file as `ca`"
    )]
    NoAuthorities,
    /// What cryptography there is.
    #[error("TLS cannot be used: {0}")]
    Provider(rustls::Error),
}

/// Settings with their files read. Clones share resumed sessions, others do not: a session never outlives its settings.
#[derive(Debug, Clone)]
pub struct Client {
    settings: Settings,
    protocol: &'static [u8],
    /// Of what the files say.
    digest: [u8; 32],
    config: Arc<ClientConfig>,
}

/// Whether connections under one are good for the other: the same agreement, from files that say the same.
impl PartialEq for Client {
    fn eq(&self, other: &Self) -> bool {
        (&self.settings, self.protocol, self.digest) == (&other.settings, other.protocol, other.digest)
    }
}

impl Eq for Client {}

impl Client {
    /// Reads the files. `protocol` is what will be spoken, as ALPN calls it; [`UNNAMED`] for what it has no name for.
    ///
    /// # Errors
    /// When a file is missing or cannot be used.
    pub fn load(settings: Settings, protocol: &'static [u8]) -> Result<Self, Unusable> {
        let builder = ClientConfig::builder_with_provider(provider());
        let builder = builder.with_safe_default_protocol_versions().map_err(Unusable::Provider)?;
        let builder = builder.with_root_certificates(roots(&settings)?);
        let mut config = match &settings.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let shown = identity.load().map_err(Unusable::Identity)?;
                builder.with_client_cert_resolver(Arc::new(shown))
            }
        };
        config.alpn_protocols = if protocol.is_empty() { vec![] } else { vec![protocol.to_vec()] };
        Ok(Self { digest: settings.digest()?, settings, protocol, config: Arc::new(config) })
    }

    /// What it was loaded from.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether a host can be asked for, and be in a certificate.
    pub fn can_name(host: &str) -> bool {
        ServerName::try_from(host).is_ok()
    }

    /// Makes sure who is at the other end of a connection. Nothing else is sent before.
    ///
    /// # Errors
    /// When the server cannot show that it is `host` (or `server_name`), wants to know more than it is shown, or does not
    /// speak the protocol.
    pub async fn secure(&self, stream: TcpStream, host: &str) -> io::Result<TlsStream<TcpStream>> {
        let name = self.settings.server_name.as_deref().unwrap_or(host).to_owned();
        let name = ServerName::try_from(name).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let stream = TlsConnector::from(Arc::clone(&self.config)).connect(name, stream).await?;
        let spoken = stream.get_ref().1.alpn_protocol();
        // HTTP/1.1 is what a server speaks that agrees on nothing; anything else that has a name has to be agreed on.
        if spoken.unwrap_or(HTTP1) == self.protocol || self.protocol == UNNAMED {
            Ok(stream)
        } else {
            Err(io::Error::new(io::ErrorKind::Unsupported, "the server does not offer the protocol (ALPN)"))
        }
    }
}

impl Settings {
    fn digest(&self) -> Result<[u8; 32], Unusable> {
        let mut all = Sha256::new();
        if let Some(file) = &self.ca {
            all.update(Sha256::digest(pem::read(file).map_err(Unusable::Ca)?));
        }
        for file in self.identity.iter().flat_map(|identity| [&identity.certificate, &identity.key]) {
            all.update(Sha256::digest(pem::read(file).map_err(Unusable::Identity)?));
        }
        Ok(all.finalize().into())
    }
}

impl Identity {
    fn load(&self) -> Result<SingleCertAndKey, Error> {
        let (certificate, key) = (pem::read(&self.certificate)?, pem::read(&self.key)?);
        pem::certified((&self.certificate, &certificate), (&self.key, &key)).map(SingleCertAndKey::from)
    }
}

/// HTTP/1.1, as ALPN calls it.
pub const HTTP1: &[u8] = b"http/1.1";
/// HTTP/2, as ALPN calls it.
pub const HTTP2: &[u8] = b"h2";
/// What ALPN has no name for: nothing is said of it.
pub const UNNAMED: &[u8] = b"";

fn roots(settings: &Settings) -> Result<RootCertStore, Unusable> {
    if let Some(file) = &settings.ca {
        return pem::read(file).and_then(|text| pem::authorities(file, &text)).map_err(Unusable::Ca);
    }
    let mut roots = RootCertStore::empty();
    // The system's store may hold some that are odd; one that is missed refuses a server, it lets none in.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err(Unusable::NoAuthorities) } else { Ok(roots) }
}
