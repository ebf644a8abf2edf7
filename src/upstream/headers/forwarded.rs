//! `X-Forwarded-*` and `Forwarded`: what this hop saw, after what trusted hops before it saw.

use std::borrow::Cow;
use std::net::IpAddr;

use http::header::FORWARDED;
use http::{HeaderMap, HeaderName};

use super::{Hop, fields, set as set_line};
use crate::wire::Network;

static FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
static HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Whether a field of this name says who asked, how, or for which host.
pub fn is_forwarding(name: &HeaderName) -> bool {
    *name == FORWARDED || fields::starts_with(name, "x-forwarded-")
}

/// Who sent a request: the peer, unless it is a trusted proxy that names another. Behind several of them it is the last
/// address that is none of theirs; what stands before that, anybody may have written.
pub fn believed(came: &HeaderMap, peer: IpAddr, trusted: &[Network]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    let mut client = peer;
    if !is_trusted(client) {
        return client;
    }
    for line in came.get_all(&FOR).iter().rev() {
        for named in line.as_bytes().rsplit(|byte| *byte == b',') {
            let Some(named) = std::str::from_utf8(named).ok().and_then(|named| named.trim().parse().ok()) else {
                return client;
            };
            client = named;
            if !is_trusted(client) {
                return client;
            }
        }
    }
    client
}

/// Whether a field that came is not copied: because [`Said`] says it anew, or because nobody vouches for it.
pub(super) fn is_replaced(name: &HeaderName, trusted: bool) -> bool {
    let ours = *name == FORWARDED || [&FOR, &PROTO, &HOST].contains(&name);
    // With underscores it is not the field that trusted proxies set, and yet some servers would take it for that.
    let forged = !trusted || name.as_str().contains('_');
    ours || (forged && fields::starts_with(name, "x-forwarded-"))
}

/// Who asked, how and for which host, in one line each.
pub(super) struct Said<'a> {
    by: Vec<u8>,
    proto: Cow<'a, [u8]>,
    host: Option<Cow<'a, [u8]>>,
    forwarded: Option<Vec<u8>>,
}

/// What there is to be said. `came` holds the fields as they came.
///
/// The peer is added to what trusted proxies say of the client. Their scheme and host stay as they are: these speak of
/// the client's own connection, and this hop's would only hide them.
pub(super) fn said<'a>(came: &HeaderMap, hop: &Hop<'a>) -> Said<'a> {
    let known = |name: &HeaderName| if hop.trusted { one_line(came, name) } else { None };
    let peer = hop.peer.to_canonical();
    Said {
        by: appended(known(&FOR), &peer.to_string()),
        proto: known(&PROTO).map_or(Cow::Borrowed(hop.scheme.as_bytes()), Cow::Owned),
        host: known(&HOST).map(Cow::Owned).or_else(|| hop.host.map(|host| Cow::Borrowed(host.as_bytes()))),
        // Seldom used, so only where the request has it.
        forwarded: came.contains_key(FORWARDED).then(|| appended(known(&FORWARDED), &element(peer, hop))),
    }
}

impl Said<'_> {
    /// Says it.
    pub(super) fn set(&self, out: &mut HeaderMap) {
        // For these, and for what follows them.
        out.reserve(8);
        set_line(out, &FOR, &self.by);
        set_line(out, &PROTO, &self.proto);
        if let Some(host) = &self.host {
            set_line(out, &HOST, host);
        }
        if let Some(forwarded) = &self.forwarded {
            set_line(out, &FORWARDED, forwarded);
        }
    }
}

/// All lines of a field as one; none when they are missing or blank.
fn one_line(headers: &HeaderMap, name: &HeaderName) -> Option<Vec<u8>> {
    let lines: Vec<&[u8]> = headers.get_all(name).iter().map(|line| line.as_bytes().trim_ascii()).collect();
    let lines: Vec<&[u8]> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { None } else { Some(lines.join(&b", "[..])) }
}

fn appended(line: Option<Vec<u8>>, last: &str) -> Vec<u8> {
    let mut line = line.map_or_else(Vec::new, |line| [&line[..], b", "].concat());
    line.extend_from_slice(last.as_bytes());
    line
}

/// This hop in the words of RFC 7239.
fn element(peer: IpAddr, hop: &Hop<'_>) -> String {
    let peer = match peer {
        IpAddr::V4(peer) => peer.to_string(),
        IpAddr::V6(peer) => format!("\"[{peer}]\""),
    };
    let host = hop.host.map(|host| host.replace('\\', "\\\\").replace('"', "\\\""));
    let host = host.map(|host| format!(";host=\"{host}\"")).unwrap_or_default();
    format!("for={peer}{host};proto={}", hop.scheme)
}
