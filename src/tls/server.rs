//! What the front speaks TLS with: built from files, and built again when they change. Connections keep what they began
//! with.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use rustls::server::{NoClientAuth, WebPkiClientVerifier, danger::ClientCertVerifier};
use rustls::{ServerConfig, SupportedProtocolVersion, version};
use sha2::{Digest, Sha256};

use super::sni::Certificates;
use super::{Error, pem, provider};

static NEWEST: [&SupportedProtocolVersion; 1] = [&version::TLS13];

/// TLS in front.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Certificates and their keys; the first is for clients that ask for no name, or for one that none is good for.
    pub certificates: Vec<Pair>,
    /// The oldest version that is spoken.
    pub oldest: Oldest,
    /// Whether clients prove who they are.
    pub clients: ClientCertificates,
    /// Whether HTTP/2 is offered beside HTTP/1.1.
    pub http2: bool,
}

/// A certificate with its chain, and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// A PEM file: the certificate, then what leads to the authority.
    pub certificate: PathBuf,
    /// A PEM file; it may be the same.
    pub key: PathBuf,
}

/// The oldest version of TLS that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Oldest {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// Whether clients prove who they are, and by which authorities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientCertificates {
    /// They are not asked.
    None,
    /// They may; a certificate of another authority is refused all the same.
    Optional(PathBuf),
    /// They must.
    Required(PathBuf),
}

/// What connections are accepted with. It can be changed while they come and go.
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    current: ArcSwap<ServerConfig>,
    /// Digest of the files that `current` was built from.
    loaded: Mutex<[u8; 32]>,
}

impl Server {
    /// Reads the files.
    ///
    /// # Errors
    /// When one cannot be used.
    pub fn load(settings: Settings) -> Result<Self, Error> {
        let files = Files::read(&settings)?;
        let current = ArcSwap::new(files.build(&settings)?);
        Ok(Self { current, loaded: Mutex::new(files.digest()), settings })
    }

    /// What the next connection is accepted with.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.current.load_full()
    }

    /// The files that it is built from.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.settings.files()
    }

    /// Reads the files again; true when they have changed, and new connections get what they say now.
    ///
    /// # Errors
    /// When what they say now cannot be used: then everything stays as it was.
    pub fn reload(&self) -> Result<bool, Error> {
        // Held throughout, so that of two reloads at once the later one wins.
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let files = Files::read(&self.settings)?;
        let digest = files.digest();
        if *loaded == digest {
            return Ok(false);
        }
        self.current.store(files.build(&self.settings)?);
        *loaded = digest;
        Ok(true)
    }
}

impl Settings {
    fn files(&self) -> impl Iterator<Item = &Path> {
        let pairs = self.certificates.iter().flat_map(|pair| [&pair.certificate, &pair.key]);
        pairs.chain(self.clients.authorities()).map(PathBuf::as_path)
    }

    fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        match self.oldest {
            Oldest::Tls12 => rustls::ALL_VERSIONS,
            Oldest::Tls13 => &NEWEST,
        }
    }
}

impl ClientCertificates {
    fn authorities(&self) -> Option<&PathBuf> {
        match self {
            Self::None => None,
            Self::Optional(path) | Self::Required(path) => Some(path),
        }
    }
}

/// The contents of the files, in the order of [`Settings::files`].
struct Files(Vec<Vec<u8>>);

impl Files {
    fn read(settings: &Settings) -> Result<Self, Error> {
        settings.files().map(pem::read).collect::<Result<_, _>>().map(Self)
    }

    fn digest(&self) -> [u8; 32] {
        let mut all = Sha256::new();
        for file in &self.0 {
            all.update(Sha256::digest(file));
        }
        all.finalize().into()
    }

    /// Everything anew, the keys of session tickets too: a ticket stands for a client's certificate, and the authorities
    /// may have changed. There is no early data: what a stranger can send again is no place for an order.
    fn build(&self, settings: &Settings) -> Result<Arc<ServerConfig>, Error> {
        let pairs = settings.certificates.iter().zip(self.0.chunks_exact(2));
        let certified = pairs
            .map(|(pair, files)| pem::certified((&pair.certificate, &files[0]), (&pair.key, &files[1])).map(Arc::new));
        let certificates = certified.collect::<Result<_, _>>()?;
        let place = settings.certificates.first().map(|pair| pair.certificate.clone()).unwrap_or_default();
        let failed = |error: rustls::Error| Error::new(&place, format!("cannot be served with: {error}"));
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(settings.versions())
            .map_err(failed)?
            .with_client_cert_verifier(self.verifier(&settings.clients)?)
            .with_cert_resolver(Arc::new(Certificates(certificates)));
        config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().map_err(failed)?;
        let protocols: &[&[u8]] = if settings.http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Arc::new(config))
    }

    fn verifier(&self, clients: &ClientCertificates) -> Result<Arc<dyn ClientCertVerifier>, Error> {
        let (Some(path), Some(text)) = (clients.authorities(), self.0.last()) else {
            return Ok(Arc::new(NoClientAuth));
        };
        let roots = Arc::new(pem::authorities(path, text)?);
        let builder = WebPkiClientVerifier::builder_with_provider(roots, provider());
        let builder =
            if matches!(clients, ClientCertificates::Optional(_)) { builder.allow_unauthenticated() } else { builder };
        builder.build().map_err(|error| Error::new(path, format!("cannot verify clients: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        std::fs::write(folder.join("tls.crt"), made.cert.pem()).unwrap();
        std::fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    }

    fn settings(folder: &Path) -> Settings {
        Settings {
            certificates: vec![Pair { certificate: folder.join("tls.crt"), key: folder.join("tls.key") }],
            oldest: Oldest::Tls12,
            clients: ClientCertificates::None,
            http2: true,
        }
    }

    #[test]
    fn a_reload_takes_what_is_good_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a.test");
        let server = Server::load(settings(folder.path())).unwrap();
        let first = server.config();
        assert_eq!(server.reload(), Ok(false));
        assert!(Arc::ptr_eq(&first, &server.config()), "nothing has changed");

        std::fs::write(folder.path().join("tls.crt"), "torn").unwrap();
        for _ in 0..2 {
            assert!(server.reload().unwrap_err().to_string().contains("tls.crt: has no certificate"));
        }
        assert!(Arc::ptr_eq(&first, &server.config()), "the last good ones stay");

        write(folder.path(), "b.test");
        assert_eq!(server.reload(), Ok(true));
        assert!(!Arc::ptr_eq(&first, &server.config()));
        assert_eq!(server.reload(), Ok(false));
    }

    #[test]
    fn authorities_are_checked_too() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a.test");
        let authorities = folder.path().join("ca.crt");
        let settings =
            Settings { clients: ClientCertificates::Required(authorities.clone()), ..settings(folder.path()) };
        assert!(Server::load(settings.clone()).unwrap_err().to_string().contains("ca.crt: cannot be read"));
        std::fs::write(&authorities, "").unwrap();
        assert!(Server::load(settings.clone()).unwrap_err().to_string().contains("ca.crt: has no certificate"));
        std::fs::copy(folder.path().join("tls.crt"), &authorities).unwrap();
        assert_eq!(Server::load(settings).unwrap().files().count(), 3);
    }
}
