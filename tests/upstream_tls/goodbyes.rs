//! HTTP/2 servers that refuse, reset, go away and cut: what is proof, and what leaves doubt.

use std::time::Duration;

use http_body_util::BodyExt;
use oncegate::upstream::{Failure, Protocol, Reason, Upstream};

use super::frames::{
    CANCEL, FrameServer, INTERNAL_ERROR, NO_ERROR, REFUSED_STREAM, Step, Whole, data, go_away, head, made, reset,
};
use super::streamed::streamed;
use super::upstream::{Reply, ScriptedUpstream};
use super::{body, http2, not_sent, order, ordered, unknown};

fn whole(connection: usize, stream: u32) -> Whole {
    Whole { connection, stream }
}

#[tokio::test]
async fn a_refused_request_goes_to_another_connection_once() {
    let server = FrameServer::start(|at| match at.connection {
        1 => vec![reset(at.stream, REFUSED_STREAM)],
        _ => made(at.stream),
    });
    let client = http2(&[server.address]);
    assert_eq!(ordered(&client).await, "made");
    assert_eq!(ordered(&client).await, "made");
    assert_eq!(server.seen(), [whole(1, 1), whole(2, 1), whole(2, 3)]);
}

#[tokio::test]
async fn a_request_refused_for_good_was_not_processed() {
    let refuse = |at: Whole| vec![reset(at.stream, REFUSED_STREAM)];
    let server = FrameServer::start(refuse);
    assert_eq!(not_sent(&http2(&[server.address])).await.reason, Reason::Refused);
    assert_eq!(server.seen(), [whole(1, 1), whole(2, 1)]);
    let (one, other) = (FrameServer::start(refuse), FrameServer::start(|at| made(at.stream)));
    assert_eq!(ordered(&http2(&[one.address, other.address])).await, "made");
    assert_eq!((one.seen().len(), other.seen().len()), (2, 1));
}

#[tokio::test]
async fn a_refused_request_whose_body_is_spent_is_not_sent_again() {
    let server = FrameServer::start(|at| vec![reset(at.stream, REFUSED_STREAM)]);
    let stream = streamed(&[b"one,", b"two"], Ok(()));
    let failed = http2(&[server.address]).send(order().map(|_| stream)).await;
    assert!(matches!(&failed, Err(Failure::NotSent(why)) if why.reason == Reason::Refused), "{failed:?}");
    assert_eq!(server.seen(), [whole(1, 1)]);
}

#[tokio::test]
async fn any_other_end_of_a_request_leaves_it_unknown() {
    let endings: [fn(u32) -> Vec<Step>; 8] = [
        |stream| vec![reset(stream, INTERNAL_ERROR)],
        |stream| vec![reset(stream, CANCEL)],
        |stream| vec![reset(stream, NO_ERROR)],
        |_| vec![Step::Close],
        |stream| vec![go_away(stream, NO_ERROR), Step::Close],
        |stream| vec![go_away(stream, INTERNAL_ERROR), Step::Close],
        // It had begun to answer.
        |stream| vec![head(stream, "103"), reset(stream, REFUSED_STREAM)],
        // Not a frame of HTTP/2.
        |_| vec![Step::Frame(b"HTTP/1.1 200 OK\r\n\r\n".to_vec())],
    ];
    for (case, ending) in endings.into_iter().enumerate() {
        let server = FrameServer::start(move |at| ending(at.stream));
        let why = unknown(&http2(&[server.address])).await;
        assert_eq!(server.seen(), [whole(1, 1)], "case {case}: {why}");
    }
}

#[tokio::test]
async fn requests_after_the_last_of_a_server_that_goes_away_go_elsewhere() {
    let server = FrameServer::start(|at| match (at.connection, at.stream) {
        (1, 1) => vec![],
        (1, _) => [vec![go_away(1, NO_ERROR)], made(1)].concat(),
        _ => made(at.stream),
    });
    let client = http2(&[server.address]);
    let (one, two) = tokio::join!(ordered(&client), ordered(&client));
    assert_eq!((&one[..], &two[..]), (&b"made"[..], &b"made"[..]));
    assert_eq!(server.seen(), [whole(1, 1), whole(1, 3), whole(2, 1)]);
}

#[tokio::test]
async fn an_idle_connection_that_is_over_costs_nothing() {
    let endings: [fn(u32) -> Vec<Step>; 4] = [
        |_| vec![Step::Close],
        |stream| vec![go_away(stream, NO_ERROR)],
        |stream| vec![go_away(stream, NO_ERROR), Step::Close],
        |_| vec![go_away(0, INTERNAL_ERROR), Step::Close],
    ];
    for (case, ending) in endings.into_iter().enumerate() {
        let server = FrameServer::start(move |at| {
            let more = if at.connection == 1 { ending(at.stream) } else { vec![] };
            let wait = (at.connection == 1).then_some(Step::Wait);
            made(at.stream).into_iter().chain(wait).chain(more).collect()
        });
        let client = http2(&[server.address]);
        assert_eq!(ordered(&client).await, "made", "case {case}");
        // This blocks the only thread there is: no event reaches the runtime before the next request is sent.
        server.go_on();
        assert_eq!(ordered(&client).await, "made", "case {case}");
        assert_eq!(server.seen(), [whole(1, 1), whole(2, 1)], "case {case}");
    }
}

#[tokio::test]
async fn a_body_cut_short_is_an_error() {
    let endings: [fn(u32) -> Vec<Step>; 4] = [
        |stream| vec![reset(stream, NO_ERROR)],
        |stream| vec![reset(stream, CANCEL)],
        |stream| vec![go_away(stream, NO_ERROR), Step::Close],
        |_| vec![Step::Close],
    ];
    for (case, ending) in endings.into_iter().enumerate() {
        let server = FrameServer::start(move |at| {
            let begun = [head(at.stream, "201"), data(at.stream, "some", false)];
            begun.into_iter().chain(ending(at.stream)).collect()
        });
        let client = http2(&[server.address]);
        // A cut may overtake the head; then the request itself is in doubt.
        match client.send(order()).await {
            Ok(answer) => assert!(body(answer).await.is_err(), "case {case}"),
            Err(Failure::Unknown(_)) => {}
            Err(other) => panic!("case {case}: {other:?}"),
        }
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_whole_answer_counts_although_the_server_wants_no_more() {
    let server = FrameServer::start(|at| made(at.stream).into_iter().chain([reset(at.stream, NO_ERROR)]).collect());
    assert_eq!(ordered(&http2(&[server.address])).await, "made");
}

#[tokio::test]
async fn a_server_that_does_not_speak_http2_got_no_request() {
    let server = ScriptedUpstream::start(|_| Reply::whole(400, &[], "what?"));
    let mut settings = super::settings(&[server.address().port()], Protocol::Http2, None);
    settings.connect_timeout = Duration::from_secs(2);
    let refused = not_sent(&Upstream::new(settings)).await;
    assert!(matches!(refused.reason, Reason::Connect | Reason::Timeout), "{refused}");
    assert_eq!(server.executions("X-Key", "k"), 0);
}

#[tokio::test]
async fn a_host_that_http2_cannot_say_is_not_sent() {
    let server = FrameServer::start(|at| made(at.stream));
    let mut odd = order();
    odd.headers_mut().insert("host", http::HeaderValue::from_static("a b"));
    let failed = http2(&[server.address]).send(odd).await;
    assert!(matches!(failed, Err(Failure::NotSent(_))), "{failed:?}");
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn an_answer_without_a_body_has_an_end() {
    let server = FrameServer::start(|at| vec![head(at.stream, "204"), data(at.stream, "", true)]);
    let answer = http2(&[server.address]).send(order()).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "");
}
