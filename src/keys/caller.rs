//! Who sends a request: what has been found out of it before keys look at it. It finds out nothing itself.

use std::sync::Arc;

use super::Claims;
use crate::wire::Certificate;

/// Who sends a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// The certificate by which the client has proven who it is.
    pub certificate: Option<Certificate>,
    /// What its token says, where the scope asks for that and somebody vouches for it.
    pub claims: Option<Arc<Claims>>,
    /// The parameters of the route's path that the scope asks for, decoded, by name; without those that can be read in
    /// two ways.
    pub parameters: Vec<(String, String)>,
}
