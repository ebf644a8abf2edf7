//! Canonical multipart bodies: neither the boundary nor the order of names counts, all else does, and what is not
//! well-formed is bytes. The second opinion cuts the body up by itself.

use oncegate::keys::{BodyForm, Explanation};

use super::dice::Dice;
use super::view::{post, seen};

/// Name and value of a parameter, or of a field.
type Named = (Vec<u8>, Vec<u8>);

/// What counts of a part, apart from how its head is spelled.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    name: Vec<u8>,
    disposition: Vec<Named>,
    content_type: Option<Vec<u8>>,
    others: Vec<Named>,
    content: Vec<u8>,
}

/// Takes the input for a body, whose first line names its boundary.
pub fn check(data: &[u8]) {
    let Some(boundary) = boundary(data) else { return };
    let mut dice = Dice::of(data);
    let parts = sorted(parts(data, &boundary));
    let whole = see(data, &boundary);
    assert_eq!(whole.body == BodyForm::Multipart, parts.is_some(), "{}", String::from_utf8_lossy(data));
    if let Some(parts) = &parts {
        same_however_wrapped(parts, &whole, &mut dice);
    }
    // A neighbour: one byte changed, left out, or twice there.
    let mut other = data.to_vec();
    let at = dice.below(other.len());
    match dice.below(3) {
        0 => other[at] ^= 1 << dice.below(8),
        1 => drop(other.remove(at)),
        _ => other.insert(at, other[at]),
    }
    let (other_parts, other_whole) = (sorted(self::parts(&other, &boundary)), see(&other, &boundary));
    assert_eq!(other_whole.body == BodyForm::Multipart, other_parts.is_some(), "{}", String::from_utf8_lossy(&other));
    let same = if parts.is_some() || other_parts.is_some() { parts == other_parts } else { other == data };
    assert_eq!(whole.canonical == other_whole.canonical, same, "{}", String::from_utf8_lossy(&other));
}

fn see(body: &[u8], boundary: &str) -> Explanation {
    seen(&post(&format!("multipart/form-data; boundary=\"{boundary}\""), body))
}

/// What the first line says after its dashes: what may stand in a quoted string as it is.
fn boundary(body: &[u8]) -> Option<String> {
    let line = body.strip_prefix(b"--")?.split(|byte| *byte == b'\r').next()?;
    let fits = line.iter().all(|byte| (byte.is_ascii_graphic() || *byte == b' ') && !matches!(byte, b'"' | b'\\'));
    let line = line.strip_suffix(b"--").unwrap_or(line).trim_ascii_end();
    (fits && (1..=70).contains(&line.len())).then(|| line.iter().copied().map(char::from).collect())
}

/// The parts in the order sent; none when anything is out of place.
fn parts(body: &[u8], boundary: &str) -> Option<Vec<Part>> {
    // As if the first boundary were like all others.
    let body = [b"\r\n", body].concat();
    let delimiter = format!("\r\n--{boundary}");
    let mut pieces = split(&body, &delimiter);
    if !pieces.next()?.is_empty() {
        return None;
    }
    let mut parts = Vec::new();
    let mut rest = pieces.next()?;
    while !rest.starts_with(b"--") {
        let text = &rest[rest.iter().position(|byte| !matches!(byte, b' ' | b'\t'))?..];
        parts.push(part(text.strip_prefix(b"\r\n")?)?);
        rest = pieces.next()?;
    }
    let closed = pieces.next().is_none() && matches!(&rest[2..], b"" | b"\r\n");
    closed.then_some(parts)
}

/// The text cut at each `at`, found one after the other.
fn split<'a>(text: &'a [u8], at: &str) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = (0..text.len()).find(|start| text[*start..].starts_with(at.as_bytes()));
        rest = end.map(|end| &text[end + at.len()..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

fn part(text: &[u8]) -> Option<Part> {
    let mut halves = split(text, "\r\n\r\n");
    let head = halves.next()?;
    let content = text.get(head.len() + 4..)?.to_vec();
    let mut part = Part { name: Vec::new(), disposition: Vec::new(), content_type: None, others: Vec::new(), content };
    let mut dispositions = 0;
    for line in split(head, "\r\n") {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (line[..colon].to_ascii_lowercase(), line[colon + 1..].trim_ascii());
        match name.as_slice() {
            b"content-disposition" => {
                dispositions += 1;
                part.disposition = disposition(value)?;
            }
            b"content-type" if part.content_type.is_some() => return None,
            b"content-type" => part.content_type = Some(value.to_vec()),
            _ => part.others.push((name, value.to_vec())),
        }
    }
    part.name.clone_from(&part.disposition.iter().find(|(name, _)| name == b"name")?.1);
    (dispositions == 1).then_some(part)
}

/// The parameters of `form-data`, sorted; none when they are malformed, several of a name, or more than 16.
fn disposition(value: &[u8]) -> Option<Vec<Named>> {
    let pieces = pieces(value)?;
    let (essence, mut rest) = pieces.split_first()?;
    if let [before @ .., last] = rest
        && last.trim_ascii().is_empty()
    {
        rest = before;
    }
    let mut parameters = rest.iter().map(|piece| parameter(piece)).collect::<Option<Vec<Named>>>()?;
    parameters.sort();
    let repeated = parameters.windows(2).any(|pair| pair[0].0 == pair[1].0);
    let sound = essence.trim_ascii().eq_ignore_ascii_case(b"form-data") && !repeated && parameters.len() <= 16;
    sound.then_some(parameters)
}

/// The text cut at each semicolon that is not within quotes; none when a quote stays open.
fn pieces(text: &[u8]) -> Option<Vec<&[u8]>> {
    let (mut pieces, mut start, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b';' if !quoted => {
                pieces.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&text[start..]);
    (!quoted).then_some(pieces)
}

fn parameter(piece: &[u8]) -> Option<Named> {
    let equals = piece.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (piece[..equals].trim_ascii().to_ascii_lowercase(), &piece[equals + 1..]);
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let value = match value.strip_prefix(b"\"") {
        Some(quoted) => quoted.trim_ascii_end().strip_suffix(b"\"").filter(|text| closes_nowhere(text))?,
        None if value.iter().any(|byte| matches!(byte, b'"' | b'\\')) => return None,
        None => value.trim_ascii(),
    };
    (!name.is_empty() && name.iter().all(is_token)).then(|| (name, value.to_vec()))
}

/// Whether a quoted text has no quote in it that ends it.
fn closes_nowhere(text: &[u8]) -> bool {
    let mut escaped = false;
    let closes = text.iter().any(|byte| {
        let closes = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        closes
    });
    !closes && !escaped
}

fn sorted(parts: Option<Vec<Part>>) -> Option<Vec<Part>> {
    parts.map(|mut parts| {
        parts.sort_by(|a, b| a.name.cmp(&b.name));
        parts
    })
}

fn same_however_wrapped(parts: &[Part], expected: &Explanation, dice: &mut Dice) {
    let boundary = format!("--{:x}", dice.next());
    let mut names: Vec<&[u8]> = parts.iter().map(|part| part.name.as_slice()).collect();
    names.dedup();
    dice.shuffle(&mut names);
    let mut body = Vec::new();
    for name in names {
        for part in parts.iter().filter(|part| part.name == name) {
            body.extend(format!("--{boundary}{}\r\n", ["", " \t"][dice.below(2)]).bytes());
            part.write(&mut body, dice);
            body.extend(b"\r\n");
        }
    }
    body.extend(format!("--{boundary}--{}", ["", "\r\n"][dice.below(2)]).bytes());
    let seen = see(&body, &boundary);
    assert_eq!(seen.body, BodyForm::Multipart, "{}", String::from_utf8_lossy(&body));
    assert_eq!(seen.canonical, expected.canonical, "{}", String::from_utf8_lossy(&body));
}

impl Part {
    /// Another spelling of the same part.
    fn write(&self, out: &mut Vec<u8>, dice: &mut Dice) {
        let mut lines = vec![self.disposition_line(dice)];
        if let Some(value) = &self.content_type {
            lines.push([&b"CONTENT-type: "[..], value].concat());
        }
        // These keep their order among themselves.
        let others = self.others.iter().map(|(name, value)| [name, &b":"[..], value, b" "].concat());
        if dice.once_in(2) {
            lines.reverse();
        }
        lines.extend(others);
        for line in lines {
            out.extend(line);
            out.extend(b"\r\n");
        }
        out.extend(b"\r\n");
        out.extend(&self.content);
    }

    fn disposition_line(&self, dice: &mut Dice) -> Vec<u8> {
        let mut line = b"Content-DISPOSITION:\tForm-Data ".to_vec();
        let mut parameters: Vec<_> = self.disposition.iter().collect();
        dice.shuffle(&mut parameters);
        for (name, value) in parameters {
            line.extend(b"; ");
            line.extend(name.iter().map(|byte| if dice.once_in(2) { byte.to_ascii_uppercase() } else { *byte }));
            line.push(b'=');
            let bare = value.iter().all(u8::is_ascii_alphanumeric) && dice.once_in(2);
            let quote: &[u8] = if bare { b"" } else { b"\"" };
            line.extend([quote, value, quote].concat());
        }
        line
    }
}
