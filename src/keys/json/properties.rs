//! Canonical JSON against a plain reference: documents of any shape in any spelling, whole, cut and broken. The reference
//! is a tree, sorted and written slowly; what is no JSON is told by `serde_json`.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// A document as it was made up.
enum Tree {
    Word(&'static str),
    /// In its one spelling, and as it is sent.
    Number(String, String),
    Text(String),
    List(Vec<Tree>),
    Members(Vec<(String, Tree)>),
}

/// Choices, one after another: always the first when there are no more.
struct Dice(std::vec::IntoIter<u8>);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        usize::from(self.0.next().unwrap_or_default()) % count
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn tree(&mut self, depth: usize) -> Tree {
        match self.below(if depth == 0 { 3 } else { 6 }) {
            0 => Tree::Word(self.one_of(&["null", "true", "false"])),
            1 => self.number(),
            2 => Tree::Text(self.text()),
            3 => Tree::List((0..self.below(5)).map(|_| self.tree(depth - 1)).collect()),
            _ => {
                let count = self.one_of(&[0, 1, 2, 3, 4, 5, 7, 15, 16, 17, 18, 40]);
                Tree::Members((0..count).map(|_| (self.name(), self.tree(depth - 1))).collect())
            }
        }
    }

    /// Digits that begin and end with none that is zero, times ten to an exponent.
    fn number(&mut self) -> Tree {
        let digits = self.one_of(&["1", "5", "12", "105", "199", "9007199254740993", "123456789012345678901234567891"]);
        let exponent: i32 = self.one_of(&[0, 0, 0, 1, 2, -1, -2, -3, -9, -10, 127, 400]);
        let (places, sign) = (exponent.unsigned_abs() as usize, self.one_of(&["", "", "-"]));
        let zeros = "0".repeat(places);
        let canonical = if exponent == 0 { format!("{sign}{digits}") } else { format!("{sign}{digits}e{exponent}") };
        let sent = match (self.below(4), exponent) {
            (0, 0..9) => format!("{sign}{digits}{zeros}"),
            (1, 0..9) => format!("{sign}{digits}{zeros}.00"),
            (0 | 1, -10..0) => {
                let all = format!("{}{digits}", "0".repeat((places + 1).saturating_sub(digits.len())));
                format!("{sign}{}.{}0", &all[..all.len() - places], &all[all.len() - places..])
            }
            (2, _) => format!(
                "{sign}{}.{}E{:+}",
                &digits[..1],
                &format!("{digits}0")[1..],
                exponent + i32::try_from(digits.len()).unwrap() - 1
            ),
            _ => format!("{sign}{digits}0e{}", exponent - 1),
        };
        if self.below(9) == 8 {
            Tree::Number("0".to_owned(), "-0.0e7".to_owned())
        } else {
            Tree::Number(canonical, sent)
        }
    }

    fn text(&mut self) -> String {
        let some = [
            "a", "sku", " ", "!", "\"", "\\", "/", "\n", "\u{1}", "\u{1f}", "\u{7f}", "é", "€", "😀", "{", ",",
            "12345678",
        ];
        (0..self.below(12)).map(|_| self.one_of(&some)).collect()
    }

    fn name(&mut self) -> String {
        let some = [
            "id",
            "sku",
            "quantity",
            "quantities",
            "unit_price",
            "unit_pricf",
            "abcdef",
            "abcdefg",
            "abcdefgh",
            "a",
            "a!",
            "",
        ];
        match self.below(4) {
            0 => self.text(),
            1 => format!("{}{}", self.one_of(&some), self.below(9)),
            _ => self.one_of(&some).to_owned(),
        }
    }

    fn space(&mut self, out: &mut String) {
        out.push_str(self.one_of(&["", "", "", " ", "  ", "\n\t", "\r\n  "]));
    }

    fn spell_text(&mut self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            match (c, self.below(6)) {
                (_, 0) => out.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04X}"))),
                ('/', 1) => out.push_str("\\/"),
                ('\n', _) => out.push_str("\\n"),
                ('"' | '\\', _) => out.extend(['\\', c]),
                ('\0'..='\x1f', _) => out.extend(format!("\\u{:04x}", u32::from(c)).chars()),
                _ => out.push(c),
            }
        }
        out.push('"');
    }

    fn spell(&mut self, tree: &Tree, out: &mut String) {
        self.space(out);
        match tree {
            Tree::Word(word) => out.push_str(word),
            Tree::Number(_, sent) => out.push_str(sent),
            Tree::Text(text) => self.spell_text(text, out),
            Tree::List(values) => {
                out.push('[');
                for (at, value) in values.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    self.spell(value, out);
                }
                self.space(out);
                out.push(']');
            }
            Tree::Members(members) => {
                out.push('{');
                for (at, (name, value)) in members.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    self.space(out);
                    self.spell_text(name, out);
                    self.space(out);
                    out.push(':');
                    self.spell(value, out);
                }
                self.space(out);
                out.push('}');
            }
        }
        self.space(out);
    }
}

impl Tree {
    /// Its one spelling without the values under these pointers, and whether a member comes twice. It stands at `at`.
    fn canonical(&self, at: &str, ignored: &[&str]) -> (String, bool) {
        let counts = |at: &str| !ignored.contains(&at);
        match self {
            Self::Word(word) => ((*word).to_owned(), false),
            Self::Number(canonical, _) => (canonical.clone(), false),
            // It escapes what must be, in the short form where there is one.
            Self::Text(text) => (serde_json::to_string(text).unwrap(), false),
            Self::List(values) => {
                let places = values.iter().enumerate().map(|(index, value)| (format!("{at}/{index}"), value));
                let (values, twice): (Vec<_>, Vec<_>) = places
                    .map(|(at, value)| (counts(&at), value.canonical(&at, ignored)))
                    .map(|(counts, (value, twice))| (counts.then_some(value), twice))
                    .unzip();
                let values: Vec<_> = values.into_iter().flatten().collect();
                (format!("[{}]", values.join(",")), twice.contains(&true))
            }
            Self::Members(members) => {
                let mut all: Vec<_> = members
                    .iter()
                    .map(|(name, value)| {
                        let at = step(at, name);
                        (serde_json::to_string(name).unwrap(), value.canonical(&at, ignored), counts(&at))
                    })
                    .collect();
                all.sort();
                let twice =
                    all.windows(2).any(|pair| pair[0].0 == pair[1].0) || all.iter().any(|(_, (_, twice), _)| *twice);
                let counted = all.into_iter().filter(|(_, _, counts)| *counts);
                let spelled: Vec<_> = counted.map(|(name, (value, _), _)| format!("{name}:{value}")).collect();
                (format!("{{{}}}", spelled.join(",")), twice)
            }
        }
    }

    /// All values in it, by their pointers.
    fn all<'a>(&'a self, at: &str, found: &mut Vec<(String, &'a Self)>) {
        let values: Vec<_> = match self {
            Self::List(values) => values.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect(),
            Self::Members(members) => members.iter().map(|(name, value)| (name.clone(), value)).collect(),
            Self::Word(_) | Self::Number(..) | Self::Text(_) => Vec::new(),
        };
        for (name, value) in values {
            let at = step(at, &name);
            value.all(&at, found);
            found.push((at, value));
        }
    }
}

/// A pointer with one step more.
fn step(at: &str, name: &str) -> String {
    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn scanned(text: &[u8]) -> Result<Scan, Fault> {
    scan(text, [], &[], [])
}

/// A document with all its numbers made null: `serde_json` would round them.
fn without_numbers(text: &[u8]) -> Value {
    fn without(value: Value) -> Value {
        match value {
            Value::Number(_) => Value::Null,
            Value::Array(values) => values.into_iter().map(without).collect(),
            Value::Object(members) => members.into_iter().map(|(name, value)| (name, without(value))).collect(),
            other => other,
        }
    }
    without(serde_json::from_slice(text).unwrap())
}

proptest! {
    #[test]
    fn every_spelling_of_a_tree_has_its_canonical_form(choices in vec(any::<u8>(), 0..600), spelling in vec(any::<u8>(), 0..900)) {
        let tree = Dice(choices.into_iter()).tree(5);
        let mut text = String::new();
        Dice(spelling.into_iter()).spell(&tree, &mut text);
        let (canonical, twice) = tree.canonical("", &[]);
        let scan = scanned(text.as_bytes()).unwrap();
        prop_assert_eq!(scan.duplicates, twice);
        if !twice {
            let made = scan.canonical(text.as_bytes());
            prop_assert_eq!(std::str::from_utf8(made), Ok(canonical.as_str()));
            let again = scanned(made).unwrap();
            prop_assert_eq!(again.canonical(made), made);
        }
        // A part of a container is none, wherever it is cut.
        let text = text.trim_end();
        if text.ends_with([']', '}', '"']) {
            for end in 0..text.len() {
                prop_assert!(scanned(&text.as_bytes()[..end]).is_err(), "{}", end);
            }
        }
    }

    #[test]
    fn values_are_left_out_and_picked_up_wherever_they_stand(
        choices in vec(any::<u8>(), 0..600),
        spelling in vec(any::<u8>(), 0..900),
        places in vec(any::<prop::sample::Index>(), 0..6),
        split in 0..6_usize,
    ) {
        let tree = Dice(choices.into_iter()).tree(5);
        let (mut text, mut all) = (String::new(), Vec::new());
        Dice(spelling.into_iter()).spell(&tree, &mut text);
        tree.all("", &mut all);
        let places: Vec<_> = places.iter().filter(|_| !all.is_empty()).map(|place| place.get(&all)).collect();
        let (ignored, wanted) = places.split_at(split.min(places.len()));
        let ignored: Vec<_> = ignored.iter().map(|(at, _)| at.as_str()).collect();
        let scan = scan(text.as_bytes(), ignored.iter().copied(), &[], wanted.iter().map(|(at, _)| at.as_str())).unwrap();
        let (canonical, twice) = tree.canonical("", &ignored);
        prop_assert_eq!(scan.duplicates, twice);
        if !twice {
            prop_assert_eq!(std::str::from_utf8(scan.canonical(text.as_bytes())), Ok(canonical.as_str()));
            for ((at, value), found) in wanted.iter().zip(&scan.wanted) {
                let expected = value.canonical(at, &ignored).0;
                prop_assert_eq!(found.as_deref().map(String::from_utf8_lossy), Some(expected.into()), "{}", at);
            }
        }
    }

    #[test]
    fn what_is_broken_is_told_as_serde_json_tells_it(
        choices in vec(any::<u8>(), 0..200),
        spelling in vec(any::<u8>(), 0..300),
        place in any::<prop::sample::Index>(),
        byte in prop_oneof![any::<u8>(), prop::sample::select(&b" \t\"\\{}[],:0-e.nt/\x1f\x7f\xc3\xff"[..])],
    ) {
        let mut text = String::new();
        Dice(spelling.into_iter()).spell(&Dice(choices.into_iter()).tree(4), &mut text);
        let mut text = text.into_bytes();
        let place = place.index(text.len());
        text[place] = byte;
        let ours = scanned(&text);
        let known = std::str::from_utf8(&text).is_ok_and(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok());
        // That one does not look whether surrogates come in pairs.
        if !text.windows(2).any(|pair| pair == b"\\u") {
            prop_assert_eq!(ours.is_ok(), known, "{}", String::from_utf8_lossy(&text));
        }
        if let Ok(scan) = ours {
            prop_assert!(known);
            if !scan.duplicates && serde_json::from_slice::<Value>(&text).is_ok() {
                prop_assert_eq!(without_numbers(&text), without_numbers(scan.canonical(&text)));
            }
        }
    }
}
