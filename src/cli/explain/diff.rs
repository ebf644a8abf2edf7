//! `oncegate explain --diff`: whether a second request counts as the first one again, and in what they differ.

use std::collections::BTreeSet;

use http::HeaderName;

use super::fate::{Asked, End, Fate, Named, refused};
use super::page::{Page, cut};
use crate::config::Settings;
use crate::keys::{Difference, Differences, Explanation, differences};

/// So many differences are shown of each kind, unless all are asked for.
const MANY: usize = 20;

/// Fields that say nothing of their own: framing, and what is told as authority and content type.
const TOLD_ELSEWHERE: [&str; 5] = ["host", "content-length", "content-type", "content-encoding", "connection"];

/// What there is to say, and whether the second is the first again.
pub(super) fn compare(settings: &Settings, [first, second]: [&Asked; 2], full: bool) -> (Page, bool) {
    let mut page = Page::default();
    let fates = [first, second].map(|asked| Fate::of(settings, asked));
    for (name, fate) in ["first", "second"].into_iter().zip(&fates) {
        page.line(name, told(fate));
    }
    let [one, other] = &fates;
    let (End::Guarded(one), End::Guarded(other)) = (&one.end, &other.end) else {
        for problem in [&one.end, &other.end].into_iter().filter_map(|end| match end {
            End::Refused(problem) => Some(problem),
            End::Unguarded(_) | End::Own(_) | End::Guarded(_) => None,
        }) {
            refused(&mut page, settings, problem);
        }
        page.line("the second is", "not compared: both have to come to a guard");
        return (page, false);
    };
    let found = differences(&one.explanation, &other.explanation);
    let (verdict, same) = verdict(one, other, &found);
    page.line("same operation", if one.explanation.operation == other.explanation.operation { "yes" } else { "no" });
    page.line("the second is", verdict);
    let unseen = unseen([first, second], &found);
    page.list("other operation", shown(&found.operation, full), "nothing");
    page.list("differs", shown(&found.request, full), "nothing");
    page.list("does not count", shown(&found.spelling, full).into_iter().chain(unseen), "nothing");
    (page, same)
}

fn told(fate: &Fate<'_>) -> String {
    let route = fate.route.map_or("no route", |route| route.name.as_str());
    match &fate.end {
        End::Refused(_) => format!("{route}: refused"),
        End::Unguarded(why) => format!("{route}: guard {why}"),
        End::Own(setting) => format!("answered by the gateway itself: `{setting}`"),
        End::Guarded(named) => match named.explanation.operation {
            Some(operation) => format!("{route}: operation {operation}"),
            None => format!("{route}: no key, passes without guard"),
        },
    }
}

/// How the second compares with the first, as its route sees that.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Likeness {
    Exact,
    Equal,
    /// Routes of one namespace may have different settings: then only equal bytes are known to be equal.
    Unsure,
    Changed,
    /// The route does not compare.
    Alike,
}

impl Likeness {
    fn of(first: &Explanation, second: &Explanation, compare: bool) -> Self {
        match (first.settings == second.settings, first.canonical == second.canonical) {
            _ if first.raw == second.raw => Self::Exact,
            (true, true) => Self::Equal,
            _ if !compare => Self::Alike,
            (false, _) => Self::Unsure,
            (true, false) => Self::Changed,
        }
    }
}

/// What the second counts as, and whether it is taken for the first.
fn verdict(one: &Named<'_>, other: &Named<'_>, found: &Differences) -> (String, bool) {
    let (first, second) = (&one.explanation, &other.explanation);
    let places = |of: &[Difference]| of.iter().map(|one| one.place.clone()).collect::<Vec<_>>().join(", ");
    if first.operation.is_none() || second.operation.is_none() {
        return ("not compared: without a key a request passes".to_owned(), false);
    }
    let shared = first.also.as_ref().zip(second.also.as_ref()).filter(|(one, other)| one.operation == other.operation);
    if first.operation != second.operation
        && let (Some((one, _)), Some(also)) = (shared, &other.guard.also)
    {
        let keys: Vec<_> = one.key.iter().map(|piece| piece.from.as_str()).collect();
        let (verdict, is_equal) = match Likeness::of(first, second, also.policy.compare) {
            Likeness::Unsure => ("refused with 409, since the routes' fingerprint settings differ,", false),
            Likeness::Changed => ("refused with 422", false),
            Likeness::Exact | Likeness::Equal | Likeness::Alike => ("a duplicate", true),
        };
        return (format!("{verdict} by the second key ({}), under a first key of its own", keys.join(", ")), is_equal);
    }
    if first.operation != second.operation {
        return (format!("a new operation, by its {}", places(&found.operation)), false);
    }
    let verdict = match Likeness::of(first, second, other.guard.policy.compare) {
        Likeness::Unsure => {
            return ("no retry for sure: the routes' fingerprint settings differ, so it gets 409".to_owned(), false);
        }
        Likeness::Changed => {
            return ("a changed request under the same key: it gets 422 `key-reused`".to_owned(), false);
        }
        Likeness::Exact => "the same request again, byte for byte in all that counts",
        Likeness::Equal => "a retry: the same request in another spelling",
        Likeness::Alike => "a duplicate: on this route the key alone counts, not what else differs",
    };
    if first.credentials != second.credentials && other.guard.policy.replays {
        return ("a duplicate, but with other credentials: it gets 409 without the first answer".to_owned(), false);
    }
    (verdict.to_owned(), true)
}

fn shown(differences: &[Difference], full: bool) -> Vec<String> {
    let most = if full { usize::MAX } else { MANY };
    let value = |value: &Option<String>| value.as_deref().map_or_else(|| "nothing".to_owned(), |it| cut(it, full));
    let line = |one: &Difference| format!("{}: {} -> {}", one.place, value(&one.first), value(&one.second));
    let mut lines: Vec<_> = differences.iter().take(most).map(line).collect();
    if let Some(more @ 1..) = differences.len().checked_sub(most) {
        lines.push(format!("and {more} more: see --full"));
    }
    lines
}

/// Header fields that differ and that nothing looks at.
fn unseen([first, second]: [&Asked; 2], found: &Differences) -> Vec<String> {
    let names: BTreeSet<_> =
        first.head.headers.keys().chain(second.head.headers.keys()).map(HeaderName::as_str).collect();
    let is_told = |name: &str| {
        let all = found.operation.iter().chain(&found.request).chain(&found.spelling);
        all.into_iter().any(|one| one.place.split_once(' ').is_some_and(|(_, own)| own == name))
    };
    let values = |asked: &Asked, name: &str| asked.head.headers.get_all(name).iter().cloned().collect::<Vec<_>>();
    let differs = |name: &&str| values(first, name) != values(second, name);
    let shown = names.into_iter().filter(differs).filter(|name| !TOLD_ELSEWHERE.contains(name) && !is_told(name));
    shown.map(|name| format!("header {name}")).collect()
}
