//! Tables of what fields become on their way out and back.

mod marks;
mod pages;

use super::*;

type Lines<'a> = &'a [(&'a str, &'a [u8])];

fn map(lines: Lines<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_bytes(value).unwrap());
    }
    headers
}

fn texts(headers: &HeaderMap) -> Vec<(&str, &[u8])> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect()
}

static PEER: HeaderValue = HeaderValue::from_static("192.0.2.7");
static SHOP: HeaderValue = HeaderValue::from_static("shop.example");

fn hop(trusted: bool) -> Hop<'static> {
    let (peer, version) = ([192, 0, 2, 7].into(), Version::HTTP_11);
    Hop { peer, named: &PEER, trusted, scheme: "http", host: Some(&SHOP), version }
}

/// Without a name in `Via`, with every underscore.
fn outbound(headers: &HeaderMap, hop: &Hop<'_>) -> HeaderMap {
    outbound_in(headers, hop, Manner { via: None, drop_underscores: false })
}

fn outbound_in(headers: &HeaderMap, hop: &Hop<'_>, manner: Manner<'_>) -> HeaderMap {
    let Outbound { mut fields, added, .. } = super::outbound(headers.clone(), Kinds::of(headers), hop, manner);
    added.add_to(&mut fields);
    fields
}

/// What goes out, without the fields that every request gets.
fn others(out: &HeaderMap) -> Vec<(&str, &[u8])> {
    let every = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "traceparent", "x-request-id"];
    texts(out).into_iter().filter(|(name, _)| !every.contains(name)).collect()
}

fn lines<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a [u8]> {
    headers.get_all(name).iter().map(HeaderValue::as_bytes).collect()
}

#[test]
fn a_state_without_its_trace_moves_no_other_field() {
    let came: Lines<'_> = &[("tracestate", b"a=1"), ("x-a", b"1"), ("x-b", b"2"), ("x-c", b"3")];
    assert_eq!(others(&outbound(&map(came), &hop(false))), came[1..]);
}

#[test]
fn other_fields_keep_bytes_lines_and_order() {
    let came: Lines<'_> = &[
        ("host", b"shop.example"),
        ("x-b", b"2"),
        ("x-b", b"1"),
        ("x-name", b"M\xfcller"),
        ("authorization", b"Bearer abc"),
        ("cookie", b"a=1"),
        ("cookie", b"b=2"),
        ("x-empty", b""),
        ("x_forwarded", b"mine"),
        ("idempotency-key", b"\"k\""),
        ("content-length", b"3"),
    ];
    for trusted in [false, true] {
        assert_eq!(others(&outbound(&map(came), &hop(trusted))), came);
    }
}

#[test]
fn fields_of_this_hop_stay_behind() {
    let out = outbound(
        &map(&[
            ("connection", b"close, X-Mine ,host,"),
            ("connection", b"x-also, content-length"),
            ("x-mine", b"1"),
            ("x-also", b"1"),
            ("host", b"shop.example"),
            ("content-length", b"5"),
            ("keep-alive", b"timeout=5"),
            ("proxy-connection", b"close"),
            ("proxy-authorization", b"Basic x"),
            ("proxy-authenticate", b"Basic"),
            ("te", b"trailers"),
            ("trailer", b"x-sum"),
            ("upgrade", b"h2c"),
            ("http2-settings", b"AAMAAABk"),
            ("expect", b"100-Continue"),
            ("oncegate-operation", b"forged"),
            ("oncegate_attempt", b"forged"),
            ("x-stays", b"1"),
        ]),
        &hop(false),
    );
    let expected: Lines<'_> = &[("host", b"shop.example"), ("content-length", b"5"), ("x-stays", b"1")];
    assert_eq!(others(&out), expected);
}

#[test]
fn a_length_beside_chunks_is_dropped() {
    let both = map(&[("transfer-encoding", b"chunked"), ("content-length", b"5"), ("x-a", b"1")]);
    assert_eq!(others(&outbound(&both, &hop(false))), [("x-a", &b"1"[..])]);
    let mut answer = both;
    inbound(&mut answer);
    assert_eq!(texts(&answer), [("x-a", &b"1"[..])]);
}

#[test]
fn another_expectation_is_the_upstreams_to_judge() {
    let out = outbound(&map(&[("expect", b"payment")]), &hop(false));
    assert_eq!(lines(&out, "expect"), [b"payment"]);
}

#[test]
fn an_unknown_peer_is_not_believed() {
    let out = outbound(
        &map(&[
            ("x-forwarded-for", b"10.0.0.1"),
            ("x-forwarded-for", b"10.0.0.2"),
            ("x-forwarded-proto", b"https"),
            ("x-forwarded-host", b"evil.example"),
            ("x-forwarded-port", b"443"),
            ("x_forwarded_for", b"10.0.0.1"),
            ("forwarded", b"for=10.0.0.1"),
        ]),
        &hop(false),
    );
    assert_eq!(lines(&out, "x-forwarded-for"), [b"192.0.2.7"]);
    assert_eq!(lines(&out, "x-forwarded-proto"), [b"http"]);
    assert_eq!(lines(&out, "x-forwarded-host"), [b"shop.example"]);
    assert_eq!(others(&out), [("forwarded", &b"for=192.0.2.7;host=\"shop.example\";proto=http"[..])]);
}

#[test]
fn a_trusted_peer_is_believed_and_appended_to() {
    let out = outbound(
        &map(&[
            ("x-forwarded-for", b"10.0.0.1, 10.0.0.2"),
            ("x-forwarded-for", b" "),
            ("x-forwarded-for", b"10.0.0.3"),
            ("x-forwarded-proto", b"https"),
            ("x-forwarded-host", b"m\xfcller.example"),
            ("x-forwarded-port", b"443"),
            ("x_forwarded_for", b"10.6.6.6"),
            ("forwarded", b"for=10.0.0.1"),
            ("forwarded", b"for=10.0.0.3"),
        ]),
        &hop(true),
    );
    assert_eq!(lines(&out, "x-forwarded-for"), [b"10.0.0.1, 10.0.0.2, 10.0.0.3, 192.0.2.7"]);
    assert_eq!(lines(&out, "x-forwarded-proto"), [b"https"]);
    assert_eq!(lines(&out, "x-forwarded-host"), [b"m\xfcller.example"]);
    let forwarded = b"for=10.0.0.1, for=10.0.0.3, for=192.0.2.7;host=\"shop.example\";proto=http";
    assert_eq!(others(&out), [("x-forwarded-port", &b"443"[..]), ("forwarded", &forwarded[..])]);
}

#[test]
fn a_trusted_peer_that_says_nothing_is_the_client() {
    let out = outbound(&HeaderMap::new(), &hop(true));
    assert_eq!(lines(&out, "x-forwarded-for"), [b"192.0.2.7"]);
    assert_eq!(lines(&out, "x-forwarded-proto"), [b"http"]);
    assert_eq!(lines(&out, "x-forwarded-host"), [b"shop.example"]);
    assert!(!out.contains_key("forwarded"));
}

#[test]
fn peers_are_written_as_each_field_wants_them() {
    let cases = [
        ("::ffff:192.0.2.7", "192.0.2.7", "for=10.0.0.1, for=192.0.2.7;proto=https"),
        ("2001:db8::1", "2001:db8::1", "for=10.0.0.1, for=\"[2001:db8::1]\";proto=https"),
    ];
    for (peer, plain, forwarded) in cases {
        let client = crate::wire::Client::new(peer.parse().unwrap(), true);
        let hop = Hop { peer: client.peer, named: client.named(), scheme: "https", host: None, ..hop(true) };
        let out = outbound(&map(&[("forwarded", b"for=10.0.0.1")]), &hop);
        assert_eq!(lines(&out, "x-forwarded-for"), [plain.as_bytes()]);
        assert_eq!(lines(&out, "forwarded"), [forwarded.as_bytes()]);
        assert!(!out.contains_key("x-forwarded-host"));
    }
}

#[test]
fn a_hosts_quotes_do_not_break_out() {
    let host = HeaderValue::from_static("a\";for=\\1");
    let hop = Hop { host: Some(&host), ..hop(true) };
    let out = outbound(&map(&[("forwarded", b"for=10.0.0.1")]), &hop);
    let expected = br#"for=10.0.0.1, for=192.0.2.7;host="a\";for=\\1";proto=http"#;
    assert_eq!(lines(&out, "forwarded"), [&expected[..]]);
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn traceparent(values: &[&str]) -> (String, HeaderMap) {
    let mut came = map(&[("tracestate", b"vendor=1")]);
    for value in values {
        came.append("traceparent", HeaderValue::from_str(value).unwrap());
    }
    let out = outbound(&came, &hop(false));
    assert_eq!(lines(&out, "traceparent").len(), 1);
    (out["traceparent"].to_str().unwrap().to_owned(), out)
}

#[test]
fn a_trace_is_continued() {
    let cases = [
        (format!("00-{TRACE}-00f067aa0ba902b7-01"), "01"),
        (format!("00-{TRACE}-00f067aa0ba902b7-00"), "00"),
        (format!("00-{TRACE}-00f067aa0ba902b7-ff"), "03"),
        (format!("cc-{TRACE}-00f067aa0ba902b7-01-what-comes-later"), "01"),
    ];
    for (came, flags) in cases {
        let (sent, out) = traceparent(&[&came]);
        let parts: Vec<_> = sent.split('-').collect();
        assert_eq!([parts[0], parts[1], parts[3]], ["00", TRACE, flags], "{came}");
        assert!(parts[2].len() == 16 && parts[2] != "00f067aa0ba902b7", "{sent}");
        assert_eq!(lines(&out, "tracestate"), [b"vendor=1"]);
    }
}

#[test]
fn a_trace_that_is_none_is_begun() {
    let good = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let cases: [&[&str]; 9] = [
        &[],
        &[&good, &good],
        &["garbage"],
        &[&format!("{good}-more")],
        &[&good.to_uppercase()],
        &[&good.replace("00-4", "ff-4")],
        &[&good.replace(TRACE, &"0".repeat(32))],
        &[&good.replace("00f067aa0ba902b7", &"0".repeat(16))],
        &[&good.replace("-01", "-1")],
    ];
    for came in cases {
        let (sent, out) = traceparent(came);
        let parts: Vec<_> = sent.split('-').collect();
        assert_eq!((parts[0], parts[1].len(), parts[2].len(), parts[3]), ("00", 32, 16, "01"), "{came:?}");
        assert_ne!(parts[1], TRACE, "{came:?}");
        assert!(!out.contains_key("tracestate"), "{came:?}");
    }
}

#[test]
fn a_sane_request_id_is_kept_and_any_other_made_anew() {
    let longest = "x".repeat(128);
    for kept in ["1", "a/b:c=\"d\"", &longest] {
        let out = outbound(&map(&[("x-request-id", kept.as_bytes())]), &hop(false));
        assert_eq!(lines(&out, "x-request-id"), [kept.as_bytes()]);
    }
    let too_long = "x".repeat(129);
    let cases: [Lines<'_>; 6] = [
        &[],
        &[("x-request-id", b"")],
        &[("x-request-id", b"a b")],
        &[("x-request-id", b"\xfc")],
        &[("x-request-id", too_long.as_bytes())],
        &[("x-request-id", b"1"), ("x-request-id", b"2")],
    ];
    for came in cases {
        let out = outbound(&map(came), &hop(false));
        let made = lines(&out, "x-request-id");
        assert_eq!(made.len(), 1);
        let id = uuid::Uuid::try_parse_ascii(made[0]).unwrap();
        assert_eq!(id.get_version_num(), 7);
    }
}

#[test]
fn an_answer_loses_what_is_not_for_the_client() {
    let mut headers = map(&[
        ("content-type", b"text/plain"),
        ("connection", b"keep-alive, X-Hop"),
        ("x-hop", b"1"),
        ("keep-alive", b"timeout=5"),
        ("proxy-authenticate", b"Basic"),
        ("upgrade", b"h2c"),
        ("trailer", b"x-sum"),
        ("oncegate-source", b"gateway"),
        ("oncegate_outcome", b"unknown"),
        ("idempotent-replayed", b"true"),
        ("x-idempotent-retry", b"true"),
        ("idempotency-expires", b"never"),
        ("set-cookie", b"a=1"),
        ("set-cookie", b"b=\xfc"),
        ("content-length", b"3"),
    ]);
    inbound(&mut headers);
    let expected: Lines<'_> =
        &[("content-type", b"text/plain"), ("set-cookie", b"a=1"), ("set-cookie", b"b=\xfc"), ("content-length", b"3")];
    assert_eq!(texts(&headers), expected);
}

fn recorded(headers: Lines<'_>, allow: &[&'static str]) -> Vec<(String, Vec<u8>)> {
    let allow: Vec<_> = allow.iter().map(|name| HeaderName::from_static(name)).collect();
    let headers = map(headers);
    replayable(&headers, &allow, None)
        .map(|(name, value)| (String::from_utf8(name.to_vec()).unwrap(), value.to_vec()))
        .collect()
}

#[test]
fn a_record_keeps_what_a_replay_may_repeat() {
    let kept: Lines<'_> = &[
        ("content-type", b"application/json"),
        ("location", b"/orders/1"),
        ("x-line", b"2"),
        ("x-line", b"1"),
        ("x-name", b"M\xfcller"),
        ("etag", b"\"1\""),
        ("content-encoding", b"gzip"),
    ];
    let dropped: Lines<'_> = &[
        ("set-cookie", b"a=1"),
        ("www-authenticate", b"Basic"),
        ("proxy-status", b"x"),
        ("authentication-info", b"x"),
        ("date", b"x"),
        ("server", b"x"),
        ("age", b"1"),
        ("alt-svc", b"clear"),
        ("via", b"1.1 behind"),
        ("access-control-allow-origin", b"*"),
        ("ratelimit", b"x"),
        ("ratelimit-policy", b"x"),
        ("x-ratelimit-remaining", b"1"),
        ("retry-after", b"1"),
        ("traceparent", b"x"),
        ("x-request-id", b"x"),
        ("content-length", b"2"),
        ("transfer-encoding", b"chunked"),
        ("connection", b"x-hop"),
        ("x-hop", b"1"),
        ("keep-alive", b"x"),
        ("oncegate-source", b"x"),
        ("idempotent-replayed", b"true"),
    ];
    let expected: Vec<_> = kept.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect();
    assert_eq!(recorded(&[kept, dropped].concat(), &[]), expected);
}

#[test]
fn a_route_may_allow_more_but_not_framing_or_marks() {
    let headers: Lines<'_> = &[
        ("set-cookie", b"a=1"),
        ("set-cookie", b"b=2"),
        ("retry-after", b"1"),
        ("x-ratelimit-limit", b"1"),
        ("content-length", b"2"),
        ("connection", b"close"),
        ("oncegate-source", b"x"),
    ];
    let allow = ["set-cookie", "x-ratelimit-limit", "content-length", "connection", "oncegate-source"];
    let names: Vec<_> = recorded(headers, &allow).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["set-cookie", "set-cookie", "x-ratelimit-limit"]);
}

#[test]
fn the_gateway_signs_below_what_stands_in_via() {
    let via = Via::new("edge");
    let manner = Manner { via: Some(&via), drop_underscores: false };
    let came = map(&[("via", b"1.0 fred"), ("via", b"1.1 p")]);
    let out = outbound_in(&came, &hop(true), manner);
    let [first, second, ours] = lines(&out, "via")[..] else { panic!("{out:?}") };
    assert_eq!((first, second), (&b"1.0 fred"[..], &b"1.1 p"[..]));
    assert!(ours.starts_with(b"1.1 edge-"), "{out:?}");
}

#[test]
fn names_with_underscores_stay_behind_where_they_are_told_to() {
    let came = map(&[("x_a", b"1"), ("x-a", b"2"), ("_", b"3")]);
    let out = outbound_in(&came, &hop(true), Manner { via: None, drop_underscores: true });
    assert_eq!(others(&out), [("x-a", &b"2"[..])]);
}
