//! What became of `tokens`: for the routes that take some. How it is written is in `tokens`.

use std::sync::Arc;

use super::finding::{Place, Report};
use crate::keys;

/// What became of the section.
pub(super) enum Issuing {
    Absent,
    /// Already reported.
    Broken,
    Ready(String, Arc<keys::Tokens>),
}

impl Issuing {
    /// Where tokens are issued, if anywhere.
    pub(super) fn path(&self) -> Option<String> {
        match self {
            Self::Absent | Self::Broken => None,
            Self::Ready(path, _) => Some(path.clone()),
        }
    }

    /// What a route with token keys goes by.
    pub(super) fn ready(&self, place: &Place, report: &mut Report) -> Option<Arc<keys::Tokens>> {
        match self {
            Self::Absent => {
                report.fault(
                    place,
                    "needs the section `tokens`, such as `tokens: { secrets: [ \"${ONCEGATE_TOKEN_SECRET}\" ] }`",
                );
                None
            }
            Self::Broken => None,
            Self::Ready(_, tokens) => Some(Arc::clone(tokens)),
        }
    }
}
