//! The file as written: `also`, a route's second key. Checks nothing across fields.

use super::define::section;
use super::key_source::KeySource;
use super::reader::Field;
use super::scope::Scope;
use super::values::{DAY, Name, RefusalStatus, SECOND, Span};
use crate::{gateway, keys};

section! {
    /// A second key by which a route stops duplicates, such as an order number beside a request number: a request is forwarded when both are free.
    Also {
        /// Where the second key comes from, tried in order; the first that is present is the key.
        key: Vec<Field<KeySource>> = Required("write `key: [{ json: /order_no }]`"),
        /// Part of the second operation's identity (default: the route's namespace and `/also`).
        namespace: Name = Optional,
        /// What a request without it gets: 400, or a pass to where the first key guards alone.
        missing: keys::Missing = Default("reject"),
        /// Whose a second key is (default: the route's `scope`).
        scope: Scope = Optional,
        /// What a duplicate of a completed operation gets (default: as by the first key).
        duplicate: gateway::OnDuplicate = Optional,
        /// The status of a refusal (default: as by the first key).
        duplicate_status: RefusalStatus = Optional,
        /// How long an outcome is remembered (default: the route's).
        retention: Span<SECOND, { 3650 * DAY }> = Optional,
        /// How long a doubt is remembered (default: the larger of the route's and `retention`).
        doubt_retention: Span<SECOND, { 3650 * DAY }> = Optional,
        /// How a duplicate is compared with the first request.
        fingerprint: Comparison = Default("{}"),
    }
    later {}
}

section! {
    /// How a duplicate by the second key is compared with the first request.
    Comparison {
        /// Whether a changed request is refused with 422 (default: true for header and query keys, false for json, form and all).
        compare: bool = Optional,
    }
    later {}
}
