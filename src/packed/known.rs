//! What answers nearly always say of themselves, and what a record has instead of it: one byte. Records in stores refer
//! to places in these lists, so nothing is ever taken out of them or moved: only ever add at the end.

/// Field names that are stored as their place in this list, from 1. 0 announces a name in full.
pub const COMMON_NAMES: [&str; 20] = [
    "content-type",
    "content-length",
    "location",
    "cache-control",
    "etag",
    "last-modified",
    "content-encoding",
    "content-language",
    "vary",
    "expires",
    "link",
    "content-disposition",
    "accept-ranges",
    "allow",
    "pragma",
    "content-location",
    "strict-transport-security",
    "x-content-type-options",
    "x-frame-options",
    "content-security-policy",
];

/// The byte that stands for the first of the common fields, name and value both.
pub(super) const FIRST_FIELD: u8 = 0x80;

/// Fields that are stored as their place in this list, from `FIRST_FIELD` on.
pub const COMMON_FIELDS: [(&str, &str); 16] = [
    ("content-type", "application/json"),
    ("content-type", "application/json; charset=utf-8"),
    ("content-type", "application/json;charset=utf-8"),
    ("content-type", "application/json;charset=UTF-8"),
    ("content-type", "application/json; charset=UTF-8"),
    ("content-type", "application/problem+json"),
    ("content-type", "application/hal+json"),
    ("content-type", "application/vnd.api+json"),
    ("content-type", "text/plain; charset=utf-8"),
    ("content-type", "text/html; charset=utf-8"),
    ("content-type", "application/xml"),
    ("cache-control", "no-store"),
    ("cache-control", "no-cache"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("vary", "Accept-Encoding"),
];
