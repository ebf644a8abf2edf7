//! The value of a part of a key: its kinds, and the bounds that it has to keep. Where it stands is not known here.

use super::Steps;
use super::header::MAX_KEY;

/// How many bytes a value that people type may have as it is sent.
const MAX_SENT: usize = 4096;

/// The value of a part.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    /// A text that somebody typed: in its form, which counts, and as it was sent.
    Typed {
        text: String,
        sent: String,
    },
    /// A JSON number in canonical form; never the same key as a text.
    Number(String),
    /// A JSON boolean; neither.
    Boolean(bool),
    Digest([u8; 32]),
    /// A token. It is hashed by its digest: what is hashed may be shown, and whoever has a token can use it.
    Token(String),
}

/// A value in the form that counts, within its bounds; none when it is blank, which is as good as not there.
pub(super) fn checked(value: Value, steps: Option<&Steps>) -> Result<Option<Value>, &'static str> {
    let value = match (value, steps) {
        (Value::Text(sent), Some(_)) if sent.len() > MAX_SENT => return Err("has more than 4096 bytes as sent"),
        (Value::Text(sent), Some(steps)) => Value::Typed { text: steps.form(&sent), sent },
        (value, _) => value,
    };
    match &value {
        Value::Text(text) | Value::Typed { text, .. } if text.chars().all(char::is_whitespace) => Ok(None),
        // No text has more characters than bytes.
        Value::Text(text) | Value::Typed { text, .. } if text.len() > MAX_KEY && text.chars().count() > MAX_KEY => {
            Err("has more than 255 characters")
        }
        _ => Ok(Some(value)),
    }
}

pub(super) fn boolean(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

/// A key from a JSON value in canonical form.
pub(super) fn json_key(value: Option<&[u8]>) -> Result<Option<Value>, &'static str> {
    match value {
        None | Some(b"null") => Ok(None),
        Some(b"true") => Ok(Some(Value::Boolean(true))),
        Some(b"false") => Ok(Some(Value::Boolean(false))),
        Some(value @ [b'"', ..]) => {
            serde_json::from_slice(value).map(Value::Text).map(Some).map_err(|_| "is not a string")
        }
        Some(number @ [b'-' | b'0'..=b'9', ..]) if number.len() <= MAX_KEY => {
            Ok(Some(Value::Number(number.iter().copied().map(char::from).collect())))
        }
        Some([b'-' | b'0'..=b'9', ..]) => Err("has more than 255 digits"),
        Some(_) => Err("is an array or an object"),
    }
}
