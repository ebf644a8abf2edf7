//! Packs numbers, strings and fields.

use super::known::{COMMON_FIELDS, COMMON_NAMES, FIRST_FIELD};

/// What has been packed so far.
#[derive(Debug)]
pub struct Writer {
    out: Vec<u8>,
    /// How much stood there before.
    begin: usize,
}

impl Writer {
    /// Writes behind what stands there already, with room for so much.
    pub fn behind(mut out: Vec<u8>, room: usize) -> Self {
        out.reserve(room);
        Self { begin: out.len(), out }
    }

    /// What stood there before, and what has been written.
    pub fn finish(self) -> Vec<u8> {
        self.out
    }

    /// What has been written.
    pub fn so_far(&self) -> &[u8] {
        &self.out[self.begin..]
    }

    /// A byte.
    #[inline]
    pub fn byte(&mut self, byte: u8) {
        self.out.push(byte);
    }

    /// Bytes as they are.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// A number, seven bits a byte, lowest first; the high bit says that more follow.
    #[inline]
    pub fn varint(&mut self, mut number: u64) {
        while number > 0x7F {
            self.byte(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.byte(number.to_le_bytes()[0]);
    }

    /// How many things follow.
    pub fn length(&mut self, length: usize) {
        self.varint(length as u64);
    }

    /// A string with its length in front.
    #[inline]
    pub fn text(&mut self, text: &[u8]) {
        self.length(text.len());
        self.bytes(text);
    }

    /// A field: the byte that stands for all of it; or else its name's place among the common ones, or 0 and the name, and
    /// then its value.
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        let whole = |(_, (known, said)): &(u8, &(&str, &str))| known.as_bytes() == name && said.as_bytes() == value;
        if let Some((byte, _)) = (FIRST_FIELD..).zip(&COMMON_FIELDS).find(whole) {
            return self.byte(byte);
        }
        if let Some((place, _)) = (1..).zip(&COMMON_NAMES).find(|(_, known)| known.as_bytes() == name) {
            self.byte(place);
        } else {
            self.byte(0);
            self.text(name);
        }
        self.text(value);
    }

    /// How far before `end` the time is. Zigzag, since a time may also lie behind it.
    pub fn distance(&mut self, time: u64, end: u64) {
        let distance = end.wrapping_sub(time).cast_signed();
        self.varint((distance << 1 ^ distance >> 63).cast_unsigned());
    }
}
