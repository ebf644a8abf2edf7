//! `tokens`: single-use tokens, as written and what they become. Says nothing of any secret, nor of routes.

use std::sync::Arc;

use http::HeaderName;
use serde_json::{Value as Json, json};

use super::define::section;
use super::finding::Report;
use super::issuing::Issuing;
use super::names::checked;
use super::operations::plain_path;
use super::reader::{At, Field, Mapping, Need, Schemas, Setting, field_schema};
use super::tree::{Node, Value};
use super::values::{DAY, SECOND, Span, Text, not_empty};
use crate::keys::{self, TOKEN_SECRET_LEN, TokenKey};

/// How many secrets there may be.
const MOST: usize = 16;

section! {
    /// Where clients get single-use tokens: POST on the path with `?route=` and a route's name.
    Tokens {
        /// The path; no route gets requests for it.
        path: Text = Default("/idempotency-tokens"),
        /// The header that carries a token back.
        header: HeaderName = Default("Idempotency-Token"),
        /// How long a token is good for, from its issue. Its use is remembered at least as long.
        lifetime: Span<SECOND, { 7 * DAY }> = Default("30m"),
        /// Secrets of 32 bytes or more: the first signs, all verify. Each a text, best from a variable, or `{ file: PATH }`.
        secrets: Vec<Field<Secret>> = Required("write `secrets: [ \"${ONCEGATE_TOKEN_SECRET}\" ]`, made by `openssl rand -base64 32`"),
    }
    later {}
}

/// A secret: a text, or a file that holds it.
#[derive(Debug, Clone)]
pub(super) enum Secret {
    Text(Text),
    File(Field<Text>),
}

impl Setting for Secret {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        if let Value::Text(_) = node.value {
            return Text::read(node, report).map(Self::Text);
        }
        let map = Mapping::open(node, &["file"], &[], report)?;
        Some(Self::File(map.field("file", Need::Required("write `{ file: /run/secrets/tokens }`"), report)))
    }

    fn schema(schemas: &mut Schemas) -> Json {
        let text = Text::schema(schemas);
        let file = field_schema(Text::schema(schemas), "A file with the secret.", Need::Optional);
        json!({ "oneOf": [
            text,
            { "type": "object", "additionalProperties": false, "properties": { "file": file }, "required": ["file"] },
        ] })
    }
}

/// Translates it.
pub(super) fn compile(field: &Field<Tokens>, report: &mut Report) -> Issuing {
    match field {
        Field::Absent => Issuing::Absent,
        Field::Broken => Issuing::Broken,
        Field::Given(at) => tokens(&at.value, report).unwrap_or(Issuing::Broken),
    }
}

fn tokens(section: &Tokens, report: &mut Report) -> Option<Issuing> {
    let path = section.path.at().and_then(|at| plain_path(at, "/idempotency-tokens", report));
    let header = section.header.at().and_then(|at| checked(&at.value, &at.place, report));
    let keys = section.secrets.at().and_then(|list| keys(list, report));
    let lifetime = section.lifetime.value()?.0;
    let tokens = keys::Tokens { header: header?, lifetime, keys: keys? };
    Some(Issuing::Ready(path?, Arc::new(tokens)))
}

fn keys(list: &At<Vec<Field<Secret>>>, report: &mut Report) -> Option<Vec<TokenKey>> {
    not_empty(&list.place, list.value.is_empty(), "`\"${ONCEGATE_TOKEN_SECRET}\"`", report);
    if list.value.len() > MOST {
        report.fault(&list.place, format!("has {} secrets, and {MOST} may be here", list.value.len()));
    }
    let keys: Vec<Option<TokenKey>> = list.value.iter().map(|field| key(field.at()?, report)).collect();
    let keys: Vec<TokenKey> = keys.into_iter().collect::<Option<_>>()?;
    for (number, at) in list.value.iter().filter_map(Field::at).enumerate() {
        if keys.get(number).is_some_and(|key| keys[..number].contains(key)) {
            report.fault(&at.place, "is an earlier secret again: remove one of them");
        }
    }
    Some(keys)
}

fn key(at: &At<Secret>, report: &mut Report) -> Option<TokenKey> {
    let read;
    let (place, text) = match &at.value {
        Secret::Text(text) => (&at.place, &text.0),
        Secret::File(file) => {
            let file = file.at()?;
            let wrong = |error| report.fault(&file.place, format!("`{}` cannot be read: {error}", file.value.0));
            read = std::fs::read_to_string(&file.value.0).map_err(wrong).ok()?;
            (&file.place, &read)
        }
    };
    let key = TokenKey::new(text.trim().as_bytes());
    if key.is_none() {
        // Nothing of the text itself: it may be most of a secret.
        let message = format!("is shorter than {TOKEN_SECRET_LEN} bytes: make one by `openssl rand -base64 32`");
        report.fault(place, message);
    }
    key
}
