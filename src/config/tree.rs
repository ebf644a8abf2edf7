//! From YAML text to a tree in which every node knows its place. Knows no setting.

use granit_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::finding::{Place, Report};
use super::interpolate::{Environment, interpolate};

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) value: Value,
}

/// What a node can be.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// Nothing, `~` or `null`.
    Empty,
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// Already reported.
    Broken,
}

/// A field of a map.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    /// Where the key stands.
    pub(super) place: Place,
    pub(super) node: Node,
}

/// Reads a whole file. None when it is no YAML or empty; the report says why.
pub(super) fn parse(text: &str, env: &Environment<'_>, report: &mut Report) -> Option<Node> {
    let root = Place { line: 1, column: 1, path: String::new() };
    let node = Builder { events: Parser::new_from_str(text), env, report, fixed: None }.document(&root);
    match node {
        Ok(Some(node)) if !matches!(node.value, Value::Empty) => Some(node),
        Ok(_) => {
            report.fault(&root, "the file is empty: it needs at least `upstreams` and `routes`");
            None
        }
        Err(Stop) => None,
    }
}

/// Reads a default value. All its nodes stand at `place`, whatever their line in `text`.
pub(super) fn default_value(text: &str, place: &Place, report: &mut Report) -> Option<Node> {
    if let Some(value) = simple(text) {
        return Some(Node { place: place.clone(), value });
    }
    let builder = Builder { events: Parser::new_from_str(text), env: &|_| None, report, fixed: Some(place) };
    builder.document(place).ok().flatten()
}

/// A value that means itself: most defaults do, and a parser costs more than all else that is done with them.
fn simple(text: &str) -> Option<Value> {
    let begins = text.starts_with(|first: char| first.is_ascii_alphanumeric());
    let is_word = begins && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    match text {
        "{}" => Some(Value::Map(Vec::new())),
        "[]" => Some(Value::List(Vec::new())),
        "null" => None,
        _ => is_word.then(|| Value::Text(text.to_owned())),
    }
}

/// The rest of the text cannot be read; the report says why.
struct Stop;

struct Builder<'a> {
    events: Parser<'a, StrInput<'a>>,
    env: &'a Environment<'a>,
    report: &'a mut Report,
    fixed: Option<&'a Place>,
}

impl<'a> Builder<'a> {
    fn document(mut self, root: &Place) -> Result<Option<Node>, Stop> {
        let mut found = None;
        loop {
            let (event, span) = self.next(&root.path)?;
            match event {
                Event::StreamEnd => return Ok(found),
                Event::DocumentStart(..) if found.is_some() => {
                    let place = self.place(span.start, "");
                    self.report.fault(&place, "a second document begins here: the configuration is one document");
                    return Err(Stop);
                }
                Event::DocumentStart(..) => {
                    let first = self.next(&root.path)?;
                    found = Some(self.node(first, &root.path)?);
                }
                // Begin of the stream, end of a document: between documents the parser gives nothing else.
                _ => {}
            }
        }
    }

    /// The next event that is no comment.
    fn next(&mut self, path: &str) -> Result<(Event<'a>, Span), Stop> {
        loop {
            match self.events.next() {
                Some(Ok((Event::Comment(..), _))) => {}
                Some(Ok(next)) => return Ok(next),
                Some(Err(error)) => return Err(self.no_yaml(&error, path)),
                None => return Ok((Event::StreamEnd, Span::default())),
            }
        }
    }

    fn no_yaml(&mut self, error: &ScanError, path: &str) -> Stop {
        let place = self.place(*error.marker(), path);
        self.report.fault(&place, format!("this is no YAML: {}", error.info()));
        Stop
    }

    /// One value. Recursion ends: the parser refuses more than 255 levels.
    fn node(&mut self, (event, span): (Event<'a>, Span), path: &str) -> Result<Node, Stop> {
        let place = self.place(span.start, path);
        if event.tag().is_some() {
            self.report.fault(&place, "YAML tags (`!`) are not supported: write the plain value");
        }
        let value = match event {
            Event::Scalar(text, style, ..) => self.scalar(&text, style, &place),
            Event::SequenceStart(..) => self.list(path)?,
            Event::MappingStart(..) => self.map(path)?,
            _ => {
                self.report.fault(&place, "YAML aliases (`*`) are not supported: write the value out");
                Value::Broken
            }
        };
        Ok(Node { place, value })
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, place: &Place) -> Value {
        let plain = style == ScalarStyle::Plain;
        if plain && matches!(text, "" | "~" | "null") {
            return Value::Empty;
        }
        let read = if plain || style == ScalarStyle::DoubleQuoted {
            interpolate(text, self.env)
        } else if text.contains("${") {
            Err("`${` is taken only in plain and double-quoted text: use double quotes".to_owned())
        } else {
            Ok(text.to_owned())
        };
        read.map_or_else(
            |message| {
                self.report.fault(place, message);
                Value::Broken
            },
            Value::Text,
        )
    }

    fn list(&mut self, path: &str) -> Result<Value, Stop> {
        let mut nodes = Vec::new();
        loop {
            match self.next(path)? {
                (Event::SequenceEnd | Event::StreamEnd, _) => return Ok(Value::List(nodes)),
                item => nodes.push(self.node(item, &format!("{path}[{}]", nodes.len()))?),
            }
        }
    }

    fn map(&mut self, path: &str) -> Result<Value, Stop> {
        let mut entries: Vec<Entry> = Vec::new();
        let parent = Place { line: 0, column: 0, path: path.to_owned() };
        loop {
            let (event, span) = self.next(path)?;
            let key = match event {
                Event::MappingEnd | Event::StreamEnd => return Ok(Value::Map(entries)),
                Event::Scalar(ref text, ..) => text.clone().into_owned(),
                other => {
                    let key = self.node((other, span), path)?;
                    self.report.fault(&key.place, "a field's name must be a plain word");
                    let value = self.next(path)?;
                    self.node(value, path)?;
                    continue;
                }
            };
            let place = self.place(span.start, &parent.field(&key).path);
            let value = self.next(&place.path)?;
            let node = self.node(value, &place.path)?;
            if let Some(first) = entries.iter().find(|entry| entry.key == key) {
                let message = format!("`{key}` is here twice, first in line {}: remove one", first.place.line);
                self.report.fault(&place, message);
            } else {
                entries.push(Entry { key, place, node });
            }
        }
    }

    fn place(&self, marker: Marker, path: &str) -> Place {
        let (line, column) = self.fixed.map_or((marker.line(), marker.col() + 1), |fixed| (fixed.line, fixed.column));
        Place { line, column, path: path.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_simple_is_what_a_parser_makes_of_it() {
        let place = Place { line: 3, column: 4, path: "a.b".to_owned() };
        for text in ["{}", "[]", "true", "0", "30s", "64MiB", "0.00001", "round_robin", "1.2", "application-json"] {
            let mut report = Report::default();
            let builder = Builder {
                events: Parser::new_from_str(text),
                env: &|_| None,
                report: &mut report,
                fixed: Some(&place),
            };
            let parsed = builder.document(&place).ok().flatten().unwrap();
            assert_eq!(format!("{:?}", simple(text).unwrap()), format!("{:?}", parsed.value), "{text}");
            assert_eq!(parsed.place, place);
        }
        for text in
            ["", "~", "null", "\"\"", "- a", "-", "a: b", "a #b", "[a]", "{ a: b }", "127.0.0.1:80", "&a", "!x", "${A}"]
        {
            assert!(simple(text).is_none(), "{text}");
        }
    }
}
