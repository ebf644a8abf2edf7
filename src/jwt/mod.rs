//! JSON Web Tokens: whether a token is what it says it is, by the keys of its issuer. Which claims name a caller is not
//! its matter.

mod algorithm;
mod cache;
mod compact;
mod fetch;
mod keyset;
mod offline;
mod ring;
mod rules;
mod settings;

use std::sync::Arc;

use aws_lc_rs::hmac;

pub use algorithm::Algorithm;
pub use keyset::{BadSet, KeySet};
pub use offline::Standing;
pub use ring::Ring;
pub use rules::Rules;
pub use settings::{Origin, Proof, Reading, Secret, Settings};

use crate::keys::Claims;
use crate::machine::Time;
use crate::telemetry::{Metrics, TokenCheck};
use algorithm::Method;
use cache::{Entry, Verified};
use compact::Compact;
use keyset::Signed;
use rules::Term;

/// Why a token is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is bad, or its time is over: why, to be read after "The token".
    #[error("The token {0}.")]
    Invalid(&'static str),
    /// The keys of its issuer were never read.
    #[error("The keys that tokens are verified with could not be read yet.")]
    Unverifiable,
}

/// Who believes tokens, under one configuration.
pub struct Verifier {
    settings: Settings,
    /// Where there are public keys.
    ring: Option<Arc<Ring>>,
    verified: Verified,
    metrics: Arc<Metrics>,
}

impl Verifier {
    /// A verifier for these settings.
    pub fn new(settings: Settings, metrics: Arc<Metrics>) -> Self {
        Self::over(settings, metrics, None)
    }

    /// What takes this one's place: with the keys that are known, where they are from the same address.
    #[must_use]
    pub fn succeeded_by(&self, settings: Settings) -> Self {
        let same = match &settings.proof {
            Proof::Keys(origin @ Origin::Url { .. }, reading) => {
                self.ring.as_ref().filter(|ring| ring.is_for(origin, reading))
            }
            _ => None,
        };
        Self::over(settings, Arc::clone(&self.metrics), same.cloned())
    }

    fn over(settings: Settings, metrics: Arc<Metrics>, ring: Option<Arc<Ring>>) -> Self {
        let fresh = |origin: &Origin, reading| Arc::new(Ring::new(origin.clone(), reading, Arc::clone(&metrics)));
        let ring = match &settings.proof {
            Proof::Keys(origin, reading) => Some(ring.unwrap_or_else(|| fresh(origin, *reading))),
            Proof::Secrets(_) | Proof::Elsewhere => None,
        };
        let verified = Verified::new(if ring.is_some() { settings.cache } else { 0 });
        Self { settings, ring, verified, metrics }
    }

    /// The public keys that it verifies with, if it is by such.
    pub fn ring(&self) -> Option<&Ring> {
        self.ring.as_deref()
    }

    /// Whether it takes tokens at their word, because somebody in front has verified them.
    pub fn is_credulous(&self) -> bool {
        self.settings.proof == Proof::Elsewhere
    }

    /// What a token says, if it is to be believed now. `now` is the store's time.
    ///
    /// # Errors
    /// Why it is not.
    pub async fn believe(&self, token: &[u8], now: Time) -> Result<Arc<Claims>, Refused> {
        let believed = self.check(token, now).await;
        self.metrics.token_checked(match &believed {
            Ok((_, check)) => *check,
            Err(Refused::Invalid(_)) => TokenCheck::Refused,
            Err(Refused::Unverifiable) => TokenCheck::Unverifiable,
        });
        believed.map(|(claims, _)| claims)
    }

    async fn check(&self, token: &[u8], now: Time) -> Result<(Arc<Claims>, TokenCheck), Refused> {
        if let Some(keys) = self.ring.as_ref().and_then(|ring| ring.set())
            && let Some(entry) = self.verified.get(token, &keys)
        {
            self.settings.rules.holds(entry.term, now).map_err(Refused::Invalid)?;
            return Ok((entry.claims, TokenCheck::Remembered));
        }
        let compact = self.settings.open(token)?;
        let by = self.prove(&compact).await?;
        let (claims, term) = self.settings.claims(compact, now)?;
        let claims = Arc::new(claims);
        if let Some(by) = by {
            self.verified.put(token, Entry { claims: Arc::clone(&claims), term, by });
        }
        Ok((claims, TokenCheck::Verified))
    }

    /// The keys that a token is proven by, where there are some.
    async fn prove(&self, token: &Compact<'_>) -> Result<Option<Arc<KeySet>>, Refused> {
        let proven = match (&self.settings.proof, &self.ring) {
            (Proof::Secrets(secrets), _) => secrets.iter().any(|secret| has_signed(secret, token)),
            (Proof::Keys(..), Some(ring)) => return prove_by(ring, token).await.map(Some),
            (Proof::Keys(..), None) => false,
            (Proof::Elsewhere, _) => true,
        };
        if proven { Ok(None) } else { Err(Refused::Invalid(UNPROVEN)) }
    }
}

impl Settings {
    /// Takes a token apart that may be one.
    fn open<'a>(&self, token: &'a [u8]) -> Result<Compact<'a>, Refused> {
        if token.len() > self.size_limit {
            return Err(Refused::Invalid("is longer than tokens may be here"));
        }
        let compact = Compact::read(token).map_err(Refused::Invalid)?;
        if !self.algorithms.contains(&compact.algorithm) {
            return Err(Refused::Invalid("is signed with an algorithm that is not allowed here"));
        }
        Ok(compact)
    }

    /// What a proven token says, if that holds now, and for how long.
    fn claims(&self, token: Compact<'_>, now: Time) -> Result<(Claims, Term), Refused> {
        let unclear = Refused::Invalid("has claims that cannot be read in one way");
        let claims = Claims::read(token.payload).ok_or(unclear)?;
        let term = self.rules.term(&claims).map_err(Refused::Invalid)?;
        self.rules.holds(term, now).map_err(Refused::Invalid)?;
        Ok((claims, term))
    }
}

const UNPROVEN: &str = "has a signature that is not its issuer's";
const UNLISTED: &str = "is signed with a key that its issuer does not list";

/// The keys that have signed a token. Where they do not know its key, they may be out of date.
async fn prove_by(ring: &Ring, token: &Compact<'_>) -> Result<Arc<KeySet>, Refused> {
    let signed = |keys: Option<Arc<KeySet>>| keys.map(|keys| (keys.signed(token), keys));
    let mut found = signed(ring.set());
    if matches!(found, None | Some((Signed::ByAnother, _))) {
        ring.renewed().await;
        found = signed(ring.set());
    }
    match found {
        Some((Signed::Yes, keys)) => Ok(keys),
        Some((Signed::No, _)) => Err(Refused::Invalid(UNPROVEN)),
        Some((Signed::ByAnother, _)) => Err(Refused::Invalid(UNLISTED)),
        None => Err(Refused::Unverifiable),
    }
}

fn has_signed(secret: &Secret, token: &Compact<'_>) -> bool {
    let Method::Hmac(algorithm) = token.algorithm.method() else { return false };
    hmac::verify(&hmac::Key::new(algorithm, secret.bytes()), token.message, &token.signature).is_ok()
}

#[cfg(test)]
mod tests;
