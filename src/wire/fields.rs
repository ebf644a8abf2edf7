//! What HTTP/2 asks of a message's fields beyond what the library underneath sees to (RFC 9113, 8.1.1 and 8.2.1). A
//! message that breaks it is none: HTTP/1 would say it in words that can be read two ways. HTTP/1's rules are elsewhere.

use http::HeaderMap;
use http::header::CONTENT_LENGTH;

/// Whether there is at most one length, a number, and no white space round a value.
pub fn are_well_formed(fields: &HeaderMap) -> bool {
    let mut lengths = fields.get_all(CONTENT_LENGTH).iter();
    let length = lengths.next().is_none_or(|length| is_number(length.as_bytes()));
    length && lengths.next().is_none() && fields.values().all(|value| !is_padded(value.as_bytes()))
}

fn is_number(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(u8::is_ascii_digit)
}

fn is_padded(value: &[u8]) -> bool {
    let white = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    white(value.first()) || white(value.last())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn judge(fields: &[(&'static str, &'static str)]) -> bool {
        let fields = fields.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        are_well_formed(&fields.collect())
    }

    #[test]
    fn one_length_and_bare_values() {
        assert!(judge(&[]));
        assert!(judge(&[("content-length", "05"), ("x-a", ""), ("x-a", "a b\tc")]));
        for length in ["", "+5", "-0", "5, 5", "0x5"] {
            assert!(!judge(&[("content-length", length)]), "{length}");
        }
        assert!(!judge(&[("content-length", "5"), ("content-length", "5")]));
        for value in [" a", "a ", "\ta", "a\t", " "] {
            assert!(!judge(&[("x-a", "a"), ("x-a", value)]), "{value:?}");
        }
    }
}
