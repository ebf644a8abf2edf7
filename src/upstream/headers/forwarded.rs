//! `X-Forwarded-*` and `Forwarded`: what this hop saw, after what trusted hops before it saw.

use std::net::IpAddr;

use bytes::Bytes;
use http::header::FORWARDED;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{Added, Hop, Kinds};
use crate::wire::Network;

static FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
static HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Whether a field of this name says who asked, how, or for which host.
pub fn is_forwarding(name: &HeaderName) -> bool {
    Kinds::one(name).any(Kinds::FORWARDING)
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
pub(super) fn is_replaced(name: &HeaderName, kind: Kinds, trusted: bool) -> bool {
    // With underscores it is not the field that trusted proxies set, and yet some servers would take it for that.
    let forged = !trusted || kind.any(Kinds::UNDERSCORE);
    kind.any(Kinds::FORWARDING) && (forged || *name == FORWARDED || [&FOR, &PROTO, &HOST].contains(&name))
}

/// Says who asked, how and for which host, where nothing of that came.
pub(super) fn say(added: &mut Added, hop: &Hop<'_>) {
    added.say(&FOR, hop.named.as_bytes());
    added.say(&PROTO, hop.scheme.as_bytes());
    if let Some(host) = hop.host {
        added.say(&HOST, host.as_bytes());
    }
}

/// Who asked, how and for which host, in one line each.
pub(super) struct Said {
    by: Option<HeaderValue>,
    proto: Option<HeaderValue>,
    host: Option<HeaderValue>,
    forwarded: Option<HeaderValue>,
}

/// What there is to be said of a request that came with such fields: `came` holds all that came.
///
/// The peer is added to what trusted proxies say of the client. Their scheme and host stay as they are: these speak of
/// the client's own connection, and this hop's would only hide them. Bytes that cannot stand in a field are not said.
pub(super) fn said(came: &HeaderMap, hop: &Hop<'_>) -> Said {
    let (proto, host) = (HeaderValue::from_static(hop.scheme), hop.host.cloned());
    let known = |name: &HeaderName| if hop.trusted { one_line(came, name) } else { None };
    let value = |line: Vec<u8>| HeaderValue::from_maybe_shared(Bytes::from(line)).ok();
    Said {
        by: value(appended(known(&FOR), hop.named.as_bytes())),
        proto: known(&PROTO).map_or(Some(proto), value),
        host: known(&HOST).map_or(host, value),
        // Seldom used, so only where the request has it.
        forwarded: came
            .contains_key(FORWARDED)
            .then(|| value(appended(known(&FORWARDED), element(hop).as_bytes())))
            .flatten(),
    }
}

impl Said {
    /// Says it.
    pub(super) fn set(self, out: &mut HeaderMap) {
        let said = [(&FOR, self.by), (&PROTO, self.proto), (&HOST, self.host), (&FORWARDED, self.forwarded)];
        for (name, value) in said {
            if let Some(value) = value {
                out.insert(name, value);
            }
        }
    }
}

/// All lines of a field as one; none when they are missing or blank.
fn one_line(headers: &HeaderMap, name: &HeaderName) -> Option<Vec<u8>> {
    let lines: Vec<&[u8]> = headers.get_all(name).iter().map(|line| line.as_bytes().trim_ascii()).collect();
    let lines: Vec<&[u8]> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { None } else { Some(lines.join(&b", "[..])) }
}

fn appended(line: Option<Vec<u8>>, last: &[u8]) -> Vec<u8> {
    let mut line = line.map_or_else(Vec::new, |line| [&line[..], b", "].concat());
    line.extend_from_slice(last);
    line
}

/// This hop in the words of RFC 7239.
fn element(hop: &Hop<'_>) -> String {
    let peer = match hop.peer.to_canonical() {
        IpAddr::V4(peer) => peer.to_string(),
        IpAddr::V6(peer) => format!("\"[{peer}]\""),
    };
    let host = hop.host.and_then(|host| host.to_str().ok()).map(|host| host.replace('\\', "\\\\").replace('"', "\\\""));
    let host = host.map(|host| format!(";host=\"{host}\"")).unwrap_or_default();
    format!("for={peer}{host};proto={}", hop.scheme)
}
