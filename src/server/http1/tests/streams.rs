//! Streams at random, good and damaged, cut in any way: the loop sees what hyper's server sees, or refuses it.

use std::sync::Mutex;

use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use proptest::prelude::*;

use super::*;
use crate::wire::framing::tests::streams::{damaged, good_request};

/// A request as a handler sees it; no body when that broke off.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    line: String,
    fields: Vec<(String, Vec<u8>)>,
    body: Option<Bytes>,
}

impl Seen {
    async fn of<B: http_body::Body>(request: Request<B>) -> Self {
        let (head, body) = request.into_parts();
        let field = |(name, value): (&http::HeaderName, &HeaderValue)| (name.to_string(), value.as_bytes().to_vec());
        Self {
            line: format!("{} {} {:?}", head.method, head.uri, head.version),
            fields: head.headers.iter().map(field).collect(),
            body: body.collect().await.ok().map(http_body_util::Collected::to_bytes),
        }
    }
}

/// What hyper's server sees.
async fn seen_by_hyper(stream: &[u8]) -> Vec<Seen> {
    let (mut client, server) = duplex(1 << 16);
    client.write_all(stream).await.unwrap();
    client.shutdown().await.unwrap();
    let seen = Mutex::new(Vec::new());
    let service = hyper::service::service_fn(|request| async {
        let request = Seen::of(request).await;
        seen.lock().unwrap().push(request);
        Ok::<_, std::convert::Infallible>(Response::new(Empty::<Bytes>::new()))
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    // Whether it finds fault with what follows does not matter here.
    let _ = http.half_close(true).serve_connection(TokioIo::new(server), service).await;
    seen.into_inner().unwrap()
}

/// What the loop hands on, and whether it refused what followed.
async fn seen_by_loop(stream: &[u8], mut cuts: Vec<usize>) -> (Vec<Seen>, bool) {
    let seen = Arc::new(Mutex::new((Vec::new(), false)));
    let told = Arc::clone(&seen);
    let mut near = serve(1 << 16, move |request, _| {
        let told = Arc::clone(&told);
        async move {
            if request.extensions().get::<Fault>().is_some() {
                told.lock().unwrap().1 = true;
            } else {
                let request = Seen::of(request).await;
                told.lock().unwrap().0.push(request);
            }
            answer("")
        }
    });
    cuts.push(stream.len());
    cuts.sort_unstable();
    let mut from = 0;
    for cut in cuts {
        let cut = cut.max(from);
        // The loop may have closed already.
        let _ = near.write_all(&stream[from..cut]).await;
        from = cut;
        tokio::task::yield_now().await;
    }
    let _ = near.shutdown().await;
    rest(&mut near).await;
    std::mem::take(&mut *seen.lock().unwrap())
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

fn cuts_of(stream: &[u8], cuts: Vec<prop::sample::Index>) -> Vec<usize> {
    cuts.into_iter().map(|cut| cut.index(stream.len())).collect()
}

fn cuts() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    prop::collection::vec(any::<prop::sample::Index>(), 0..9)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn good_streams_are_seen_as_hyper_sees_them(
        requests in prop::collection::vec(good_request(), 1..4),
        cuts in cuts(),
    ) {
        let stream = requests.concat();
        let (seen, refused) = run(seen_by_loop(&stream, cuts_of(&stream, cuts)));
        prop_assert!(!refused);
        prop_assert_eq!(seen, run(seen_by_hyper(&stream)));
    }

    #[test]
    fn of_damaged_streams_no_more_is_seen_than_hyper_sees(stream in damaged(), cuts in cuts()) {
        let (seen, _) = run(seen_by_loop(&stream, cuts_of(&stream, cuts)));
        let mut theirs = run(seen_by_hyper(&stream));
        prop_assert!(seen.len() <= theirs.len(), "{:?} {:?}", seen, theirs);
        theirs.truncate(seen.len());
        // What the loop finds in a body that is none ends the body; hyper may be more lenient.
        if let Some(last) = seen.last().filter(|last| last.body.is_none()).and(theirs.last_mut()) {
            last.body = None;
        }
        prop_assert_eq!(seen, theirs);
    }

    #[test]
    fn what_is_seen_does_not_depend_on_how_a_stream_is_cut(stream in damaged(), cuts in cuts()) {
        let whole = run(seen_by_loop(&stream, Vec::new()));
        prop_assert_eq!(&run(seen_by_loop(&stream, cuts_of(&stream, cuts))), &whole);
        prop_assert_eq!(&run(seen_by_loop(&stream, (0..stream.len()).collect())), &whole);
    }
}
