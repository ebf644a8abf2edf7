//! The key in a header field. The second opinion reads strings by itself, and asks `sfv` about parameters only.

use http::header::{HeaderName, HeaderValue};
use oncegate::keys::{FingerprintSettings, Refusal, Source, explain};
use oncegate::machine::OperationId;

use super::view::{key, settings, with_field};

const DRAFT: HeaderName = HeaderName::from_static("idempotency-key");
const OTHER: HeaderName = HeaderName::from_static("x-request-id");

/// Takes the input for a field's value.
pub fn check(data: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(data) else { return };
    let (draft, other) = (read(&DRAFT, &value), read(&OTHER, &value));
    assert_eq!(draft.as_ref().ok(), expected(data.trim_ascii()).as_ref(), "{value:?} {draft:?}");
    assert_eq!(other.as_ref().ok(), printable(data.trim_ascii()).as_ref(), "{value:?} {other:?}");
    if let Ok(key) = draft {
        one_operation_however_spelled(&key, &value);
    }
    let twice = key(&Source::Header(DRAFT), &with_field(&DRAFT, &[value.clone(), value]));
    assert!(matches!(twice, Err(Refusal::KeyInvalid(_))), "{twice:?}");
}

fn read(name: &HeaderName, value: &HeaderValue) -> Result<String, Refusal> {
    let found = key(&Source::Header(name.clone()), &with_field(name, std::slice::from_ref(value)));
    assert!(!matches!(found, Err(Refusal::KeyMissing(_) | Refusal::ScopeMissing(_))), "a bad key is no missing key");
    found
}

/// The key that the draft sees in a value without white space around it.
fn expected(value: &[u8]) -> Option<String> {
    if value.first() != Some(&b'"') {
        let bare = value.iter().all(|byte| matches!(byte, 0x21..=0x7e) && !b"\",;\\".contains(byte));
        return printable(value).filter(|_| bare);
    }
    let (mut text, mut at) = (Vec::new(), 1);
    loop {
        match (*value.get(at)?, value.get(at + 1)) {
            (b'"', _) => break,
            (b'\\', Some(byte @ (b'"' | b'\\'))) => text.push(*byte),
            (b'\\', _) => return None,
            (byte, _) => text.push(byte),
        }
        at += if value[at] == b'\\' { 2 } else { 1 };
    }
    let parameters = &value[at + 1..];
    // `sfv` passes over spaces behind an item, and the field's own are gone: what is left begins with a semicolon.
    let sound = parameters.is_empty()
        || parameters[0] == b';' && sfv::Parser::new(&[b"t", parameters].concat()).parse::<sfv::Item>().is_ok();
    printable(&text).filter(|_| sound)
}

/// 1 to 255 printable ASCII characters that are not all spaces.
fn printable(text: &[u8]) -> Option<String> {
    let sound = text.len() <= 255 && text.iter().all(|byte| matches!(byte, 0x20..=0x7e));
    let blank = text.iter().all(|byte| *byte == b' ');
    (sound && !blank).then(|| text.iter().copied().map(char::from).collect())
}

fn one_operation_however_spelled(key: &str, value: &HeaderValue) {
    let operation = operation(value);
    let quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
    let by_sfv =
        sfv::String::from_string(key.to_owned()).map(|text| sfv::ItemSerializer::new().bare_item(&*text).finish());
    assert_eq!(by_sfv.ok().as_deref(), Some(quoted.as_str()));
    let mut spellings = vec![format!("{quoted};v=1; w"), format!("\t {quoted} "), quoted];
    if key.bytes().all(|byte| byte != b' ' && !b"\",;\\".contains(&byte)) {
        spellings.push(key.to_owned());
    }
    for spelling in spellings {
        let Ok(value) = HeaderValue::from_str(&spelling) else { panic!("{spelling:?} is no field") };
        assert_eq!(read(&DRAFT, &value).as_deref(), Ok(key), "{spelling}");
        assert_eq!(self::operation(&value), operation, "{spelling}");
    }
    if key.len() < 255 {
        let longer = format!("\"{}x\"", key.replace('\\', "\\\\").replace('"', "\\\""));
        let Ok(longer) = HeaderValue::from_str(&longer) else { panic!("{longer:?} is no field") };
        assert_ne!(self::operation(&longer), operation);
    }
}

fn operation(value: &HeaderValue) -> Option<OperationId> {
    let settings = settings(Some(Source::Header(DRAFT)), FingerprintSettings::default());
    explain(&settings, &with_field(&DRAFT, std::slice::from_ref(value))).ok()?.operation
}
