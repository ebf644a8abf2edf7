//! The keyed hash of a request as sent: what it is of, and that it stays what it is.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::keys::hasher::Pieces;
use crate::keys::keyed::Keyed;
use crate::machine::RawPrint;

/// A request with something in each place that counts as sent.
fn full() -> Request {
    let fields = [
        ("idempotency-key", "k"),
        ("content-type", "application/json"),
        ("content-type", "text/plain"),
        ("content-encoding", "gzip"),
        ("x-customer-id", "7"),
    ];
    Request { raw_path: "//orders".to_owned(), query: Some("a=1&b=2".to_owned()), ..request(&fields, r#"{"n":1}"#) }
}

fn counting() -> Settings {
    let fingerprint = FingerprintSettings { headers: vec![CUSTOMER], ..FingerprintSettings::default() };
    Settings { fingerprint, ..by_header() }
}

fn raw(settings: &Settings, request: Request) -> RawPrint {
    arrival(settings, request).unwrap().prints().raw
}

/// Whether this request is taken for an exact retry of the one that is on record.
fn is_exactly(recorded: RawPrint, request: &Request, salt: Salt) -> bool {
    let naming = Naming::new(counting());
    match naming.identify(request, salt) {
        Ok(Named::Operation(arrival)) => arrival.is_exactly(recorded),
        other => panic!("it has a key: {other:?}"),
    }
}

#[test]
fn what_does_not_count_changes_the_raw_print_alone() {
    let plain = || request(&[("content-type", "text/plain")], "1");
    let base = prints(&by_header(), plain());
    let spelled = [
        Request { raw_path: "//orders".to_owned(), ..plain() },
        Request { authority: "Shop.Example".to_owned(), ..plain() },
        request(&[("content-type", "Text/Plain; charset=utf-8")], "1"),
    ];
    for request in spelled {
        let other = prints(&by_header(), request);
        assert!(other.raw != base.raw && other.canonical == base.canonical);
    }
    let unseen = prints(&by_header(), request(&[("content-type", "text/plain"), ("x-forwarded-for", "::1")], "1"));
    assert_eq!(unseen, base);
    for request in [
        Request { method: Method::PUT, ..plain() },
        Request { path: "/orders/7".to_owned(), raw_path: "/orders/7".to_owned(), ..plain() },
        Request { authority: "other.example".to_owned(), ..plain() },
        Request { query: Some("a=1".to_owned()), ..plain() },
        Request { body: Bytes::from_static(b"2"), ..plain() },
    ] {
        let other = prints(&by_header(), request);
        assert!(other.raw != base.raw && other.canonical != base.canonical);
    }
}

/// Records live on from version to version, and gateways of two versions share them for a while. A second implementation,
/// of the framing and of the hash, says the same.
#[test]
fn the_framing_and_the_hash_stay_what_they_are() {
    let number = |print: RawPrint| u128::from_be_bytes(print.0);
    assert_eq!(
        number(raw(&by_header(), request(&[("idempotency-key", "k")], ""))),
        0x7361_6c74_7361_6c74_c2e1_a291_a54f_9a9a
    );
    assert_eq!(number(raw(&counting(), full())), 0x7361_6c74_7361_6c74_d2fd_5bfd_0eed_d886);
    let long = Request { body: Bytes::from(vec![b'x'; 5_000]), ..full() };
    assert_eq!(number(raw(&counting(), long)), 0x7361_6c74_7361_6c74_2093_13b9_bb0b_b375);
}

/// What `explain` shows is all that a request as sent is known by: so what it calls equal as sent, records do too.
#[test]
fn an_explanation_frames_what_the_keyed_hash_is_of() {
    for request in [full(), request(&[("idempotency-key", "k")], ""), Request { query: None, ..full() }] {
        let shown = explain(&counting(), &request).unwrap();
        let (mut hasher, mut whole) = (Keyed::new(SALT), Vec::new());
        for part in &shown.raw_parts {
            match &part.hashed {
                Hashed::Count(count) => whole.extend(count.to_be_bytes()),
                Hashed::Part(bytes) => whole.extend([&(bytes.len() as u64).to_be_bytes()[..], bytes].concat()),
                Hashed::Digest(..) => panic!("nothing here is a digest: {part:?}"),
            }
        }
        hasher.add(&whole);
        assert_eq!(raw(&counting(), request), RawPrint::new(SALT, hasher.finish()));
        assert_eq!(shown.raw, frame::print(&frame::sha256(&whole)));
    }
}

#[test]
fn a_record_of_an_earlier_version_is_no_exact_retrys() {
    let earlier = explain(&counting(), &full()).unwrap().raw;
    assert!(!is_exactly(RawPrint(earlier.0), &full(), SALT));
}

#[test]
fn equal_requests_are_alike_under_any_salt() {
    for recorded in [SALT, Salt([0; 8]), Salt([0xff; 8])] {
        let naming = Naming::new(counting());
        let first = full();
        let Ok(Named::Operation(first)) = naming.identify(&first, recorded) else { panic!("it has a key") };
        let print = first.prints().raw;
        assert!(print.salt() == recorded && is_exactly(print, &full(), SALT));
        // Whichever was asked for before.
        assert!(first.is_exactly(raw(&counting(), full())) && first.is_exactly(print));
        assert_eq!(first.prints().raw, print);
    }
}

/// Changes one byte of one part that counts; none where the part has become another kind of thing.
fn changed(part: usize, at: prop::sample::Index, change: u8) -> Option<Request> {
    let mut request = full();
    let text = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= change & 0x7f;
        String::from_utf8(bytes).ok()
    };
    match part {
        0 => request.method = text("POST").and_then(|method| method.parse().ok())?,
        1 => request.authority = text("shop.example")?,
        2 => request.raw_path = text("//orders")?,
        3 => request.query = Some(text("a=1&b=2")?),
        4 => {
            request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            request.headers.append(CONTENT_TYPE, HeaderValue::from_str(&text("text/plain")?).ok()?);
        }
        // Its case does not count.
        5 => {
            let coding = text("gzip").filter(|coding| !coding.eq_ignore_ascii_case("gzip"))?;
            request.headers.insert(CONTENT_ENCODING, HeaderValue::from_str(&coding).ok()?);
        }
        6 => _ = request.headers.insert(CUSTOMER, HeaderValue::from_str(&text("7")?).ok()?),
        _ => request.body = Bytes::from(text(r#"{"n":1}"#)?),
    }
    Some(request)
}

proptest! {
    #[test]
    fn a_request_that_differs_in_one_byte_is_no_exact_retry(
        salt: [u8; 8],
        part in 0_usize..8,
        at: prop::sample::Index,
        change in 1_u8..0x80,
    ) {
        let request = changed(part, at, change);
        prop_assume!(request.is_some());
        let naming = Naming::new(counting());
        let first = full();
        let Ok(Named::Operation(first)) = naming.identify(&first, Salt(salt)) else { panic!("it has a key") };
        prop_assert!(!is_exactly(first.prints().raw, &request.unwrap(), SALT));
    }

    #[test]
    fn bodies_that_differ_in_one_byte_are_no_exact_retries(
        salt: [u8; 8],
        body in vec(any::<u8>(), 1..3_000),
        at: prop::sample::Index,
        change in 1_u8..,
    ) {
        let mut other = body.clone();
        other[at.index(body.len())] ^= change;
        let of = |body: Vec<u8>| Request { body: body.into(), ..full() };
        let naming = Naming::new(counting());
        let first = of(body.clone());
        let Ok(Named::Operation(first)) = naming.identify(&first, Salt(salt)) else { panic!("it has a key") };
        let recorded = first.prints().raw;
        prop_assert!(is_exactly(recorded, &of(body), SALT));
        prop_assert!(!is_exactly(recorded, &of(other), SALT));
    }
}
