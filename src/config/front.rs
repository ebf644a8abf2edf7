//! What stands before HTTP on client connections: TLS, HTTP/2, the PROXY protocol; as written, and what it becomes.

use std::path::PathBuf;

use super::define::{choice, section};
use super::finding::Report;
use super::reader::{At, Field, values};
use super::values::{Count, HOUR, KIB, MIB, MINUTE, SECOND, Size, Span, Text, not_empty};
use crate::server::{self, http2};
use crate::tls;
use crate::wire::Network;

section! {
    /// TLS in front: with it, `listen` speaks TLS only.
    Tls {
        /// Certificates and their keys. The first is for clients that ask for no name, or for one that none is good for.
        certificates: Vec<Field<Pair>> = Required("write `certificates: [ { certificate: tls.crt, key: tls.key } ]`"),
        /// The oldest version that is spoken: 1.2 or 1.3.
        min_version: tls::Oldest = Default("1.2"),
        /// Whether clients prove who they are by a certificate: `none`, `optional` or `required`.
        client_certificates: Clients = Default("none"),
        /// A PEM file of the authorities that sign client certificates.
        client_ca: Text = Optional,
        /// How long a handshake may take.
        handshake_timeout: Span<100, { 5 * MINUTE }> = Default("10s"),
    }
    later { "ocsp", "crl", "ciphers" }
}

section! {
    /// A certificate and its key. Both are read again when they change.
    Pair {
        /// A PEM file: the certificate, then what leads to the authority.
        certificate: Text = Required("write `certificate: tls.crt`"),
        /// A PEM file with the key, not encrypted; it may be the same file.
        key: Text = Required("write `key: tls.key`"),
    }
    later {}
}

/// Whether clients prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clients {
    None,
    Optional,
    Required,
}

choice! { tls::Oldest { "1.2" => Self::Tls12, "1.3" => Self::Tls13 } later {} }
choice! { Clients { "none" => Self::None, "optional" => Self::Optional, "required" => Self::Required } later {} }

section! {
    /// HTTP/2 in front: over TLS when the client asks for it, on a plain listener with prior knowledge.
    Http2 {
        /// Whether it is spoken at all.
        enabled: bool = Default("true"),
        /// Requests at once on a connection.
        max_concurrent_streams: Count<1, 10_000> = Default("100"),
        /// The size of a request's fields.
        header_list_size: Size<{ 4 * KIB }, MIB> = Default("64KiB"),
        /// How much of a request's body may be on its way before it is read.
        stream_window: Size<{ 64 * KIB }, { 16 * MIB }> = Default("256KiB"),
        /// The same for all requests of a connection together: what a connection can make the gateway hold.
        connection_window: Size<{ 64 * KIB }, { 64 * MIB }> = Default("1MiB"),
        /// How long a connection may be silent before it is asked whether it is still there.
        keep_alive_interval: Span<SECOND, HOUR> = Default("30s"),
        /// How long it may take to say so.
        keep_alive_timeout: Span<100, HOUR> = Default("10s"),
        /// How many more requests than it sees through a client may take back unanswered; then its connection is closed.
        max_reset_streams: Count<1, 100_000> = Default("100"),
    }
    later {}
}

section! {
    /// The PROXY protocol, versions 1 and 2: a balancer in front says for whom it connects.
    ProxyProtocol {
        /// Networks whose connections all begin with a PROXY header. From others it is not taken.
        from: Vec<Field<Network>> = Required("write `from: [10.0.0.0/8]`: the addresses of your balancers"),
    }
    later {}
}

/// Translates all of it.
pub(super) fn compile(
    tls_section: &Field<Tls>,
    http2_section: &Field<Http2>,
    proxies_section: &Field<ProxyProtocol>,
    report: &mut Report,
) -> Option<server::FrontSettings> {
    let enabled = http2_section.value().and_then(|section| section.enabled.value()).copied();
    let tls = tls_section.at().and_then(|at| tls(&at.value, enabled, report));
    let http2 = http2_section.value().and_then(|section| http2(section, report));
    let proxies = proxies_section.either(|at| proxies(&at.value, report), || Some(Vec::new()))?;
    Some(server::FrontSettings {
        tls: if matches!(tls_section, Field::Absent) { None } else { Some(tls?) },
        http2: if enabled? { Some(http2?) } else { None },
        proxies: proxies?,
    })
}

/// Whether clients are asked for certificates; true while that cannot be told.
pub(super) fn asks_clients(tls: &Field<Tls>) -> bool {
    let asked = |at: &At<Tls>| at.value.client_certificates.value() != Some(&Clients::None);
    tls.either(asked, || false).unwrap_or(true)
}

fn tls(section: &Tls, http2: Option<bool>, report: &mut Report) -> Option<server::TlsSettings> {
    let pairs = section.certificates.at().and_then(|list| {
        let example = "`{ certificate: tls.crt, key: tls.key }`";
        not_empty(&list.place, list.value.is_empty(), example, report);
        list.value.iter().map(|pair| pair.value().and_then(pair_of)).collect::<Option<Vec<_>>>()
    });
    let clients = clients(section, report);
    let certificates =
        tls::Settings { certificates: pairs?, oldest: *section.min_version.value()?, clients: clients?, http2: http2? };
    Some(server::TlsSettings { certificates, handshake_timeout: section.handshake_timeout.value()?.0 })
}

fn pair_of(section: &Pair) -> Option<tls::Pair> {
    let path = |field: &Field<Text>| field.value().map(|text| PathBuf::from(&text.0));
    Some(tls::Pair { certificate: path(&section.certificate)?, key: path(&section.key)? })
}

fn clients(section: &Tls, report: &mut Report) -> Option<tls::ClientCertificates> {
    let wanted = section.client_certificates.at()?;
    match (wanted.value, &section.client_ca) {
        (_, Field::Broken) => None,
        (Clients::None, Field::Absent) => Some(tls::ClientCertificates::None),
        (Clients::None, Field::Given(path)) => {
            report
                .fault(&path.place, "is for nothing while clients are not asked: say `client_certificates: required`");
            None
        }
        (Clients::Optional | Clients::Required, Field::Absent) => {
            report
                .fault(&wanted.place, "needs `client_ca`, a PEM file of the authorities that sign client certificates");
            None
        }
        (Clients::Optional, Field::Given(At { value, .. })) => {
            Some(tls::ClientCertificates::Optional(PathBuf::from(&value.0)))
        }
        (Clients::Required, Field::Given(At { value, .. })) => {
            Some(tls::ClientCertificates::Required(PathBuf::from(&value.0)))
        }
    }
}

fn http2(section: &Http2, report: &mut Report) -> Option<http2::Settings> {
    let number = |count: usize| u32::try_from(count).ok();
    if let (Some(stream), Some(connection)) = (section.stream_window.at(), section.connection_window.at())
        && stream.value.0 > connection.value.0
    {
        let place = if stream.stated { &stream.place } else { &connection.place };
        report.fault(place, "`stream_window` is above `connection_window`: no single request could ever fill it");
    }
    Some(http2::Settings {
        streams: number(section.max_concurrent_streams.value()?.0)?,
        header_list: number(section.header_list_size.value()?.0)?,
        stream_window: number(section.stream_window.value()?.0)?,
        connection_window: number(section.connection_window.value()?.0)?,
        ping_interval: section.keep_alive_interval.value()?.0,
        ping_timeout: section.keep_alive_timeout.value()?.0,
        resets: section.max_reset_streams.value()?.0,
    })
}

fn proxies(section: &ProxyProtocol, report: &mut Report) -> Option<Vec<Network>> {
    let from = section.from.at()?;
    not_empty(&from.place, from.value.is_empty(), "`10.0.0.0/8`", report);
    values(&from.value)
}
