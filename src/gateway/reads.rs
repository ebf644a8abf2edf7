//! Reads that share one answer: which requests may take part, and which answers may be given to more than one of them.
//! It is no cache: what is shared is what was asked for at the same time, give or take a few seconds.

use std::time::Duration;

use http::header::{
    AGE, CACHE_CONTROL, DATE, EXPIRES, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE,
    PRAGMA, RANGE, SET_COOKIE, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, request};

use super::settings::{Guard, SafeMethods};
use crate::machine::{Ending, Judgement, Record, Said, State, Time, Word};

/// What makes of a read one of its own: it asks for a part, or for the answer only if that is another one by now.
const OF_ITS_OWN: [HeaderName; 6] = [RANGE, IF_RANGE, IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE];

impl Guard {
    /// Whether this guard looks at a request at all.
    pub fn takes(&self, head: &request::Parts) -> bool {
        match self.safe_methods {
            SafeMethods::Guard => true,
            SafeMethods::Pass => !head.method.is_safe(),
            SafeMethods::Collapse => {
                let is_whole = !OF_ITS_OWN.iter().any(|name| head.headers.contains_key(name));
                !head.method.is_safe() || (is_whole && [Method::GET, Method::HEAD].contains(&head.method))
            }
        }
    }
}

/// Whether a read's answer may be given to others, and for how long. One that may not is remembered as such, so that
/// those who wait for it go on side by side.
pub(super) fn word(guard: &Guard, headers: &HeaderMap) -> Word {
    let retention = guard.policy.retention;
    let fresh = fresh_for(headers).unwrap_or(retention);
    let keep_answer = !fresh.is_zero() && !headers.contains_key(SET_COOKIE) && varies_by_what_counts(guard, headers);
    let remembered = if keep_answer { fresh.min(retention) } else { retention };
    Word { outcome: Said::Nothing, keep_answer, retention: Some(remembered) }
}

/// How old a shared answer is; none of an answer that is not shared but repeated, which has no age.
pub(super) fn age(guard: &Guard, record: &Record, now: Time) -> Option<HeaderValue> {
    match record.state {
        State::Completed { at, .. } if guard.safe_methods == SafeMethods::Collapse => {
            Some(HeaderValue::from(now.since(at).as_secs()))
        }
        _ => None,
    }
}

/// A read that has failed has done nothing: the next one asks again.
pub(super) fn without_doubt(ending: Ending) -> Ending {
    match ending {
        Ending::Unknown(_) | Ending::Answered { judgement: Judgement::Doubt, .. } => Ending::Harmless,
        ending => ending,
    }
}

/// How long the answer says that it may be given to others: not at all, so long, or nothing.
fn fresh_for(headers: &HeaderMap) -> Option<Duration> {
    let directives = || items(headers, &CACHE_CONTROL);
    let is = |name: &'static str| move |directive: &[u8]| cut(directive).0.eq_ignore_ascii_case(name.as_bytes());
    let barred = ["no-store", "no-cache", "private"].iter().any(|name| directives().any(is(name)));
    if barred || items(headers, &PRAGMA).any(is("no-cache")) {
        return Some(Duration::ZERO);
    }
    let stated = |name| directives().find(|directive| is(name)(directive)).map(|directive| seconds(cut(directive).1));
    let span = stated("s-maxage").or_else(|| stated("max-age")).or_else(|| until_expiry(headers))?;
    let age = headers.get(AGE).map_or(Duration::ZERO, |age| seconds(age.as_bytes()));
    Some(span.saturating_sub(age))
}

/// From `Date` to `Expires` (RFC 9111, section 4.2.1); what is no date has passed.
fn until_expiry(headers: &HeaderMap) -> Option<Duration> {
    let date = |value: &HeaderValue| value.to_str().ok().and_then(|text| httpdate::parse_http_date(text).ok());
    let expires = date(headers.get(EXPIRES)?);
    let from = headers.get(DATE).and_then(date);
    Some(expires.zip(from).and_then(|(expires, from)| expires.duration_since(from).ok()).unwrap_or_default())
}

/// Whether all that the answer depends on is told apart.
fn varies_by_what_counts(guard: &Guard, headers: &HeaderMap) -> bool {
    let counted = &guard.keys.fingerprint.headers;
    items(headers, &VARY).all(|name| counted.iter().any(|own| name.eq_ignore_ascii_case(own.as_str().as_bytes())))
}

/// The items of a field that is a list. Commas in quotes part too: that makes more of a list, and shares less.
fn items<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    let lines = headers.get_all(name).into_iter();
    lines
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|item| !item.is_empty())
}

/// A directive's name and argument.
fn cut(directive: &[u8]) -> (&[u8], &[u8]) {
    match directive.iter().position(|byte| *byte == b'=') {
        Some(at) => (directive[..at].trim_ascii(), directive[at + 1..].trim_ascii()),
        None => (directive, b""),
    }
}

/// A number of seconds; what is none counts as none at all.
fn seconds(text: &[u8]) -> Duration {
    let digits = std::str::from_utf8(text).ok().and_then(|text| text.trim().trim_matches('"').parse().ok());
    Duration::from_secs(digits.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn an_answer_says_for_how_long_it_may_be_shared() {
        const THEN: (&str, &str) = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        for (fields, seconds) in [
            (&[][..], None),
            (&[("cache-control", "public")], None),
            (&[("cache-control", "max-age=5")], Some(5)),
            (&[("cache-control", "public, Max-Age=\"5\"")], Some(5)),
            (&[("cache-control", "max-age=60, s-maxage=1")], Some(1)),
            (&[("cache-control", "max-age=5"), ("age", "4")], Some(1)),
            (&[("cache-control", "max-age=5"), ("age", "9")], Some(0)),
            (&[("cache-control", "max-age=0")], Some(0)),
            (&[("cache-control", "max-age=soon")], Some(0)),
            (&[("cache-control", "max-age=5, No-Store")], Some(0)),
            (&[("cache-control", "private=\"x-a, x-b\"")], Some(0)),
            (&[("cache-control", "max-age=5, no-cache")], Some(0)),
            (&[("pragma", "no-cache")], Some(0)),
            (&[THEN, ("expires", "Sun, 06 Nov 1994 08:49:40 GMT")], Some(3)),
            (&[THEN, ("expires", "Sun, 06 Nov 1994 08:49:00 GMT")], Some(0)),
            (&[THEN, ("expires", "0")], Some(0)),
            (&[("expires", "Sun, 06 Nov 1994 08:49:40 GMT")], Some(0)),
        ] {
            assert_eq!(fresh_for(&headers(fields)), seconds.map(Duration::from_secs), "{fields:?}");
        }
    }
}
