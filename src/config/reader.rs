//! Reads settings out of a tree, and describes them as a JSON Schema: both from one definition. Knows no setting itself.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::finding::{Place, Report};
use super::tree::{self, Entry, Node, Value};

/// Something that can stand in the file.
pub(super) trait Setting: Sized {
    /// Reads it; none when it cannot be used, and then the report says why.
    fn read(node: &Node, report: &mut Report) -> Option<Self>;

    /// Its JSON Schema.
    fn schema(schemas: &mut Schemas) -> Json;
}

/// A value, where it stands, and whether the file itself states it.
#[derive(Debug, Clone)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) place: Place,
    /// False for a default.
    pub(super) stated: bool,
}

/// What became of a field.
#[derive(Debug, Clone)]
pub(super) enum Field<T> {
    /// It is not there, and need not be.
    Absent,
    /// It cannot be used; already reported, so nothing that depends on it is worth a word.
    Broken,
    Given(At<T>),
}

impl<T> Field<T> {
    pub(super) fn at(&self) -> Option<&At<T>> {
        if let Self::Given(at) = self { Some(at) } else { None }
    }

    pub(super) fn value(&self) -> Option<&T> {
        self.at().map(|at| &at.value)
    }

    /// For a field that may be absent: what it gives, or what its absence does. None when it is broken.
    pub(super) fn either<'a, U>(&'a self, given: impl FnOnce(&'a At<T>) -> U, absent: impl FnOnce() -> U) -> Option<U> {
        match self {
            Self::Absent => Some(absent()),
            Self::Broken => None,
            Self::Given(at) => Some(given(at)),
        }
    }
}

/// All values of a list; none when one is broken.
pub(super) fn values<T: Clone>(list: &[Field<T>]) -> Option<Vec<T>> {
    list.iter().map(|field| field.value().cloned()).collect()
}

/// Whether a field must be there.
#[derive(Clone, Copy)]
pub(super) enum Need {
    /// It must; the text says what to write.
    Required(&'static str),
    Optional,
    /// It need not; the text is what stands for it, as YAML.
    Default(&'static str),
}

/// A map that is being read.
pub(super) struct Mapping<'a> {
    node: &'a Node,
    entries: &'a [Entry],
}

impl<'a> Mapping<'a> {
    /// Opens a map, and reports the fields that it does not know.
    pub(super) fn open(node: &'a Node, known: &[&str], later: &[&str], report: &mut Report) -> Option<Self> {
        let entries = entries(node, report)?;
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let message = if later.contains(&entry.key.as_str()) {
                format!("`{}` is not in this version yet: remove it", entry.key)
            } else {
                format!("unknown field `{}`: {}", entry.key, remedy(&entry.key, known))
            };
            report.fault(&entry.place, message);
        }
        Some(Self { node, entries })
    }

    /// Reads one field.
    pub(super) fn field<T: Setting>(&self, name: &str, need: Need, report: &mut Report) -> Field<T> {
        if let Some(entry) = self.entries.iter().find(|entry| entry.key == name) {
            return read_field(&entry.node, true, report);
        }
        match need {
            Need::Optional => Field::Absent,
            Need::Required(hint) => {
                report.fault(&self.node.place, format!("`{name}` is missing: {hint}"));
                Field::Broken
            }
            Need::Default(text) => tree::default_value(text, &self.node.place.field(name), report)
                .map_or(Field::Broken, |node| read_field(&node, false, report)),
        }
    }
}

/// Reads a node as a field that is there.
pub(super) fn read_field<T: Setting>(node: &Node, stated: bool, report: &mut Report) -> Field<T> {
    T::read(node, report).map_or(Field::Broken, |value| Field::Given(At { value, place: node.place.clone(), stated }))
}

/// The fields of a map.
pub(super) fn entries<'a>(node: &'a Node, report: &mut Report) -> Option<&'a [Entry]> {
    match &node.value {
        Value::Map(entries) => return Some(entries),
        Value::Broken => {}
        Value::Empty => report.fault(&node.place, NO_VALUE),
        Value::Text(_) | Value::List(_) => report.fault(&node.place, "expected fields here (`name: value`)"),
    }
    None
}

/// The text of a scalar.
pub(super) fn text<'a>(node: &'a Node, expected: &str, report: &mut Report) -> Option<&'a str> {
    match &node.value {
        Value::Text(text) => return Some(text),
        Value::Broken => {}
        Value::Empty => report.fault(&node.place, NO_VALUE),
        Value::List(_) | Value::Map(_) => report.fault(&node.place, format!("expected {expected}")),
    }
    None
}

const NO_VALUE: &str = "has no value: give it one, or remove the field";

/// Reads a scalar with `parse`, which says what is wrong.
pub(super) fn parsed<T>(
    node: &Node,
    expected: &str,
    report: &mut Report,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Option<T> {
    parse(text(node, expected, report)?).map_err(|message| report.fault(&node.place, message)).ok()
}

/// Reads one of a few words.
pub(super) fn word(node: &Node, known: &[&str], later: &[&str], report: &mut Report) -> Option<String> {
    parsed(node, &format!("one of {}", listed(known)), report, |text| {
        if known.contains(&text) {
            Ok(text.to_owned())
        } else if later.contains(&text) {
            Err(format!("`{text}` is not in this version yet: use {}", listed(known)))
        } else {
            Err(format!("`{text}` is not known: {}", remedy(text, known)))
        }
    })
}

/// What to write instead of `wrong`: the nearest known word, or all of them.
pub(super) fn remedy(wrong: &str, known: &[&str]) -> String {
    let lower = wrong.to_lowercase();
    let distance = |word: &str| strsim::osa_distance(&lower, &word.to_lowercase());
    let nearest = known.iter().min_by_key(|word| distance(word));
    match nearest {
        Some(word) if distance(word) <= (word.len() / 3).max(1) && distance(word) < word.len() => {
            format!("did you mean `{word}`?")
        }
        Some(_) => format!("known here: {}", listed(known)),
        None => "nothing is known here".to_owned(),
    }
}

fn listed(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// The named schemas of a document.
#[derive(Debug, Default)]
pub(super) struct Schemas(pub(super) BTreeMap<&'static str, Json>);

impl Schemas {
    /// Describes a type once, and refers to it.
    pub(super) fn named(&mut self, name: &'static str, describe: impl FnOnce(&mut Self) -> Json) -> Json {
        if !self.0.contains_key(name) {
            // Holds the place while a type that contains itself is described.
            self.0.insert(name, Json::Null);
            let schema = describe(self);
            self.0.insert(name, schema);
        }
        json!({ "$ref": format!("#/$defs/{name}") })
    }
}

/// The schema of a scalar: itself, or text that takes a variable.
pub(super) fn scalar_schema(schema: &Json) -> Json {
    json!({ "anyOf": [schema, { "type": "string", "pattern": "\\$\\{" }] })
}

/// The schema of a field: its type's, with what it means and what stands for it.
pub(super) fn field_schema(mut schema: Json, doc: &str, need: Need) -> Json {
    schema["description"] = json!(doc.trim());
    if let Need::Default(text) = need {
        schema["default"] =
            tree::default_value(text, &Place { line: 0, column: 0, path: String::new() }, &mut Report::default())
                .map_or(Json::Null, |node| as_json(&node));
    }
    schema
}

fn as_json(node: &Node) -> Json {
    match &node.value {
        Value::Empty | Value::Broken => Json::Null,
        Value::Text(text) => match text.parse::<serde_json::Number>() {
            Ok(number) => Json::Number(number),
            Err(_) => text.parse::<bool>().map_or_else(|_| json!(text), Json::Bool),
        },
        Value::List(nodes) => nodes.iter().map(as_json).collect(),
        Value::Map(entries) => {
            Json::Object(entries.iter().map(|entry| (entry.key.clone(), as_json(&entry.node))).collect())
        }
    }
}

/// The only one of a map's fields that says what it is, and the map, which may hold others that belong to it.
pub(super) struct Only<'a> {
    pub(super) map: Mapping<'a>,
    pub(super) entry: &'a Entry,
}

/// The only field of a map that must have exactly one of the known ones; beside it, those that belong to it.
pub(super) fn only_entry<'a>(
    node: &'a Node,
    known: &[(&str, &[&str])],
    later: &[&str],
    report: &mut Report,
) -> Option<Only<'a>> {
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let mut all = names.clone();
    all.extend(known.iter().flat_map(|(_, beside)| *beside));
    all.dedup();
    let map = Mapping::open(node, &all, later, report)?;
    let mut meant = map.entries.iter().filter(|entry| names.contains(&entry.key.as_str()));
    let entry = match (meant.next(), meant.next()) {
        (Some(entry), None) => entry,
        (Some(_), Some(second)) => {
            report.fault(&second.place, format!("only one of {} can stand here", listed(&names)));
            return None;
        }
        (None, _) => {
            if map.entries.iter().all(|entry| all.contains(&entry.key.as_str())) {
                let lack = if map.entries.is_empty() { "is empty" } else { "does not say of what" };
                report.fault(&node.place, format!("{lack}: write one of {}", listed(&names)));
            }
            return None;
        }
    };
    let beside = known.iter().find(|(name, _)| *name == entry.key).map_or(&[][..], |(_, beside)| *beside);
    for other in map.entries.iter().filter(|other| all.contains(&other.key.as_str()) && other.key != entry.key) {
        if !beside.contains(&other.key.as_str()) {
            report.fault(&other.place, format!("`{}` does not belong to `{}`: remove it", other.key, entry.key));
        }
    }
    Some(Only { map, entry })
}
