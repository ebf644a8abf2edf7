//! An upstream's answer as records keep it: one piece of memory, packed as stores have it.

use std::fmt;
use std::hash::{Hash, Hasher};

use bytes::Bytes;

use crate::packed::{Malformed, Piece, Reader, Writer};

/// Room for the fields that most answers have.
const FIELDS: usize = 256;
/// Room for two numbers: how many fields there are, and how long the body is.
const NUMBERS: usize = 20;

/// An upstream's answer, kept for replay.
#[derive(Clone)]
pub struct Recorded {
    /// The status code.
    pub status: u16,
    /// How many fields there are, each of them, and the body behind its length. It has been read through once.
    packed: Bytes,
    /// How long the body is.
    body: usize,
}

impl Recorded {
    /// An answer with these end-to-end fields, name and value, in the order of arrival, and this body. It copies them: else
    /// it would hold the buffers that they were read into, many times its size. Values need not be UTF-8.
    pub fn new<Name: AsRef<[u8]>, Value: AsRef<[u8]>>(
        status: u16,
        fields: impl IntoIterator<Item = (Name, Value)>,
        body: &[u8],
    ) -> Self {
        let (mut each, mut count) = (Writer::behind(Vec::new(), FIELDS), 0);
        for (name, value) in fields {
            each.field(name.as_ref(), value.as_ref());
            count += 1;
        }
        let mut all = Writer::behind(Vec::new(), NUMBERS + each.so_far().len() + body.len());
        all.length(count);
        all.bytes(each.so_far());
        all.text(body);
        // Without the room that is left: it is kept for long.
        Self { status, packed: all.finish().into_boxed_slice().into(), body: body.len() }
    }

    /// An answer with a body alone.
    pub fn bare(status: u16, body: &[u8]) -> Self {
        Self::new(status, [] as [(&[u8], &[u8]); 0], body)
    }

    /// An answer with nothing in it.
    pub fn empty(status: u16) -> Self {
        Self { status, packed: Bytes::from_static(&[0, 0]), body: 0 }
    }

    /// Takes an answer off the front of what a store had, where it stays.
    ///
    /// # Errors
    /// When none is there.
    pub fn unpack(status: u16, from: &mut Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(from);
        for _ in 0..reader.count("field count")? {
            reader.field()?;
        }
        let body = reader.text("body")?.len();
        let end = from.len() - reader.left();
        // Nothing is behind it, as a rule: then nobody else holds the memory.
        let packed = if end == from.len() { std::mem::take(from) } else { from.split_to(end) };
        Ok(Self { status, packed, body })
    }

    /// The fields and the body, as stores have them.
    pub fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// Name and value of each field, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.pieces().map(|(name, value)| (name.bytes(), value.bytes()))
    }

    /// The same; the values share the answer's memory.
    pub fn shared_fields(&self) -> impl Iterator<Item = (&[u8], Bytes)> {
        self.pieces().map(|(name, value)| (name.bytes(), value.shared(&self.packed)))
    }

    fn pieces(&self) -> Pieces<'_> {
        let mut from = Reader::new(&self.packed);
        let left = from.count("field count").unwrap_or_default();
        Pieces { from, left }
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.packed[self.packed.len() - self.body..]
    }

    /// The same, sharing the answer's memory.
    pub fn shared_body(&self) -> Bytes {
        self.packed.slice(self.packed.len() - self.body..)
    }
}

/// Names and values of fields that have been read through before.
struct Pieces<'a> {
    from: Reader<'a>,
    left: usize,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = (Piece<'a>, Piece<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        self.from.field().ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

/// By what they say: a name has another spelling where it was packed before it was a common one.
impl PartialEq for Recorded {
    fn eq(&self, other: &Self) -> bool {
        self.status == other.status && self.body() == other.body() && self.fields().eq(other.fields())
    }
}

impl Eq for Recorded {}

impl Hash for Recorded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.status.hash(state);
        self.body().hash(state);
        self.fields().for_each(|field| field.hash(state));
    }
}

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields: Vec<_> = self.shared_fields().map(|(name, value)| (Bytes::copy_from_slice(name), value)).collect();
        let (status, body) = (self.status, self.shared_body());
        f.debug_struct("Recorded")
            .field("status", &status)
            .field("fields", &fields)
            .field("body", &body)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: [(&str, &str); 3] = [("content-type", "application/json"), ("location", "/orders/7"), ("x-own", "")];

    #[test]
    fn an_answer_says_what_it_was_made_of() {
        let recorded = Recorded::new(201, FIELDS, b"{}");
        let fields: Vec<_> = recorded.fields().collect();
        assert_eq!(fields, FIELDS.map(|(name, value)| (name.as_bytes(), value.as_bytes())));
        assert_eq!((recorded.status, recorded.body(), recorded.shared_body()), (201, &b"{}"[..], Bytes::from("{}")));
        assert_eq!(Recorded::bare(204, b""), Recorded::empty(204));
        let many = vec![("x-own", "1"); 1000];
        let recorded = Recorded::new(200, many.iter().copied(), &[b'x'; 1000]);
        assert_eq!((recorded.fields().count(), recorded.body().len()), (1000, 1000));
    }

    #[test]
    fn it_is_packed_once_and_shared_from_there() {
        let recorded = Recorded::new(201, FIELDS, b"{}");
        let within = recorded.packed().as_ptr_range();
        let location = recorded.shared_fields().nth(1).unwrap().1;
        assert!(within.contains(&location.as_ptr()) && within.contains(&recorded.shared_body().as_ptr()));
        let mut stored = Bytes::from([recorded.packed(), b"more"].concat());
        let at = stored.as_ptr();
        let unpacked = Recorded::unpack(201, &mut stored).unwrap();
        assert_eq!((&unpacked, unpacked.packed().as_ptr(), &stored[..]), (&recorded, at, &b"more"[..]));
        for cut in 0..recorded.packed().len() {
            let mut stored = Bytes::copy_from_slice(&recorded.packed()[..cut]);
            assert!(Recorded::unpack(201, &mut stored).is_err(), "{cut}");
        }
    }

    #[test]
    fn answers_are_the_same_where_they_say_the_same() {
        let hash = |recorded: &Recorded| {
            let mut hasher = std::hash::DefaultHasher::new();
            recorded.hash(&mut hasher);
            hasher.finish()
        };
        // Spelled out, as it was before there was a place for it.
        let mut spelled = Bytes::from_static(b"\x01\x00\x04etag\x017\x02{}");
        let spelled = Recorded::unpack(200, &mut spelled).unwrap();
        let same = Recorded::new(200, [("etag", "7")], b"{}");
        assert_ne!(spelled.packed(), same.packed());
        assert_eq!((&spelled, hash(&spelled)), (&same, hash(&same)));
        for other in [Recorded::new(200, [("etag", "8")], b"{}"), Recorded::new(200, [("etag", "7")], b"")] {
            assert_ne!(other, same);
        }
        assert_ne!(Recorded { status: 201, ..same.clone() }, same);
        assert!(format!("{same:?}").contains("etag"), "{same:?}");
    }
}
