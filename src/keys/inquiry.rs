//! Naming an operation by its key alone, for somebody who only asks what is known of it.

use http::HeaderMap;

use super::path::escaped;
use super::source::{self, Found};
use super::{Caller, Refusal, Settings, Source, check_names, dated, operation, scope};
use crate::machine::Inquiry;

impl Settings {
    /// Where keys come from that clients make themselves: the first header or query parameter of the sources.
    pub fn client_made(&self) -> Option<&Source> {
        self.sources.iter().find(|source| matches!(source.plain(), Source::Header(_) | Source::Query(_)))
    }
}

/// Names the operation that a client would name by this key, as a segment of a path spells it, in a request with these
/// fields of this caller.
///
/// # Errors
/// When the key is none, or the scope's value is missing.
pub fn inquire(settings: &Settings, segment: &str, headers: &HeaderMap, caller: &Caller) -> Result<Inquiry, Refusal> {
    let invalid = |what: &str| Refusal::KeyInvalid(format!("The key in the path {what}."));
    check_names(settings, headers)?;
    let source = settings.client_made().ok_or_else(|| invalid("is none that a client makes"))?;
    let key = unescaped(segment).ok_or_else(|| invalid("has a malformed escape"))?;
    let parts = vec![source::named(source, key).map_err(invalid)?];
    let scope = scope::values(&settings.scope, headers, caller)?;
    let operation = operation(&settings.namespace, &scope, &parts);
    let made = dated::made(settings, &Found::Key(parts))?;
    Ok(Inquiry { operation, credentials: scope::credentials(settings, headers), made })
}

/// The bytes that a segment stands for; none when an escape is malformed. A plus is a plus.
fn unescaped(segment: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut rest) = (Vec::with_capacity(segment.len()), segment.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (&[high, low], after) = rest.split_first_chunk()?;
        bytes.push(escaped((high, low))?);
        rest = after;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_unescaped_once_and_whole_or_not_at_all() {
        for (segment, bytes) in [
            ("a-1", Some(&b"a-1"[..])),
            ("a%20b+c%2f", Some(b"a b+c/")),
            ("%2525", Some(b"%25")),
            ("%C3%A9", Some(b"\xc3\xa9")),
            ("", Some(b"")),
            ("%", None),
            ("%2", None),
            ("a%zz", None),
        ] {
            assert_eq!(unescaped(segment).as_deref(), bytes, "{segment}");
        }
    }
}
