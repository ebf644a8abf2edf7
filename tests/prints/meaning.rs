//! What must not change a fingerprint, and what must.

use proptest::prelude::*;
use serde_json::Value;

use crate::{Given, hex, made, settings};

fn given(content_type: &str, target: &str, body: &[u8]) -> Given {
    Given {
        method: "POST".to_owned(),
        target: target.to_owned(),
        content_type: Some(content_type.to_owned()),
        content_encoding: None,
        body: None,
        body_hex: Some(hex(body)),
        timestamp: "1732924800000".to_owned(),
    }
}

fn print(given: &Given) -> String {
    made(&settings(), given).unwrap().1
}

fn json(text: &str) -> String {
    print(&given("application/json", "/orders", text.as_bytes()))
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("\\PC{0,6}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// The same document in another spelling: members backwards, blanks, escapes, numbers with a fraction.
fn respelled(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| format!("{} :\n{}", escaped(name), respelled(value));
            format!("{{ {} }}", members.iter().rev().map(member).collect::<Vec<_>>().join(" ,"))
        }
        Value::Array(items) => format!("[ {}\t]", items.iter().map(respelled).collect::<Vec<_>>().join(", ")),
        Value::String(text) => escaped(text),
        Value::Number(number) => format!("{number}.00E+0"),
        Value::Null | Value::Bool(_) => value.to_string(),
    }
}

fn escaped(text: &str) -> String {
    text.encode_utf16().fold("\"".to_owned(), |all, unit| all + &format!("\\u{unit:04X}")) + "\""
}

/// The same with its first leaf changed.
fn changed(value: &Value) -> Value {
    match value {
        Value::Null => Value::from(false),
        Value::Bool(word) => Value::from(!word),
        Value::Number(number) => Value::from(number.as_i64().unwrap().wrapping_add(1)),
        Value::String(text) => Value::from(format!("{text} ")),
        Value::Array(items) => match items.split_first() {
            Some((first, rest)) => [&[changed(first)], rest].concat().into(),
            None => vec![Value::Null].into(),
        },
        Value::Object(members) => {
            let mut members = members.clone();
            match members.iter().next().map(|(name, value)| (name.clone(), changed(value))) {
                Some((name, value)) => members.insert(name, value),
                None => members.insert("a".to_owned(), Value::Null),
            };
            members.into()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn equal_documents_have_one_fingerprint_and_changed_ones_another(document in document()) {
        let one = json(&document.to_string());
        prop_assert_eq!(&json(&respelled(&document)), &one);
        prop_assert_ne!(&json(&changed(&document).to_string()), &one);
    }

    #[test]
    fn the_order_of_names_and_their_escapes_do_not_count_in_pairs(
        pairs in prop::collection::btree_map("[a-z&=+%\u{e9}]{1,4}", "[a-z&=+% \u{e9}]{0,4}", 1..5)
    ) {
        let spelled = |all: &dyn Fn(&str) -> String, backwards: bool| {
            let mut list: Vec<String> = pairs.iter().map(|(name, value)| format!("{}={}", all(name), all(value))).collect();
            if backwards {
                list.reverse();
            }
            list.join("&")
        };
        let every = |text: &str| text.bytes().fold(String::new(), |all, byte| all + &format!("%{byte:02x}"));
        let some = |text: &str| text.bytes().map(|byte| match byte {
            b'a'..=b'z' => char::from(byte).to_string(),
            b' ' => "+".to_owned(),
            _ => format!("%{byte:02X}"),
        }).collect::<String>();
        let (one, other) = (spelled(&some, false), spelled(&every, true));
        let form = |body: &str| print(&given("application/x-www-form-urlencoded", "/orders", body.as_bytes()));
        prop_assert_eq!(form(&one), form(&other));
        let query = |text: &str| print(&given("", &format!("/orders?{text}"), b""));
        prop_assert_eq!(query(&one), query(&other));
        prop_assert_ne!(form(&one), form(&format!("{one}&")  .replacen('=', "=x", 1)));
        prop_assert_ne!(query(&one), query(&format!("{one}&{one}")));
    }

    #[test]
    fn any_changed_byte_of_a_raw_body_or_a_file_makes_another(body in prop::collection::vec(any::<u8>(), 1..64), at: prop::sample::Index) {
        let mut other = body.clone();
        other[at.index(body.len())] ^= 1;
        let raw = |body: &[u8]| print(&given("application/octet-stream", "/orders", body));
        prop_assert_ne!(raw(&body), raw(&other));
        let file = |content: &[u8], boundary: &str| {
            let head = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a\"\r\n\r\n");
            let body = [head.as_bytes(), content, format!("\r\n--{boundary}--\r\n").as_bytes()].concat();
            print(&given(&format!("multipart/form-data; boundary={boundary}"), "/orders", &body))
        };
        prop_assert_eq!(file(&body, "one-boundary"), file(&body, "another"));
        prop_assert_ne!(file(&body, "one-boundary"), file(&other, "one-boundary"));
    }
}

#[test]
fn everything_else_in_the_request_counts_and_the_host_does_not() {
    let one = given("application/json", "/orders?a=1", b"{}");
    let changes: [fn(&mut Given); 6] = [
        |given| "PUT".clone_into(&mut given.method),
        |given| "/order?a=1".clone_into(&mut given.target),
        |given| "/orders?a=2".clone_into(&mut given.target),
        |given| given.content_type = Some("text/json".to_owned()),
        |given| given.content_encoding = Some("br".to_owned()),
        |given| "1732924800001".clone_into(&mut given.timestamp),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut other = one.clone();
        change(&mut other);
        assert_ne!(print(&one), print(&other), "{number}");
    }
}
