//! Which certificate a client gets. The names are the certificates' own.

use std::sync::Arc;

use rustls::client::verify_server_name;
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::ServerName;

/// Certificates, the default one first.
#[derive(Debug)]
pub(super) struct Certificates(pub(super) Vec<Arc<CertifiedKey>>);

impl ResolvesServerCert for Certificates {
    /// The first that is good for the name the client asks for and that it can verify; without such a one, or without
    /// a name, the first that it can verify. Whether that will do is for the client to say.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let usable = |own: &&Arc<CertifiedKey>| own.key.choose_scheme(hello.signature_schemes()).is_some();
        let asked = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let named = asked.and_then(|name| self.0.iter().filter(usable).find(|own| is_for(own, &name)));
        named.or_else(|| self.0.iter().find(usable)).cloned()
    }
}

fn is_for(own: &CertifiedKey, name: &ServerName<'_>) -> bool {
    let parsed = own.end_entity_cert().and_then(ParsedCertificate::try_from);
    parsed.is_ok_and(|certificate| verify_server_name(&certificate, name).is_ok())
}
