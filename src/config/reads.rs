//! What `safe_methods` makes of a guard: nothing for reads, a guard like any other, or one that lets reads share an answer.

use std::time::Duration;

use http::header::{ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, COOKIE, ORIGIN};
use http::{HeaderName, Method};

use super::define::choice;
use super::finding::{Place, Report};
use super::key_source::KeySource;
use super::names::all_checked;
use super::reader::Field;
use super::route::{Idempotency, Route};
use super::values::{MINUTE, span_text};
use crate::gateway::SafeMethods;
use crate::machine::InDoubt;

choice! { SafeMethods { "pass" => Self::Pass, "guard" => Self::Guard, "collapse" => Self::Collapse } later {} }

/// By what a read is told apart beside its own text, where the route says nothing of credentials.
const CREDENTIALS: [HeaderName; 2] = [AUTHORIZATION, COOKIE];
/// By what it is told apart in any case.
const ASKED_FOR: [HeaderName; 4] = [ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, ORIGIN];
/// Longer than this nobody may be shown what was.
const LONGEST: Duration = Duration::from_millis(MINUTE);

/// Whether the route lets reads share an answer.
pub(super) fn collapse(section: &Idempotency) -> bool {
    section.safe_methods.value() == Some(&SafeMethods::Collapse)
}

/// Says what does not go together with the methods that the route takes.
pub(super) fn check(route: &Route, section: &Idempotency, report: &mut Report) {
    let (Some(choice), Some(methods)) =
        (section.safe_methods.at(), route.r#match.value().and_then(|matching| matching.methods.at()))
    else {
        return;
    };
    match choice.value {
        SafeMethods::Collapse => only_reads(section, &methods.value, report),
        _ if choice.stated => {}
        _ if methods.value.is_empty() => report.warn(
            &methods.place,
            "lets GET, HEAD and OPTIONS pass without guard: list the methods that change something, or state `safe_methods`",
        ),
        _ => {
            for method in methods.value.iter().filter_map(Field::at).filter(|method| method.value.is_safe()) {
                let message = format!(
                    "{} changes nothing by definition, so a guard does not look at it unless told to: list the methods \
                     that change something, or write `safe_methods: collapse` (reads at the same time share one answer), \
                     `guard` (it changes something all the same) or `pass`",
                    method.value
                );
                report.fault(&method.place, message);
            }
        }
    }
}

fn only_reads(section: &Idempotency, methods: &[Field<Method>], report: &mut Report) {
    let Some(choice) = section.safe_methods.at() else { return };
    let is_read = |method: &Method| [Method::GET, Method::HEAD].contains(method);
    if methods.is_empty() || !methods.iter().filter_map(Field::value).all(is_read) {
        report.fault(&choice.place, "`collapse` is for reads alone: write `match: { methods: [GET, HEAD], ... }`");
    }
    let keys = section.key.value().into_iter().flatten().filter_map(Field::at);
    for at in keys.filter(|at| !matches!(at.value, KeySource::Fingerprint(_))) {
        report.fault(&at.place, "cannot be the key of reads that share an answer: write `key: [{ fingerprint: {} }]`");
    }
    if let Some(at) = section.retention.at().filter(|at| at.stated && at.value.0 > LONGEST) {
        let most = span_text(LONGEST);
        report.fault(&at.place, format!("shows what was for too long: with `safe_methods: collapse` at most {most}"));
    }
    let meaningless = [
        stated(&section.key_age),
        stated(&section.also),
        stated(&section.missing),
        stated(&section.duplicate),
        stated(&section.duplicate_status),
        stated(&section.in_flight),
        stated(&section.in_flight_status),
        stated(&section.outcome_headers),
        stated(&section.in_doubt),
        stated(&section.in_doubt_status),
        stated(&section.probe),
        stated(&section.doubt_retention),
        stated(&section.store_failure),
        stated(&section.window),
        stated(&section.forwarded_key),
    ];
    for place in meaningless.into_iter().flatten() {
        let message = "has no meaning with `safe_methods: collapse`: a read waits for one that is under way, is never \
                       refused, and leaves no doubt; leave it out";
        report.fault(place, message);
    }
}

fn stated<T>(field: &Field<T>) -> Option<&Place> {
    field.at().filter(|at| at.stated).map(|at| &at.place)
}

/// The headers by which reads are told apart, after those that the route names: an answer that depends on others is not
/// shared.
pub(super) fn told_apart(
    named: Vec<HeaderName>,
    section: &Idempotency,
    report: &mut Report,
) -> Option<Vec<HeaderName>> {
    let stated = section
        .replay
        .value()?
        .require_same
        .either(|stated| all_checked(&stated.value, report), || Some(CREDENTIALS.to_vec()))??;
    let mut all = named;
    for name in stated.into_iter().chain(ASKED_FOR) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    Some(all)
}

/// What becomes of a read whose gateway was lost: the next one asks again.
pub(super) const LOST: InDoubt = InDoubt::Retry;
