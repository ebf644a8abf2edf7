//! What stands around a guard in the file, for the checks across sections. It checks nothing itself.

use super::issuing::Issuing;
use super::jwt::Tokens;
use super::upstreams::Upstream;
use crate::gateway::{Pattern, Underscores};

/// What a guard is checked against.
pub(super) struct Around<'a> {
    pub(super) upstream: Option<&'a Upstream>,
    /// Whether clients are asked for certificates; true while that cannot be told.
    pub(super) client_certificates: bool,
    /// The most bytes that all buffered bodies may take together.
    pub(super) buffered_bodies: Option<usize>,
    /// What becomes of request fields with an underscore in their name.
    pub(super) underscores: Option<Underscores>,
    /// The single-use tokens that gateways issue.
    pub(super) issuing: &'a Issuing,
    /// Whether others than this machine may connect, and none of them is a proxy whose word is told from theirs.
    pub(super) anybody_connects: bool,
    /// What tokens come in, if they are believed.
    pub(super) tokens: Tokens,
    /// The route's path.
    pub(super) path: Option<&'a Pattern>,
}
