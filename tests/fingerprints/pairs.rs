//! Pairs of queries and forms: made at random, written in any spelling, changed in one place.

use std::fmt::Write;

use crate::dice::Dice;

/// Names, values; none where there is no `=`.
pub(crate) type Pairs = Vec<(Vec<u8>, Option<Vec<u8>>)>;

const BYTES: [u8; 16] = *b"abAB01 +&=%;/.\xc3\xff";

fn text(dice: &mut Dice) -> Vec<u8> {
    (0..dice.below(6)).map(|_| dice.pick(&BYTES)).collect()
}

/// A name. With one that is empty and no value, there would be no pair.
fn name(dice: &mut Dice) -> Vec<u8> {
    if dice.once_in(3) { vec![dice.pick(b"ab")] } else { [text(dice), vec![dice.pick(&BYTES)]].concat() }
}

pub(crate) fn any(dice: &mut Dice) -> Pairs {
    (0..dice.below(6)).map(|_| (name(dice), (!dice.once_in(6)).then(|| text(dice)))).collect()
}

/// What they mean: sorted by name, equal names in their order.
pub(crate) fn meaning(pairs: &Pairs, out: &mut String) {
    let mut sorted: Vec<_> = pairs.iter().collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    write!(out, "{sorted:?}").unwrap();
}

/// In any spelling: other names first, other escapes, empty pieces between.
pub(crate) fn write(pairs: &Pairs, dice: &mut Dice) -> String {
    let mut order: Vec<usize> = (0..pairs.len()).collect();
    dice.shuffle(&mut order);
    let mut out = String::new();
    // Each place goes to the first of its name that has none yet.
    let mut taken = vec![false; pairs.len()];
    for place in order {
        let first = (0..pairs.len()).find(|at| !taken[*at] && pairs[*at].0 == pairs[place].0).unwrap();
        taken[first] = true;
        escape(&pairs[first].0, &mut out, dice);
        if let Some(value) = &pairs[first].1 {
            out.push('=');
            escape(value, &mut out, dice);
        }
        out.push_str(dice.pick(&["&", "&", "&&"]));
    }
    if dice.once_in(2) { out.trim_end_matches('&').to_owned() } else { out }
}

fn escape(text: &[u8], out: &mut String, dice: &mut Dice) {
    for byte in text {
        match byte {
            b' ' if dice.once_in(2) => out.push('+'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' if !dice.once_in(6) => out.push(char::from(*byte)),
            _ if dice.once_in(2) => write!(out, "%{byte:02x}").unwrap(),
            _ => write!(out, "%{byte:02X}").unwrap(),
        }
    }
}

/// Other pairs in one place; or the same ones in another order, which counts among equal names.
pub(crate) fn change(pairs: &mut Pairs, dice: &mut Dice) {
    if pairs.is_empty() {
        pairs.push((name(dice), None));
        return;
    }
    let at = dice.below(pairs.len());
    let end = pairs.len();
    match dice.below(8) {
        6 | 7 => pairs.swap(at, dice.below(end)),
        0 => drop(pairs.remove(at)),
        1 => pairs.push(pairs[at].clone()),
        2 => change_bytes(&mut pairs[at].0, dice),
        // `a=` is not `a`.
        3 => pairs[at].1 = if pairs[at].1.is_none() { Some(Vec::new()) } else { None },
        _ => match &mut pairs[at].1 {
            Some(value) => change_bytes(value, dice),
            none => *none = Some(text(dice)),
        },
    }
}

/// One byte more, or another one.
pub(crate) fn change_bytes(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let at = dice.below(bytes.len() + 1);
    if at < bytes.len() && dice.once_in(2) {
        bytes[at] ^= 1 << dice.below(8);
    } else {
        bytes.insert(at, dice.pick(&BYTES));
    }
}
