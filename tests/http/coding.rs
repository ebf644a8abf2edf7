//! Compressed request bodies: compared and keyed by their content where the route says so, forwarded as sent.

use crate::client::{Answer, Call};
use crate::coded::{brotli, deflate, gzip, gzip_stored, zstd};
use crate::gateway::{Gateway, wait_until};
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::{gateway, yaml};

const DECODE: &str = "fingerprint: { decode: { codings: [gzip, br, zstd, deflate] } }";
const ORDER: &[u8] = br#"{"order":{"no":"A-1"},"items":[1,2,3]}"#;
const SAME_ORDER: &[u8] = br#"{ "items": [1.0, 2, 3], "order": { "no": "\u0041-1" } }"#;

fn counting() -> ScriptedUpstream {
    ScriptedUpstream::start(|_| Reply::whole(201, &[], "ok"))
}

fn order(coding: &str, body: impl AsRef<[u8]>) -> Call {
    let call = Call::post("/orders").header("Content-Type", "application/json").body(body);
    if coding.is_empty() { call } else { call.header("Content-Encoding", coding) }
}

fn refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code().as_deref()), (status, Some(code)), "{}", answer.text());
}

#[test]
fn one_content_is_one_request_in_any_coding_and_goes_on_as_sent() {
    let upstream = counting();
    let gateway = gateway(&upstream, DECODE);
    let first = gzip(ORDER);
    assert_eq!(gateway.send(&order("gzip", &first).key("a")).status, 201);
    for (coding, body) in [
        ("", ORDER.to_vec()),
        ("gzip", first.clone()),
        ("gzip", gzip_stored(ORDER)),
        ("x-gzip", gzip(SAME_ORDER)),
        ("br", brotli(ORDER)),
        ("ZSTD", zstd(SAME_ORDER)),
        ("deflate", deflate(ORDER)),
        ("identity, br, gzip", gzip(&brotli(SAME_ORDER))),
    ] {
        assert!(gateway.send(&order(coding, body).key("a")).is_replay(), "{coding}");
    }
    refused(&gateway.send(&order("gzip", gzip(br#"{"order":{"no":"A-2"}}"#)).key("a")), 422, "key-reused");
    refused(&gateway.send(&order("gzip", &first[..first.len() - 1]).key("a")), 422, "key-reused");
    let requests = upstream.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!((requests[0].header("content-encoding").as_deref(), &requests[0].body), (Some(&b"gzip"[..]), &first));
}

#[test]
fn without_the_setting_another_compression_is_another_request() {
    let upstream = counting();
    let gateway = gateway(&upstream, "");
    assert_eq!(gateway.send(&order("gzip", gzip(ORDER)).key("a")).status, 201);
    assert!(gateway.send(&order("gzip", gzip(ORDER)).key("a")).is_replay());
    refused(&gateway.send(&order("gzip", gzip_stored(ORDER)).key("a")), 422, "key-reused");
    refused(&gateway.send(&order("", ORDER).key("a")), 422, "key-reused");
}

#[test]
fn keys_are_found_in_the_content() {
    let upstream = counting();
    let key = "key: [ { all: [ { json: /order/no }, { query: shop } ] }, { form: order_no } ]";
    let gateway = gateway(&upstream, &format!("{key}\n{DECODE}"));
    let json = |coding: &str, body: Vec<u8>| {
        let call = Call::post("/orders?shop=1").header("Content-Type", "application/json");
        gateway.send(&call.header("Content-Encoding", coding).body(body))
    };
    assert_eq!(json("gzip", gzip(ORDER)).status, 201);
    assert!(json("br", brotli(br#"{"order":{"no":"A-1"},"another":"thing"}"#)).is_replay());
    assert!(!json("zstd", zstd(br#"{"order":{"no":"A-2"}}"#)).is_replay());
    let form = |coding: &str, body: Vec<u8>| {
        let call = Call::post("/orders").header("Content-Type", "application/x-www-form-urlencoded");
        gateway.send(&call.header("Content-Encoding", coding).body(body))
    };
    assert_eq!(form("gzip", gzip(b"order_no=7&sum=1")).status, 201);
    assert!(form("deflate", deflate(b"order_no=%37")).is_replay());
    assert_eq!(upstream.requests().len(), 3);
}

#[test]
fn a_key_in_a_body_that_cannot_be_decoded_is_never_none() {
    let upstream = counting();
    let decode = "fingerprint: { decode: { codings: [gzip], ratio: 20, size: 4KiB } }";
    let gateway = gateway(&upstream, &format!("missing: pass\nkey: [ {{ json: /order/no }} ]\n{decode}"));
    let cut = gzip(ORDER);
    refused(&gateway.send(&order("gzip", &cut[..20])), 400, "key-invalid");
    refused(&gateway.send(&order("gzip", ORDER)), 400, "key-invalid");
    refused(&gateway.send(&order("gzip", "")), 400, "key-invalid");
    refused(&gateway.send(&order("br", brotli(ORDER))), 400, "key-invalid");
    let padded = |spaces: usize| gzip(&[ORDER, &vec![b' '; spaces]].concat());
    assert_eq!(gateway.send(&order("gzip", padded(1_000))).status, 201);
    let bomb = gateway.send(&order("gzip", padded(100_000)));
    refused(&bomb, 413, "body-too-large");
    assert!(bomb.text().contains("decodes to"), "{}", bomb.text());
    assert_eq!(upstream.requests().len(), 1);
    // What has no key when it is read passes, as ever.
    assert_eq!(gateway.send(&order("gzip", gzip(b"{}"))).status, 201);
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn with_a_key_of_its_own_what_is_not_decoded_is_compared_as_sent() {
    let upstream = counting();
    let gateway = gateway(&upstream, "fingerprint: { decode: { ratio: 2, codings: [gzip, br] } }");
    let bomb = gzip(&vec![b' '; 1 << 20]);
    for (key, coding, one, other) in [
        ("bomb", "gzip", bomb.clone(), gzip(&vec![b' '; (1 << 20) + 1])),
        ("broken", "br", b"\x00".to_vec(), b"\x01".to_vec()),
        ("unknown", "zstd", zstd(ORDER), ORDER.to_vec()),
    ] {
        assert_eq!(gateway.send(&order(coding, &one).key(key)).status, 201, "{key}");
        assert!(gateway.send(&order(coding, &one).key(key)).is_replay(), "{key}");
        refused(&gateway.send(&order(coding, other).key(key)), 422, "key-reused");
    }
    assert_eq!(upstream.requests()[0].body, bomb);
}

#[test]
fn a_request_that_is_its_own_key_is_decoded_or_refused() {
    let upstream = counting();
    let gateway = gateway(&upstream, &format!("key: [ {{ fingerprint: {{}} }} ]\nretention: 1h\n{DECODE}"));
    assert_eq!(gateway.send(&order("gzip", gzip(ORDER))).status, 201);
    assert!(gateway.send(&order("br", brotli(ORDER))).is_replay());
    assert!(gateway.send(&order("", SAME_ORDER)).is_replay());
    refused(&gateway.send(&order("gzip", gzip(&vec![b' '; 1 << 20]))), 413, "body-too-large");
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn what_a_body_may_decode_to_counts_for_the_budget() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "ok").after(&hold));
    let guard =
        "request_body_limit: 64KiB\nresponse_body_limit: 1KiB\nfingerprint: { decode: { ratio: 1000, size: 40KiB } }";
    let gateway = Gateway::start(&yaml(&upstream, guard, "limits: { buffered_bodies: 64KiB }"));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| gateway.send(&Call::post("/orders").key("a").body(vec![b'x'; 30 << 10])));
        upstream.wait_for_requests(1);
        refused(&gateway.send(&order("gzip", gzip(ORDER)).key("b")), 503, "overloaded");
        // What is not decoded needs no room for it.
        refused(&gateway.send(&order("compress", gzip(ORDER)).key("a")), 422, "key-reused");
        gate.open();
        assert_eq!(first.join().unwrap().status, 201);
    });
    wait_until("the budget is given back", || gateway.send(&order("gzip", gzip(ORDER)).key("b")).status == 201);
    // Nothing of it stays taken: twice as much as there is goes through one after the other.
    for key in 0..4 {
        assert_eq!(gateway.send(&order("gzip", gzip(ORDER)).key(&key.to_string())).status, 201);
    }
}

#[test]
fn a_shadow_guard_refuses_nothing_that_cannot_be_decoded() {
    let upstream = counting();
    let gateway = gateway(&upstream, &format!("mode: shadow\nkey: [ {{ json: /order/no }} ]\n{DECODE}"));
    let bomb = gzip(&vec![b' '; 1 << 20]);
    assert_eq!(gateway.send(&order("gzip", &bomb)).status, 201);
    assert_eq!(gateway.send(&order("gzip", "none")).status, 201);
    assert_eq!(upstream.requests()[0].body, bomb);
}
