//! JSON values as `serde_json` reads them, with exact numbers and all members: a second opinion, slow and simple.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::dice::Dice;

/// What stands before a number that was made a string, so that it comes through whole.
const NUMBER: char = '\u{10FFFF}';

/// A JSON value. Members are sorted by name; equal names keep their order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(Decimal),
    Text(String),
    List(Vec<Value>),
    Members(Vec<(String, Value)>),
}

/// A number: its digits without zeros at either end, times ten to the exponent. Zero has no digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Decimal {
    pub(super) negative: bool,
    pub(super) digits: String,
    pub(super) exponent: i128,
}

/// Reads a document. None when it is none, nests deeper than `serde_json` goes, has a number beyond all measure,
/// or holds the one character that this needs for itself.
pub(super) fn read(text: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(text).ok()?;
    // This judges the numbers' spelling; afterwards they are strings.
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    let value: Value = serde_json::from_str(&with_numbers_as_strings(text)).ok()?;
    value.is_measured().then_some(value)
}

/// Whether [`read`] needs a character for itself that the text has.
pub(super) fn is_beyond_us(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    text.contains(NUMBER) || text.to_ascii_lowercase().contains("\\udfff")
}

fn with_numbers_as_strings(text: &str) -> String {
    let mut out = String::with_capacity(2 * text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        out.push(c);
        match c {
            '"' => copy_string(&mut out, &mut chars),
            '-' | '0'..='9' => {
                out.pop();
                out.extend(['"', NUMBER, c]);
                while let Some(c) = chars.next_if(|c| matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E')) {
                    out.push(c);
                }
                out.push('"');
            }
            _ => {}
        }
    }
    out
}

fn copy_string(out: &mut String, chars: &mut impl Iterator<Item = char>) {
    while let Some(c) = chars.next() {
        out.push(c);
        match c {
            '"' => return,
            '\\' => out.extend(chars.next()),
            _ => {}
        }
    }
}

impl Decimal {
    /// Exponents from here on are beyond all measure.
    const FAR: i128 = 10_i128.pow(36);

    /// Reads a number that is spelled well. None when it is beyond all measure.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{}{fraction}", whole.trim_start_matches('-'));
        let short = all.trim_end_matches('0');
        let digits = short.trim_start_matches('0').to_owned();
        if digits.is_empty() {
            return Some(Self { negative: false, digits, exponent: 0 });
        }
        // What does not fit here is far beyond.
        let exponent: i128 = exponent.parse().ok()?;
        let exponent = exponent.checked_add(as_i128(all.len() - short.len()) - as_i128(fraction.len()))?;
        let near = (1 - Self::FAR..Self::FAR).contains(&exponent);
        near.then(|| Self { negative: whole.starts_with('-'), digits, exponent })
    }

    fn write(&self, out: &mut String, dice: &mut Dice) {
        let sign = if self.negative { "-" } else { "" };
        let (digits, exponent, length) = (&self.digits, self.exponent, as_i128(self.digits.len()));
        let zeros = &"0000"[..dice.below(5)];
        let more = as_i128(zeros.len());
        let spelled = match (usize::try_from(exponent), dice.below(4)) {
            _ if digits.is_empty() => ["0", "-0", "0.0", "-0.000E-1"][dice.below(4)].to_owned(),
            (Ok(few @ 0..8), 0 | 1) => format!("{sign}{digits}{}", &"00000000"[..few]),
            (_, 0) => format!("{sign}{digits}{zeros}e{}", exponent - more),
            (_, 1) => format!("{sign}{digits}.0{zeros}e{exponent:+}"),
            (_, 2) => format!("{sign}{}.{}0{zeros}E{:+}", &digits[..1], &digits[1..], exponent + length - 1),
            _ => format!("{sign}0.{zeros}{digits}e{}", exponent + length + more),
        };
        out.push_str(&spelled);
    }
}

fn as_i128(count: usize) -> i128 {
    i128::try_from(count).unwrap_or(i128::MAX)
}

impl Value {
    fn is_measured(&self) -> bool {
        // A number that could not be read is still a text with the mark.
        match self {
            Self::List(values) => values.iter().all(Self::is_measured),
            Self::Members(members) => members.iter().all(|(_, value)| value.is_measured()),
            Self::Text(text) => !text.starts_with(NUMBER),
            Self::Null | Self::Bool(_) | Self::Number(_) => true,
        }
    }

    /// How many containers are inside each other.
    pub(super) fn depth(&self) -> usize {
        match self {
            Self::List(values) => 1 + values.iter().map(Self::depth).max().unwrap_or_default(),
            Self::Members(members) => 1 + members.iter().map(|(_, value)| value.depth()).max().unwrap_or_default(),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) => 0,
        }
    }

    pub(super) fn has_duplicates(&self) -> bool {
        match self {
            Self::List(values) => values.iter().any(Self::has_duplicates),
            Self::Members(members) => {
                members.windows(2).any(|pair| pair[0].0 == pair[1].0)
                    || members.iter().any(|(_, value)| value.has_duplicates())
            }
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) => false,
        }
    }

    /// Another text of the same value.
    pub(super) fn respelled(&self, dice: &mut Dice) -> String {
        let mut out = String::new();
        self.write(&mut out, dice);
        out
    }

    fn write(&self, out: &mut String, dice: &mut Dice) {
        space(out, dice);
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Number(number) => number.write(out, dice),
            Self::Text(text) => write_string(text, out, dice),
            Self::List(values) => {
                out.push('[');
                for (at, value) in values.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    value.write(out, dice);
                }
                space(out, dice);
                out.push(']');
            }
            Self::Members(members) => {
                let mut members: Vec<_> = members.iter().collect();
                dice.shuffle(&mut members);
                out.push('{');
                for (at, (name, value)) in members.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    space(out, dice);
                    write_string(name, out, dice);
                    space(out, dice);
                    out.push(':');
                    value.write(out, dice);
                }
                space(out, dice);
                out.push('}');
            }
        }
        space(out, dice);
    }

    /// A place in the value, found by chance.
    pub(super) fn any_place(&self, dice: &mut Dice) -> Vec<usize> {
        let (mut place, mut value) = (Vec::new(), self);
        while !(value.children() == 0 || dice.once_in(5)) {
            let at = dice.below(value.children());
            place.push(at);
            value = value.child(at);
        }
        place
    }

    fn children(&self) -> usize {
        match self {
            Self::List(values) => values.len(),
            Self::Members(members) => members.len(),
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) => 0,
        }
    }

    fn child(&self, at: usize) -> &Self {
        match self {
            Self::List(values) => &values[at],
            Self::Members(members) => &members[at].1,
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) => self,
        }
    }

    /// The value at a place.
    pub(super) fn at(&self, place: &[usize]) -> &Self {
        place.iter().fold(self, |value, at| value.child(*at))
    }

    /// The pointer (RFC 6901) to a place.
    pub(super) fn pointer(&self, place: &[usize]) -> String {
        let Some((at, rest)) = place.split_first() else { return String::new() };
        let token = match self {
            Self::Members(members) => members[*at].0.replace('~', "~0").replace('/', "~1"),
            _ => at.to_string(),
        };
        format!("/{token}{}", self.child(*at).pointer(rest))
    }

    /// Does something to the value at a place. `change` says whether it is to stay.
    pub(super) fn edit(&mut self, place: &[usize], change: &mut dyn FnMut(&mut Self) -> bool) {
        let Some((at, rest)) = place.split_first() else {
            change(self);
            return;
        };
        match self {
            Self::List(values) if !rest.is_empty() => values[*at].edit(rest, change),
            Self::Members(members) if !rest.is_empty() => members[*at].1.edit(rest, change),
            Self::List(values) => {
                let stays = change(&mut values[*at]);
                values.extract_if(*at..=*at, |_| !stays).for_each(drop);
            }
            Self::Members(members) => {
                let stays = change(&mut members[*at].1);
                members.extract_if(*at..=*at, |_| !stays).for_each(drop);
            }
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) => {}
        }
    }

    /// Becomes another value, but only just.
    pub(super) fn differ(&mut self) {
        match self {
            Self::Null => *self = Self::Bool(false),
            Self::Bool(value) => *value = !*value,
            Self::Number(number) => number.digits.push('1'),
            Self::Text(text) => text.push(' '),
            Self::List(values) => values.push(Self::Null),
            Self::Members(members) => members.push((" ".to_owned(), Self::Null)),
        }
    }
}

fn space(out: &mut String, dice: &mut Dice) {
    out.push_str(["", "", "", " ", "\r\n\t"][dice.below(5)]);
}

fn write_string(text: &str, out: &mut String, dice: &mut Dice) {
    out.push('"');
    for c in text.chars() {
        match c {
            '\n' if dice.once_in(2) => out.push_str("\\n"),
            '/' if dice.once_in(2) => out.push_str("\\/"),
            '"' | '\\' if dice.once_in(2) => out.extend(['\\', c]),
            '"' | '\\' | '\0'..='\x1f' => write_units(c, out),
            _ if dice.once_in(4) => write_units(c, out),
            _ => out.push(c),
        }
    }
    out.push('"');
}

fn write_units(c: char, out: &mut String) {
    out.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04X}")));
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value but a number")
            }

            fn visit_unit<E>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
                Ok(Value::Bool(value))
            }

            fn visit_str<E>(self, text: &str) -> Result<Value, E> {
                let number = text.strip_prefix(NUMBER).and_then(Decimal::read);
                Ok(number.map_or_else(|| Value::Text(text.to_owned()), Value::Number))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = from.next_element()? {
                    values.push(value);
                }
                Ok(Value::List(values))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = from.next_entry::<String, Value>()? {
                    members.push(member);
                }
                members.sort_by(|a, b| a.0.cmp(&b.0));
                Ok(Value::Members(members))
            }
        }
        from.deserialize_any(Any)
    }
}
