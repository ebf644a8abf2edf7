//! What a request is addressed to: the checks that come before any route is looked for.

use bytes::Bytes;
use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, Method, Uri, request};

use super::problem::Problem;
use crate::keys::{self, path};

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
    /// The path in normal form.
    pub path: String,
}

impl Target {
    /// Reads the target.
    ///
    /// # Errors
    /// Why the request cannot be taken.
    pub fn of(head: &request::Parts) -> Result<Self, Problem> {
        if !is_forwarded(&head.method) {
            return Err(Problem::MethodRefused(format!("{} is not forwarded.", head.method)));
        }
        let authority = authority(&head.uri, &head.headers)?;
        let Some(host) = host_of(&authority) else {
            return Err(Problem::BadRequest("The Host field is no host.".to_owned()));
        };
        let path = path::normalize(head.uri.path())
            .map_err(|error| Problem::BadRequest(format!("The path cannot be read: {error}.")))?
            .into();
        Ok(Self { authority, host, path })
    }

    /// The request as keys and fingerprints look at it.
    pub fn request(&self, head: &request::Parts, body: Bytes) -> keys::Request {
        keys::Request {
            method: head.method.clone(),
            authority: self.authority.clone(),
            path: self.path.clone(),
            query: head.uri.query().map(str::to_owned),
            raw_path: head.uri.path().to_owned(),
            headers: head.headers.clone(),
            body,
        }
    }
}

/// Exactly one Host (RFC 9112 section 3.2); an absolute-form target has to agree with it.
fn authority(uri: &Uri, headers: &HeaderMap) -> Result<String, Problem> {
    let bad = |detail: &str| Err(Problem::BadRequest(detail.to_owned()));
    let mut lines = headers.get_all(HOST).iter();
    let (first, second) = (lines.next(), lines.next());
    if second.is_some() {
        return bad("Several Host fields.");
    }
    let host = match first.map(http::HeaderValue::to_str) {
        None => return bad("No Host field."),
        Some(Err(_)) => return bad("The Host field is not ASCII."),
        Some(Ok(host)) => host,
    };
    match uri.authority() {
        Some(authority) if !authority.as_str().eq_ignore_ascii_case(host) => {
            bad("The target's authority and the Host field differ.")
        }
        Some(_) | None if host.is_empty() => bad("The Host field is empty."),
        Some(_) | None => Ok(host.to_owned()),
    }
}

/// The host in an authority; none when it is not one. To routes and servers `api.example.` is `api.example`.
fn host_of(authority: &str) -> Option<String> {
    let parsed: Authority = authority.parse().ok()?;
    let name = parsed.host();
    // A user in front of the host belongs into no Host field.
    let port = authority.strip_prefix(name)?;
    let digits = if port.is_empty() { Some("") } else { port.strip_prefix(':') };
    let sound = digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let name = name.strip_suffix('.').unwrap_or(name);
    (sound && !name.is_empty()).then(|| name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn of(uri: &str, hosts: &[&str]) -> Result<Target, Problem> {
        let mut request = Request::builder().uri(uri);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        Target::of(&request.body(()).unwrap().into_parts().0)
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
        assert!(of("http://api.example/", &["api.example"]).is_ok());
    }

    #[test]
    fn other_targets_are_refused() {
        assert!(matches!(of("/", &[]), Err(Problem::BadRequest(_))));
        assert!(matches!(of("/", &["a", "b"]), Err(Problem::BadRequest(_))));
        assert!(matches!(of("/", &[""]), Err(Problem::BadRequest(_))));
        assert!(matches!(of("http://a/", &["b"]), Err(Problem::BadRequest(_))));
        assert!(matches!(of("/%00", &["a"]), Err(Problem::BadRequest(_))));
        for host in ["user@a", "a/b", "a b", "a?b", "a#b", "a:8x", "a:b:1", "[::1", "%61", "a\\b", ".", ":80"] {
            assert!(matches!(of("/", &[host]), Err(Problem::BadRequest(_))), "{host}");
        }
    }
}
