//! Who sends a request: what has been found out of it before keys look at it. It finds out nothing itself.

use crate::wire::Certificate;

/// Who sends a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// The certificate by which the client has proven who it is.
    pub certificate: Option<Certificate>,
}
