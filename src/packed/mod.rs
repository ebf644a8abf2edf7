//! Numbers, strings and header fields packed into bytes, as records have them in memory and in stores. It knows no records.

mod known;
mod reader;
mod writer;

use bytes::Bytes;

pub use known::{COMMON_FIELDS, COMMON_NAMES};
pub use reader::Reader;
pub use writer::Writer;

/// Why bytes are not what should be packed in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The bytes end within a field.
    #[error("the record ends within its {0}")]
    Truncated(&'static str),
    /// A field holds a number that stands for nothing.
    #[error("{tag} is no known {field}")]
    UnknownTag {
        /// The field.
        field: &'static str,
        /// What it holds.
        tag: u8,
    },
    /// A field holds a number beyond its range, or claims more bytes than there are.
    #[error("the {0} is out of range")]
    OutOfRange(&'static str),
}

/// A field's name or value.
#[derive(Debug, Clone, Copy)]
pub enum Piece<'a> {
    /// One of the common ones, which are not spelled out.
    Known(&'static str),
    /// One that stands among the bytes.
    Own(&'a [u8]),
}

impl<'a> Piece<'a> {
    /// What it says.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Self::Known(text) => text.as_bytes(),
            Self::Own(bytes) => bytes,
        }
    }

    /// The same, sharing the memory of the bytes that it was read from.
    pub fn shared(self, from: &Bytes) -> Bytes {
        match self {
            Self::Known(text) => Bytes::from_static(text.as_bytes()),
            Self::Own(bytes) => from.slice_ref(bytes),
        }
    }
}
