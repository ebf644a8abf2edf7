//! What a token must say to be believed (RFC 7519 section 4.1), its signature aside: who made it, for whom, and when.

use std::time::Duration;

use crate::keys::Claims;
use crate::machine::Time;

/// Whose tokens are believed, and when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Issuers (`iss`), of which a token must name one; none: any, or nobody.
    pub issuers: Vec<String>,
    /// Audiences (`aud`), of which a token must name one; none: any, or nobody.
    pub audiences: Vec<String>,
    /// How far off the issuer's clock may be.
    pub leeway: Duration,
}

/// When a token holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Term {
    from: Option<Time>,
    until: Option<Time>,
}

impl Rules {
    /// When claims hold, if they ever do.
    ///
    /// # Errors
    /// Why they do not, to be read after "The token".
    pub(super) fn term(&self, claims: &Claims) -> Result<Term, &'static str> {
        let [issuer, audience, from, until] = claims.values(["/iss", "/aud", "/nbf", "/exp"]);
        let issuer = issuer.map(|text| serde_json::from_slice::<String>(&text)).transpose();
        let issuer = issuer.map_err(|_| "names an issuer (`iss`) that is no text")?;
        if !self.issuers.is_empty() && issuer.is_none_or(|issuer| !self.issuers.contains(&issuer)) {
            return Err("is of another issuer (`iss`)");
        }
        if !self.audiences.is_empty() && !listed(audience.as_deref()).iter().any(|one| self.audiences.contains(one)) {
            return Err("is for another audience (`aud`)");
        }
        Ok(Term {
            from: from.map(|text| date(&text).ok_or("has a beginning (`nbf`) that is no number")).transpose()?,
            until: until.map(|text| date(&text).ok_or("has an end (`exp`) that is no number")).transpose()?,
        })
    }

    /// Whether a token that holds in a term holds now.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn holds(&self, term: Term, now: Time) -> Result<(), &'static str> {
        if term.until.is_some_and(|until| until.plus(self.leeway) <= now) {
            return Err("has expired (`exp`)");
        }
        if term.from.is_some_and(|from| now.plus(self.leeway) < from) {
            return Err("is not valid yet (`nbf`)");
        }
        Ok(())
    }
}

/// One text, or a list of texts.
fn listed(value: Option<&[u8]>) -> Vec<String> {
    let Some(value) = value else { return Vec::new() };
    let one = serde_json::from_slice(value).map(|one| vec![one]);
    one.or_else(|_| serde_json::from_slice(value)).unwrap_or_default()
}

/// A time in seconds since 1970, as JSON. What is before that is zero, and what no clock will show is the end of time.
fn date(value: &[u8]) -> Option<Time> {
    if !matches!(value.first()?, b'-' | b'0'..=b'9') {
        return None;
    }
    let seconds: f64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    let since = if seconds > 0.0 { Duration::try_from_secs_f64(seconds) } else { Ok(Duration::ZERO) };
    Some(Time(since.map_or(u64::MAX, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))))
}
