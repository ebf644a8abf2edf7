//! What `explain` has to say, as named entries, and their two spellings: lines for people, JSON for programs.

use std::fmt::Write;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::keys::{Framed, Hashed};

/// The longest name.
const WIDTH: usize = 17;
/// Longer values are cut, unless all is asked for.
const LONG: usize = 96;
/// How much of a cut value is shown.
const CUT: usize = 64;

/// Named entries, in order.
#[derive(Default)]
pub(super) struct Page(Vec<(&'static str, Entry)>);

enum Entry {
    Text(String),
    /// Empty: what is said instead.
    List(Vec<String>, &'static str),
    Framed(Vec<Framed>),
}

impl Page {
    /// One thing to say.
    pub(super) fn line(&mut self, name: &'static str, text: impl Into<String>) {
        self.0.push((name, Entry::Text(text.into())));
    }

    /// Several things of one name, or what is said where there are none.
    pub(super) fn list(&mut self, name: &'static str, texts: impl IntoIterator<Item = String>, none: &'static str) {
        self.0.push((name, Entry::List(texts.into_iter().collect(), none)));
    }

    /// What a digest is made of.
    pub(super) fn framed(&mut self, name: &'static str, framed: Vec<Framed>) {
        self.0.push((name, Entry::Framed(framed)));
    }

    /// For people. Long values are cut unless it is to be full.
    pub(super) fn text(&self, full: bool) -> String {
        let mut text = String::new();
        let mut put = |name: &str, width: usize, said: &str| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{}", format!("{name:<width$} {said}").trim_end());
        };
        for (name, entry) in &self.0 {
            match entry {
                Entry::Text(said) => put(name, WIDTH, said),
                Entry::List(said, none) if said.is_empty() => put(name, WIDTH, none),
                Entry::List(said, _) => said.iter().for_each(|said| put(name, WIDTH, said)),
                Entry::Framed(framed) => {
                    put(name, WIDTH, "");
                    let parts = lines(framed, 1, full);
                    let width = parts.iter().map(|(label, _)| label.chars().count()).max().unwrap_or_default();
                    for (label, said) in parts {
                        put(&label, width, &said);
                    }
                }
            }
        }
        text
    }

    /// For programs: nothing is cut.
    pub(super) fn json(&self) -> Value {
        let entry = |entry: &Entry| match entry {
            Entry::Text(said) => json!(said),
            Entry::List(said, _) => json!(said),
            Entry::Framed(framed) => Value::Array(framed.iter().map(object).collect()),
        };
        Value::Object(self.0.iter().map(|(name, said)| (name.replace(' ', "_").to_lowercase(), entry(said))).collect())
    }
}

/// Each part as a label and what was hashed; parts of a part stand further in.
fn lines(framed: &[Framed], depth: usize, full: bool) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for Framed { item, label, hashed } in framed {
        let gap = if item.is_empty() { "" } else { ": " };
        let label = format!("{:indent$}{item}{gap}{label}", "", indent = 2 * depth);
        match hashed {
            Hashed::Count(count) => all.push((label, format!("count {count}"))),
            Hashed::Part(bytes) => all.push((label, shown(bytes, full))),
            Hashed::Digest(digest, inner) => {
                all.push((label, format!("{}, of", shown(digest, full))));
                all.extend(lines(inner, depth + 1, full));
            }
        }
    }
    all
}

fn object(framed: &Framed) -> Value {
    let value = match &framed.hashed {
        Hashed::Count(count) => json!({ "count": count }),
        Hashed::Part(bytes) => match printable(bytes) {
            Some(text) => json!({ "text": text }),
            None => json!({ "hex": hex(bytes) }),
        },
        Hashed::Digest(digest, inner) => {
            json!({ "hex": hex(digest), "parts": inner.iter().map(object).collect::<Vec<_>>() })
        }
    };
    let mut object = json!({ "item": framed.item, "label": framed.label });
    if let (Value::Object(object), Value::Object(value)) = (&mut object, value) {
        object.extend(value);
    }
    object
}

/// Bytes as text where all of them can be seen, else as hex digits, with their number.
pub(super) fn shown(bytes: &[u8], full: bool) -> String {
    let whole = printable(bytes);
    let is_cut = !full && bytes.len() > LONG;
    let value = match whole {
        Some(text) if is_cut => format!("\"{}\"…", escaped(&text[..text.floor_char_boundary(CUT)])),
        Some(text) => format!("\"{}\"", escaped(text)),
        None if is_cut => format!("hex {}…", hex(&bytes[..CUT / 2])),
        None => format!("hex {}", hex(bytes)),
    };
    let plural = if bytes.len() == 1 { "" } else { "s" };
    let digest = if is_cut { format!(" SHA-256 {}", hex(&Sha256::digest(bytes))) } else { String::new() };
    format!("{} byte{plural} {value}{digest}", bytes.len())
}

/// The text, where it has no characters that cannot be seen but line breaks and tabs.
fn printable(bytes: &[u8]) -> Option<&str> {
    let seen = |c: char| !c.is_control() || matches!(c, '\r' | '\n' | '\t');
    std::str::from_utf8(bytes).ok().filter(|text| text.chars().all(seen))
}

/// On one line, with no doubt about what is a line break. Quotes stay: how long the text is stands before it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\r', "\\r").replace('\n', "\\n").replace('\t', "\\t")
}

/// Lower-case hex digits.
fn hex(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}
