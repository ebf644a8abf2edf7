//! Where keys come from: as the file says it, and as the floors below are told. Which of them counts is decided there.

use http::HeaderName;
use serde_json::{Value as Json, json};

use super::define::one_of;
use super::finding::Report;
use super::issuing::Issuing;
use super::names::checked;
use super::normalize;
use super::reader::{At, Field, Mapping, Schemas, Setting};
use super::tree::Node;
use super::values::{Pointer, Text, not_empty};
use crate::keys::{Source, Step};

/// `{}`: nothing to set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nothing;

impl Setting for Nothing {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        Mapping::open(node, &[], &[], report).map(|_| Self)
    }

    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": "object", "additionalProperties": false })
    }
}

one_of! {
    /// Where a key comes from.
    KeySource {
        /// A request header.
        "header" => Header(HeaderName,
            /// What is done to its value before it is the key: `trim`, `collapse_spaces`, `case_fold`, `nfc` or `nfkc`, `digits`.
            normalize: Vec<Field<Step>> = Optional),
        /// A query parameter.
        "query" => Query(Text,
            /// What is done to its value before it is the key: `trim`, `collapse_spaces`, `case_fold`, `nfc` or `nfkc`, `digits`.
            normalize: Vec<Field<Step>> = Optional),
        /// A JSON pointer into the body.
        "json" => Json(Pointer,
            /// What is done to its value before it is the key: `trim`, `collapse_spaces`, `case_fold`, `nfc` or `nfkc`, `digits`.
            normalize: Vec<Field<Step>> = Optional),
        /// A field of a form-urlencoded body.
        "form" => Form(Text,
            /// What is done to its value before it is the key: `trim`, `collapse_spaces`, `case_fold`, `nfc` or `nfkc`, `digits`.
            normalize: Vec<Field<Step>> = Optional),
        /// A business key of several parts; all must be there.
        "all" => All(Vec<Field<KeySource>>),
        /// A single-use token; needs the section `tokens`.
        "token" => Token(Nothing),
        /// The request itself.
        "fingerprint" => Fingerprint(Nothing),
    }
    words {}
    later {}
}

/// Translates a route's sources.
pub(super) fn compile(list: &At<Vec<Field<KeySource>>>, tokens: &Issuing, report: &mut Report) -> Option<Vec<Source>> {
    not_empty(&list.place, list.value.is_empty(), "`{ header: Idempotency-Key }`", report);
    let sources: Vec<_> = list.value.iter().map(|field| key_source(field.at()?, false, tokens, report)).collect();
    let always = list.value.iter().position(|field| matches!(field.value(), Some(KeySource::Fingerprint(_))));
    if let Some(after) = always.and_then(|place| list.value.get(place + 1)).and_then(Field::at) {
        report.warn(&after.place, "is never asked: `fingerprint` before it always gives a key");
    }
    sources.into_iter().collect()
}

fn key_source(at: &At<KeySource>, inside: bool, tokens: &Issuing, report: &mut Report) -> Option<Source> {
    Some(match &at.value {
        KeySource::Header(name, steps) => {
            let source = Source::Header(checked(name, &at.place, report)?);
            if let Some(steps) = steps.at().filter(|_| name == "idempotency-key") {
                report.fault(&steps.place, "Idempotency-Key is made by programs, and taken as it is: remove it");
            }
            typed(source, steps, report)?
        }
        KeySource::Query(name, steps) => typed(Source::Query(name.0.clone()), steps, report)?,
        KeySource::Json(pointer, steps) => typed(Source::Json(pointer.0.clone()), steps, report)?,
        KeySource::Form(name, steps) => typed(Source::Form(name.0.clone()), steps, report)?,
        KeySource::All(_) | KeySource::Token(_) | KeySource::Fingerprint(_) if inside => {
            report.fault(&at.place, "cannot stand inside of `all`: use header, query, json or form");
            return None;
        }
        KeySource::All(parts) => {
            not_empty(&at.place, parts.is_empty(), "`{ json: /order/no }`", report);
            let parts: Vec<_> = parts.iter().map(|part| key_source(part.at()?, true, tokens, report)).collect();
            Source::All(parts.into_iter().collect::<Option<_>>()?)
        }
        KeySource::Token(_) => Source::Token(tokens.ready(&at.place, report)?),
        KeySource::Fingerprint(_) => Source::Fingerprint,
    })
}

/// A source with what is done to its value.
fn typed(source: Source, steps: &Field<Vec<Field<Step>>>, report: &mut Report) -> Option<Source> {
    match steps {
        Field::Absent => Some(source),
        Field::Broken => None,
        Field::Given(list) => Some(Source::Typed(Box::new(source), normalize::steps(list, report)?)),
    }
}
