//! What a request is addressed to: the checks that come before any route is looked for.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Uri, request};

use super::problem::Problem;
use crate::keys::{self, path};

/// Whether requests with this method are taken at all: CONNECT asks for a tunnel, and TRACE would show the client what
/// proxies before us have added.
pub fn is_forwarded(method: &Method) -> bool {
    *method != Method::CONNECT && *method != Method::TRACE
}

/// Where a request wants to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Host and port as sent.
    pub authority: String,
    /// The host alone, in lower case and without the dot that ends a whole name.
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
        if head.headers.contains_key(CONTENT_LENGTH) && head.headers.contains_key(TRANSFER_ENCODING) {
            return Err(Problem::BadRequest("Content-Length and Transfer-Encoding together.".to_owned()));
        }
        let authority = authority(&head.uri, &head.headers)?;
        let path = path::normalize(head.uri.path())
            .map_err(|error| Problem::BadRequest(format!("The path cannot be read: {error}.")))?
            .into();
        // `api.example.` names the same server: no spelling may lead round a guard.
        let host = host_of(&authority).trim_end_matches('.').to_ascii_lowercase();
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

fn host_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        // A colon inside brackets belongs to an IPv6 address.
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.is_empty() => host,
        _ => authority,
    }
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
        assert_eq!(of("/", &["api.example.:80"]).unwrap().host, "api.example");
        assert_eq!(of("/", &["[::1]:80"]).unwrap().host, "[::1]");
        assert_eq!(of("/", &["[::1]"]).unwrap().host, "[::1]");
        assert!(of("http://api.example/", &["api.example"]).is_ok());
    }

    #[test]
    fn other_targets_are_refused() {
        assert!(matches!(of("/", &[]), Err(Problem::BadRequest(_))));
        assert!(matches!(of("/", &["a", "b"]), Err(Problem::BadRequest(_))));
        assert!(matches!(of("/", &[""]), Err(Problem::BadRequest(_))));
        assert!(matches!(of("http://a/", &["b"]), Err(Problem::BadRequest(_))));
        assert!(matches!(of("/%00", &["a"]), Err(Problem::BadRequest(_))));
    }
}
