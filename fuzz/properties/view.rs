//! What oncegate makes of a request, by its public door `keys::explain`.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use oncegate::keys::{
    Caller, Explanation, FingerprintSettings, Missing, Naming, Refusal, Request, Scope, Settings, Source, explain,
};
use oncegate::upstream::headers::Kinds;

/// A POST with nothing but a body of this type.
pub(super) fn post(content_type: &str, body: &[u8]) -> Request {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_str(content_type) {
        headers.insert(CONTENT_TYPE, value);
    }
    Request {
        method: Method::POST,
        authority: "shop.example".to_owned(),
        path: "/orders".to_owned(),
        query: None,
        raw_path: "/orders".to_owned(),
        headers,
        caller: Caller::default(),
        body: Bytes::copy_from_slice(body),
    }
}

/// A POST with this one field, and this one beside it.
pub(super) fn with_field(name: &HeaderName, values: &[HeaderValue]) -> Request {
    let mut request = post("text/plain", b"");
    for value in values {
        request.headers.append(name, value.clone());
    }
    request
}

/// A route's settings with one source; without any, all requests pass.
pub(super) fn settings(source: Option<Source>, fingerprint: FingerprintSettings) -> Settings {
    Settings {
        namespace: "orders".to_owned(),
        dated: false,
        missing: if source.is_some() { Missing::Reject } else { Missing::Pass },
        sources: source.into_iter().collect(),
        scope: Scope::None,
        require_same: Vec::new(),
        probe: None,
        also: None,
        fingerprint,
    }
}

/// What a request is when nothing is asked for and nothing ignored.
pub(super) fn seen(request: &Request) -> Explanation {
    seen_without(request, FingerprintSettings::default())
}

/// What a request is when some of it does not count.
pub(super) fn seen_without(request: &Request, ignored: FingerprintSettings) -> Explanation {
    match explain(&settings(None, ignored), request) {
        Ok(explanation) => explanation,
        Err(refusal) => panic!("nothing was asked for, yet: {refusal}"),
    }
}

/// The key that a source finds, after the head alone was asked too: it may refuse only what is refused in the end.
pub(super) fn key(source: &Source, request: &Request) -> Result<String, Refusal> {
    let settings = settings(Some(source.clone()), FingerprintSettings::default());
    let naming = Naming::new(settings.clone());
    let kinds = Kinds::of(&request.headers);
    let head = naming.check_head(&request.headers, kinds, request.query.as_deref(), &request.caller);
    let whole = explain(&settings, request);
    if let Err(refusal) = &head {
        assert_eq!(Some(refusal), whole.as_ref().err());
    }
    let explanation = whole?;
    let values: Vec<String> = explanation.key.into_iter().map(|piece| piece.value).collect();
    assert!(explanation.operation.is_some());
    assert_eq!(values.len(), 1);
    Ok(values.concat())
}
