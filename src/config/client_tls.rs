//! TLS with servers behind: the section as written, and what it becomes. Whether TLS is spoken is said elsewhere.

use std::path::{Path, PathBuf};

use super::define::section;
use super::finding::{Place, Report};
use super::reader::{At, Field};
use super::values::Text;
use crate::tls::client;

section! {
    /// TLS with servers behind. Certificates are always verified.
    ClientTls {
        /// PEM file of the authorities that are trusted; by default those of the system.
        ca: Text = Optional,
        /// The name that is asked for (SNI) and that certificates must bear; by default each server's host.
        server_name: Text = Optional,
        /// PEM file of the certificate that this gateway shows, with its chain.
        certificate: Text = Optional,
        /// PEM file of that certificate's private key.
        key: Text = Optional,
    }
    later {}
}

/// What the section says; what it leaves out stands by itself.
pub(super) fn settings(section: &Field<ClientTls>, report: &mut Report) -> Option<client::Settings> {
    section.either(|at| read(at, report), || Some(client::Settings::default())).flatten()
}

/// Reads the files. Where no file is named, what is wrong is wrong at `place`.
pub(super) fn load(
    settings: client::Settings,
    protocol: &'static [u8],
    section: &Field<ClientTls>,
    place: Option<&Place>,
    report: &mut Report,
) -> Option<client::Client> {
    let loaded = client::Client::load(settings, protocol);
    loaded
        .map_err(|unusable| {
            if let Some(place) = section.value().and_then(|tls| place_of(&unusable, tls)).or(place) {
                report.fault(place, unusable.to_string());
            }
        })
        .ok()
}

/// Which field is at fault.
fn place_of<'a>(unusable: &client::Unusable, tls: &'a ClientTls) -> Option<&'a Place> {
    let field = match unusable {
        client::Unusable::Ca(_) => tls.ca.at(),
        client::Unusable::Identity(error) => {
            let is_key = tls.key.at().filter(|key| error.path == Path::new(&key.value.0));
            is_key.or(tls.certificate.at())
        }
        client::Unusable::NoAuthorities | client::Unusable::Provider(_) => None,
    };
    field.map(|at| &at.place)
}

fn read(at: &At<ClientTls>, report: &mut Report) -> Option<client::Settings> {
    let section = &at.value;
    let path = |text: &At<Text>| PathBuf::from(&text.value.0);
    let identity = match (&section.certificate, &section.key) {
        (Field::Absent, Field::Absent) => None,
        (Field::Given(certificate), Field::Given(key)) => {
            Some(client::Identity { certificate: path(certificate), key: path(key) })
        }
        (Field::Given(alone), Field::Absent) => return alone_fault(&alone.place, "key", report),
        (Field::Absent, Field::Given(alone)) => return alone_fault(&alone.place, "certificate", report),
        (Field::Broken, _) | (_, Field::Broken) => return None,
    };
    let server_name = section.server_name.either(|name| Some(name.value.0.clone()), || None)?;
    if let (Some(name), Some(at)) = (&server_name, section.server_name.at())
        && !client::Client::can_name(name)
    {
        report.fault(&at.place, format!("`{name}` is no name of a server: write one such as `api.internal`"));
        return None;
    }
    Some(client::Settings { ca: section.ca.either(|ca| Some(path(ca)), || None)?, server_name, identity })
}

fn alone_fault<T>(place: &Place, other: &str, report: &mut Report) -> Option<T> {
    report.fault(place, format!("stands alone: `{other}` belongs to it"));
    None
}
