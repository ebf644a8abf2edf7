//! From `key_age` to what the rules are told of keys, with the check that every key of the route can say its age.

use std::time::Duration;

use super::finding::Report;
use super::key_source::KeySource;
use super::reader::Field;
use super::route::Idempotency;

/// What keys say of their age.
#[derive(Clone, Copy)]
pub(super) struct Age {
    /// How far off the clocks of those who make keys may be; none where keys say nothing.
    pub(super) skew: Option<Duration>,
}

impl Age {
    /// How much longer than its retention an outcome is remembered.
    pub(super) fn slack(self) -> Duration {
        self.skew.unwrap_or_default() * 2
    }
}

/// Translates it.
pub(super) fn compile(section: &Idempotency, report: &mut Report) -> Option<Age> {
    let age = match &section.key_age {
        Field::Absent => return Some(Age { skew: None }),
        Field::Broken => return None,
        Field::Given(at) => &at.value,
    };
    for at in section.key.value().into_iter().flatten().filter_map(Field::at) {
        if matches!(at.value, KeySource::All(_) | KeySource::Token(_) | KeySource::Fingerprint(_)) {
            report.fault(
                &at.place,
                "cannot say when it was made, which `key_age` needs: use header, query, json or form alone",
            );
        }
    }
    age.from.value()?;
    Some(Age { skew: Some(age.clock_skew.value()?.0) })
}
