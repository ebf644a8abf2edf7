//! What leaves in which order, and what is known of it when it does not leave.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::IoSlice;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::telemetry::Metrics;
use crate::wire::{Inbound, feed};

/// A socket with an outcome for each write: so many bytes, nothing yet, an error; then it takes all.
#[derive(Default)]
struct Script {
    outcomes: VecDeque<Poll<io::Result<usize>>>,
    written: Vec<u8>,
    writes: usize,
}

impl Script {
    fn of(outcomes: impl IntoIterator<Item = Poll<io::Result<usize>>>) -> Self {
        Self { outcomes: outcomes.into_iter().collect(), ..Self::default() }
    }
}

impl AsyncWrite for Script {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.writes += 1;
        let all: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        let outcome = self.outcomes.pop_front().unwrap_or(Poll::Ready(Ok(all.len())));
        if let Poll::Ready(Ok(most)) = outcome {
            let some = most.min(all.len());
            self.written.extend_from_slice(&all[..some]);
            return Poll::Ready(Ok(some));
        }
        outcome
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn failure(kind: io::ErrorKind) -> Poll<io::Result<usize>> {
    Poll::Ready(Err(kind.into()))
}

fn some(length: usize) -> Poll<io::Result<usize>> {
    Poll::Ready(Ok(length))
}

fn order(body: Outgoing) -> Request<Outgoing> {
    Request::post("/a?b").header("host", "x").body(body).unwrap()
}

fn whole(length: usize) -> Request<Outgoing> {
    order(Outgoing::Whole(vec![b'x'; length].into()))
}

fn poll(sending: &mut Sending, script: &mut Script, request: &mut Request<Outgoing>) -> Poll<Result<(), Stopped>> {
    sending.poll(script, request.body_mut(), &mut Context::from_waker(Waker::noop()))
}

/// Sends with these outcomes until there is nothing more to be had of it.
fn sent(secure: bool, outcomes: Vec<Poll<io::Result<usize>>>) -> (Sending, Poll<Result<(), Stopped>>, usize) {
    let (mut script, mut request) = (Script::of(outcomes), whole(9));
    let mut sending = Sending::of(&request, &(), secure);
    let done = poll(&mut sending, &mut script, &mut request);
    (sending, done, script.writes)
}

/// A body that comes piece by piece.
fn streaming(bytes: &'static [u8]) -> Outgoing {
    let (feeder, feed) = feed(Some(bytes.len() as u64));
    let cx = Context::from_waker(Waker::noop());
    feeder.give(Bytes::from_static(bytes), &cx);
    feeder.end(Ok(()), &cx);
    Outgoing::Streaming(Inbound::fed(feed, Duration::from_mins(1), &Arc::new(Metrics::new().unwrap())))
}

#[test]
fn a_whole_request_leaves_in_one_write() {
    for length in [0, 1, COPIED, COPIED + 1, 99_999] {
        let (mut script, mut request) = (Script::default(), whole(length));
        let mut sending = Sending::of(&request, &(), false);
        assert!(!sending.has_begun());
        assert!(matches!(poll(&mut sending, &mut script, &mut request), Poll::Ready(Ok(()))));
        assert_eq!((script.writes, sending.has_begun(), sending.is_over()), (1, true, true));
        let expected = format!("POST /a?b HTTP/1.1\r\nhost: x\r\n\r\n{}", "x".repeat(length));
        assert_eq!(script.written, expected.as_bytes());
    }
}

#[test]
fn a_write_that_moved_nothing_leaves_the_request_unsent() {
    for outcome in [Poll::Pending, some(0), failure(io::ErrorKind::ConnectionReset), failure(io::ErrorKind::BrokenPipe)]
    {
        let shown = format!("{outcome:?}");
        let (sending, done, writes) = sent(false, vec![outcome]);
        assert_eq!((sending.has_begun(), sending.is_over(), writes), (false, false, 1), "{shown}");
        assert!(!matches!(done, Poll::Ready(Ok(()))), "{shown}");
    }
}

#[test]
fn a_write_that_failed_under_tls_may_have_moved_something() {
    assert!(!sent(true, vec![Poll::Pending]).0.has_begun());
    let (sending, done, _) = sent(true, vec![failure(io::ErrorKind::ConnectionReset)]);
    assert!(sending.has_begun() && !sending.is_unheard());
    assert!(matches!(done, Poll::Ready(Err(Stopped::Wire(_)))));
}

#[test]
fn a_server_that_takes_nothing_more_is_heard_out() {
    for kind in [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset] {
        let (mut script, mut request) = (Script::of([some(5), failure(kind)]), whole(9));
        let mut sending = Sending::of(&request, &(), false);
        assert!(matches!(poll(&mut sending, &mut script, &mut request), Poll::Ready(Ok(()))));
        assert!(sending.is_over() && sending.is_unheard(), "no further request");
        assert!(matches!(poll(&mut sending, &mut script, &mut request), Poll::Ready(Ok(()))));
        assert_eq!((script.writes, script.written.len()), (2, 5), "the socket was asked to write");
    }
}

#[test]
fn a_failed_write_after_a_good_one_proves_nothing() {
    for kind in [io::ErrorKind::BrokenPipe, io::ErrorKind::TimedOut] {
        let (sending, done, _) = sent(false, vec![some(5), failure(kind)]);
        assert!(sending.has_begun());
        assert_eq!(matches!(done, Poll::Ready(Err(_))), kind == io::ErrorKind::TimedOut);
    }
}

#[tokio::test]
async fn a_body_that_streams_goes_along_with_its_head_and_comes_back_when_nothing_left() {
    let mut request = order(streaming(b"streamed"));
    let mut sending = Sending::of(&request, &(), false);
    let mut script = Script::of([failure(io::ErrorKind::ConnectionReset)]);
    let failed = poll_fn(|cx| sending.poll(&mut script, request.body_mut(), cx)).await;
    assert!(matches!(failed, Err(Stopped::Wire(_))) && !sending.has_begun());
    sending.give_back(request.body_mut());
    let (mut again, mut script) = (Sending::of(&request, &(), false), Script::default());
    poll_fn(|cx| again.poll(&mut script, request.body_mut(), cx)).await.unwrap();
    assert_eq!(script.written, b"POST /a?b HTTP/1.1\r\nhost: x\r\n\r\nstreamed");
    assert_eq!(script.writes, 1);
}

#[tokio::test]
async fn a_body_of_unknown_length_that_turned_out_empty_still_ends_as_its_head_says() {
    let (feeder, feed) = feed(None);
    feeder.end(Ok(()), &Context::from_waker(Waker::noop()));
    let metrics = Arc::new(Metrics::new().unwrap());
    let mut request = order(Outgoing::Streaming(Inbound::fed(feed, Duration::from_mins(1), &metrics)));
    request.headers_mut().insert(TRANSFER_ENCODING, "chunked".parse().unwrap());
    for (outcome, expected) in
        [(failure(io::ErrorKind::ConnectionReset), ""), (some(99), "transfer-encoding: chunked\r\n\r\n0\r\n\r\n")]
    {
        let (mut sending, mut script) = (Sending::of(&request, &(), false), Script::of([outcome]));
        let done = poll_fn(|cx| sending.poll(&mut script, request.body_mut(), cx)).await;
        assert_eq!(done.is_ok(), sending.has_begun());
        sending.give_back(request.body_mut());
        assert!(String::from_utf8(script.written).unwrap().ends_with(expected));
    }
}

#[tokio::test]
async fn a_body_that_has_left_does_not_come_back() {
    let mut request = order(streaming(b"streamed"));
    let mut sending = Sending::of(&request, &(), false);
    let mut script = Script::of([some(1), failure(io::ErrorKind::TimedOut)]);
    assert!(poll_fn(|cx| sending.poll(&mut script, request.body_mut(), cx)).await.is_err());
    sending.give_back(request.body_mut());
    assert!(matches!(request.body(), Outgoing::Streaming(_)));
}

proptest! {
    #[test]
    fn any_run_of_writes_moves_the_same_bytes(length in 0..40_000_usize, most in prop::collection::vec(1..9_999_usize, 0..9)) {
        let (mut script, mut request) = (Script::of(most.into_iter().map(some)), whole(length));
        let mut sending = Sending::of(&request, &(), false);
        prop_assert!(matches!(poll(&mut sending, &mut script, &mut request), Poll::Ready(Ok(()))));
        prop_assert!(script.written.ends_with(&vec![b'x'; length]));
        prop_assert_eq!(script.written.len(), "POST /a?b HTTP/1.1\r\nhost: x\r\n\r\n".len() + length);
    }

    #[test]
    fn chunks_frame_what_they_hold(pieces in prop::collection::vec(0..40_000_usize, 0..4), most in 1..50_000_usize) {
        let request = order(Outgoing::Whole(Bytes::new()));
        let (mut sending, mut script) = (Sending::of(&request, &(), false), Script::default());
        (sending.body, sending.whole) = (Framing::Chunks, false);
        let mut expected = b"POST /a?b HTTP/1.1\r\nhost: x\r\n\r\n".to_vec();
        for length in pieces {
            let data = vec![b'x'; length];
            if length > 0 {
                expected.extend([format!("{length:x}\r\n").as_bytes(), &data, b"\r\n"].concat());
            }
            sending.take(Some(Ok::<_, ()>(data.into()))).unwrap();
            script.outcomes.push_back(some(most));
            prop_assert!(sending.write(&mut script, &mut Context::from_waker(Waker::noop())).is_ready());
        }
        sending.take::<()>(None).unwrap();
        prop_assert!(sending.write(&mut script, &mut Context::from_waker(Waker::noop())).is_ready());
        prop_assert!(sending.whole);
        prop_assert_eq!(script.written, [&expected[..], b"0\r\n\r\n"].concat());
    }
}
