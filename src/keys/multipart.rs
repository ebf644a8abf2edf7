//! The parts of a multipart/form-data body (RFC 7578), strictly: what is not well-formed has no parts.

use super::frame::{Frame, sha256};
use super::header::Parameterized;

/// A line break, then the line that ends a part.
const DASHES: &[u8] = b"\r\n--";

/// One part of the body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    /// Name, file name and whatever else there is, sorted by parameter name.
    pub(super) disposition: Vec<(Vec<u8>, Vec<u8>)>,
    name: Vec<u8>,
    pub(super) content_type: Option<&'a [u8]>,
    /// Further fields, in lower case, in the order sent.
    pub(super) others: Vec<(Vec<u8>, &'a [u8])>,
    pub(super) content: &'a [u8],
}

/// The parts sorted by name. Equal names keep their order; the boundary does not count. None when the body is malformed.
pub(super) fn sorted<'a>(body: &'a [u8], boundary: &[u8]) -> Option<Vec<Part<'a>>> {
    let mut parts = split(body, boundary)?.into_iter().map(Part::read).collect::<Option<Vec<_>>>()?;
    parts.sort_by(|a, b| a.name.cmp(&b.name));
    Some(parts)
}

/// Frames them; none, with nothing framed, when the body is malformed.
pub(super) fn frame_sorted(frame: &mut Frame, body: &[u8], boundary: &[u8]) -> Option<()> {
    let parts = sorted(body, boundary)?;
    frame.label("parts").count(parts.len());
    for part in &parts {
        part.frame(frame);
    }
    Some(())
}

/// The parts, each with its head. Text before the first or after the last would go unseen, so it is malformed.
fn split<'a>(body: &'a [u8], boundary: &[u8]) -> Option<Vec<&'a [u8]>> {
    if boundary.is_empty() || boundary.len() > 70 {
        return None;
    }
    let delimiter = [DASHES, boundary].concat();
    let mut rest = body.strip_prefix(&delimiter[2..])?;
    let mut parts = Vec::new();
    loop {
        if let Some(epilogue) = rest.strip_prefix(b"--") {
            return matches!(epilogue, b"" | b"\r\n").then_some(parts);
        }
        let padding = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let part = rest[padding..].strip_prefix(b"\r\n")?;
        // The line break before it could belong to the next boundary too: then there is a part without a head.
        let end = position(part, &delimiter).filter(|_| !part.starts_with(&delimiter[2..]))?;
        parts.push(&part[..end]);
        rest = &part[end + delimiter.len()..];
    }
}

fn position(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

impl<'a> Part<'a> {
    fn read(part: &'a [u8]) -> Option<Self> {
        let end = position(part, b"\r\n\r\n")?;
        let (head, content) = (&part[..end], &part[end + 4..]);
        let (mut disposition, mut content_type, mut others) = (None, None, Vec::new());
        for line in lines(head) {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let (name, value) = (line[..colon].to_ascii_lowercase(), line[colon + 1..].trim_ascii());
            let repeated = match name.as_slice() {
                b"content-disposition" => disposition.replace(Parameterized::read(value)?).is_some(),
                b"content-type" => content_type.replace(value).is_some(),
                _ => {
                    others.push((name, value));
                    false
                }
            };
            if repeated {
                return None;
            }
        }
        let disposition = disposition.filter(|parsed| parsed.essence == b"form-data")?;
        let name = disposition.get(b"name")?.to_vec();
        let mut disposition = disposition.parameters;
        disposition.sort();
        Some(Self { disposition, name, content_type, others, content })
    }

    fn frame(&self, frame: &mut Frame) {
        frame.label_of("part", &self.name, "disposition").count(self.disposition.len());
        for (name, value) in &self.disposition {
            frame.part(name);
            frame.part(value);
        }
        frame.label_of("part", &self.name, "content type").optional(self.content_type);
        frame.label_of("part", &self.name, "field").count(self.others.len());
        for (name, value) in &self.others {
            frame.part(name);
            frame.part(value);
        }
        frame.label_of("part", &self.name, "SHA-256 of its content").part(sha256(self.content));
    }
}

fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(head);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = position(text, b"\r\n");
        rest = end.map(|end| &text[end + 2..]);
        Some(end.map_or(text, |end| &text[..end]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AMOUNT: &str = "Content-Disposition: form-data; name=\"amount\"\r\n\r\n5";
    const FILE: &str = "Content-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\none\r\ntwo";

    fn body(boundary: &str, parts: &[&str]) -> String {
        let mut open: Vec<_> = parts.iter().map(|part| format!("--{boundary}\r\n{part}\r\n")).collect();
        open.push(format!("--{boundary}--\r\n"));
        open.concat()
    }

    fn hash(body: &str, boundary: &str) -> Option<[u8; 32]> {
        let mut frame = Frame::new("test");
        frame_sorted(&mut frame, body.as_bytes(), boundary.as_bytes()).map(|()| frame.finish())
    }

    #[test]
    fn boundary_and_order_of_names_do_not_count() {
        let one = hash(&body("x", &[AMOUNT, FILE]), "x");
        assert!(one.is_some());
        assert_eq!(one, hash(&body("----other", &[FILE, AMOUNT]), "----other"));
        let reordered = FILE.replace("name=\"file\"; filename=\"a.txt\"", "filename=\"a.txt\"; name=file");
        assert_eq!(one, hash(&body("x", &[AMOUNT, &reordered]), "x"));
    }

    #[test]
    fn everything_in_a_part_counts() {
        let one = hash(&body("x", &[AMOUNT, FILE]), "x");
        for (from, to) in [
            ("\"file\"", "\"fila\""),
            ("a.txt", "b.txt"),
            ("text/plain", "text/html"),
            ("one", "One"),
            ("two", "two\r\n"),
            ("Content-Type", "X-Type"),
            ("\r\n\r\n", "\r\nX-Other: 1\r\n\r\n"),
        ] {
            let other = hash(&body("x", &[AMOUNT, &FILE.replacen(from, to, 1)]), "x");
            assert!(other.is_some() && other != one, "{from} {to}");
        }
        let twice = AMOUNT.replace('5', "6");
        assert_ne!(hash(&body("x", &[AMOUNT, &twice]), "x"), hash(&body("x", &[&twice, AMOUNT]), "x"));
        assert_ne!(hash(&body("x", &[AMOUNT]), "x"), hash(&body("x", &[AMOUNT, AMOUNT]), "x"));
    }

    #[test]
    fn malformed_bodies_have_no_parts() {
        let good = body("x", &[AMOUNT]);
        for bad in [
            String::new(),
            format!("preamble\r\n{good}"),
            format!("{good}epilogue"),
            good.replace("--x--\r\n", ""),
            good.replace("\r\n\r\n5", "5"),
            good.replace("form-data", "attachment"),
            good.replace("; name=\"amount\"", ""),
            good.replace("Content-Disposition:", "Content-Disposition"),
            good.replace("\r\n\r\n", "\r\nContent-Disposition: form-data; name=b\r\n\r\n"),
            good.replace("--x\r\n", "--xy\r\n"),
            good.replace("\r\n", "\n"),
            good.replacen("--x\r\n", "--x\r\n--x: a\r\n", 1),
            good.replace("\"amount\"", "a\\b"),
        ] {
            assert_eq!(hash(&bad, "x"), None, "{bad:?}");
        }
        assert_eq!(hash(&good, "y"), None);
        assert_eq!(hash("----\r\n", ""), None);
    }
}
