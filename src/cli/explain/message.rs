//! A whole request in a file: a message as RFC 9112 has it, or as the `.http` files of editors do. Sends nothing.

use std::path::Path;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderName, HeaderValue, Method, Uri};

/// A request as it was written down.
pub(super) struct Message {
    pub(super) method: Method,
    pub(super) target: Uri,
    pub(super) fields: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Bytes,
}

/// Begins each further request of a `.http` file.
const NEXT: &[u8] = b"###";

/// Reads the one request of a file.
pub(super) fn read(path: &Path) -> anyhow::Result<Message> {
    let unread = || format!("{}: cannot be read; name a file with one HTTP request", path.display());
    let bytes = std::fs::read(path).with_context(unread)?;
    parse(&bytes).with_context(|| path.display().to_string())
}

fn parse(bytes: &[u8]) -> anyhow::Result<Message> {
    let mut rest = bytes;
    let first = loop {
        let line = line(&mut rest).context("holds no request: its first line is `METHOD TARGET HTTP/1.1`")?;
        if !line.trim_ascii().is_empty() && !is_remark(line) {
            break text(line)?;
        }
    };
    let (method, mut target) = request_line(first)?;
    let mut fields = Vec::new();
    while let Some(line) = line(&mut rest).filter(|line| !line.is_empty()) {
        match line.trim_ascii_start().first() {
            _ if is_remark(line) => {}
            // Editors let a long query go on in further lines.
            Some(b'?' | b'&') if line[0].is_ascii_whitespace() && fields.is_empty() => target += text(line)?.trim(),
            _ => fields.push(field(line)?),
        }
    }
    let target = target.parse().with_context(|| format!("`{target}` is no target"))?;
    let body = body(rest, &fields)?;
    Ok(Message { method, target, fields, body })
}

/// Takes the next line, without its end.
fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    if rest.is_empty() {
        return None;
    }
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let line = &rest[..end];
    *rest = rest.get(end + 1..).unwrap_or_default();
    Some(line.strip_suffix(b"\r").unwrap_or(line))
}

fn is_remark(line: &[u8]) -> bool {
    line.starts_with(b"#") || line.starts_with(b"//")
}

fn text(line: &[u8]) -> anyhow::Result<&str> {
    std::str::from_utf8(line).context("has a line that is not UTF-8 before its body")
}

/// `METHOD TARGET HTTP/1.1`; editors also take a target alone, and leave the version out.
fn request_line(line: &str) -> anyhow::Result<(Method, String)> {
    let words: Vec<_> = line.split_ascii_whitespace().collect();
    let (method, target) = match words[..] {
        [target] => ("GET", target),
        [method, target] => (method, target),
        [method, target, version] if version.starts_with("HTTP/") => (method, target),
        _ => bail!("`{line}` is no request line: write `METHOD TARGET HTTP/1.1`"),
    };
    Ok((method.parse().with_context(|| format!("`{method}` is no method"))?, target.to_owned()))
}

/// `Name: value`, with a value of any bytes.
pub(super) fn field(line: &[u8]) -> anyhow::Result<(HeaderName, HeaderValue)> {
    let shown = || format!("`{}`", String::from_utf8_lossy(line));
    let colon = line.iter().position(|byte| *byte == b':');
    let colon = colon.with_context(|| format!("{} is not `Name: value`", shown()))?;
    let name = HeaderName::from_bytes(line[..colon].trim_ascii()).with_context(shown)?;
    Ok((name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).with_context(shown)?))
}

/// As many bytes as Content-Length says; without it all there are, but for the line break that editors put at a file's end.
fn body(rest: &[u8], fields: &[(HeaderName, HeaderValue)]) -> anyhow::Result<Bytes> {
    let value = |name: HeaderName| fields.iter().find(|(own, _)| *own == name).map(|(_, value)| value);
    ensure!(value(TRANSFER_ENCODING).is_none(), "write the body as it is, without Transfer-Encoding");
    let (body, mut after) = if let Some(length) = value(CONTENT_LENGTH) {
        let length = length.to_str().ok().and_then(|digits| digits.parse().ok());
        let (length, all): (usize, _) = (length.context("its Content-Length is no number")?, rest.len());
        let cut = rest.split_at_checked(length);
        cut.with_context(|| format!("its body has {all} bytes, and its Content-Length says {length}: correct that"))?
    } else {
        let end = next_request(rest).unwrap_or(rest.len());
        (without_break(&rest[..end]), &rest[end..])
    };
    while let Some(line) = line(&mut after) {
        let is_empty = line.trim_ascii().is_empty() || is_remark(line);
        ensure!(is_empty, "holds more than one request, or more bytes than its Content-Length says");
    }
    Ok(Bytes::copy_from_slice(body))
}

/// Where a line begins the next request.
fn next_request(text: &[u8]) -> Option<usize> {
    let begins = |at: usize| at == 0 || text[at - 1] == b'\n';
    (0..text.len()).find(|at| begins(*at) && text[*at..].starts_with(NEXT))
}

fn without_break(text: &[u8]) -> &[u8] {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    text.strip_suffix(b"\r").unwrap_or(text)
}
