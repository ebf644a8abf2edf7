//! The upstream's own word on an operation, read from the fields of its answer. What it means is the rules' matter.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};

use super::settings::OutcomeHeaders;
use crate::machine::{Judgement, OperationId, Said, Word};
use crate::telemetry::RouteMetrics;

/// What became of the operation.
const OUTCOME: &str = "oncegate-outcome";
/// Whether the answer may be kept.
const STORE: &str = "oncegate-store";
/// For how many seconds the outcome is to be remembered.
const TTL: &str = "oncegate-ttl";

/// A field's value, when it is there.
enum Field<T> {
    Absent,
    Clear(T),
    /// Malformed, or there more than once.
    Unclear,
}

/// What the upstream says on a route that trusts it so far. What cannot be made out is counted; of each route only the
/// first such field is logged.
pub(super) fn hear(trust: OutcomeHeaders, headers: &HeaderMap, operation: &OperationId, route: &RouteMetrics) -> Word {
    if trust == OutcomeHeaders::Ignore {
        return Word::NONE;
    }
    let (word, unclear) = read(headers);
    for field in unclear {
        if route.outcome_header_unclear() {
            tracing::warn!(
                operation = %operation.short(), route = route.name(), field,
                "the upstream says what cannot be made out; from now on this is only counted"
            );
        }
    }
    word
}

/// The word, and which of its fields cannot be made out. Each of these is taken the careful way: no key is freed, no
/// answer is kept, and the outcome is remembered for as long as the route says.
fn read(headers: &HeaderMap) -> (Word, Vec<&'static str>) {
    let mut unclear = Vec::new();
    let outcome = match field(headers, OUTCOME, outcome, &mut unclear) {
        Field::Absent => Said::Nothing,
        Field::Clear(judgement) => Said::Clearly(judgement),
        Field::Unclear => Said::Unclearly,
    };
    let keep_answer = match field(headers, STORE, store, &mut unclear) {
        Field::Absent => true,
        Field::Clear(keep) => keep,
        Field::Unclear => false,
    };
    let retention = match field(headers, TTL, seconds, &mut unclear) {
        Field::Clear(retention) => Some(retention),
        Field::Absent | Field::Unclear => None,
    };
    (Word { outcome, keep_answer, retention }, unclear)
}

fn field<T>(
    headers: &HeaderMap,
    name: &'static str,
    parse: fn(&str) -> Option<T>,
    unclear: &mut Vec<&'static str>,
) -> Field<T> {
    let mut lines = headers.get_all(name).iter();
    let Some(first) = lines.next() else { return Field::Absent };
    let text = HeaderValue::to_str(first).ok().filter(|_| lines.next().is_none());
    if let Some(value) = text.and_then(|text| parse(text.trim())) {
        return Field::Clear(value);
    }
    unclear.push(name);
    Field::Unclear
}

fn outcome(text: &str) -> Option<Judgement> {
    let words = [("executed", Judgement::Keep), ("not-executed", Judgement::Release), ("unknown", Judgement::Doubt)];
    words.into_iter().find(|(word, _)| text.eq_ignore_ascii_case(word)).map(|(_, judgement)| judgement)
}

fn store(text: &str) -> Option<bool> {
    [("yes", true), ("no", false)].into_iter().find(|(word, _)| text.eq_ignore_ascii_case(word)).map(|(_, keep)| keep)
}

/// A number that is too large for any clock is a wish for long all the same; its bound is the rules' matter.
fn seconds(text: &str) -> Option<Duration> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_number.then(|| text.parse().unwrap_or(u64::MAX))?;
    (number > 0).then(|| Duration::from_secs(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(lines: &[(&'static str, &'static str)]) -> (Word, Vec<&'static str>) {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        read(&headers)
    }

    #[test]
    fn a_word_is_read_as_documented() {
        assert_eq!(heard(&[("content-type", "text/plain")]), (Word::NONE, vec![]));
        for (text, judgement) in [
            ("executed", Judgement::Keep),
            ("not-executed", Judgement::Release),
            ("unknown", Judgement::Doubt),
            (" Not-Executed ", Judgement::Release),
        ] {
            let word = Word { outcome: Said::Clearly(judgement), ..Word::NONE };
            assert_eq!(heard(&[(OUTCOME, text)]), (word, vec![]), "{text}");
        }
        let word = Word { keep_answer: false, retention: Some(Duration::from_secs(90)), ..Word::NONE };
        assert_eq!(heard(&[(STORE, "no"), (TTL, "90")]), (word, vec![]));
        assert_eq!(heard(&[(STORE, "yes")]), (Word::NONE, vec![]));
        let longest = Word { retention: Some(Duration::from_secs(u64::MAX)), ..Word::NONE };
        assert_eq!(heard(&[(TTL, "99999999999999999999999")]), (longest, vec![]));
    }

    #[test]
    fn what_cannot_be_made_out_is_taken_the_careful_way() {
        let careful = Word { outcome: Said::Unclearly, keep_answer: false, retention: None };
        for (outcome, store, ttl) in
            [("", "", ""), ("done", "never", "0"), ("not executed", "no, no", "+5"), ("executed;x", "0", "1.5")]
        {
            let said = heard(&[(OUTCOME, outcome), (STORE, store), (TTL, ttl)]);
            assert_eq!(said, (careful, vec![OUTCOME, STORE, TTL]), "{outcome} {store} {ttl}");
        }
        let twice = heard(&[(OUTCOME, "not-executed"), (OUTCOME, "not-executed"), (TTL, "5"), (TTL, "5")]);
        assert_eq!(twice, (Word { outcome: Said::Unclearly, ..Word::NONE }, vec![OUTCOME, TTL]));
        for ttl in ["5s", "-1", "\u{e9}"] {
            let mut headers = HeaderMap::new();
            headers.insert(TTL, HeaderValue::from_bytes(ttl.as_bytes()).unwrap());
            assert_eq!(read(&headers), (Word::NONE, vec![TTL]), "{ttl}");
        }
    }
}
