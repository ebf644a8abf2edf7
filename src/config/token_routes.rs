//! Routes that take single-use tokens, held against the section `tokens`. The section itself is in `tokens`.

use super::file::File;
use super::finding::Report;
use super::issuing::Issuing;
use super::key_source::KeySource;
use super::reader::Field;
use super::route::Idempotency;
use super::values::span_text;
use crate::keys::{Missing, TOKEN_SKEW};

/// The use of a token must not be forgotten as long as the token is good.
pub(super) fn outlived(tokens: &Issuing, section: &Idempotency, report: &mut Report) {
    let Issuing::Ready(_, tokens) = tokens else { return };
    let takes = section.key.value().is_some_and(|list| list.iter().any(is_token));
    let least = tokens.lifetime + TOKEN_SKEW;
    if let Some(retention) = section.retention.at().filter(|at| takes && at.value.0 < least) {
        let message = format!(
            "{} is too short for tokens: a used one must be remembered for `tokens.lifetime` and {} ({}): raise it, or \
             lower the lifetime",
            span_text(retention.value.0),
            span_text(TOKEN_SKEW),
            span_text(least)
        );
        report.fault(&retention.place, message);
    }
}

fn is_token(field: &Field<KeySource>) -> bool {
    matches!(field.value(), Some(KeySource::Token(_)))
}

/// Ways past a token.
fn not_needed(section: &Idempotency, report: &mut Report) {
    let Some(list) = section.key.value() else { return };
    let Some(at) = list.iter().find(|field| is_token(field)).and_then(Field::at) else { return };
    if list.len() > 1 {
        report.warn(&at.place, "stands beside other keys: requests with one of those need no token");
    }
    if let Some(missing) = section.missing.at().filter(|at| at.value == Missing::Pass) {
        report.warn(
            &missing.place,
            "lets requests without a token pass unguarded: with `reject` only issued tokens pass",
        );
    }
}

/// Checks across sections.
pub(super) fn check(file: &File, report: &mut Report) {
    let guards = file.routes.value().into_iter().flatten().filter_map(|route| route.value()?.idempotency.value());
    let guards: Vec<_> = guards.collect();
    for guard in &guards {
        not_needed(guard, report);
    }
    let Some(section) = file.tokens.at() else { return };
    if !guards.iter().filter_map(|guard| guard.key.value()).flatten().any(is_token) {
        report.warn(&section.place, "no route has token keys: write `key: [ { token: {} } ]` where they are wanted");
    }
    let asked = file.operations.value().and_then(|operations| operations.path.value());
    if let (Some(path), Some(asked)) = (section.value.path.at(), asked)
        && path.value.0.strip_prefix(&asked.0).is_some_and(|rest| rest.starts_with('/'))
    {
        report.fault(&path.place, "is below `operations.path`: give it a path of its own");
    }
}
