//! Parts of multipart/form-data: made at random, written with any boundary, changed in one place.

use std::fmt::Write;

use crate::dice::Dice;
use crate::pairs::change_bytes;

/// One part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    name: String,
    file: Option<String>,
    kind: Option<&'static str>,
    content: Vec<u8>,
}

const NAMES: [&str; 5] = ["a", "b", "file", "x y", "é"];
const KINDS: [&str; 3] = ["text/plain", "image/png", "text/plain; charset=utf-8"];
const BYTES: [u8; 12] = *b"ab\r\n- :\"\x00\xff{}";

pub(crate) fn any(dice: &mut Dice) -> Vec<Part> {
    let part = |dice: &mut Dice| Part {
        name: dice.pick(&NAMES).to_owned(),
        file: dice.once_in(2).then(|| format!("{}.txt", dice.pick(&NAMES))),
        kind: dice.once_in(2).then(|| dice.pick(&KINDS)),
        content: (0..dice.below(20)).map(|_| dice.pick(&BYTES)).collect(),
    };
    (0..=dice.below(3)).map(|_| part(dice)).collect()
}

/// What they mean: sorted by name, equal names in their order.
pub(crate) fn meaning(parts: &[Part], out: &mut String) {
    let mut sorted: Vec<_> = parts.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    write!(out, "{sorted:?}").unwrap();
}

/// With this boundary, and other names first.
pub(crate) fn write(parts: &[Part], boundary: &str, dice: &mut Dice) -> Vec<u8> {
    let mut order: Vec<usize> = (0..parts.len()).collect();
    dice.shuffle(&mut order);
    let (mut out, mut taken) = (Vec::new(), vec![false; parts.len()]);
    for place in order {
        let first = (0..parts.len()).find(|at| !taken[*at] && parts[*at].name == parts[place].name).unwrap();
        taken[first] = true;
        out.extend(head(&parts[first], boundary, dice).bytes());
        out.extend_from_slice(&parts[first].content);
        out.extend_from_slice(b"\r\n");
    }
    out.extend(format!("--{boundary}--{}", dice.pick(&["", "\r\n"])).bytes());
    out
}

fn head(part: &Part, boundary: &str, dice: &mut Dice) -> String {
    let mut parameters = vec![format!("name=\"{}\"", part.name)];
    parameters.extend(part.file.as_ref().map(|file| format!("filename=\"{file}\"")));
    dice.shuffle(&mut parameters);
    let field = dice.pick(&["Content-Disposition", "content-disposition"]);
    let mut lines = vec![format!("{field}:{}form-data; {}\r\n", dice.pick(&["", " "]), parameters.join("; "))];
    lines.extend(part.kind.map(|kind| format!("Content-Type: {kind}\r\n")));
    dice.shuffle(&mut lines);
    format!("--{boundary}\r\n{}\r\n", lines.concat())
}

/// Other parts in one place; or the same ones in another order, which counts among equal names.
pub(crate) fn change(parts: &mut Vec<Part>, dice: &mut Dice) {
    let at = dice.below(parts.len());
    let choice = dice.below(9);
    if choice == 1 && parts.len() > 1 {
        parts.remove(at);
        return;
    }
    if choice > 6 {
        let end = parts.len();
        return parts.swap(at, dice.below(end));
    }
    let part = &mut parts[at];
    match choice {
        0 => parts.push(Part { name: "a".to_owned(), file: None, kind: None, content: Vec::new() }),
        2 => part.name.push('2'),
        3 => part.file = if part.file.is_none() { Some(String::new()) } else { None },
        4 => part.kind = if part.kind.is_none() { Some(KINDS[0]) } else { None },
        _ => change_bytes(&mut part.content, dice),
    }
}
