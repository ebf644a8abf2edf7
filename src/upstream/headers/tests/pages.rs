//! What a replay says to browser pages, and what becomes of a record that cannot be said.

use super::*;
use crate::machine::Recorded;

/// What a replay shows of an answer to a page of `first`, when a page of `second` asks.
fn shown(answer: Lines<'_>, allow: &[HeaderName], first: Option<&str>, second: Option<&str>) -> HeaderMap {
    let value = |origin: Option<&str>| origin.map(|origin| HeaderValue::from_str(origin).unwrap());
    let (answer, first) = (map(answer), value(first));
    let recorded = Recorded::new(200, replayable(&answer, allow, first.as_ref()), b"");
    replayed(&recorded, allow, value(second).as_ref()).unwrap()
}

#[test]
fn what_an_answer_says_to_pages_is_repeated_to_the_same_origin_alone() {
    let answer: Lines<'_> = &[
        ("access-control-allow-origin", b"https://a.example"),
        ("access-control-expose-headers", b"X-One"),
        ("access-control-expose-headers", b"X-Two"),
        ("x-own", b"1"),
    ];
    let (a, b) = (Some("https://a.example"), Some("https://b.example"));
    let varies: Lines<'_> = &[("vary", b"Origin")];
    assert_eq!(texts(&shown(answer, &[], a, a)), [answer, varies].concat());
    for second in [b, None, Some("https://A.example"), Some("null")] {
        assert_eq!(texts(&shown(answer, &[], a, second)), [&answer[3..], varies].concat(), "{second:?}");
    }
    for second in [a, None] {
        assert_eq!(texts(&shown(answer, &[], None, second)), answer[3..], "{second:?}");
    }
    let allowed = [HeaderName::from_static("access-control-allow-origin")];
    assert_eq!(texts(&shown(answer, &allowed, None, b)), [&answer[..1], &answer[3..]].concat());
}

#[test]
fn an_answer_without_a_word_to_pages_keeps_no_origin() {
    let origin = HeaderValue::from_static("https://a.example");
    assert_eq!(replayable(&map(&[("x-own", b"1")]), &[], Some(&origin)).count(), 1);
}

#[test]
fn vary_by_origin_is_said_once() {
    for (said, lines) in [(&b"Accept"[..], 2), (b"accept, ORIGIN", 1), (b"*", 1), (b"x-origin", 2)] {
        let mut headers = map(&[("vary", said)]);
        vary_by_origin(&mut headers);
        assert_eq!(headers.get_all("vary").iter().count(), lines, "{said:?}");
    }
}

#[test]
fn a_record_that_is_no_field_is_no_replay() {
    let bad = |name, value| Recorded::new(200, [(name, value)], b"");
    assert!(replayed(&bad("a b", "1"), &[], None).is_none());
    assert!(replayed(&bad("a", "1\n"), &[], None).is_none());
    assert!(replayed(&bad("a", "1"), &[], None).is_some());
}

/// Each of them under another name: they take the most room.
#[test]
fn a_replay_with_all_its_fields_takes_more_and_a_record_with_too_many_is_none() {
    let replay = |count: usize| {
        let fields = (0..count).map(|at| (format!("x-{at}"), "1"));
        let origin = [(String::from("oncegate-origin"), "https://a.example")];
        replayed(&Recorded::new(200, origin.into_iter().chain(fields), b""), &[], None)
    };
    let mut most = replay(16_383).unwrap();
    for at in 0..64 {
        most.insert(HeaderName::try_from(format!("y-{at}")).unwrap(), HeaderValue::from_static("1"));
    }
    assert_eq!(most.len(), 16_383 + 1 + 64, "and vary");
    for count in [16_384, 24_573, 24_575, 24_576, 24_577, 40_000] {
        assert!(replay(count).is_none(), "{count}");
    }
}
