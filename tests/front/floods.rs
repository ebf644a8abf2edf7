//! Clients that keep HTTP/2's letter and mean harm: each is stopped, or costs itself more than the gateway.

use std::io::{self, Write};
use std::time::Duration;

use crate::client::Call;
use crate::frames::{CONTINUATION, DATA, HEADERS, PING, RESET, Raw};
use crate::upstream::{Reply, ScriptedUpstream};
use crate::{Gateway, books, gateway};

/// The codes of RFC 9113.
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;

/// An upstream that never answers.
fn silent() -> ScriptedUpstream {
    ScriptedUpstream::start(|_| Reply::silence())
}

/// How much memory the gateway holds, in KiB.
fn memory(gateway: &Gateway) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Others are served while all this goes on.
fn serves(gateway: &Gateway) {
    assert_eq!(gateway.send(&Call::post("/orders")).code().as_deref(), Some("key-missing"));
}

/// Writes the same bytes again and again without reading: until the other side takes no more, or has closed.
fn pour(raw: &mut Raw, bytes: &[u8], most: usize) -> Option<io::ErrorKind> {
    raw.0.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let many = bytes.repeat(4096 / bytes.len() + 1);
    (0..most / many.len()).find_map(|_| raw.0.write_all(&many).err()).map(|error| error.kind())
}

#[test]
fn no_more_streams_are_opened_than_allowed() {
    let upstream = silent();
    let gateway = gateway(&upstream, "http2: { max_concurrent_streams: 3 }");
    let mut raw = Raw::open(gateway.address);
    for stream in [1, 3, 5, 7] {
        raw.send(&Raw::head(stream, "GET", "/plain", true));
    }
    assert_eq!(raw.wait_for(RESET, 7).payload, REFUSED_STREAM.to_be_bytes());
    assert_eq!(upstream.wait_for_requests(3).len(), 3);
    serves(&gateway);
}

/// Each request is started, so each costs something; none counts as open.
#[test]
fn requests_taken_back_again_and_again_end_the_connection() {
    let upstream = silent();
    let gateway = gateway(&upstream, "http2: { max_reset_streams: 20 }");
    let mut raw = Raw::open(gateway.address);
    let took = (0..2_000).position(|number| {
        let stream = 2 * number + 1;
        let both = [Raw::head(stream, "GET", "/plain", true), Raw::frame(RESET, 0, stream, &CANCEL.to_be_bytes())];
        raw.0.write_all(&both.concat()).is_err()
    });
    raw.wait_for_end();
    assert!(took.is_none_or(|took| took < 2_000));
    assert!(upstream.requests().len() <= 100, "{} requests", upstream.requests().len());
    serves(&gateway);
}

/// The same, with each request given time to reach the API.
#[test]
fn requests_taken_back_one_by_one_end_the_connection() {
    let upstream = silent();
    let gateway = gateway(&upstream, "http2: { max_reset_streams: 5 }");
    let mut raw = Raw::open(gateway.address);
    for number in 0..6 {
        let stream = 2 * number + 1;
        raw.send(&Raw::head(stream, "GET", "/plain", true));
        upstream.wait_for_requests(usize::try_from(number).unwrap() + 1);
        raw.send(&Raw::frame(RESET, 0, stream, &CANCEL.to_be_bytes()));
    }
    raw.wait_for_end();
    serves(&gateway);
}

#[test]
fn a_head_without_end_is_refused() {
    let upstream = books();
    let gateway = gateway(&upstream, "");
    let mut raw = Raw::open(gateway.address);
    raw.send(&Raw::torn_head(1));
    let before = memory(&gateway);
    let small = Raw::frame(CONTINUATION, 0, 1, &[0, 1, b'a', 1, b'b']);
    assert!(pour(&mut raw, &small, 64 << 20).is_some(), "it was taken whole");
    assert_eq!(raw.goaway().unwrap_or(ENHANCE_YOUR_CALM), ENHANCE_YOUR_CALM);
    assert!(memory(&gateway) < before + 16 * 1024);
    assert!(upstream.requests().is_empty());
    serves(&gateway);
}

#[test]
fn a_head_that_is_too_large_is_refused_and_the_connection_goes_on() {
    let upstream = books();
    let gateway = gateway(&upstream, "http2: { header_list_size: 4KiB }");
    let mut raw = Raw::open(gateway.address);
    let whole = Raw::head(1, "GET", "/plain", true);
    let field = [&[0, 1, b'a', 100][..], &[b'b'; 100]].concat();
    raw.send(&Raw::frame(HEADERS, 5, 1, &[&whole[9..], &field.repeat(60)].concat()));
    assert_eq!(raw.status(1), 431);
    raw.send(&Raw::head(3, "GET", "/plain", true));
    assert_eq!(raw.status(3), 201);
    assert_eq!(upstream.requests().len(), 1);
}

/// Each of these wants an answer. Who does not read the answers is not read any more.
#[test]
fn pings_and_settings_without_end_are_not_hoarded() {
    let upstream = books();
    let gateway = gateway(&upstream, "");
    for frame in [Raw::frame(PING, 0, 0, &[7; 8]), Raw::settings()] {
        let mut raw = Raw::open(gateway.address);
        let before = memory(&gateway);
        assert!(pour(&mut raw, &frame, 256 << 20).is_some(), "all of it was taken");
        assert!(memory(&gateway) < before + 16 * 1024, "{before} KiB became {} KiB", memory(&gateway));
        serves(&gateway);
    }
}

#[test]
fn empty_data_is_not_hoarded() {
    let upstream = silent();
    let gateway = gateway(&upstream, "");
    let mut raw = Raw::open(gateway.address);
    raw.send(&Raw::head(1, "POST", "/plain", false));
    raw.send(&Raw::data(1, b"x", false));
    let before = memory(&gateway);
    pour(&mut raw, &Raw::data(1, b"", false), 16 << 20);
    serves(&gateway);
    assert!(memory(&gateway) < before + 16 * 1024, "{before} KiB became {} KiB", memory(&gateway));
}

/// A body that nobody reads yet fills its window, and no more.
#[test]
fn a_body_stops_at_its_window() {
    let upstream = silent();
    let gateway = gateway(&upstream, "http2: { stream_window: 64KiB, connection_window: 64KiB }\nworkers: 1");
    let mut raw = Raw::open(gateway.address);
    raw.send(&Raw::head(1, "POST", "/plain", false));
    // The upstream reads what fits into its own buffers; a stream beyond the limit of streams is never read.
    let before = memory(&gateway);
    let payload = vec![b'x'; 16 * 1024];
    let ended = pour(&mut raw, &Raw::frame(DATA, 0, 1, &payload), 256 << 20);
    assert!(ended.is_some(), "all of it was taken");
    assert!(memory(&gateway) < before + 16 * 1024);
    serves(&gateway);
}

#[test]
fn an_answer_that_is_not_taken_ends_its_stream_alone() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(200, &[], vec![b'x'; 1 << 20]));
    let gateway = gateway(&upstream, "limits: { send_timeout: 500ms }");
    let mut raw = Raw::open(gateway.address);
    raw.send(&Raw::head(1, "GET", "/plain", true));
    assert_eq!(raw.wait_for(RESET, 1).payload, CANCEL.to_be_bytes());
    gateway.wait_for_metric("oncegate_timeouts_total{kind=\"client_write\"}", 1.0);
    upstream.wait_for_closed(1);
    raw.send(&Raw::head(3, "GET", "/plain", true));
    assert_eq!(raw.status(3), 200, "the connection goes on");
}
