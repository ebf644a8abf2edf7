//! Unit tests of bodies, both ways: how they are framed, when they are read, and what is seen when they break off.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::*;
use crate::wire::InboundError;

/// A body of these pieces, each after a pause; with a length or not. It tells when it is dropped.
struct Pieces {
    left: VecDeque<Result<Bytes, &'static str>>,
    length: Option<u64>,
    paused: bool,
    dropped: Option<UnboundedSender<()>>,
}

impl Pieces {
    fn of(pieces: &[Result<&'static str, &'static str>], length: Option<u64>) -> Self {
        let left = pieces.iter().map(|piece| piece.map(Bytes::from)).collect();
        Self { left, length, paused: false, dropped: None }
    }
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.paused = !self.paused;
        if self.paused {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.left.pop_front().map(|piece| piece.map(Frame::data).map_err(Into::into)))
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl AnswerBody for Pieces {}

impl AnswerBody for Inbound {}

impl Drop for Pieces {
    fn drop(&mut self) {
        if let Some(dropped) = &self.dropped {
            dropped.send(()).unwrap();
        }
    }
}

type Given = [Result<&'static str, &'static str>];

/// What an answer of these pieces looks like through a pipe of this size, with the head and the body apart.
async fn said(size: usize, line: &str, status: u16, length: Option<u64>, pieces: &'static Given) -> (String, String) {
    let near = serve(size, move |_, _| async move {
        let mut answer = Response::new(Pieces::of(pieces, length));
        *answer.status_mut() = StatusCode::from_u16(status).unwrap();
        answer
    });
    let (mut from, mut to) = tokio::io::split(near);
    let sent = format!("{line}\r\nHost: a\r\nConnection: close\r\n\r\n");
    let mut text = String::new();
    let (written, read) = tokio::join!(to.write_all(sent.as_bytes()), from.read_to_string(&mut text));
    written.and(read.map(drop)).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[tokio::test]
async fn a_body_is_framed_as_its_client_can_read_it() {
    let (get, old) = ("GET / HTTP/1.1", "GET / HTTP/1.0");
    let pieces: &Given = &[Ok("ab"), Ok(""), Ok("cdefghijklmno")];
    for size in [1, 7, 4096] {
        let (head, body) = said(size, get, 200, None, pieces).await;
        assert!(head.contains("\r\ntransfer-encoding: chunked\r\n") && !head.contains("content-length"), "{head}");
        assert_eq!(body, "2\r\nab\r\nd\r\ncdefghijklmno\r\n0\r\n\r\n");
        let (head, body) = said(size, old, 200, None, pieces).await;
        assert!(!head.contains("transfer-encoding") && !head.contains("content-length"), "{head}");
        assert_eq!(body, "abcdefghijklmno");
        for line in [get, old] {
            let (head, body) = said(size, line, 200, Some(15), pieces).await;
            assert!(head.contains("\r\ncontent-length: 15\r\n") && !head.contains("transfer-encoding"), "{head}");
            assert_eq!(body, "abcdefghijklmno");
        }
    }
}

#[tokio::test]
async fn an_answer_without_a_body_has_none() {
    for (line, status, length, told) in [
        ("HEAD / HTTP/1.1", 200, Some(2), Some("content-length: 2")),
        ("HEAD / HTTP/1.1", 200, None, None),
        ("GET / HTTP/1.1", 204, Some(2), None),
        ("GET / HTTP/1.1", 304, None, None),
        ("GET / HTTP/1.1", 200, Some(0), Some("content-length: 0")),
    ] {
        let (head, body) = said(64, line, status, length, &[Ok("ab")]).await;
        assert_eq!(body, "", "{line} {status}");
        let lines: Vec<_> = head.lines().filter(|line| line.contains("length") || line.contains("encoding")).collect();
        assert_eq!(lines, told.as_slice(), "{line} {status}");
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_has_no_clean_end() {
    let broken: &Given = &[Ok("ab"), Err("broken")];
    assert_eq!(said(64, "GET / HTTP/1.1", 200, None, broken).await.1, "2\r\nab\r\n");
    assert_eq!(said(64, "GET / HTTP/1.1", 200, Some(4), broken).await.1, "ab");
    assert_eq!(said(64, "GET / HTTP/1.1", 200, Some(4), &[Ok("ab")]).await.1, "ab", "it is too short");
    assert_eq!(said(64, "GET / HTTP/1.1", 200, Some(4), &[Ok("abc"), Ok("def")]).await.1, "abcd", "it is too long");
}

#[tokio::test]
async fn behind_a_body_that_broke_off_no_request_is_answered() {
    for pieces in [&[Ok("ab"), Err("broken")] as &Given, &[Ok("ab")]] {
        let mut near = serve(1024, move |_, _| async move { Response::new(Pieces::of(pieces, Some(4))) });
        near.write_all(&[GET, LAST].concat()).await.unwrap();
        assert_eq!(rest(&mut near).await.matches("HTTP/1.1").count(), 1);
    }
}

#[tokio::test]
async fn a_body_is_dropped_at_its_end() {
    let (dropped, mut told) = unbounded_channel();
    let mut near = serve(8, move |_, _| {
        let mut body = Pieces::of(&[Ok("abcdef")], Some(6));
        body.dropped = Some(dropped.clone());
        async { Response::new(body) }
    });
    near.write_all(GET).await.unwrap();
    // The connection goes on; nobody has read more of the answer than its first bytes.
    while told.try_recv().is_err() {
        read(&mut near, 1).await;
    }
}

/// A request whose body is "abcdef", in either framing.
fn upload(chunked: bool, more: &str) -> Vec<u8> {
    let (framing, body) = if chunked {
        ("Transfer-Encoding: chunked", "2;x=y\r\nab\r\n4\r\ncdef\r\n0\r\nT: u\r\n\r\n")
    } else {
        ("Content-Length: 6", "abcdef")
    };
    format!("POST / HTTP/1.1\r\nHost: a\r\n{more}{framing}\r\n\r\n{body}").into_bytes()
}

#[tokio::test]
async fn a_body_arrives_whole_however_it_is_cut_and_whoever_reads_it() {
    for (chunked, piece, detached) in [false, true]
        .into_iter()
        .flat_map(|chunked| [1, 3, 50, 5000].map(|piece| (chunked, piece)))
        .flat_map(|(chunked, piece)| [false, true].map(|detached| (chunked, piece, detached)))
    {
        let mut near = serve(piece, move |request, client| async move {
            let whole = async move {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                assert!(!client.exchange.leaves_body());
                body
            };
            answer(if detached { tokio::spawn(whole).await.unwrap() } else { whole.await })
        });
        let (mut from, mut to) = tokio::io::split(&mut near);
        let sent = [upload(chunked, ""), upload(chunked, "Expect: 100-continue\r\n"), LAST.to_vec()].concat();
        let mut text = String::new();
        let (written, read) = tokio::join!(to.write_all(&sent), from.read_to_string(&mut text));
        written.and(read.map(drop)).unwrap();
        let shown = format!("{chunked} {piece} {detached}: {text}");
        assert_eq!((text.matches("200 OK").count(), text.matches("\r\n\r\nabcdef").count()), (3, 2), "{shown}");
        assert_eq!(text.matches("100 Continue").count(), 1, "{shown}");
    }
}

#[tokio::test]
async fn nothing_is_read_that_nobody_asked_for() {
    let (open, gate) = gate();
    let mut near = serve(100, move |request, client| {
        let gate = Arc::clone(&gate);
        async move {
            assert!(client.exchange.leaves_body());
            gate.lock().await.recv().await;
            answer(request.into_body().collect().await.unwrap().to_bytes().len().to_string())
        }
    });
    near.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 50000\r\n\r\n").await.unwrap();
    let (mut from, mut to) = tokio::io::split(near);
    let mut sent = 0;
    // What goes in while nobody reads is no more than the pipe holds, and one read.
    for _ in 0..1000 {
        let write = std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut to).poll_write(cx, &[b'x'; 50])));
        if let Poll::Ready(written) = write.await {
            sent += written.unwrap();
        }
        tokio::task::yield_now().await;
    }
    assert!(sent <= 200, "{sent}");
    open.send(()).unwrap();
    let mut text = String::new();
    let rest = vec![b'x'; 50_000 - sent];
    let (written, read) = tokio::join!(to.write_all(&rest), from.read_to_string(&mut text));
    written.and(read.map(drop)).unwrap();
    assert!(text.ends_with("\r\n\r\n50000"), "{text}");
}

#[tokio::test]
async fn an_answer_before_the_bodys_end_is_the_last_and_the_body_is_no_request() {
    let smuggled = String::from_utf8(GET.to_vec()).unwrap();
    for framing in [format!("Content-Length: {}", 4 + smuggled.len()), "Transfer-Encoding: chunked".to_owned()] {
        let mut near = serve(1024, |request, client| async move {
            drop(request);
            assert!(client.exchange.leaves_body());
            answer("early")
        });
        near.write_all(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n4\r\n").as_bytes()).await.unwrap();
        read(&mut near, 15).await;
        near.write_all(smuggled.as_bytes()).await.unwrap();
        near.shutdown().await.unwrap();
        let text = rest(&mut near).await;
        assert!(text.contains("connection: close") && text.ends_with("early"), "{text}");
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_an_error_and_has_an_answer() {
    for (sent, malformed) in
        [("Content-Length: 6\r\n\r\nabc", false), ("Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nx", true)]
    {
        let mut near = serve(1024, |request, client| async move {
            let body = request.into_body().collect().await;
            assert!(matches!(body, Err(InboundError::Broken(_))));
            answer(format!("{}", client.exchange.broken().is_some()))
        });
        near.write_all(format!("POST / HTTP/1.1\r\nHost: a\r\n{sent}").as_bytes()).await.unwrap();
        near.shutdown().await.unwrap();
        let text = rest(&mut near).await;
        assert!(text.contains("connection: close") && text.ends_with(&format!("\r\n\r\n{malformed}")), "{text}");
    }
}

/// As between two that talk: each piece goes back before the next one comes.
#[tokio::test]
async fn an_answer_can_go_while_its_request_still_comes() {
    let mut near = serve(1024, |request, _| async move { Response::new(request.into_body()) });
    near.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").await.unwrap();
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head += &read(&mut near, 1).await;
    }
    for piece in ["1\r\na\r\n", "2\r\nbc\r\n", "0\r\n\r\n"] {
        near.write_all(piece.as_bytes()).await.unwrap();
        assert_eq!(read(&mut near, piece.len()).await, piece);
    }
    assert_eq!(rest(&mut near).await, "");
}

/// Keeps what is written until it is flushed, and that takes a second look: as TLS does over a socket that is full.
struct Keeping {
    io: DuplexStream,
    kept: Vec<u8>,
    looked: bool,
}

impl Cut for Keeping {
    fn cut(&self, _: bool) {}
}

impl AsyncRead for Keeping {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Keeping {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        self.kept.extend_from_slice(buf);
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.looked = !self.looked;
        if self.looked {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let kept = std::mem::take(&mut self.kept);
        let written = Pin::new(&mut self.io).poll_write(cx, &kept);
        assert!(matches!(written, Poll::Ready(Ok(some)) if some == kept.len()), "the pipe is too small");
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn an_answer_leaves_to_its_end_before_the_next_request_is_waited_for() {
    // One that is copied behind its head, and one that is not.
    for length in [3, 50_000] {
        let (mut near, far) = duplex(100_000);
        let client = Client::new(Ipv4Addr::LOCALHOST.into(), false);
        let far = Keeping { io: far, kept: Vec::new(), looked: false };
        let handle = move |_, _| async move { answer(vec![b'x'; length]) };
        tokio::spawn(async move { super::super::serve(far, client, &doorway(), handle).await });
        for _ in 0..2 {
            near.write_all(GET).await.unwrap();
            let mut text = String::new();
            while !text.ends_with(&"x".repeat(length)) {
                let one = tokio::time::timeout(Duration::from_secs(10), read(&mut near, 1)).await;
                text += &one.expect("what was kept back never left");
            }
        }
    }
}
