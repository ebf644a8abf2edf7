//! How values are spelled in a line, without the machinery of `fmt`: it would cost more than all else of a line. Whatever
//! a client sends comes out as printable ASCII, so that nobody writes a second line into the first.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use wide::u8x16;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The digits of each octet of an address, a dot behind them, and how many they are.
static OCTETS: [([u8; 4], usize); 256] = {
    let (mut octets, mut octet) = ([([b'.'; 4], 0); 256], 0);
    while octet < octets.len() {
        let (digits, count) = &mut octets[octet];
        let mut unit = 100;
        while unit > 0 {
            if octet >= unit || unit == 1 {
                digits[*count] = DIGITS[octet / unit % 10];
                *count += 1;
            }
            unit /= 10;
        }
        octet += 1;
    }
    octets
};
/// The most bytes that are shown of a value; three dots say that there were more.
pub(super) const MOST: usize = 4096;
/// The most bytes that stand for one of a value.
pub(super) const WIDEST: usize = 6;

/// Where a line is written: room enough for the longest. What went beyond it would be left out.
pub(super) struct Ink<'a> {
    rest: &'a mut [u8],
    room: usize,
}

impl<'a> Ink<'a> {
    pub(super) fn on(room: &'a mut [u8]) -> Self {
        Self { room: room.len(), rest: room }
    }

    /// How much was written.
    pub(super) fn written(&self) -> usize {
        self.room - self.rest.len()
    }

    /// Bytes of which it is known how many there are: no call, only moves.
    #[inline]
    pub(super) fn fixed<const N: usize>(&mut self, bytes: &[u8; N]) {
        if let Some((place, rest)) = std::mem::take(&mut self.rest).split_first_chunk_mut() {
            *place = *bytes;
            self.rest = rest;
        }
    }

    /// The first ones of these bytes, written with the others behind them: what follows is written over those.
    #[inline]
    fn first<const N: usize>(&mut self, count: usize, bytes: &[u8; N]) {
        let rest = std::mem::take(&mut self.rest);
        if let Some(place) = rest.first_chunk_mut() {
            *place = *bytes;
            self.rest = rest.get_mut(count..).unwrap_or_default();
        }
    }

    #[inline]
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        if let Some((place, rest)) = std::mem::take(&mut self.rest).split_at_mut_checked(bytes.len()) {
            place.copy_from_slice(bytes);
            self.rest = rest;
        }
    }

    pub(super) fn number(&mut self, number: u64) {
        self.bytes(itoa::Buffer::new().format(number).as_bytes());
    }

    /// A number below 10 to the power of `N`, with zeros before it.
    pub(super) fn padded<const N: usize>(&mut self, mut number: u32) {
        let mut digits = [b'0'; N];
        for digit in digits.iter_mut().rev() {
            *digit = DIGITS[(number % 10) as usize];
            number /= 10;
        }
        self.fixed(&digits);
    }

    pub(super) fn hex(&mut self, bytes: [u8; 6]) {
        let mut digits = [0; 12];
        for (digits, byte) in digits.as_chunks_mut().0.iter_mut().zip(bytes) {
            *digits = pair(byte);
        }
        self.fixed(&digits);
    }

    pub(super) fn address(&mut self, address: IpAddr) {
        match address.to_canonical() {
            IpAddr::V4(address) => self.ipv4(address),
            IpAddr::V6(address) => self.ipv6(address),
        }
    }

    fn ipv4(&mut self, address: Ipv4Addr) {
        let (mut text, mut length) = ([0; 16], 0);
        for octet in address.octets() {
            let (digits, count) = OCTETS[usize::from(octet)];
            if let Some(place) = text[length..].first_chunk_mut() {
                *place = digits;
            }
            length += count + 1;
        }
        self.first(length - 1, &text);
    }

    #[cold]
    fn ipv6(&mut self, address: Ipv6Addr) {
        self.bytes(address.to_string().as_bytes());
    }

    pub(super) fn server(&mut self, server: SocketAddr) {
        let brackets = server.ip().to_canonical().is_ipv6();
        if brackets {
            self.fixed(b"[");
        }
        self.address(server.ip());
        if brackets {
            self.fixed(b"]");
        }
        self.fixed(b":");
        self.number(server.port().into());
    }

    /// What is shown of a value, in the spelling of `escape` where it needs one.
    fn shown(&mut self, value: &[u8], escape: impl FnOnce(&mut Self, &[u8])) {
        let cut = &value[..value.len().min(MOST)];
        if are_plain(cut) {
            self.bytes(cut);
        } else {
            escape(self, cut);
        }
        if cut.len() < value.len() {
            self.fixed(b"...");
        }
    }

    /// As JSON has it. Bytes that are no UTF-8 come out as the characters of Latin-1.
    pub(super) fn json(&mut self, value: &[u8]) {
        self.shown(value, |ink, value| match std::str::from_utf8(value) {
            Ok(text) => text.encode_utf16().for_each(|unit| ink.json_unit(unit)),
            Err(_) => value.iter().for_each(|byte| ink.json_unit((*byte).into())),
        });
    }

    fn json_unit(&mut self, unit: u16) {
        match unit.to_be_bytes() {
            [0, byte] if is_plain(byte) => self.fixed(&[byte]),
            [0, byte @ (b'"' | b'\\')] => self.fixed(&[b'\\', byte]),
            [high, low] => {
                let ([a, b], [c, d]) = (pair(high), pair(low));
                self.fixed(&[b'\\', b'u', a, b, c, d]);
            }
        }
    }

    /// As nginx has it: `\xHH`.
    pub(super) fn backslashed(&mut self, value: &[u8]) {
        self.shown(value, |ink, value| {
            for byte in value {
                if is_plain(*byte) {
                    ink.fixed(&[*byte]);
                } else {
                    let [high, low] = pair(*byte).map(|digit| digit.to_ascii_uppercase());
                    ink.fixed(&[b'\\', b'x', high, low]);
                }
            }
        });
    }
}

fn pair(byte: u8) -> [u8; 2] {
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 0xf)]]
}

/// Whether a byte says itself between quotation marks.
fn is_plain(byte: u8) -> bool {
    !matches!(byte, b'"' | b'\\') && matches!(byte, 0x20..=0x7e)
}

/// Whether all do. Sixteen are looked at together; the last sixteen may be looked at twice.
fn are_plain(bytes: &[u8]) -> bool {
    let mut odd = u8x16::ZERO;
    for window in bytes.as_chunks().0 {
        odd |= odd_in(*window);
    }
    let mut last = [b' '; 16];
    match bytes.last_chunk() {
        Some(all) => last = *all,
        None => last[..bytes.len()].copy_from_slice(bytes),
    }
    (odd | odd_in(last)).none()
}

/// All bits of each byte that does not say itself.
#[inline]
fn odd_in(window: [u8; 16]) -> u8x16 {
    let window = u8x16::new(window);
    // What is below a space comes out above all others.
    let moved = window - u8x16::splat(b' ');
    let beyond = moved.max(u8x16::splat(0x5f)).simd_eq(moved);
    beyond | window.simd_eq(u8x16::splat(b'"')) | window.simd_eq(u8x16::splat(b'\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Ink)) -> String {
        let mut room = vec![0; 6 * MOST + 3];
        let mut ink = Ink::on(&mut room);
        write(&mut ink);
        let written = ink.written();
        room.truncate(written);
        String::from_utf8(room).unwrap()
    }

    #[test]
    fn nothing_of_a_clients_ends_its_value_or_its_line() {
        for value in ["a\"b", "a\\", "\n{\"status\":200}", "\r\0\u{7f}", "\u{85}\u{2028}", "é😀"] {
            let escaped = text(|ink| ink.json(value.as_bytes()));
            assert!(escaped.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{escaped}");
            let read: String = serde_json::from_str(&format!("\"{escaped}\"")).unwrap();
            assert_eq!(read, value);
        }
        assert_eq!(text(|ink| ink.json(b"caf\xe9")), "caf\\u00e9");
        assert_eq!(text(|ink| ink.backslashed(b"a\"\\\n\x7f\xe9 z")), "a\\x22\\x5C\\x0A\\x7F\\xE9 z");
    }

    #[test]
    fn every_byte_is_looked_at_wherever_it_stands() {
        for length in (1..=17).chain([31, 32, 33, 100]) {
            let plain: Vec<u8> = (0..=255).filter(|byte| is_plain(*byte)).cycle().take(length).collect();
            assert!(are_plain(&plain));
            for (place, odd) in (0..length).flat_map(|place| [0, 0x1f, b'"', b'\\', 0x7f, 0xff].map(|odd| (place, odd)))
            {
                let mut bytes = plain.clone();
                bytes[place] = odd;
                assert!(!are_plain(&bytes), "{odd} at {place} of {length}");
            }
        }
    }

    #[test]
    fn what_is_too_long_is_cut_and_says_so() {
        let long = vec![b'"'; MOST + 1];
        let escaped = text(|ink| ink.json(&long));
        assert_eq!(escaped.len(), 2 * MOST + 3);
        assert!(escaped.ends_with("\\\"..."));
        for value in [&long[..], b"", "\u{1}".repeat(9000).as_bytes(), "é".repeat(9000).as_bytes()] {
            assert!(text(|ink| ink.json(value)).len() <= WIDEST * value.len().min(MOST) + 3);
            assert!(text(|ink| ink.backslashed(value)).len() <= WIDEST * value.len().min(MOST) + 3);
        }
    }

    #[test]
    fn numbers_and_addresses_are_spelled_as_usual() {
        assert_eq!(text(|ink| ink.padded::<6>(1_203)), "001203");
        assert_eq!(text(|ink| ink.hex([0x0f, 0xa0, 0, 1, 2, 3])), "0fa000010203");
        for ip in ["127.0.0.1", "255.0.10.99", "100.200.109.0", "::1", "2001:db8::7"] {
            assert_eq!(text(|ink| ink.address(ip.parse().unwrap())), ip);
        }
        assert_eq!(text(|ink| ink.address("::ffff:10.0.0.1".parse().unwrap())), "10.0.0.1");
        for at in ["127.0.0.1:80", "[::1]:65535"] {
            assert_eq!(text(|ink| ink.server(at.parse().unwrap())), at);
        }
    }
}
