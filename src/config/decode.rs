//! `fingerprint.decode`: how compressed request bodies are decoded to be compared. What is forwarded is not its business.

use super::around::Around;
use super::define::{choice, section};
use super::finding::Report;
use super::reader::{Field, values};
use super::values::{Count, KIB, MIB, Size, size_text};
use crate::keys::{Coding, Decoding};

section! {
    /// How compressed bodies are decoded for the fingerprint and for keys in them. They are forwarded as sent.
    Decode {
        /// Codings that are taken off, up to three on top of each other: `gzip`, `br`, `zstd`, `deflate`. A body in another one is compared as sent.
        codings: Vec<Field<Coding>> = Default("[gzip, br, zstd]"),
        /// How many times its length a body may decode to.
        ratio: Count<1, 10_000> = Default("100"),
        /// How much a body may decode to; it counts for `limits.buffered_bodies`.
        size: Size<KIB, { 64 * MIB }> = Default("8MiB"),
    }
    later {}
}

choice! {
    Coding { "gzip" => Self::Gzip, "br" => Self::Brotli, "zstd" => Self::Zstd, "deflate" => Self::Deflate }
    later {}
}

/// Translates it.
#[expect(clippy::option_option, reason = "it may be broken, and it may be absent")]
pub(super) fn compile(field: &Field<Decode>, around: &Around<'_>, report: &mut Report) -> Option<Option<Decoding>> {
    let at = match field {
        Field::Absent => return Some(None),
        Field::Broken => return None,
        Field::Given(at) => at,
    };
    let (codings, size) = (at.value.codings.at()?, at.value.size.at()?);
    if codings.value.is_empty() {
        report.fault(&codings.place, "decodes nothing: list codings such as `[gzip, br, zstd]`, or leave `decode` out");
    }
    if let Some(all) = around.buffered_bodies.filter(|all| size.value.0 > *all) {
        let all = size_text(u64::try_from(all).unwrap_or(u64::MAX));
        let message = format!("is more than all bodies together may take (`limits.buffered_bodies`, {all}): lower it");
        report.fault(&size.place, message);
    }
    let codings = values(&codings.value)?;
    Some(Some(Decoding { codings, ratio: at.value.ratio.value()?.0, size: size.value.0 }))
}
