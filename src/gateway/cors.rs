//! What pages of other origins may read of the gateway's own words, and where their preflights go. What they may read of
//! the upstream's answers is the upstream's to say.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HeaderName, LOCATION, RETRY_AFTER,
};
use http::{HeaderMap, HeaderValue, Method, request};

use super::problem::Problem;
use super::settings::Cors;
use super::tally::Tally;
use super::target::is_forwarded;
use super::{Answer, Gateway, Guarded, Routed, marks};
use crate::telemetry::Verdict;
use crate::upstream::Outgoing;
use crate::upstream::headers::{self, Kinds};
use crate::wire::Inbound;

/// The method that a preflight asks for; none when the request is no preflight.
pub(super) fn preflight(head: &request::Parts) -> Option<Method> {
    if head.method != Method::OPTIONS {
        return None;
    }
    headers::origin(&head.headers, Kinds::of(&head.headers))?;
    let asked = Method::from_bytes(head.headers.get(ACCESS_CONTROL_REQUEST_METHOD)?.as_bytes()).ok()?;
    is_forwarded(&asked).then_some(asked)
}

impl Gateway {
    /// A preflight for a guarded route: it changes nothing, so it passes unguarded. Where pages may use the route, they
    /// may send its keys, of which the upstream need not know.
    pub(super) async fn preflight(
        &self,
        guarded: &Guarded,
        routed: &Routed<'_>,
        head: &mut request::Parts,
        body: Inbound,
        tally: &mut Tally,
    ) -> Result<Answer, Problem> {
        let origin = headers::origin(&head.headers, routed.kinds).cloned();
        let passed = self.pass(routed, head, Outgoing::Streaming(body), Verdict::Passed, tally).await;
        let (mut response, verdict) = passed?;
        if let Some(cors) = &routed.route.cors {
            cors.allow(response.headers_mut(), origin.as_ref(), &guarded.guard.keys.key_headers());
        }
        Ok((response, verdict))
    }
}

impl Cors {
    /// Lets a page read one of the gateway's own answers. Pages of a listed origin may have asked with credentials.
    pub(super) fn open(&self, headers: &mut HeaderMap, origin: Option<&HeaderValue>) {
        if !self.origins.is_empty() {
            headers::vary_by_origin(headers);
        }
        match origin {
            Some(origin) if self.lists(origin) => {
                headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
                headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, marks::TRUE);
            }
            Some(_) if self.any => {
                headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
            }
            _ => return,
        }
        add_names(headers, &ACCESS_CONTROL_EXPOSE_HEADERS, &present(headers, &[RETRY_AFTER, LOCATION]));
    }

    /// Lets a page that may read this answer of the upstream's read the gateway's marks on it too.
    pub(super) fn show_marks(&self, headers: &mut HeaderMap, origin: Option<&HeaderValue>) {
        if self.lets_in(headers, origin) {
            add_names(headers, &ACCESS_CONTROL_EXPOSE_HEADERS, &present(headers, &[]));
        }
    }

    /// Lets a page that the upstream lets in by this answer send these fields too.
    pub(super) fn allow(&self, headers: &mut HeaderMap, origin: Option<&HeaderValue>, names: &[HeaderName]) {
        if self.lets_in(headers, origin) {
            add_names(headers, &ACCESS_CONTROL_ALLOW_HEADERS, names);
        }
    }

    fn lets_in(&self, headers: &HeaderMap, origin: Option<&HeaderValue>) -> bool {
        let listed = origin.is_some_and(|origin| self.any || self.lists(origin));
        listed && headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN)
    }

    fn lists(&self, origin: &HeaderValue) -> bool {
        self.origins.iter().any(|listed| listed == origin)
    }
}

/// Those of the gateway's marks, and of `more`, that the answer has.
fn present(headers: &HeaderMap, more: &[HeaderName]) -> Vec<HeaderName> {
    marks::ALL.iter().chain(more).filter(|name| headers.contains_key(*name)).cloned().collect()
}

/// Adds a line of names, unless there are none.
fn add_names(headers: &mut HeaderMap, field: &HeaderName, names: &[HeaderName]) {
    let names: Vec<&str> = names.iter().map(HeaderName::as_str).collect();
    if let Ok(line) = HeaderValue::try_from(names.join(", "))
        && !names.is_empty()
    {
        headers.append(field, line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn cors(origins: &[&str], any: bool) -> Cors {
        Cors { origins: origins.iter().map(|origin| (*origin).to_owned()).collect(), any }
    }

    fn opened(cors: &Cors, origin: Option<&'static str>) -> Vec<(String, String)> {
        let mut headers = HeaderMap::from_iter([(marks::SOURCE, marks::GATEWAY), (RETRY_AFTER, "1".parse().unwrap())]);
        cors.open(&mut headers, origin.map(HeaderValue::from_static).as_ref());
        let added = headers.iter().filter(|(name, _)| name.as_str() == "vary" || name.as_str().starts_with("access"));
        added.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect()
    }

    fn pairs(fields: &[(&str, &str)]) -> Vec<(String, String)> {
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn own_answers_are_open_to_listed_origins_with_credentials_and_to_any_without() {
        let vary = ("vary", "Origin");
        let exposed = ("access-control-expose-headers", "oncegate-source, retry-after");
        let listed = [
            vary,
            ("access-control-allow-origin", "https://a.example"),
            ("access-control-allow-credentials", "true"),
            exposed,
        ];
        let star = ("access-control-allow-origin", "*");
        assert_eq!(opened(&cors(&["https://a.example"], false), Some("https://a.example")), pairs(&listed));
        assert_eq!(opened(&cors(&["https://a.example"], true), Some("https://a.example")), pairs(&listed));
        assert_eq!(opened(&cors(&["https://a.example"], false), Some("https://a.example.evil")), pairs(&[vary]));
        assert_eq!(opened(&cors(&["https://a.example"], false), None), pairs(&[vary]));
        assert_eq!(opened(&cors(&["https://a.example"], true), Some("null")), pairs(&[vary, star, exposed]));
        assert_eq!(opened(&cors(&[], true), Some("https://b.example")), pairs(&[star, exposed]));
        assert_eq!(opened(&cors(&[], false), Some("https://b.example")), []);
    }

    #[test]
    fn a_preflight_has_an_origin_and_asks_for_a_method() {
        let asked = |method: &str, fields: &[(&str, &str)]| {
            let request = Request::builder().method(method);
            let request = fields.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            preflight(&request.body(()).unwrap().into_parts().0)
        };
        let origin = ("origin", "https://a.example");
        assert_eq!(asked("OPTIONS", &[origin, ("access-control-request-method", "POST")]), Some(Method::POST));
        assert_eq!(asked("POST", &[origin, ("access-control-request-method", "POST")]), None);
        assert_eq!(asked("OPTIONS", &[("access-control-request-method", "POST")]), None);
        assert_eq!(asked("OPTIONS", &[origin]), None);
        assert_eq!(asked("OPTIONS", &[origin, ("access-control-request-method", "post")]), None);
    }
}
