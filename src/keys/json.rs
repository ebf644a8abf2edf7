//! JSON in canonical form (RFC 8259 in, one spelling per value out), in one pass and without a tree.
//! It validates nothing beyond the grammar, and knows nothing of fingerprints.

mod made;
mod members;
mod scanner;
mod string;

use made::Span;
use scanner::Scanner;

use super::Steps;
use super::pointer::{Purpose, Watch};

/// Containers inside each other beyond this are not followed.
const MAX_DEPTH: usize = 64;

/// A document that was read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scan {
    /// What is spelled otherwise in the document.
    made: Vec<u8>,
    whole: Span,
    /// The wanted values in canonical form, none where the pointer leads nowhere.
    pub(super) wanted: Vec<Option<Vec<u8>>>,
    /// Whether some object names a member twice. Readers disagree on which one counts.
    pub(super) duplicates: bool,
}

impl Scan {
    /// The document in canonical form: members sorted, no whitespace, one spelling for each string and number. JSON text
    /// itself. `body` is what was read.
    pub(super) fn canonical<'a>(&'a self, body: &'a [u8]) -> &'a [u8] {
        self.whole.of(body, &self.made)
    }
}

/// Why a document has no canonical form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is no JSON, or holds a lone surrogate or a number beyond all measure.
    Invalid,
    /// It nests deeper than `MAX_DEPTH`.
    TooDeep,
}

/// Reads a document. Values under the pointers `ignored` are left out, those under `wanted` are picked up as they are, and
/// texts under `typed` are brought into their form.
pub(super) fn scan<'a>(
    body: &[u8],
    ignored: impl IntoIterator<Item = &'a str>,
    typed: &'a [(String, Steps)],
    wanted: impl IntoIterator<Item = &'a str>,
) -> Result<Scan, Fault> {
    if !body.is_ascii() {
        std::str::from_utf8(body).map_err(|_| Fault::Invalid)?;
    }
    let mut watches: Vec<_> = ignored.into_iter().filter_map(|text| Watch::new(text, Purpose::Ignore)).collect();
    let mut slots = 0;
    for pointer in wanted {
        watches.extend(Watch::new(pointer, Purpose::Want(slots)));
        slots += 1;
    }
    // After the wanted ones: whoever wants a value gets it as it was sent.
    let forms = typed.iter().enumerate();
    watches.extend(forms.filter_map(|(at, (pointer, _))| Watch::new(pointer, Purpose::Form(at))));
    Scanner::new(body, typed, watches, slots).scan()
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
