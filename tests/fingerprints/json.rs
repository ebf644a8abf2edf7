//! JSON values: made at random, written in any spelling, changed in one place. Nothing here reads JSON.

use std::fmt::Write;

use crate::dice::Dice;

/// Names and texts are made of these: plain, to be escaped, of two, three and four bytes.
const CHARS: [char; 20] = [
    'a', 'b', 'c', 'A', '0', '1', ' ', '"', '\\', '/', '\n', '\t', '\u{8}', '\u{1}', '\u{7f}', 'é', '\u{301}', '中',
    '\u{ffff}', '😀',
];

/// A value, apart from its spelling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(Decimal),
    Text(String),
    List(Vec<Json>),
    /// Names differ.
    Members(Vec<(String, Json)>),
}

/// `digits` times ten to the power of `exponent`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decimal {
    negative: bool,
    /// Without zeros at either end; empty for zero.
    digits: String,
    /// 0 for zero.
    exponent: i32,
}

pub(crate) fn text(dice: &mut Dice) -> String {
    (0..dice.below(7)).map(|_| dice.pick(&CHARS)).collect()
}

impl Decimal {
    fn any(dice: &mut Dice) -> Self {
        let length = if dice.once_in(20) { 1 + dice.below(40) } else { 1 + dice.below(4) };
        let digits: String = (0..length).map(|_| dice.pick(&['0', '1', '2', '9', '0'])).collect();
        let exponent = match dice.below(20) {
            0 => i32::try_from(dice.below(2_000_000)).unwrap() - 1_000_000,
            1..=8 => i32::try_from(dice.below(7)).unwrap() - 4,
            _ => 0,
        };
        Self::new(dice.once_in(4), &digits, exponent)
    }

    fn new(negative: bool, digits: &str, exponent: i32) -> Self {
        let kept = digits.trim_start_matches('0').trim_end_matches('0');
        if kept.is_empty() {
            return Self { negative: false, digits: String::new(), exponent: 0 };
        }
        let zeros = i32::try_from(digits.len() - digits.trim_end_matches('0').len()).unwrap();
        Self { negative, digits: kept.to_owned(), exponent: exponent + zeros }
    }

    fn write(&self, out: &mut String, dice: &mut Dice) {
        if self.negative || (self.digits.is_empty() && dice.once_in(3)) {
            out.push('-');
        }
        let zeros = dice.below(3);
        let mut digits = self.digits.clone() + &"000"[..zeros];
        let mut exponent = self.exponent - i32::try_from(zeros).unwrap();
        if digits.is_empty() {
            digits.push('0');
        }
        // The point goes in front of so many digits.
        let after = dice.below(digits.len() + 2);
        exponent += i32::try_from(after).unwrap();
        if after >= digits.len() {
            out.push_str("0.");
            out.push_str(&"00"[..after - digits.len()]);
            out.push_str(&digits);
        } else {
            let whole = digits.len() - after;
            // Of zeros in front of the point one is enough, and more is no number.
            out.push_str(if self.digits.is_empty() { "0" } else { &digits[..whole] });
            if after > 0 {
                out.push('.');
                out.push_str(&digits[whole..]);
            }
        }
        if exponent != 0 || dice.once_in(4) {
            let sign = if exponent >= 0 { dice.pick(&["", "+"]) } else { "-" };
            let zeros = dice.pick(&["", "", "0"]);
            write!(out, "{}{sign}{zeros}{}", dice.pick(&['e', 'E']), exponent.unsigned_abs()).unwrap();
        }
    }

    fn changed(&self, dice: &mut Dice) -> Self {
        match dice.below(3) {
            0 if !self.digits.is_empty() => Self { negative: !self.negative, ..self.clone() },
            1 if !self.digits.is_empty() => Self { exponent: self.exponent + 1, ..self.clone() },
            // One digit more at the end: 0.1 becomes 0.10000000000000001, or 9 becomes 91.
            _ => Self::new(self.negative, &format!("{}{}1", self.digits, "0".repeat(dice.below(20))), self.exponent),
        }
    }
}

impl Json {
    pub(crate) fn any(dice: &mut Dice, depth: usize) -> Self {
        match dice.below(if depth == 0 { 7 } else { 12 }) {
            0 => Self::Null,
            1 => Self::Bool(dice.once_in(2)),
            2 | 3 => Self::Number(Decimal::any(dice)),
            4..=6 => Self::Text(text(dice)),
            7 | 8 => Self::List((0..dice.below(4)).map(|_| Self::any(dice, depth - 1)).collect()),
            _ => {
                let mut members: Vec<(String, Self)> = Vec::new();
                for _ in 0..dice.below(5) {
                    let name = text(dice);
                    if members.iter().all(|(other, _)| *other != name) {
                        members.push((name, Self::any(dice, depth - 1)));
                    }
                }
                Self::Members(members)
            }
        }
    }

    /// What it means, as a text that no other value has.
    pub(crate) fn meaning(&self, out: &mut String) {
        match self {
            Self::Members(members) => {
                let mut sorted: Vec<_> = members.iter().collect();
                sorted.sort_unstable_by(|a, b| a.0.cmp(&b.0));
                out.push('{');
                for (name, value) in sorted {
                    write!(out, "{name:?}:").unwrap();
                    value.meaning(out);
                }
                out.push('}');
            }
            Self::List(values) => {
                out.push('[');
                for value in values {
                    value.meaning(out);
                    out.push(',');
                }
                out.push(']');
            }
            Self::Number(Decimal { negative, digits, exponent }) => {
                write!(out, "{}{digits}e{exponent}", if *negative { "-" } else { "+" }).unwrap();
            }
            Self::Text(text) => write!(out, "{text:?}").unwrap(),
            Self::Bool(truth) => write!(out, "{truth}").unwrap(),
            Self::Null => out.push_str("null"),
        }
    }

    /// In any spelling.
    pub(crate) fn write(&self, out: &mut String, dice: &mut Dice) {
        space(out, dice);
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(truth) => write!(out, "{truth}").unwrap(),
            Self::Number(number) => number.write(out, dice),
            Self::Text(text) => write_text(text, out, dice),
            Self::List(values) => {
                out.push('[');
                for (at, value) in values.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    value.write(out, dice);
                }
                out.push(']');
            }
            Self::Members(members) => {
                let mut shuffled: Vec<_> = members.iter().collect();
                dice.shuffle(&mut shuffled);
                out.push('{');
                for (at, (name, value)) in shuffled.into_iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    space(out, dice);
                    write_text(name, out, dice);
                    space(out, dice);
                    out.push(':');
                    value.write(out, dice);
                }
                out.push('}');
            }
        }
        space(out, dice);
    }

    /// Another value in one place, somewhere in it.
    pub(crate) fn change(&mut self, dice: &mut Dice) {
        match self {
            Self::List(values) if !values.is_empty() => change_list(values, dice),
            Self::Members(members) if !members.is_empty() => change_members(members, dice),
            Self::List(values) => values.push(Self::Null),
            Self::Members(members) => members.push((text(dice), Self::Null)),
            Self::Null => *self = dice.pick(&[Self::Bool(false), Self::Text(String::new()), Self::List(Vec::new())]),
            Self::Bool(truth) => *truth = !*truth,
            Self::Number(number) if dice.once_in(5) => *self = Self::Text(number.digits.clone()),
            Self::Number(number) => *number = number.changed(dice),
            Self::Text(text) => change_text(text, dice),
        }
    }
}

fn change_list(values: &mut Vec<Json>, dice: &mut Dice) {
    let at = dice.below(values.len());
    match dice.below(6) {
        0 => drop(values.remove(at)),
        1 => values.insert(at, Json::Null),
        // The order counts.
        2 if values[at] != values[0] => values.swap(0, at),
        _ => values[at].change(dice),
    }
}

fn change_members(members: &mut Vec<(String, Json)>, dice: &mut Dice) {
    let at = dice.below(members.len());
    match dice.below(6) {
        0 => drop(members.remove(at)),
        1 => {
            let mut name = members[at].0.clone();
            while members.iter().any(|(other, _)| *other == name) {
                change_text(&mut name, dice);
            }
            members[at].0 = name;
        }
        _ => members[at].1.change(dice),
    }
}

/// One character more, less or other.
pub(crate) fn change_text(text: &mut String, dice: &mut Dice) {
    let mut chars: Vec<char> = text.chars().collect();
    let at = dice.below(chars.len() + 1);
    match dice.below(3) {
        0 if at < chars.len() => drop(chars.remove(at)),
        1 if at < chars.len() => chars[at] = if chars[at] == 'a' { 'b' } else { 'a' },
        _ => chars.insert(at, dice.pick(&CHARS)),
    }
    *text = chars.into_iter().collect();
}

fn space(out: &mut String, dice: &mut Dice) {
    if dice.once_in(6) {
        out.push_str(dice.pick(&[" ", "\n", "\t", "\r\n  "]));
    }
}

fn write_text(text: &str, out: &mut String, dice: &mut Dice) {
    out.push('"');
    for c in text.chars() {
        let short = match c {
            '"' | '\\' | '/' => Some(c),
            '\n' => Some('n'),
            '\t' => Some('t'),
            '\u{8}' => Some('b'),
            _ => None,
        };
        let bare = !matches!(c, '"' | '\\' | '\0'..='\u{1f}');
        match short {
            _ if bare && !dice.once_in(6) => out.push(c),
            Some(short) if dice.once_in(2) => out.extend(['\\', short]),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let upper = dice.once_in(2);
                    let written = if upper { write!(out, "\\u{unit:04X}") } else { write!(out, "\\u{unit:04x}") };
                    written.unwrap();
                }
            }
        }
    }
    out.push('"');
}

/// The same for a field's line.
pub(crate) fn change_ascii(text: &mut String, dice: &mut Dice) {
    text.push(dice.pick(&['0', '1', ',']));
}
