//! Reads the parts of an encoded record. It trusts no length, and never allocates more than it was given.

use bytes::Bytes;

use super::CodecError;
use super::known::{COMMON_FIELDS, COMMON_NAMES, FIRST_FIELD};
use crate::machine::Time;

pub(super) struct Reader {
    /// Strings are cut out of it without copying.
    whole: Bytes,
    /// Where what is still to be read begins.
    at: usize,
}

impl Reader {
    pub(super) fn new(bytes: Bytes) -> Self {
        Self { whole: bytes, at: 0 }
    }

    /// What has been read, and what is still to be read.
    pub(super) fn parts(&self) -> (&[u8], &[u8]) {
        self.whole.split_at(self.at)
    }

    /// How many bytes are still to be read.
    pub(super) fn left(&self) -> usize {
        self.whole.len() - self.at
    }

    pub(super) fn end(&self) -> Result<(), CodecError> {
        if self.left() == 0 { Ok(()) } else { Err(CodecError::Trailing(self.left())) }
    }

    pub(super) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], CodecError> {
        let array = *self.whole[self.at..].first_chunk().ok_or(CodecError::Truncated(field))?;
        self.at += N;
        Ok(array)
    }

    pub(super) fn byte(&mut self, field: &'static str) -> Result<u8, CodecError> {
        self.array(field).map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16, CodecError> {
        self.array(field).map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, CodecError> {
        self.array(field).map(u32::from_be_bytes)
    }

    pub(super) fn varint(&mut self, field: &'static str) -> Result<u64, CodecError> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte(field)?;
            let bits = u64::from(byte & 0x7F);
            // Only one bit is left for the tenth byte; and a last byte that adds nothing would be a second spelling.
            if bits << shift >> shift != bits || byte == 0 && shift > 0 {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(CodecError::OutOfRange(field))
    }

    pub(super) fn small(&mut self, field: &'static str) -> Result<u32, CodecError> {
        u32::try_from(self.varint(field)?).map_err(|_| CodecError::OutOfRange(field))
    }

    /// How many things follow, each of at least a byte.
    pub(super) fn count(&mut self, field: &'static str) -> Result<usize, CodecError> {
        let most = self.left();
        let count = usize::try_from(self.varint(field)?).map_err(|_| CodecError::OutOfRange(field))?;
        if count > most { Err(CodecError::OutOfRange(field)) } else { Ok(count) }
    }

    pub(super) fn text(&mut self, field: &'static str) -> Result<Bytes, CodecError> {
        let length = usize::try_from(self.varint(field)?).map_err(|_| CodecError::OutOfRange(field))?;
        if length > self.left() {
            return Err(CodecError::OutOfRange(field));
        }
        let start = self.at;
        self.at += length;
        Ok(self.whole.slice(start..self.at))
    }

    /// A field's name and value.
    pub(super) fn field(&mut self) -> Result<(Bytes, Bytes), CodecError> {
        let known = |text: &'static str| Bytes::from_static(text.as_bytes());
        let byte = self.byte("field name")?;
        let unknown = || CodecError::UnknownTag { field: "field name", tag: byte };
        if let Some(place) = byte.checked_sub(FIRST_FIELD) {
            let (name, value) = COMMON_FIELDS.get(usize::from(place)).ok_or_else(unknown)?;
            return Ok((known(name), known(value)));
        }
        let name = match usize::from(byte).checked_sub(1) {
            None => self.text("field name")?,
            Some(place) => COMMON_NAMES.get(place).map(|name| known(name)).ok_or_else(unknown)?,
        };
        Ok((name, self.text("field value")?))
    }

    pub(super) fn distance(&mut self, field: &'static str, end: Time) -> Result<Time, CodecError> {
        let zigzag = self.varint(field)?;
        let distance = zigzag >> 1 ^ (zigzag & 1).wrapping_neg();
        Ok(Time(end.0.wrapping_sub(distance)))
    }
}
