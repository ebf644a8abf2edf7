//! In what two requests differ, told from what is hashed of them: so it misses nothing that counts.

use super::frame::{Framed, Hashed, hex};
use super::leaves::leaves;
use super::{BodyForm, Explanation};

/// One place at which two requests differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// A JSON pointer into the body, or a name such as `query sku` or `path`.
    pub place: String,
    /// What the first has there; none: nothing.
    pub first: Option<String>,
    /// What the second has there.
    pub second: Option<String>,
}

/// In what two requests differ.
#[derive(Debug, Default)]
pub struct Differences {
    /// What makes another operation of the second.
    pub operation: Vec<Difference>,
    /// What makes another request of it.
    pub request: Vec<Difference>,
    /// What does not count: the same in another spelling, or left out by the route's settings.
    pub spelling: Vec<Difference>,
}

/// Compares two requests to one route.
pub fn differences(first: &Explanation, second: &Explanation) -> Differences {
    let operation = differ(&first.operation_parts, &second.operation_parts);
    let mut request = differ(&first.canonical_parts, &second.canonical_parts);
    let both = [first, second];
    // A fingerprint of the client's own has no body among its parts.
    let has_body = |one: &Explanation| one.canonical_parts.iter().any(|part| part.label == BODY);
    let is_json = both.iter().all(|one| one.body == BodyForm::Json && has_body(one));
    let mut spelling = differ(&first.raw_parts, &second.raw_parts);
    if is_json {
        let (values, spelled) = json(both);
        request.retain(|difference| difference.place != BODY);
        request.extend(values);
        if !spelled.is_empty() {
            spelling.retain(|difference| difference.place != BODY);
            spelling.extend(spelled);
        }
    }
    if first.raw == second.raw {
        // An exact repetition is one, whatever a client says that it is.
        spelling.append(&mut request);
    }
    spelling.retain(|difference| !request.iter().any(|counted| is_told_by(counted, difference)));
    Differences { operation, request, spelling }
}

/// What a body is called among the parts of a request.
const BODY: &str = "body";

/// Whether what counts tells all that there is to tell of a difference of the requests as sent.
fn is_told_by(counted: &Difference, sent: &Difference) -> bool {
    let in_body = ["body", "form field", "part", "boundary", "/"];
    counted.place == sent.place
        || (sent.place == "query" && counted.place.starts_with("query "))
        || (sent.place == BODY && in_body.iter().any(|kind| counted.place.starts_with(kind)))
}

/// What stands at one place.
struct Spot<'a> {
    place: String,
    /// Whether it is the value of something that may be there without one.
    is_value: bool,
    values: Vec<&'a Hashed>,
}

impl Spot<'_> {
    fn shown(&self) -> Option<String> {
        let shown: Vec<_> = self.values.iter().filter_map(|hashed| shown(hashed)).collect();
        match shown.as_slice() {
            [] if self.is_malformed() => Some("an escape that is none".to_owned()),
            [] => self.is_value.then(|| "a name alone".to_owned()),
            shown => Some(shown.join(", ")),
        }
    }

    /// Whether it says that a pair's escapes are malformed, which nothing else tells.
    fn is_malformed(&self) -> bool {
        self.place.ends_with(": malformed") && self.values.contains(&&Hashed::Count(1))
    }

    /// Whether it says only how many parts follow, which show by themselves.
    fn is_only_counts(&self) -> bool {
        !self.is_value && self.values.iter().all(|hashed| matches!(hashed, Hashed::Count(_)))
    }
}

fn differ(first: &[Framed], second: &[Framed]) -> Vec<Difference> {
    let (first, second) = (spots(first), spots(second));
    let twin = |spots: &[Spot<'_>], place: &str| spots.iter().position(|spot| spot.place == place);
    let mut all = Vec::new();
    for one in &first {
        let other = twin(&second, &one.place).map(|at| &second[at]);
        let counts = one.is_only_counts()
            && other.is_none_or(|other| other.is_only_counts() && one.is_malformed() == other.is_malformed());
        if !counts && other.is_none_or(|other| other.values != one.values) {
            let second = other.and_then(Spot::shown);
            all.push(Difference { place: one.place.clone(), first: one.shown(), second });
        }
    }
    for other in second.iter().filter(|other| twin(&first, &other.place).is_none() && !other.is_only_counts()) {
        all.push(Difference { place: other.place.clone(), first: None, second: other.shown() });
    }
    all
}

/// The parts by place, with those of digests in their stead. That something is called as it is called goes without saying.
fn spots(framed: &[Framed]) -> Vec<Spot<'_>> {
    let mut all: Vec<Spot<'_>> = Vec::new();
    for part in framed {
        if let Hashed::Digest(_, inner) = &part.hashed {
            all.extend(spots(inner));
            continue;
        }
        let place = match (part.item.as_str(), part.label) {
            ("", "domain") | (_, "name") => continue,
            ("", label) => label.to_owned(),
            (item, "value" | "line") => item.to_owned(),
            (item, label) => format!("{item}: {label}"),
        };
        match all.iter_mut().find(|spot| spot.place == place) {
            Some(spot) => spot.values.push(&part.hashed),
            None => all.push(Spot { place, is_value: part.label == "value", values: vec![&part.hashed] }),
        }
    }
    all
}

fn shown(hashed: &Hashed) -> Option<String> {
    let Hashed::Part(bytes) = hashed else { return None };
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.chars().any(char::is_control));
    Some(text.map_or_else(|| format!("hex {}", hex(bytes)), |text| format!("\"{text}\"")))
}

/// The values that differ, and those that are spelled otherwise or do not count.
fn json(both: [&Explanation; 2]) -> (Vec<Difference>, Vec<Difference>) {
    let canonical = both.map(|one| one.canonical_json.as_deref().and_then(leaves).unwrap_or_default());
    // What was compressed is shown as it was read.
    let sent = both.map(|one| sent(one).and_then(leaves).unwrap_or_default());
    let spelled = [0, 1].map(|at| if sent[at].is_empty() { &canonical[at] } else { &sent[at] });
    let values = unequal([&canonical[0], &canonical[1]]).into_iter().map(|place| difference(&place, spelled));
    let values: Vec<_> = values.collect();
    let others = unequal(spelled).into_iter().filter(|place| values.iter().all(|value| value.place != *place));
    let others = others.map(|place| difference(&place, spelled)).collect();
    (values, others)
}

type Leaves = Vec<(String, String)>;

fn sent(explanation: &Explanation) -> Option<&str> {
    let body = explanation.raw_parts.iter().rev().find(|part| part.label == BODY)?;
    let Hashed::Part(bytes) = &body.hashed else { return None };
    std::str::from_utf8(bytes).ok()
}

fn value<'a>(leaves: &'a Leaves, place: &str) -> Option<&'a str> {
    leaves.iter().find(|(own, _)| own == place).map(|(_, value)| value.as_str())
}

/// The pointers at which two documents differ, in the order of the first.
fn unequal([first, second]: [&Leaves; 2]) -> Vec<String> {
    let changed = first.iter().filter(|(place, own)| value(second, place) != Some(own.as_str()));
    let added = second.iter().filter(|(place, _)| value(first, place).is_none());
    changed.chain(added).map(|(place, _)| place.clone()).collect()
}

fn difference(place: &str, [first, second]: [&Leaves; 2]) -> Difference {
    let of = |leaves| value(leaves, place).map(str::to_owned);
    // The whole document has the empty pointer.
    let named = if place.is_empty() { "/" } else { place };
    Difference { place: named.to_owned(), first: of(first), second: of(second) }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::keys::tests::{by_header, request};
    use crate::keys::{Request, explain};

    /// Requests of many kinds under one key.
    fn requests() -> Vec<Request> {
        let json = |body| request(&[("idempotency-key", "k"), ("content-type", "application/json")], body);
        let of = |kind, body| request(&[("idempotency-key", "k"), ("content-type", kind)], body);
        let form = "application/x-www-form-urlencoded";
        let mut all = vec![
            json("{\"a\":1,\"b\":[]}"),
            json("{ \"b\":[ ], \"a\":1.0}"),
            json("{\"a\":1,\"b\":[null]}"),
            json("{\"a\":\"1\",\"b\":{}}"),
            json("{\"a\":1,\"a\":1}"),
            json("[]"),
            json("{"),
            of(form, "a=1&b=2"),
            of(form, "b=2&a=1"),
            of(form, "a=1&b"),
            of(form, "a=1&b="),
            of(form, "a=%zz"),
            of(form, "a=%25zz"),
            of("text/plain", "a=1&b=2"),
            of("multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--x--"),
            of("multipart/form-data; boundary=y", "--y\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--y--"),
            of("multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=b\r\n\r\n1\r\n--x--"),
            of("multipart/form-data; boundary=x", "--x"),
        ];
        for query in ["a=1&b=2", "b=2&a=1", "a=1&a=2", "a=2&a=1", "a", "a=", ""] {
            all.push(Request { query: Some(query.to_owned()), body: Bytes::new(), ..json("") });
        }
        all
    }

    #[test]
    fn something_is_told_exactly_where_the_digests_differ() {
        let all: Vec<_> = requests().iter().map(|request| explain(&by_header(), request).unwrap()).collect();
        for one in &all {
            for other in &all {
                let found = differences(one, other);
                assert_eq!(found.request.is_empty(), one.canonical == other.canonical, "{found:#?}");
                let is_told = !found.request.is_empty() || !found.spelling.is_empty();
                assert_eq!(is_told, one.raw != other.raw, "{found:#?}\n{:#?}\n{:#?}", one.raw_parts, other.raw_parts);
                assert!(found.operation.is_empty());
            }
        }
    }
}
