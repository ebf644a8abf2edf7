//! Canonical JSON: one form for each value, whatever its spelling, and another for every other value. The second opinion
//! is `serde_json`'s, with exact numbers.

use oncegate::keys::{BodyForm, Explanation, FingerprintSettings, Refusal, Request, Source};

use super::dice::Dice;
use super::json_value::{self, Decimal, Value};
use super::view::{key, post, seen, seen_without};

/// How many containers inside each other are followed.
const DEPTH: usize = 64;

/// Takes the input for a document, or for two with 0xFF between them: no document has such a byte.
pub fn check(data: &[u8]) {
    if json_value::is_beyond_us(data) {
        return;
    }
    let mut texts = data.splitn(2, |byte| *byte == 0xFF);
    let one = texts.next().map(|text| alone(text, &mut Dice::of(data)));
    if let (Some(one), Some(other)) = (one, texts.next()) {
        together(&one, &alone(other, &mut Dice::of(other)));
    }
}

/// A document and what became of it.
struct Read<'a> {
    text: &'a [u8],
    /// None when it must be taken as bytes.
    value: Option<Value>,
    seen: Explanation,
}

fn body(text: &[u8]) -> Request {
    post("application/json", text)
}

fn alone<'a>(text: &'a [u8], dice: &mut Dice) -> Read<'a> {
    let (value, seen) = (json_value::read(text), seen(&body(text)));
    let value = value.filter(|value| value.depth() <= DEPTH);
    if value.as_ref().is_some_and(Value::has_duplicates) {
        assert!(matches!(key(&Source::Json("/a".to_owned()), &body(text)), Err(Refusal::KeyInvalid(_))));
    }
    let value = value.filter(|value| !value.has_duplicates());
    assert_eq!(seen.body == BodyForm::Json, value.is_some(), "{} {value:?}", String::from_utf8_lossy(text));
    assert_eq!(seen.canonical_json.is_some(), value.is_some());
    if let Some(value) = &value {
        same_however_spelled(value, &seen, dice);
        other_when_changed(value, &seen, dice);
        less_when_ignored(value, dice);
        picked_up(value, dice);
    }
    Read { text, value, seen }
}

fn same_however_spelled(value: &Value, expected: &Explanation, dice: &mut Dice) {
    let canonical = expected.canonical_json.clone().unwrap_or_default();
    assert_eq!(json_value::read(canonical.as_bytes()).as_ref(), Some(value), "{canonical}");
    for text in [&canonical, &value.respelled(dice), &value.respelled(dice)] {
        let seen = seen(&body(text.as_bytes()));
        assert_eq!(seen.canonical_json.as_ref(), Some(&canonical), "{text}");
        assert_eq!(seen.canonical, expected.canonical, "{text}");
    }
}

fn other_when_changed(value: &Value, expected: &Explanation, dice: &mut Dice) {
    let mut changed = value.clone();
    changed.edit(&value.any_place(dice), &mut |value| {
        value.differ();
        true
    });
    let text = changed.respelled(dice);
    let seen = seen(&body(text.as_bytes()));
    assert_ne!(seen.canonical, expected.canonical, "{text}");
    assert_ne!(seen.canonical_json, expected.canonical_json, "{text}");
}

/// What is ignored might as well not be there.
fn less_when_ignored(value: &Value, dice: &mut Dice) {
    let place = value.any_place(dice);
    if place.is_empty() {
        return;
    }
    let mut less = value.clone();
    less.edit(&place, &mut |_| false);
    let pointer = value.pointer(&place);
    let settings = FingerprintSettings { ignore_json: vec![pointer.clone()], ..FingerprintSettings::default() };
    let without = seen_without(&body(value.respelled(dice).as_bytes()), settings);
    let expected = seen(&body(less.respelled(dice).as_bytes()));
    assert_eq!(without.canonical_json, expected.canonical_json, "{value:?} without {pointer}");
    assert_eq!(without.canonical, expected.canonical, "{value:?} without {pointer}");
}

/// A key in the body is the value that stands there.
fn picked_up(value: &Value, dice: &mut Dice) {
    let place = value.any_place(dice);
    let pointer = value.pointer(&place);
    let found = key(&Source::Json(pointer.clone()), &body(value.respelled(dice).as_bytes()));
    let value = value.at(&place);
    match (value, &found) {
        (Value::Null, Err(Refusal::KeyMissing(_)))
        | (Value::Bool(_) | Value::List(_) | Value::Members(_), Err(Refusal::KeyInvalid(_))) => {}
        (Value::Text(text), Ok(key)) => assert_eq!(key, text),
        (Value::Number(number), Ok(key)) => assert_eq!(Decimal::read(key).as_ref(), Some(number)),
        (Value::Text(text), Err(Refusal::KeyMissing(_))) => assert!(text.trim().is_empty(), "{text:?}"),
        (Value::Text(text), Err(Refusal::KeyInvalid(_))) => {
            assert!(text.chars().count() > 255, "{text:?}");
        }
        (Value::Number(number), Err(Refusal::KeyInvalid(_))) => assert!(number.digits.len() > 200, "{number:?}"),
        _ => panic!("the key at {pointer} is {value:?}, and became {found:?}"),
    }
}

/// Two documents have one form when they have one value, and only then.
fn together(one: &Read<'_>, other: &Read<'_>) {
    let same = one.seen.canonical == other.seen.canonical;
    let expected = match (&one.value, &other.value) {
        (Some(one), Some(other)) => one == other,
        (None, None) => one.text == other.text,
        _ => false,
    };
    assert_eq!(same, expected, "{} {}", String::from_utf8_lossy(one.text), String::from_utf8_lossy(other.text));
    let known = one.value.is_some() && other.value.is_some();
    if let (true, Some(one), Some(other)) = (known, plain(one.text), plain(other.text)) {
        assert_eq!(same, one == other, "{one} {other}");
    }
}

/// What `serde_json` itself reads, when that has no number that it could round.
fn plain(text: &[u8]) -> Option<serde_json::Value> {
    fn is_exact(value: &serde_json::Value) -> bool {
        match value {
            serde_json::Value::Number(number) => number.is_i64() || number.is_u64(),
            serde_json::Value::Array(values) => values.iter().all(is_exact),
            serde_json::Value::Object(members) => members.values().all(is_exact),
            _ => true,
        }
    }
    serde_json::from_slice(text).ok().filter(is_exact)
}
