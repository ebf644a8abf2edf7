//! OPTIONS requests that end at this gateway (RFC 9110 sections 7.6.2 and 9.3.7). All others are a route's matter.

use http::header::{ALLOW, MAX_FORWARDS};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, request};

use super::body::Body;
use super::marks;
use super::problem::Problem;
use super::target::Target;

/// The methods of RFC 9110 and RFC 5789 that a route can take.
const ALLOWED: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");

/// The answer to an OPTIONS request that is about the gateway as a whole or has no hop left to go. Any other one has
/// a hop less to go from here.
///
/// # Errors
/// When it cannot be read how far it may go.
pub(super) fn answer(head: &mut request::Parts, target: &Target) -> Result<Option<Response<Body>>, Problem> {
    if head.method != Method::OPTIONS {
        return Ok(None);
    }
    let left = hops_left(&head.headers)?;
    if target.is_gateway() || left == Some(0) {
        return Ok(Some(allowed()));
    }
    if let Some(left) = left {
        head.headers.insert(MAX_FORWARDS, HeaderValue::from(left - 1));
    }
    Ok(None)
}

fn hops_left(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let mut lines = headers.get_all(MAX_FORWARDS).iter();
    let Some(first) = lines.next() else { return Ok(None) };
    let digits = first.as_bytes();
    let sound = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) && lines.next().is_none();
    // A number that has no room here is farther than any way.
    let left = std::str::from_utf8(digits).ok().filter(|_| sound).map(|digits| digits.parse().unwrap_or(u64::MAX));
    left.map(Some).ok_or_else(|| Problem::BadRequest("Max-Forwards is no number.".to_owned()))
}

fn allowed() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(ALLOW, ALLOWED);
    response.headers_mut().insert(marks::SOURCE, marks::GATEWAY);
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::headers::Kinds;
    use http::Request;

    /// What becomes of it: `answered`, or forwarded with this many hops left.
    fn ask(method: &str, target: &str, hops: &[&str]) -> Result<String, Problem> {
        let mut request = Request::builder().method(method).uri(target).header("Host", "a");
        for hops in hops {
            request = request.header(MAX_FORWARDS, *hops);
        }
        let mut head = request.body(()).unwrap().into_parts().0;
        let target = Target::of(&head, Kinds::default())?;
        if answer(&mut head, &target)?.is_some() {
            return Ok("answered".to_owned());
        }
        Ok(head.headers.get(MAX_FORWARDS).map_or("any", |left| left.to_str().unwrap()).to_owned())
    }

    #[test]
    fn an_options_request_goes_as_far_as_it_may() {
        let far = "9".repeat(40);
        let farther = (u64::MAX - 1).to_string();
        for (method, target, hops, becomes) in [
            ("OPTIONS", "*", &[][..], "answered"),
            ("OPTIONS", "*", &["5"], "answered"),
            ("OPTIONS", "/a", &["0"], "answered"),
            ("OPTIONS", "/a", &[], "any"),
            ("OPTIONS", "/a", &["1"], "0"),
            ("OPTIONS", "/a", &["010"], "9"),
            ("OPTIONS", "/a", &[far.as_str()], farther.as_str()),
            ("GET", "/a", &["0"], "0"),
        ] {
            assert_eq!(ask(method, target, hops).as_deref(), Ok(becomes), "{method} {target} {hops:?}");
        }
    }

    #[test]
    fn a_distance_that_cannot_be_read_is_refused() {
        for hops in [&[""][..], &["-1"], &["+1"], &["1.0"], &["1, 2"], &["1", "1"], &["x"]] {
            assert!(matches!(ask("OPTIONS", "/a", hops), Err(Problem::BadRequest(_))), "{hops:?}");
        }
    }
}
