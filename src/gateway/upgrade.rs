//! Upgrades: which wishes to switch protocols are passed on, and the tunnel that follows a 101. What runs inside a tunnel
//! is nobody's matter here.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version, request, response};
use http_body::Body;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};

use super::Gateway;
use super::limits::Slot;
use super::problem::Problem;
use crate::clock::Clock;
use crate::upstream::Incoming;
use crate::upstream::headers::Kinds;
use crate::wire::OnUpgrade;

const WEBSOCKET: &str = "websocket";
/// Bytes that a tunnel takes at a time, each way.
const PIECE: usize = 8 * 1024;

/// What a request wants its connection to become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// Nothing but HTTP. The wish for HTTP/2 (`h2c`) counts for nothing: it is one hop's own, and may be ignored.
    Nothing,
    /// A WebSocket.
    WebSocket,
    /// Something else, or a WebSocket in a way that there is none.
    Other,
}

impl Wish {
    /// Reads the wish of a request whose fields are of these kinds.
    ///
    /// # Errors
    /// When a body comes with it: the bytes after the head would be another protocol's to some servers.
    pub(super) fn of(head: &request::Parts, kinds: Kinds, body: &impl Body) -> Result<Self, Problem> {
        if !kinds.any(Kinds::UPGRADE) {
            return Ok(Self::Nothing);
        }
        let names = || tokens(&head.headers, &UPGRADE).filter(|name| !name.eq_ignore_ascii_case(b"h2c"));
        if names().next().is_none() {
            return Ok(Self::Nothing);
        }
        if !body.is_end_stream() {
            return Err(Problem::BadRequest("An upgrade does not go with a body.".to_owned()));
        }
        let nominated = tokens(&head.headers, &CONNECTION).any(|name| name.eq_ignore_ascii_case(b"upgrade"));
        let websocket = names().any(|name| name.eq_ignore_ascii_case(WEBSOCKET.as_bytes()));
        let possible = head.method == Method::GET && head.version == Version::HTTP_11 && nominated;
        Ok(if websocket && possible { Self::WebSocket } else { Self::Other })
    }
}

/// The members of a field's list, over all its lines.
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    let members = headers.get_all(name).iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    members.map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

/// Says that the connection is to become a WebSocket, or has become one.
pub(super) fn set(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(WEBSOCKET));
}

impl Gateway {
    /// Joins the two connections once the client has read its 101. The tunnel counts as a request under way until its
    /// end, which is a side's end, a long silence, or the gateway's; `held` is what it holds until then.
    pub(super) fn tunnel(&self, client: OnUpgrade, answer: &mut response::Parts, held: (Slot, Incoming)) {
        let Some(upstream) = answer.extensions.remove::<OnUpgrade>() else { return };
        set(&mut answer.headers);
        let idle = self.shared.settings.limits.websocket_idle_timeout;
        let shared = self.arbiter.shared();
        let given_up = shared.given_up.clone();
        shared.tasks.spawn(async move {
            tokio::select! {
                () = join(client, upstream, idle) => {}
                () = given_up.cancelled() => {}
            }
            drop(held);
        });
    }
}

/// Carries bytes both ways until a side ends or neither has sent anything for `idle`.
async fn join(client: OnUpgrade, upstream: OnUpgrade, idle: Duration) {
    let both = tokio::time::timeout(idle, async { tokio::try_join!(client, upstream) });
    let Ok(Ok((client, upstream))) = both.await else {
        tracing::debug!("a tunnel was not made");
        return;
    };
    let (from_client, to_client) = split(client);
    let (from_upstream, to_upstream) = split(upstream);
    let heard = Mutex::new(Clock::instant());
    let ended = tokio::select! {
        ended = carry(from_client, to_upstream, &heard) => ended,
        ended = carry(from_upstream, to_client, &heard) => ended,
        () = silence(&heard, idle) => Err(io::ErrorKind::TimedOut.into()),
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a tunnel ended");
    }
}

async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    heard: &Mutex<Instant>,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let read = from.read(&mut piece).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        *heard.lock().unwrap_or_else(PoisonError::into_inner) = Clock::instant();
        to.write_all(&piece[..read]).await?;
        to.flush().await?;
    }
}

async fn silence(heard: &Mutex<Instant>, idle: Duration) {
    loop {
        let end = *heard.lock().unwrap_or_else(PoisonError::into_inner) + idle;
        let left = end.saturating_duration_since(Clock::instant());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::body::Body as Bytes;
    use super::*;
    use http::Request;

    fn wish(method: &str, version: Version, fields: &[(&str, &str)], body: &'static str) -> Result<Wish, Problem> {
        let mut request = Request::builder().method(method).version(version).uri("/");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (head, body) = request.body(Bytes::whole(body.into())).unwrap().into_parts();
        Wish::of(&head, Kinds::of(&head.headers), &body)
    }

    #[test]
    fn a_websocket_is_wished_for_in_one_way_only() {
        let get = |fields: &[(&str, &str)]| wish("GET", Version::HTTP_11, fields, "").unwrap();
        let upgrade = ("Connection", "keep-alive, Upgrade");
        assert_eq!(get(&[upgrade, ("Upgrade", "websocket")]), Wish::WebSocket);
        assert_eq!(get(&[upgrade, ("Upgrade", "h2c, WebSocket")]), Wish::WebSocket);
        assert_eq!(get(&[upgrade, ("Upgrade", "foo"), ("Upgrade", "websocket")]), Wish::WebSocket);
        assert_eq!(get(&[("Upgrade", "websocket")]), Wish::Other, "not for this hop");
        assert_eq!(get(&[upgrade, ("Upgrade", "TLS/1.0, HTTP/1.1")]), Wish::Other);
        assert_eq!(get(&[upgrade, ("Upgrade", "h2c")]), Wish::Nothing);
        assert_eq!(get(&[upgrade, ("Upgrade", "")]), Wish::Nothing);
        assert_eq!(get(&[upgrade]), Wish::Nothing);
        let fields = [upgrade, ("Upgrade", "websocket")];
        assert_eq!(wish("POST", Version::HTTP_11, &fields, ""), Ok(Wish::Other));
        assert_eq!(wish("GET", Version::HTTP_10, &fields, ""), Ok(Wish::Other));
    }

    #[test]
    fn only_the_wish_for_http2_goes_with_a_body() {
        let post = |name| wish("POST", Version::HTTP_11, &[("Connection", "Upgrade"), ("Upgrade", name)], "x");
        assert_eq!(post("h2c"), Ok(Wish::Nothing));
        for name in ["websocket", "foo", "h2c, foo"] {
            assert!(matches!(post(name), Err(Problem::BadRequest(_))), "{name}");
        }
    }
}
