//! One request on one stream: what it looks like there, and what it means when no answer comes.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::ResponseFuture;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE, TRANSFER_ENCODING, UPGRADE};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri, Version};
use http_body::Body as _;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::super::headers::Added;
use super::super::outcome::{Tried, judge_stream};
use super::super::{Failure, Incoming, NotSent, Outgoing, Reason};
use super::body::{self, Body};
use super::connection::{Connection, Slot};
use crate::wire::fields;

/// Sends a request and waits for the head of its answer. Dropped, it resets the stream, and no other one. What is still
/// sent behind the answer is among `tasks`.
pub(super) async fn exchange(
    connection: &Connection,
    slot: Slot,
    scheme: &str,
    request: &mut Request<Outgoing>,
    added: Option<&Added>,
    tasks: &TaskTracker,
) -> Result<Response<Incoming>, Tried> {
    if slot.is_alone() {
        // The connection lay idle, and the server may have closed it meanwhile. The event loop hears of that in one turn,
        // the connection reads it in the next.
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
    }
    let Some(wire) = for_the_stream(request, added, scheme) else {
        let why = NotSent::new(Reason::Refused, "HTTP/2 cannot say this Host or target");
        return Err(Tried::Failed(Failure::NotSent(why)));
    };
    let ended = request.body().is_end_stream();
    let (answer, mut stream) = match connection.sender().send_request(wire, ended) {
        Ok(begun) => begun,
        Err(error) => return Err(Tried::Returned(NotSent::new(Reason::Closed, error.to_string()))),
    };
    // A whole body is kept, should the server turn the request down.
    let whole = matches!(request.body(), Outgoing::Whole(_));
    let rest = match request.body_mut() {
        _ if ended => None,
        Outgoing::Whole(bytes) => {
            // A stream that broke meanwhile says so instead of an answer.
            let _ = stream.send_data(bytes.clone(), true);
            None
        }
        streaming => {
            let streaming = std::mem::replace(streaming, Outgoing::Whole(Bytes::new()));
            Some(AbortOnDropHandle::new(tasks.spawn(body::pass(streaming, stream))))
        }
    };
    let (answer, begun) = listen(answer).await;
    let answer = answer.map_err(|error| judge_stream(&error, begun, whole))?;
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Tried::Failed(Failure::Unknown("the upstream switched protocols, which HTTP/2 cannot".to_owned())));
    }
    if !fields::are_well_formed(answer.headers()) {
        return Err(Tried::Failed(Failure::Unknown("the answer's fields are malformed".to_owned())));
    }
    let (mut head, stream) = answer.into_parts();
    // Which version a client sees is up to its own connection.
    head.version = Version::HTTP_11;
    let body = Body::new(stream, &head.headers, rest, slot);
    Ok(Response::from_parts(head, Incoming::http2(body)))
}

/// The head of the answer, and whether the server had begun to answer: with 103, for example.
async fn listen(mut answer: ResponseFuture) -> (Result<Response<RecvStream>, h2::Error>, bool) {
    let mut begun = false;
    let head = poll_fn(|cx| {
        while let Poll::Ready(Some(Ok(_))) = answer.poll_informational(cx) {
            begun = true;
        }
        Pin::new(&mut answer).poll(cx)
    });
    (head.await, begun)
}

/// A request as HTTP/2 says it: the server's name in `:authority`, no field of a connection's own, a known length.
fn for_the_stream(request: &Request<Outgoing>, added: Option<&Added>, scheme: &str) -> Option<Request<()>> {
    let authority = Authority::try_from(request.headers().get(HOST)?.as_bytes()).ok()?;
    let mut headers = HeaderMap::with_capacity(request.headers().keys_len() + 1);
    for (name, value) in request.headers().iter().filter(|(name, _)| !is_http1s_own(name)) {
        headers.append(name, value.clone());
    }
    if let Some(added) = added {
        added.add_to(&mut headers);
    }
    if let Some(length) = request.body().size_hint().exact().filter(|length| *length > 0) {
        headers.entry(CONTENT_LENGTH).or_insert(HeaderValue::from(length));
    }
    let target = request.uri().path_and_query()?.clone();
    let uri = Uri::builder().scheme(scheme).authority(authority).path_and_query(target).build().ok()?;
    let mut wire = Request::new(());
    *wire.method_mut() = request.method().clone();
    *wire.uri_mut() = uri;
    *wire.version_mut() = Version::HTTP_2;
    *wire.headers_mut() = headers;
    Some(wire)
}

fn is_http1s_own(name: &HeaderName) -> bool {
    [CONNECTION, HOST, TE, TRANSFER_ENCODING, UPGRADE].contains(name)
        || ["keep-alive", "proxy-connection", "http2-settings"].contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(target: &str, host: &str) -> Option<Request<()>> {
        let request = Request::post(target).header("host", host).header("connection", "x").header("cookie", "a=1");
        for_the_stream(&request.body(Outgoing::Whole(Bytes::from_static(b"abc"))).unwrap(), None, "https")
    }

    #[test]
    fn a_request_is_said_as_http2_says_it() {
        for target in ["/%6F//x?a=%2B&b", "/", "/?", "/a/../b;x=1", "//host/path", "/|[c]{d}", "*"] {
            let request = head(target, "shop.example:8443").unwrap();
            assert_eq!(request.uri().path_and_query().unwrap(), target);
            assert_eq!(request.uri().authority().unwrap(), "shop.example:8443");
            assert_eq!(request.uri().scheme_str(), Some("https"));
            let fields: Vec<_> = request.headers().keys().map(HeaderName::as_str).collect();
            assert_eq!(fields, ["cookie", "content-length"], "{target}");
        }
        assert!(head("/", "a b").is_none());
    }
}
