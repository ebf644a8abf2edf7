//! An answer that an operator gives for an operation: read, and held to what a replay can be. It is not judged otherwise.

use std::fmt;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use crate::machine::Recorded;
use crate::upstream::headers;

/// How many fields it may have, and how many bytes their names and values may take.
const FIELDS: usize = 100;
const FIELD_BYTES: usize = 32 * 1024;

/// The answer as it was written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Given {
    status: u16,
    #[serde(default)]
    headers: Fields,
    body: Option<String>,
    body_base64: Option<String>,
}

/// Names and values in the order written. A name that is there twice shows: a map of JSON would keep one of them.
#[derive(Default)]
struct Fields(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of names and values, such as {\"Content-Type\": \"application/json\"}")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        from.deserialize_map(Pairs)
    }
}

impl Given {
    /// The answer as a record keeps it, on a route that keeps bodies up to `limit` and replays the names that it allows.
    ///
    /// # Errors
    /// When it can be no answer of that route: then with the field's name and what it should be.
    pub(super) fn recorded(self, limit: usize, allow: &[HeaderName]) -> Result<Recorded, String> {
        let Self { status, headers, body, body_base64 } = self;
        if !(200..=599).contains(&status) {
            return Err(format!(
                "`answer.status`: {status} is the status of no final answer; it lies within 200 to 599"
            ));
        }
        let (field, body) = match (body, body_base64) {
            (Some(_), Some(_)) => {
                return Err("`answer.body` and `answer.body_base64` are two ways to give one body: use one".to_owned());
            }
            (_, Some(text)) => ("body_base64", decoded(&text)?),
            (body, None) => ("body", Bytes::from(body.unwrap_or_default())),
        };
        if body.len() > limit {
            return Err(format!(
                "`answer.{field}`: its {} bytes are more than the route keeps (`response_body_limit`, {limit})",
                body.len()
            ));
        }
        if matches!(status, 204 | 205 | 304) && !body.is_empty() {
            return Err(format!("`answer.{field}`: an answer with status {status} has no body"));
        }
        let headers = replayed(headers, allow)?;
        Ok(Recorded::new(status, headers::replayable(&headers, allow, None), &body))
    }
}

fn decoded(text: &str) -> Result<Bytes, String> {
    let decoded = STANDARD.decode(text).map_err(|error| format!("`answer.body_base64` is no base64: {error}"))?;
    Ok(decoded.into())
}

/// The fields, if a replay can have each of them.
fn replayed(fields: Fields, allow: &[HeaderName]) -> Result<HeaderMap, String> {
    let bytes: usize = fields.0.iter().map(|(name, value)| name.len() + value.len()).sum();
    if fields.0.len() > FIELDS || bytes > FIELD_BYTES {
        return Err(format!("`answer.headers`: at most {FIELDS} fields of together {FIELD_BYTES} bytes"));
    }
    let mut headers = HeaderMap::new();
    for (text, value) in fields.0 {
        let name = HeaderName::try_from(&text).map_err(|_| format!("`answer.headers`: `{text}` is no field's name"))?;
        let value = HeaderValue::try_from(value)
            .map_err(|_| format!("`answer.headers.{text}`: the value has characters that a field cannot have"))?;
        if headers.insert(name, value).is_some() {
            return Err(format!("`answer.headers.{text}` is there twice: write one value, with commas where need be"));
        }
    }
    let is_kept = |name: &HeaderName| {
        headers::replayable(&headers, allow, None).any(|(kept, _)| kept == name.as_str().as_bytes())
    };
    let lost = headers.keys().find(|name| !is_kept(name));
    match lost {
        Some(name) => Err(format!(
            "`answer.headers.{name}` is in no replay: it belongs to one connection, one moment or one caller, or to the \
             gateway"
        )),
        None => Ok(headers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(json: &str) -> Result<Recorded, String> {
        let given: Given = serde_json::from_str(json).map_err(|error| error.to_string())?;
        given.recorded(8, &[HeaderName::from_static("retry-after")])
    }

    #[test]
    fn an_answer_is_kept_as_it_was_given() {
        let given = recorded(r#"{"status": 201, "headers": {"X-B": "1", "Retry-After": "5"}, "body": "h\u00e9"}"#);
        assert_eq!(given, Ok(Recorded::new(201, [("x-b", "1"), ("retry-after", "5")], "h\u{e9}".as_bytes())));
        let bytes = recorded(r#"{"status": 200, "body_base64": "AP8="}"#).unwrap();
        assert_eq!(bytes.body(), [0, 255]);
        assert_eq!(recorded(r#"{"status": 204}"#), Ok(Recorded::empty(204)));
    }

    #[test]
    fn what_can_be_no_answer_is_refused_by_the_name_of_its_field() {
        for (json, told) in [
            (r#"{"status": 101}"#, "`answer.status`: 101"),
            (r#"{"status": 600}"#, "`answer.status`: 600"),
            (r#"{"body": "x"}"#, "missing field `status`"),
            (r#"{"status": 200, "text": "x"}"#, "unknown field `text`"),
            (r#"{"status": 200, "body": "123456789"}"#, "`answer.body`: its 9 bytes are more"),
            (r#"{"status": 200, "body_base64": "MTIzNDU2Nzg5"}"#, "`answer.body_base64`: its 9 bytes"),
            (r#"{"status": 200, "body_base64": "!"}"#, "`answer.body_base64` is no base64"),
            (r#"{"status": 200, "body": "", "body_base64": ""}"#, "use one"),
            (r#"{"status": 204, "body": "x"}"#, "status 204 has no body"),
            (r#"{"status": 200, "headers": {"a b": "1"}}"#, "`a b` is no field's name"),
            (r#"{"status": 200, "headers": {"a": "1\r\nb: 2"}}"#, "`answer.headers.a`: the value"),
            (r#"{"status": 200, "headers": {"a": "1", "A": "2"}}"#, "`answer.headers.A` is there twice"),
            (r#"{"status": 200, "headers": {"a": "1", "a": "2"}}"#, "`answer.headers.a` is there twice"),
            (r#"{"status": 200, "headers": ["a"]}"#, "an object of names and values"),
            (r#"{"status": 200, "headers": {"Connection": "x"}}"#, "`answer.headers.connection` is in no replay"),
            (r#"{"status": 200, "headers": {"Content-Length": "0"}}"#, "content-length"),
            (r#"{"status": 200, "headers": {"Transfer-Encoding": "chunked"}}"#, "transfer-encoding"),
            (r#"{"status": 200, "headers": {"Oncegate-Source": "x"}}"#, "oncegate-source"),
            (r#"{"status": 200, "headers": {"Idempotent-Replayed": "x"}}"#, "idempotent-replayed"),
            (r#"{"status": 200, "headers": {"Set-Cookie": "a=1"}}"#, "set-cookie"),
        ] {
            let refusal = recorded(json).unwrap_err();
            assert!(refusal.contains(told), "{json}: {refusal}");
        }
        let many: Vec<String> = (0..=FIELDS).map(|number| format!(r#""x-{number}": """#)).collect();
        let refusal = recorded(&format!(r#"{{"status": 200, "headers": {{{}}}}}"#, many.join(","))).unwrap_err();
        assert!(refusal.contains("at most 100 fields"), "{refusal}");
    }
}
