//! Single-use tokens: what is taken is what was issued, for whom it was issued, to the last bit. The second opinion takes
//! a token apart by itself, and has it issued anew.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{HeaderName, HeaderValue};
use oncegate::keys::{
    Caller, FingerprintSettings, Refusal, Request, Scope, Settings, Source, TOKEN_SECRET_LEN, TokenKey, TokenStanding,
    Tokens, explain, issue, token_parts,
};
use oncegate::machine::Time;

use super::dice::Dice;
use super::view::{settings, with_field};

const FIELD: HeaderName = HeaderName::from_static("idempotency-token");
const CUSTOMER: HeaderName = HeaderName::from_static("x-customer");
const LIFETIME: Duration = Duration::from_mins(30);
/// Version, key, issued, expires, number, tag.
const LEN: usize = 1 + 4 + 8 + 8 + 16 + 32;

/// Takes the input for what a request brings, and for the time and number of a token.
pub fn check(data: &[u8]) {
    let mut dice = Dice::of(data);
    if let Ok(value) = HeaderValue::from_bytes(data) {
        as_text(&value);
    }
    as_tag(data, &mut dice);
    as_issued(data, &mut dice);
}

/// A route whose tokens are signed with the first of these secrets.
fn route(secrets: &[u8], lifetime: Duration) -> Settings {
    let keys = secrets.iter().filter_map(|byte| TokenKey::new(&[*byte; TOKEN_SECRET_LEN])).collect();
    let tokens = Arc::new(Tokens { header: FIELD, lifetime, keys });
    let settings = settings(Some(Source::Token(tokens)), FingerprintSettings::default());
    Settings { scope: Scope::Header(CUSTOMER), ..settings }
}

fn request(token: &HeaderValue, customer: &'static str) -> Request {
    let mut request = with_field(&FIELD, std::slice::from_ref(token));
    request.headers.insert(CUSTOMER, HeaderValue::from_static(customer));
    request
}

fn issued(route: &Settings, now: u64, number: [u8; 16]) -> String {
    let nobody = request(&HeaderValue::from_static("-"), "7");
    match issue(route, &nobody.headers, &Caller::default(), Time(now), number) {
        Ok((token, expires)) => {
            assert_eq!(expires, Time(now).plus(lifetime(route)));
            token
        }
        Err(refusal) => panic!("this route issues tokens: {refusal}"),
    }
}

fn lifetime(route: &Settings) -> Duration {
    route.tokens().map(|tokens| tokens.lifetime).unwrap_or_default()
}

/// Whether a request is taken, after all who look at its token were asked.
fn is_taken(route: &Settings, request: &Request) -> bool {
    let taken = explain(route, request);
    let standing = token_parts(route, &request.headers, &request.caller).map(|parts| parts.standing);
    assert_eq!(taken.is_ok(), standing == Some(TokenStanding::Good), "{taken:?} {standing:?}");
    match taken {
        Ok(explanation) => explanation.operation.is_some(),
        Err(Refusal::TokenInvalid(_)) => false,
        Err(other) => panic!("a bad token is no other fault: {other:?}"),
    }
}

/// A text is good when it is what would be issued at its time, for its span, with its number.
fn expected(text: &[u8], secrets: &[u8]) -> bool {
    let Ok(bytes) = URL_SAFE_NO_PAD.decode(text) else { return false };
    if bytes.len() != LEN || bytes[0] != 1 {
        return false;
    }
    let eight = |at: usize| bytes[at..at + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let (now, until) = (eight(5), eight(13));
    let (Ok(number), Some(span)) = (bytes[21..37].try_into(), until.checked_sub(now)) else { return false };
    let again = |secret: &u8| issued(&route(&[*secret], Duration::from_millis(span)), now, number);
    secrets.iter().any(|secret| again(secret).as_bytes() == text)
}

fn as_text(value: &HeaderValue) {
    if value.as_bytes().trim_ascii().is_empty() {
        return;
    }
    let text = value.as_bytes().trim_ascii();
    assert_eq!(is_taken(&route(&[1, 2], LIFETIME), &request(value, "7")), expected(text, &[1, 2]), "{value:?}");
}

/// A token of the right form with a tag that nobody gave it.
fn as_tag(data: &[u8], dice: &mut Dice) {
    let mut bytes: Vec<u8> =
        data.iter().copied().chain(std::iter::repeat_with(|| dice.next().to_le_bytes()[0])).take(LEN).collect();
    bytes[0] = 1;
    if let Ok(known) = URL_SAFE_NO_PAD.decode(issued(&route(&[1], LIFETIME), 0, [0; 16])) {
        bytes[1..5].copy_from_slice(&known[1..5]);
    }
    let text = URL_SAFE_NO_PAD.encode(bytes);
    assert_eq!(is_taken(&route(&[1, 2], LIFETIME), &request(&value(&text), "7")), expected(text.as_bytes(), &[1, 2]));
}

fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| panic!("{text:?} is no field"))
}

fn as_issued(data: &[u8], dice: &mut Dice) {
    let now = data.iter().take(6).fold(0, |time, byte| time << 8 | u64::from(*byte));
    let number = u128::from(dice.next()) << 64 | u128::from(dice.next());
    let own = route(&[1, 2], LIFETIME);
    let text = issued(&own, now, number.to_be_bytes());
    let good = request(&value(&text), "7");
    assert!(is_taken(&own, &good));
    assert!(is_taken(&route(&[2, 1], LIFETIME), &good), "any of the secrets verifies");
    assert!(is_taken(&route(&[1], LIFETIME / 7), &good), "its time is for the rules to judge");
    assert!(!is_taken(&route(&[2], LIFETIME), &good), "the secret is gone");
    assert!(!is_taken(&Settings { namespace: "payments".to_owned(), ..own.clone() }, &good), "another route");
    assert!(!is_taken(&Settings { scope: Scope::TrustedHeader(CUSTOMER), ..own.clone() }, &good), "another scope");
    assert!(!is_taken(&own, &request(&value(&text), "8")), "another caller");
    assert!(!is_taken(&own, &request(&value(&neighbour(&text, dice)), "7")), "a neighbour of {text}");
    let mut twice = good.clone();
    twice.headers.append(FIELD, value(&text));
    assert!(!is_taken(&own, &twice));
    let other = issued(&own, now, number.wrapping_add(1).to_be_bytes());
    let operation = |request: &Request| explain(&own, request).ok().and_then(|explanation| explanation.operation);
    assert_ne!(operation(&good), operation(&request(&value(&other), "7")), "each token is an operation of its own");
    let until = token_parts(&route(&[1], LIFETIME / 7), &good.headers, &good.caller).map(|parts| parts.until);
    assert_eq!(until, Some(Time(now).plus(LIFETIME / 7)), "the shorter of both lifetimes counts");
}

/// The same with one character changed, left out, twice there, or in the other case.
fn neighbour(text: &str, dice: &mut Dice) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+/.";
    let (at, mut out) = (dice.below(text.len()), text.as_bytes().to_vec());
    match dice.below(4) {
        0 => drop(out.remove(at)),
        1 => out.insert(at, out[at]),
        2 => out.truncate(at),
        _ => out[at] = DIGITS[dice.below(DIGITS.len())],
    }
    let out: String = out.into_iter().map(char::from).collect();
    if out == text || out.is_empty() { format!("{text}A") } else { out }
}
