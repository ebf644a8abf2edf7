//! What can be said of a token without asking anybody: for whoever wants a refusal explained.

use super::algorithm::Algorithm;
use super::keyset::Signed;
use super::settings::{Origin, Proof};
use super::{Refused, Settings, UNLISTED, UNPROVEN, has_signed};
use crate::keys::Claims;
use crate::machine::Time;

/// Who vouches for a token's claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// A signature by this algorithm, which is its issuer's.
    Signed(Algorithm),
    /// A proxy in front, if there is one.
    Trusted,
    /// Nobody yet: its issuer's keys are not here.
    Unverified,
}

impl Settings {
    /// What a token says, and who vouches for that. `now` is the time that it is judged by.
    ///
    /// # Errors
    /// Why it would not be believed.
    pub fn explain(&self, token: &[u8], now: Time) -> Result<(Claims, Standing), Refused> {
        let compact = self.open(token)?;
        let by = Standing::Signed(compact.algorithm);
        let standing = match &self.proof {
            Proof::Elsewhere => Standing::Trusted,
            Proof::Keys(Origin::Url { .. }, _) => Standing::Unverified,
            Proof::Keys(Origin::File { set, .. }, _) => match set.signed(&compact) {
                Signed::Yes => by,
                Signed::No => return Err(Refused::Invalid(UNPROVEN)),
                Signed::ByAnother => return Err(Refused::Invalid(UNLISTED)),
            },
            Proof::Secrets(secrets) if secrets.iter().any(|secret| has_signed(secret, &compact)) => by,
            Proof::Secrets(_) => return Err(Refused::Invalid(UNPROVEN)),
        };
        self.claims(compact, now).map(|(claims, _)| (claims, standing))
    }
}
