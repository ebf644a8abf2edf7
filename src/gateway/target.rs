//! What a request is addressed to: the checks that come before any route is looked for.

use std::net::Ipv6Addr;

use bytes::Bytes;
use http::header::{EXPECT, HOST, HeaderValue};
use http::uri::Authority;
use http::{HeaderMap, Method, Version, request};

use super::problem::Problem;
use crate::keys::{self, Caller, path};
use crate::upstream::headers::Kinds;

/// Whether requests with this method are taken at all: CONNECT asks for a tunnel, and TRACE would show the client what
/// proxies before us have added. `post` is not `POST`, so it would miss the guard of `POST`; yet some servers take one
/// for the other.
pub fn is_forwarded(method: &Method) -> bool {
    let standard = !method.as_str().bytes().any(|byte| byte.is_ascii_lowercase());
    standard && *method != Method::CONNECT && *method != Method::TRACE
}

/// Where a request wants to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Host and port as sent.
    pub authority: String,
    /// The host alone, in lower case, without the dot that may end a full name.
    pub host: String,
    /// The path in normal form; `*` when the request is about the gateway as a whole.
    pub path: String,
}

impl Target {
    /// Reads the target of a request whose fields are of these kinds.
    ///
    /// # Errors
    /// Why the request cannot be taken.
    pub fn of(head: &request::Parts, kinds: Kinds) -> Result<Self, Problem> {
        if !is_forwarded(&head.method) {
            return Err(Problem::MethodRefused(format!("{} is not forwarded.", head.method)));
        }
        if kinds.any(Kinds::EXPECT) && !head.headers.get_all(EXPECT).iter().all(is_continue) {
            return Err(Problem::ExpectationFailed);
        }
        let (authority, place) = addressed_to(head)?;
        let path: String = path::normalize(head.uri.path())
            .map_err(|error| Problem::BadRequest(format!("The path cannot be read: {error}.")))?
            .into();
        if path == "*" && head.method != Method::OPTIONS {
            return Err(bad("The target `*` is for OPTIONS alone."));
        }
        Ok(Self { authority: authority.to_owned(), host: place.host, path })
    }

    /// Whether the request is about the gateway as a whole.
    pub fn is_gateway(&self) -> bool {
        self.path == "*"
    }

    /// The request as keys and fingerprints look at it. It takes the header fields with it, so that none is copied.
    pub fn request(&self, head: &mut request::Parts, body: Bytes, caller: Caller) -> keys::Request {
        keys::Request {
            method: head.method.clone(),
            authority: self.authority.clone(),
            path: self.path.clone(),
            query: head.uri.query().map(str::to_owned),
            raw_path: head.uri.path().to_owned(),
            headers: std::mem::take(&mut head.headers),
            caller,
            body,
        }
    }
}

fn bad(detail: &str) -> Problem {
    Problem::BadRequest(detail.to_owned())
}

/// Whom a request is addressed to, in its own words and in ours.
///
/// HTTP/1 has exactly one Host field (RFC 9112 section 3.2), HTTP/2 may say `:authority` instead. An absolute-form
/// target goes before the field, as `:authority` does; the two have to name one place, or a server that looks at the
/// other one would see another request than we did.
fn addressed_to(head: &request::Parts) -> Result<(&str, Place), Problem> {
    let scheme = head.uri.scheme_str();
    if !matches!(scheme, None | Some("http" | "https")) {
        return Err(bad("The target's scheme is neither http nor https."));
    }
    let told = host_field(&head.headers)?.map(|field| {
        let place = Place::of(field).ok_or_else(|| bad("The Host field is no host."));
        place.map(|place| (field, place))
    });
    let told = told.transpose()?;
    let Some(target) = head.uri.authority().map(Authority::as_str) else {
        return told.ok_or_else(|| bad("No Host field."));
    };
    let Some(place) = Place::of(target).filter(|_| scheme.is_some()) else {
        return Err(bad("The target's authority is no host, or stands alone."));
    };
    match told {
        Some((_, told)) if !told.is(&place, scheme) => Err(bad("The target's authority and the Host field differ.")),
        None if head.version < Version::HTTP_2 => Err(bad("No Host field.")),
        Some(_) | None => Ok((target, place)),
    }
}

/// The one Host field, if there is one.
fn host_field(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let mut lines = headers.get_all(HOST).iter();
    let (first, second) = (lines.next(), lines.next());
    match first.map(HeaderValue::to_str) {
        Some(_) if second.is_some() => Err(bad("Several Host fields.")),
        Some(Err(_)) => Err(bad("The Host field is not ASCII.")),
        Some(Ok(host)) => Ok(Some(host)),
        None => Ok(None),
    }
}

/// Whether what is expected is what this gateway can do: say 100 when it is about to read the body.
fn is_continue(expected: &HeaderValue) -> bool {
    expected.as_bytes().trim_ascii().eq_ignore_ascii_case(b"100-continue")
}

/// A host and a port.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    /// In lower case. To routes and servers `api.example.` is `api.example`.
    host: String,
    /// None where the scheme says it.
    port: Option<u16>,
}

impl Place {
    /// Reads an authority; none when it is not one.
    fn of(authority: &str) -> Option<Self> {
        Self::plain(authority).or_else(|| Self::parsed(authority))
    }

    /// One that is plain to see: a name or an IPv4 address in lower case, and perhaps a port. None of any other.
    fn plain(authority: &str) -> Option<Self> {
        let is_plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
        let end = authority.bytes().position(|byte| !is_plain(&byte)).unwrap_or(authority.len());
        let (name, rest) = authority.split_at(end);
        let port = match rest.strip_prefix(':') {
            None if rest.is_empty() => None,
            Some(digits) if is_port(digits) => Some(digits.parse().ok()?),
            _ => return None,
        };
        (!name.is_empty() && !name.ends_with('.')).then(|| Self { host: name.to_owned(), port })
    }

    /// One of any kind. A user in front of the host belongs into no request.
    fn parsed(authority: &str) -> Option<Self> {
        let parsed: Authority = authority.parse().ok()?;
        let name = parsed.host();
        let rest = authority.strip_prefix(name)?;
        let port = match rest.strip_prefix(':') {
            None | Some("") if rest.len() < 2 => None,
            Some(digits) if is_port(digits) => Some(digits.parse().ok()?),
            Some(_) | None => return None,
        };
        if let Some(address) = name.strip_prefix('[') {
            address.strip_suffix(']')?.parse::<Ipv6Addr>().ok()?;
        }
        let host = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        (!host.is_empty()).then_some(Self { host, port })
    }

    /// Whether both are one place to a client that uses this scheme.
    fn is(&self, other: &Self, scheme: Option<&str>) -> bool {
        let usual = if scheme == Some("https") { 443 } else { 80 };
        self.host == other.host && self.port.unwrap_or(usual) == other.port.unwrap_or(usual)
    }
}

fn is_port(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;
    use proptest::prelude::*;

    fn of(uri: &str, hosts: &[&str]) -> Result<Target, Problem> {
        by(Version::HTTP_11, "GET", uri, hosts)
    }

    fn by(version: Version, method: &str, uri: &str, hosts: &[&str]) -> Result<Target, Problem> {
        let mut request = Request::builder().version(version).method(method).uri(uri);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        let head = request.body(()).unwrap().into_parts().0;
        Target::of(&head, Kinds::of(&head.headers))
    }

    proptest! {
        #[test]
        fn what_is_plain_to_see_is_what_a_parser_reads(authority in "[a-c0-9.:-]{0,8}|[a-cA@%0-9.:\\[\\]-]{0,8}") {
            if let Some(seen) = Place::plain(&authority) {
                prop_assert_eq!(Place::parsed(&authority), Some(seen));
            }
        }
    }

    fn is_bad(target: &Result<Target, Problem>) -> bool {
        matches!(target, Err(Problem::BadRequest(_)))
    }

    #[test]
    fn one_host_names_the_target() {
        let target = of("/a//b/", &["API.example:8080"]).unwrap();
        assert_eq!((target.host.as_str(), target.path.as_str()), ("api.example", "/a/b"));
        assert_eq!(of("/", &["[::1]:80"]).unwrap().host, "[::1]");
        assert_eq!(of("/", &["[::1]"]).unwrap().host, "[::1]");
        for host in ["api.example.", "API.example.:80", "api.example:"] {
            assert_eq!(of("/", &[host]).unwrap().host, "api.example", "{host}");
        }
    }

    #[test]
    fn other_targets_are_refused() {
        assert!(is_bad(&of("/", &[])));
        assert!(is_bad(&of("/", &["a", "a"])));
        assert!(is_bad(&of("/%00", &["a"])));
        for host in [
            "", "user@a", "a/b", "a b", "a?b", "a#b", "a:8x", "a:+80", "a:65536", "a:b:1", "[::1", "[a]", "%61",
            "a\\b", ".", ":80", "a,b@c",
        ] {
            assert!(is_bad(&of("/", &[host])), "{host}");
        }
    }

    #[test]
    fn the_authority_of_the_target_goes_before_a_host_field_that_agrees() {
        for (uri, host) in [
            ("http://api.example/", "api.example"),
            ("HTTP://API.example/x", "api.example:80"),
            ("https://api.example:443", "api.example."),
            ("http://api.example:8080/?q", "api.example:8080"),
        ] {
            let target = of(uri, &[host]).unwrap();
            assert_eq!(target.host, "api.example", "{uri}");
            let authority = uri.split('/').nth(2).unwrap();
            assert_eq!(target.authority, authority, "the target's own words");
        }
        for (uri, host) in [
            ("http://a/", "b"),
            ("http://a:81/", "a"),
            ("https://a/", "a:80"),
            ("http://user@a/", "a"),
            ("http://user@a/", "user@a"),
            ("ftp://a/", "a"),
            ("a:80", "a:80"),
            ("a", "a"),
            ("http://a/", ""),
        ] {
            assert!(is_bad(&of(uri, &[host])), "{uri} {host}");
        }
        assert!(is_bad(&of("http://a/", &[])), "HTTP/1 has a Host field, whatever its target says");
    }

    #[test]
    fn http2_names_its_target_by_authority_or_host() {
        let of = |uri: &str, hosts: &[&str]| by(Version::HTTP_2, "GET", uri, hosts);
        assert_eq!(of("https://api.example/a", &[]).unwrap().authority, "api.example");
        assert_eq!(of("https://api.example/a", &["API.example:443"]).unwrap().authority, "api.example");
        assert_eq!(of("/a", &["api.example"]).unwrap().authority, "api.example", "no `:authority` at all");
        for (uri, hosts) in [
            ("https://a/", &["b"][..]),
            ("https://a/", &["a:80"]),
            ("https://a/", &["a", "a"]),
            ("https://user@a/", &[]),
            ("ftp://a/", &[]),
            ("/", &[]),
            ("/", &[""]),
        ] {
            assert!(is_bad(&of(uri, hosts)), "{uri} {hosts:?}");
        }
    }

    #[test]
    fn only_options_asks_about_the_gateway_as_a_whole() {
        assert!(by(Version::HTTP_11, "OPTIONS", "*", &["a"]).unwrap().is_gateway());
        assert!(is_bad(&by(Version::HTTP_11, "OPTIONS", "*", &[])));
        assert!(is_bad(&by(Version::HTTP_11, "POST", "*", &["a"])));
        for method in ["TRACE", "CONNECT", "get"] {
            assert!(matches!(by(Version::HTTP_11, method, "/", &["a"]), Err(Problem::MethodRefused(_))), "{method}");
        }
    }

    #[test]
    fn the_only_expectation_that_can_be_met_is_100_continue() {
        for (expected, met) in [
            ("100-continue", true),
            ("100-Continue", true),
            ("", false),
            ("200-ok", false),
            ("100-continue, 100-continue", false),
            ("100-continue; q=1", false),
        ] {
            let request = Request::builder().uri("/").header(HOST, "a").header(EXPECT, expected);
            let head = request.body(()).unwrap().into_parts().0;
            let target = Target::of(&head, Kinds::of(&head.headers));
            assert_eq!(target.is_ok(), met, "{expected}");
            assert!(met || target == Err(Problem::ExpectationFailed));
        }
    }
}
