//! Business windows: how long one keeps its like away, and what the upstream is told of the next one. Retention itself is
//! read in `policy`.

use super::define::choice;
use super::doubt;
use super::finding::Report;
use super::reader::Field;
use super::route::Idempotency;
use crate::gateway::ForwardedKey;
use crate::machine::Window;

choice! { Window { "fixed" => Self::Fixed, "sliding" => Self::Sliding } later {} }
choice! { ForwardedKey { "operation" => Self::Operation, "window" => Self::Window } later {} }

/// What the upstream gets as key: an upstream that deduplicates by it must take the next window's operation for another
/// one, but a further attempt of the same operation for the same.
pub(super) fn forwarded_key(section: &Idempotency, report: &mut Report) -> Option<ForwardedKey> {
    let (window, in_doubt) = (section.window.at()?, section.in_doubt.value()?);
    let retries = matches!(in_doubt, doubt::Word::Retry);
    let key = match &section.forwarded_key {
        Field::Broken => None,
        Field::Given(at) if at.value == ForwardedKey::Window && retries => {
            report.fault(
                &at.place,
                "cannot go with `in_doubt: retry`, whose further attempts need the first one's key: write `operation`",
            );
            None
        }
        Field::Given(at) => Some(at.value),
        Field::Absent if window.stated && retries => {
            report.warn(
                &window.place,
                "with `in_doubt: retry` the upstream gets the same key in every window: one that remembers keys for longer \
                 than `retention` refuses the next window's operation; state `forwarded_key: operation` if it does not",
            );
            Some(ForwardedKey::Operation)
        }
        Field::Absent if window.stated => Some(ForwardedKey::Window),
        Field::Absent => Some(ForwardedKey::Operation),
    };
    if key == Some(ForwardedKey::Window) && matches!(in_doubt, doubt::Word::Probe) {
        report.warn(
            &window.place,
            "with `in_doubt: probe` the upstream may answer with an operation of an earlier window: ask by something that \
             only this one has",
        );
    }
    key
}
