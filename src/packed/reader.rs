//! Reads what was packed. It trusts no length, and never allocates.

use super::known::{COMMON_FIELDS, COMMON_NAMES, FIRST_FIELD};
use super::{Malformed, Piece};

/// Packed bytes, as far as they are still to be read.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads these from their beginning.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// How many bytes are still to be read.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// So many bytes as they are.
    ///
    /// # Errors
    /// When there are fewer. `field` is what an operator reads.
    #[inline]
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(Malformed::Truncated(field))?;
        self.rest = rest;
        Ok(*array)
    }

    /// A byte.
    ///
    /// # Errors
    /// When there is none.
    #[inline]
    pub fn byte(&mut self, field: &'static str) -> Result<u8, Malformed> {
        self.array(field).map(|[byte]| byte)
    }

    /// Two bytes, the higher one first.
    ///
    /// # Errors
    /// When there are fewer.
    #[inline]
    pub fn u16(&mut self, field: &'static str) -> Result<u16, Malformed> {
        self.array(field).map(u16::from_be_bytes)
    }

    /// Four bytes, the highest one first.
    ///
    /// # Errors
    /// When there are fewer.
    #[inline]
    pub fn u32(&mut self, field: &'static str) -> Result<u32, Malformed> {
        self.array(field).map(u32::from_be_bytes)
    }

    /// A number of any size.
    ///
    /// # Errors
    /// When it does not end, is spelt as no number is, or does not fit.
    #[inline]
    pub fn varint(&mut self, field: &'static str) -> Result<u64, Malformed> {
        // Nearly every number is small.
        if let [byte @ ..0x80, rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(u64::from(*byte));
        }
        self.long_varint(field)
    }

    fn long_varint(&mut self, field: &'static str) -> Result<u64, Malformed> {
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
        Err(Malformed::OutOfRange(field))
    }

    /// A number that fits in 32 bits.
    ///
    /// # Errors
    /// As above.
    pub fn small(&mut self, field: &'static str) -> Result<u32, Malformed> {
        u32::try_from(self.varint(field)?).map_err(|_| Malformed::OutOfRange(field))
    }

    /// How many things follow, each of at least a byte.
    ///
    /// # Errors
    /// As above, and when there cannot be so many.
    pub fn count(&mut self, field: &'static str) -> Result<usize, Malformed> {
        let most = self.left();
        let count = usize::try_from(self.varint(field)?).map_err(|_| Malformed::OutOfRange(field))?;
        if count > most { Err(Malformed::OutOfRange(field)) } else { Ok(count) }
    }

    /// A string.
    ///
    /// # Errors
    /// When its length is no number, or there are fewer bytes than it says.
    #[inline]
    pub fn text(&mut self, field: &'static str) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.varint(field)?).map_err(|_| Malformed::OutOfRange(field))?;
        let (text, rest) = self.rest.split_at_checked(length).ok_or(Malformed::OutOfRange(field))?;
        self.rest = rest;
        Ok(text)
    }

    /// A field's name and value.
    ///
    /// # Errors
    /// When it is cut off, or is one that this version does not know.
    #[inline]
    pub fn field(&mut self) -> Result<(Piece<'a>, Piece<'a>), Malformed> {
        let byte = self.byte("field name")?;
        let unknown = || Malformed::UnknownTag { field: "field name", tag: byte };
        if let Some(place) = byte.checked_sub(FIRST_FIELD) {
            let (name, value) = COMMON_FIELDS.get(usize::from(place)).ok_or_else(unknown)?;
            return Ok((Piece::Known(name), Piece::Known(value)));
        }
        let name = match usize::from(byte).checked_sub(1) {
            None => Piece::Own(self.text("field name")?),
            Some(place) => COMMON_NAMES.get(place).map(|name| Piece::Known(name)).ok_or_else(unknown)?,
        };
        Ok((name, Piece::Own(self.text("field value")?)))
    }

    /// A time that lies so far before `end`.
    ///
    /// # Errors
    /// When the distance is no number.
    pub fn distance(&mut self, field: &'static str, end: u64) -> Result<u64, Malformed> {
        let zigzag = self.varint(field)?;
        let distance = zigzag >> 1 ^ (zigzag & 1).wrapping_neg();
        Ok(end.wrapping_sub(distance))
    }
}
