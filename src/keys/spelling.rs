//! The one spelling of a JSON string's characters, shared by canonical JSON and the pointers into it.

/// Whether a byte of a string's text is spelled as it is.
pub(super) fn is_plain(byte: u8) -> bool {
    byte >= 0x20 && !matches!(byte, b'"' | b'\\')
}

/// Appends a character of a string in its one spelling.
pub(super) fn push_char(out: &mut Vec<u8>, c: char) {
    let short = match c {
        '"' | '\\' => c,
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\0'..='\u{1f}' => {
            let value = c as u8;
            out.extend_from_slice(b"\\u00");
            out.extend([value >> 4, value & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]));
            return;
        }
        _ => return out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
    };
    out.push(b'\\');
    out.extend_from_slice(short.encode_utf8(&mut [0; 4]).as_bytes());
}
