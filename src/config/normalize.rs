//! What is done to values that people type before they count: as the file says it, and as `keys` is told.

use super::define::{choice, one_of};
use super::finding::{Place, Report};
use super::reader::{At, Field};
use super::values::{Pointer, Text, not_empty};
use crate::keys::{self, Step, Steps, Typed};

choice! {
    Step {
        "trim" => Self::Trim,
        "collapse_spaces" => Self::CollapseSpaces,
        "case_fold" => Self::CaseFold,
        "nfc" => Self::Nfc,
        "nfkc" => Self::Nfkc,
        "digits" => Self::Digits
    } later {}
}

one_of! {
    /// A value that people type, and what is done to it before requests are compared.
    TypedValue {
        /// A JSON pointer into the body.
        "json" => Json(Pointer,
            /// What is done: `trim`, `collapse_spaces`, `case_fold`, `nfc` or `nfkc`, `digits`.
            steps: Vec<Field<Step>> = Required("write `steps: [trim, collapse_spaces]`")),
        /// A field of a form-urlencoded body.
        "form" => Form(Text,
            /// The same.
            steps: Vec<Field<Step>> = Required("write `steps: [trim, collapse_spaces]`")),
        /// A query parameter.
        "query" => Query(Text,
            /// The same.
            steps: Vec<Field<Step>> = Required("write `steps: [trim, collapse_spaces]`")),
    }
    words {}
    later { "header" }
}

/// Translates a list of steps.
pub(super) fn steps(list: &At<Vec<Field<Step>>>, report: &mut Report) -> Option<Steps> {
    not_empty(&list.place, list.value.is_empty(), "`trim`", report);
    let steps: Vec<Step> = list.value.iter().map(|field| field.value().copied()).collect::<Option<_>>()?;
    for (at, field) in list.value.iter().enumerate() {
        let Some(step) = field.at() else { continue };
        if steps[..at].contains(&step.value) {
            report.fault(&step.place, format!("`{}` is there already: remove one", step.value.word()));
        } else if step.value == Step::Nfc && steps.contains(&Step::Nfkc) {
            report.fault(&step.place, "`nfkc` does what `nfc` does, and more: remove one of them");
        }
    }
    Some(Steps::new(steps))
}

/// Translates what is done to the values of a fingerprint.
pub(super) fn typed(list: &At<Vec<Field<TypedValue>>>, report: &mut Report) -> Option<Typed> {
    let mut typed = Typed::default();
    for field in &list.value {
        let at = field.at()?;
        let (into, name, given) = match &at.value {
            TypedValue::Json(pointer, steps) => (&mut typed.json, &pointer.0, steps),
            TypedValue::Form(name, steps) => (&mut typed.form, &name.0, steps),
            TypedValue::Query(name, steps) => (&mut typed.query, &name.0, steps),
        };
        let steps = steps(given.at()?, report)?;
        once(into, name, &at.place, report);
        into.push((name.clone(), steps));
    }
    Some(typed)
}

fn once(values: &[(String, Steps)], name: &str, place: &Place, report: &mut Report) {
    if values.iter().any(|(other, _)| other == name) {
        report.fault(place, format!("`{name}` is there already: write all its steps in one place"));
    }
}

/// A typed variant under the same key would be the same operation, and be refused as a changed request.
pub(super) fn uncompared(keys: &keys::Settings, place: &Place, report: &mut Report) {
    for source in keys.typed_in_the_key_alone() {
        let message = format!(
            "{source} is normalized here and compared as it was sent: typed in another way it is 422; write it into \
             `fingerprint.normalize` too, or `fingerprint.compare: false`"
        );
        report.warn(place, message);
    }
}
