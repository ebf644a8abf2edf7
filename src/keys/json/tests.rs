//! Canonical JSON: spellings, what is no JSON, what is left out and picked up. Fingerprints are not looked at.

use super::*;

fn canonical(text: &str) -> Result<String, Fault> {
    scan(text.as_bytes(), [], &[], []).map(|scan| String::from_utf8(scan.canonical(text.as_bytes()).to_vec()).unwrap())
}

#[test]
fn one_spelling_for_each_value() {
    for (text, expected) in [
        (r#" { "b" : [ 1.0 , true , null ] , "a" : { } } "#, r#"{"a":{},"b":[1,true,null]}"#),
        (r#"{"\u0061":"\u00e9\/\ud83d\ude00"}"#, "{\"a\":\"\u{e9}/\u{1f600}\"}"),
        (r#""\u0022\u005c\u000a\u0001\n""#, r#""\"\\\n\u0001\n""#),
        (r#"{"b":{"d":1,"c":{"z":0,"y":-0}},"a":[]}"#, r#"{"a":[],"b":{"c":{"y":0,"z":0},"d":1}}"#),
        ("[[],[[]],{}]", "[[],[[]],{}]"),
    ] {
        assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
    }
}

/// As the bytes of its text are, where the first eight of them are the same too.
#[test]
fn members_are_in_the_order_of_their_names() {
    let mut names =
        vec!["", "a", "a ", "a!", "a#", "ab", "abcdefg", "abcdefgh", "abcdefgh!", "abcdefgha", "b", "\u{e9}"];
    names.extend(["abcdefghijklmnop", "abcdefghijklmnoq", "abcdefg\\n", "abcdefg\\"]);
    let spelled = |name: &&str| serde_json::to_string(name).unwrap();
    let mut expected: Vec<String> = names.iter().map(spelled).collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    let text = names.iter().map(spelled).map(|name| format!("{name}:1")).collect::<Vec<_>>().join(",");
    expected.sort();
    let expected = expected.iter().map(|name| format!("{name}:1")).collect::<Vec<_>>().join(",");
    assert_eq!(canonical(&format!("{{{text}}}")), Ok(format!("{{{expected}}}")));
    assert!(scan(br#"{"abcdefgh1":1,"b":2,"abcdefgh1":3}"#, [], &[], []).unwrap().duplicates);
    assert!(!scan(br#"{"abcdefgh2":1,"b":2,"abcdefgh1":3}"#, [], &[], []).unwrap().duplicates);
}

#[test]
fn the_first_byte_that_is_not_plain_is_found_wherever_it_stands() {
    for before in 0..20 {
        for byte in 0..=255 {
            // What stands behind it may look alike.
            let text = [&vec![b'z'; before][..], &[byte, b'"', byte, 0xff, b'\\'], &[b'!'; 9]].concat();
            let ends = matches!(byte, b'"' | b'\\' | 0..=0x1f);
            assert_eq!(string::plain(&text, 0), Some(before + usize::from(!ends)), "{byte} at {before}");
            assert_eq!(string::plain(&text, text.len() + 1), None);
            assert_eq!(string::plain(&vec![b' '; before], 0), None);
        }
    }
}

#[test]
fn what_rfc_8259_does_not_know_is_invalid() {
    for text in [
        "",
        " ",
        "{",
        "[",
        "[1,]",
        "{\"a\":1,}",
        "{,}",
        "[1 2]",
        "{\"a\" 1}",
        "{1:2}",
        "{a:1}",
        "'a'",
        "tru",
        "nul",
        "1 2",
        "\"a",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u+123\"",
        "\"\t\"",
        "[01]",
        "NaN",
        "Infinity",
        "\u{feff}1",
        "/**/1",
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800\u0041""#,
        r#""\ud800x""#,
        "]",
        "}",
        ",",
    ] {
        assert_eq!(canonical(text), Err(Fault::Invalid), "{text}");
    }
    assert_eq!(scan(b"\"\xff\"", [], &[], []), Err(Fault::Invalid));
}

#[test]
fn duplicates_are_found_after_unescaping_and_anywhere() {
    for text in [r#"{"a":1,"a":1}"#, r#"{"a":1,"\u0061":2}"#, r#"[{"x":{"b":1,"c":2,"b":3}}]"#] {
        assert!(scan(text.as_bytes(), [], &[], []).unwrap().duplicates, "{text}");
    }
    assert!(!scan(br#"{"a":{"a":1},"A":2}"#, [], &[], []).unwrap().duplicates);
    assert!(scan(br#"{"a":1,"a":2}"#, ["/a"], &[], []).unwrap().duplicates, "ignored members too");
}

#[test]
fn depth_has_an_end() {
    let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(canonical(&nested(64)).is_ok());
    assert_eq!(canonical(&nested(65)), Err(Fault::TooDeep));
    assert_eq!(canonical(&"[{\"a\":".repeat(100_000)), Err(Fault::TooDeep));
}

#[test]
fn ignored_values_are_left_out() {
    let text = r#"{"z":1,"sent_at":5,"in":{"sent_at":6,"a/b":7},"list":[8,{"x":9},11]}"#;
    for (ignored, expected) in [
        (&["/sent_at"][..], r#"{"in":{"a/b":7,"sent_at":6},"list":[8,{"x":9},11],"z":1}"#),
        (&["/in/a~1b", "/list/0"], r#"{"in":{"sent_at":6},"list":[{"x":9},11],"sent_at":5,"z":1}"#),
        (&["/in", "/list/1/x", "/z"], r#"{"list":[8,{},11],"sent_at":5}"#),
        (&[""], ""),
        (&["z", "/list/00", "/list/-", "/nothing/here", "/z/1"], &canonical(text).unwrap()),
    ] {
        let scan = scan(text.as_bytes(), ignored.iter().copied(), &[], []).unwrap();
        assert_eq!(String::from_utf8_lossy(scan.canonical(text.as_bytes())), expected, "{ignored:?}");
    }
}

#[test]
fn a_pointer_may_name_what_is_spelled_with_escapes() {
    let text = r#"{"a\u0022":1,"b\\":2,"c\u000a":3,"d\u00e9":4,"~":5,"e":6}"#;
    let ignored = ["/a\"", "/b\\", "/c\n", "/d\u{e9}", "/~0"];
    assert_eq!(scan(text.as_bytes(), ignored, &[], []).unwrap().canonical(text.as_bytes()), br#"{"e":6}"#);
}

#[test]
fn wanted_values_are_picked_up_even_when_ignored() {
    let text = br#"{"order":{"no":"7\u0037","n":1.0},"list":[{"id":null}],"order2":3}"#;
    let wanted = ["/order/no", "/order/n", "/list/0/id", "/list/1", "/order2", "/order/no/x"];
    let scan = scan(text, ["/order"], &[], wanted).unwrap();
    let texts: Vec<_> = scan.wanted.iter().map(|value| value.as_deref().map(String::from_utf8_lossy)).collect();
    let expected = [Some("\"77\""), Some("1"), Some("null"), None, Some("3"), None];
    assert_eq!(texts, expected.map(|value| value.map(std::borrow::Cow::Borrowed)));
}
