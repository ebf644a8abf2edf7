//! Canonical pairs of forms and queries: order of names and spelling of escapes do not count, all else does.
//! The second opinion splits and decodes by itself.

use oncegate::keys::{BodyForm, FingerprintSettings, Refusal, Request, Source};
use oncegate::machine::Print;

use super::dice::Dice;
use super::view::{key, post, seen, seen_without};

/// One pair: name, value if there is a `=`, and whether an escape is malformed.
type Pair = (Vec<u8>, Option<Vec<u8>>, bool);

/// Takes the input for pairs, or for two lots of them with a NUL between.
pub fn check(data: &[u8]) {
    let mut texts = data.rsplitn(2, |byte| *byte == 0);
    let one = texts.next().map(|text| alone(text, &mut Dice::of(data)));
    if let (Some(one), Some(other)) = (one, texts.next()) {
        let other = alone(other, &mut Dice::of(other));
        assert_eq!(one.0 == other.0, one.1 == other.1, "{:?} {:?}", one.1, other.1);
    }
}

fn in_body(text: &[u8]) -> Request {
    post("application/x-www-form-urlencoded", text)
}

fn in_query(text: &[u8]) -> Option<Request> {
    let query = std::str::from_utf8(text).ok()?.to_owned();
    Some(Request { query: Some(query), ..post("text/plain", b"") })
}

/// The pairs in the order sent.
fn pairs(text: &[u8]) -> Vec<Pair> {
    text.split(|byte| *byte == b'&').filter(|piece| !piece.is_empty()).map(pair).collect()
}

fn pair(piece: &[u8]) -> Pair {
    let mut halves = piece.splitn(2, |byte| *byte == b'=');
    let name = halves.next().unwrap_or_default();
    let value = halves.next();
    match (decoded(name), value.map(decoded)) {
        (Some(name), None) => (name, None, false),
        (Some(name), Some(Some(value))) => (name, Some(value), false),
        _ => (name.to_vec(), value.map(<[u8]>::to_vec), true),
    }
}

/// The bytes that escapes stand for; none when there are malformed ones.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut pieces = text.split(|byte| *byte == b'%');
    let plain = |piece: &[u8]| piece.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect::<Vec<_>>();
    let mut out = plain(pieces.next().unwrap_or_default());
    for piece in pieces {
        let digits = piece.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        out.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        out.extend(plain(&piece[2..]));
    }
    Some(out)
}

/// The pairs sorted by name; equal names keep their order.
fn sorted(mut pairs: Vec<Pair>) -> Vec<Pair> {
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    pairs
}

fn alone(text: &[u8], dice: &mut Dice) -> (Print, Vec<Pair>) {
    let seen_whole = seen(&in_body(text));
    assert_eq!(seen_whole.body, BodyForm::Form);
    let pairs = pairs(text);
    let other = respelled(&pairs, dice);
    assert_eq!(sorted(self::pairs(&other)), sorted(pairs.clone()), "the check itself is wrong");
    let shown = String::from_utf8_lossy(&other);
    assert_eq!(seen(&in_body(&other)).canonical, seen_whole.canonical, "{shown}");
    if let (Some(query), Some(other)) = (in_query(text), in_query(&other)) {
        assert_eq!(seen(&other).canonical, seen(&query).canonical, "{shown}");
        less_when_ignored(&query, &pairs, dice);
        let name = any_name(&pairs, dice);
        found(&Source::Query(name.clone()), &query, &name, &pairs);
    }
    let name = any_name(&pairs, dice);
    found(&Source::Form(name.clone()), &in_body(text), &name, &pairs);
    let one_more = [text, b"&=+"].concat();
    assert_ne!(seen(&in_body(&one_more)).canonical, seen_whole.canonical, "one pair more");
    (seen_whole.canonical, sorted(pairs))
}

/// Another text of the same pairs: other names first, other escapes.
fn respelled(pairs: &[Pair], dice: &mut Dice) -> Vec<u8> {
    let mut names: Vec<&[u8]> = pairs.iter().map(|pair| pair.0.as_slice()).collect();
    names.sort_unstable();
    names.dedup();
    dice.shuffle(&mut names);
    let mut out = Vec::new();
    for wanted in names {
        for (name, value, malformed) in pairs.iter().filter(|pair| pair.0 == wanted) {
            let spell = |text: &[u8], out: &mut Vec<u8>, dice: &mut Dice| match malformed {
                true => out.extend_from_slice(text),
                false => write(text, out, dice),
            };
            spell(name, &mut out, dice);
            if let Some(value) = value {
                out.push(b'=');
                spell(value, &mut out, dice);
            }
            out.extend(&b"&&&"[dice.below(3)..]);
        }
    }
    out
}

fn write(text: &[u8], out: &mut Vec<u8>, dice: &mut Dice) {
    for byte in text {
        match byte {
            b' ' if dice.once_in(2) => out.push(b'+'),
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'.' | b'_' if !dice.once_in(5) => out.push(*byte),
            _ if dice.once_in(2) => out.extend(format!("%{byte:02x}").bytes()),
            _ => out.extend(format!("%{byte:02X}").bytes()),
        }
    }
}

/// The name of some pair, or one that no pair has.
fn any_name(pairs: &[Pair], dice: &mut Dice) -> String {
    let name = pairs.get(dice.below(pairs.len() + 1)).and_then(|pair| String::from_utf8(pair.0.clone()).ok());
    name.unwrap_or_else(|| "order_no".to_owned())
}

fn less_when_ignored(query: &Request, pairs: &[Pair], dice: &mut Dice) {
    let name = any_name(pairs, dice);
    let rest: Vec<Pair> = pairs.iter().filter(|pair| pair.0 != name.as_bytes()).cloned().collect();
    let settings = FingerprintSettings { ignore_query: vec![name.clone()], ..FingerprintSettings::default() };
    let Some(rest) = in_query(&respelled(&rest, dice)) else { return };
    assert_eq!(seen_without(query, settings).canonical, seen(&rest).canonical, "{:?} without {name}", query.query);
}

/// A key is the value of the one pair of its name.
fn found(source: &Source, request: &Request, name: &str, pairs: &[Pair]) {
    // A name is known though the value beside it is malformed; when it is malformed itself, it is nobody's.
    let called = |pair: &&Pair| {
        if pair.2 { decoded(&pair.0).as_deref() == Some(name.as_bytes()) } else { pair.0 == name.as_bytes() }
    };
    let named: Vec<&Pair> = pairs.iter().filter(called).collect();
    let key = key(source, request);
    let expected = match named.as_slice() {
        [] => return assert!(matches!(key, Err(Refusal::KeyMissing(_))), "{name:?} {key:?}"),
        [(_, value, false)] => String::from_utf8(value.clone().unwrap_or_default()).ok(),
        _ => None,
    };
    // A blank one is as good as not there.
    if expected.as_ref().is_some_and(|value| value.trim().is_empty()) {
        return assert!(matches!(key, Err(Refusal::KeyMissing(_))), "{name:?} {key:?}");
    }
    match expected.filter(|value| value.chars().count() <= 255) {
        Some(value) => assert_eq!(key, Ok(value)),
        None => assert!(matches!(key, Err(Refusal::KeyInvalid(_))), "{name:?} {key:?}"),
    }
}
