//! Tokens on a route: one is issued for its caller, and the one that a request brings is recognised. When it was issued is
//! for the rules to judge.

use http::HeaderMap;

use super::frame::hex;
use super::header;
use super::source::{Found, Value};
use super::token::{Bound, Token, Tokens};
use super::{Caller, Names, Refusal, Settings, Source, scope};
use crate::machine::{Arrival, Time, Validity};
use crate::upstream::headers::Kinds;

/// A token that was issued here, for this route and caller.
#[derive(Debug)]
pub(super) struct Issued {
    /// When it may act, if nothing is known of its operation.
    pub(super) spans: [Validity; 2],
    /// When it expires by its own word.
    expires: Time,
}

/// What is in the token of a request, for whoever wonders why it is refused. Nothing of it can be used as a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenParts {
    /// The id of the key that it says it is signed with.
    pub key: String,
    /// Its random part, in hex.
    pub number: String,
    /// When it was issued.
    pub issued: Time,
    /// Until when it gives a right to act under the present settings.
    pub until: Time,
    /// Whether it is any good, and if not, why.
    pub standing: TokenStanding,
}

/// How a token stands to a route and a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenStanding {
    /// It was issued for them.
    Good,
    /// No secret here has the id of its key.
    UnknownKey,
    /// The signature does not hold: another namespace, another caller, another secret, or it was changed.
    Foreign,
}

impl Settings {
    /// How this route takes tokens, if it does.
    pub fn tokens(&self) -> Option<&Tokens> {
        self.sources.iter().find_map(|source| match source {
            Source::Token(tokens) => Some(&**tokens),
            _ => None,
        })
    }
}

impl Issued {
    /// The arrival, bound to the token's time.
    pub(super) fn limit<'a>(&self, arrival: Arrival<'a>) -> Arrival<'a> {
        let [first, second] = self.spans;
        arrival.valid_within(first).valid_within(second).remembered_until(self.expires)
    }
}

/// Issues a token for the caller of a request, and says when it expires. `number` is random.
///
/// # Errors
/// When the scope's value is missing, or the route takes no tokens.
pub fn issue(
    settings: &Settings,
    headers: &HeaderMap,
    caller: &Caller,
    now: Time,
    number: [u8; 16],
) -> Result<(String, Time), Refusal> {
    Names::of(settings).check(headers, Kinds::of(headers))?;
    let scope = scope::values(&settings.scope, headers, caller)?;
    let bound = Bound::new(&settings.namespace, &scope);
    let issued = settings.tokens().and_then(|tokens| tokens.issue(&bound, now, number));
    issued.ok_or_else(|| Refusal::TokenInvalid("No tokens are issued for this route.".to_owned()))
}

/// The token among what was found; none where the key is none.
///
/// # Errors
/// When it was not issued here, or not for this caller.
pub(super) fn recognise(
    settings: &Settings,
    found: &Found<'_>,
    scope: &[scope::Value<'_>],
) -> Result<Option<Issued>, Refusal> {
    let Found::Key(parts) = found else { return Ok(None) };
    let Some((tokens, text)) = parts.iter().find_map(|part| match (part.source, &part.value) {
        (Source::Token(tokens), Value::Token(text)) => Some((tokens, text)),
        _ => None,
    }) else {
        return Ok(None);
    };
    let token = Token::read(text).filter(|token| tokens.is_signed(token, &Bound::new(&settings.namespace, scope)));
    let token = token.ok_or_else(|| {
        Refusal::TokenInvalid("The token is none that was issued here for this route and this caller.".to_owned())
    })?;
    Ok(Some(Issued { spans: tokens.spans(&token), expires: token.expires }))
}

/// What is in the token that a request brings; none when there is nothing of its form, or the caller is not known.
pub fn token_parts(settings: &Settings, headers: &HeaderMap, caller: &Caller) -> Option<TokenParts> {
    let tokens = settings.tokens()?;
    let token = Token::read(&header::key(headers, &tokens.header).ok()??)?;
    let scope = scope::values(&settings.scope, headers, caller).ok()?;
    let standing = if tokens.is_signed(&token, &Bound::new(&settings.namespace, &scope)) {
        TokenStanding::Good
    } else if tokens.knows(&token) {
        TokenStanding::Foreign
    } else {
        TokenStanding::UnknownKey
    };
    let (key, number) = (hex(&token.key), hex(&token.number));
    Some(TokenParts { key, number, issued: token.issued, until: tokens.until(&token), standing })
}
