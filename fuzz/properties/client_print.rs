//! Client-made fingerprints: the right one is taken, with its time, and no other one is. The second opinion frames what
//! is hashed by itself, and reads times and digests by their definition.

use std::fmt::Write;
use std::time::Duration;

use http::header::{CONTENT_ENCODING, HeaderName, HeaderValue};
use oncegate::keys::{
    ClientPiece, ClientPrints, ClientWord, FingerprintSettings, Framed, Hashed, Named, Naming, Refusal, Request,
    Settings, Source, explain,
};
use oncegate::machine::Salt;
use sha2::{Digest, Sha256};

use super::dice::Dice;
use super::view::{post, settings};

const PRINT: HeaderName = HeaderName::from_static("x-request-fingerprint");
const TIMESTAMP: HeaderName = HeaderName::from_static("x-request-timestamp");
const TIME: &str = "1790000000000";
/// Nothing here is recorded.
const SALT: Salt = Salt([0; 8]);
/// No fingerprint of anything that will be met.
const NONE: &str = "0000000000000000000000000000000000000000000000000000000000000000";
const PARTS: [&str; 9] = ["version", "method", "path", "query", "type", "coding", "form", "body", "timestamp"];
const TYPES: [&str; 6] = [
    "application/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=b",
    "text/plain; charset=utf-8",
    "Application/Problem+JSON ; v=1",
    "",
];

/// Takes the input for a body, whose first byte chooses its type; and for a time, and a fingerprint.
pub fn check(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let mut dice = Dice::of(data);
    as_request(usize::from(*first), rest, &mut dice);
    if let Ok(value) = HeaderValue::from_bytes(data) {
        as_time(&value);
        as_print(&value);
    }
}

fn route(word: ClientWord) -> Settings {
    let client = ClientPrints {
        word,
        required: true,
        skew: Duration::from_secs(30),
        header: PRINT,
        timestamp_header: TIMESTAMP,
    };
    settings(
        Some(Source::Header(PRINT)),
        FingerprintSettings { client: Some(client), ..FingerprintSettings::default() },
    )
}

fn signed(request: &Request, print: &str, time: &str) -> Request {
    let mut request = request.clone();
    for (name, text) in [(PRINT, print), (TIMESTAMP, time)] {
        request.headers.insert(name, HeaderValue::from_str(text).unwrap_or_else(|_| panic!("{text:?} is no field")));
    }
    request
}

/// What the gateway makes of a request itself.
fn made(request: &Request, time: &str) -> ClientPiece {
    let explanation = explain(&route(ClientWord::Verify), &signed(request, NONE, time));
    explanation.ok().and_then(|it| it.client).unwrap_or_else(|| panic!("it has a fingerprint and a time"))
}

fn verify(request: &Request, print: &str, time: &str) -> Result<(), Refusal> {
    let request = signed(request, print, time);
    let explained = explain(&route(ClientWord::Verify), &request).ok().and_then(|it| it.client);
    let naming = Naming::new(route(ClientWord::Verify));
    let named = naming.identify(&request, SALT);
    assert_eq!(named.as_ref().err(), explained.and_then(|client| client.refusal).as_ref(), "both judge alike");
    let trusting = Naming::new(route(ClientWord::Trust));
    let trusted = trusting.identify(&request, SALT);
    assert!(matches!(trusted, Ok(Named::Operation(_))), "{trusted:?}");
    named.map(|_| ())
}

fn as_request(choice: usize, body: &[u8], dice: &mut Dice) {
    let mut request = post(TYPES[choice % TYPES.len()], body);
    if choice >= 192 {
        request.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("lzma"));
    }
    let seen = made(&request, TIME);
    let Some(print) = &seen.expected else { panic!("one line of Content-Type at most") };
    assert_eq!(*print, framed(&seen.parts, TIME), "{seen:?}");
    assert_eq!(verify(&request, print, TIME), Ok(()));
    assert!(matches!(verify(&request, &neighbour(print, dice), TIME), Err(Refusal::FingerprintInvalid(_))));
    assert!(matches!(verify(&request, print, "1790000000001"), Err(Refusal::FingerprintInvalid(_))));
    // A neighbour: one byte changed, left out, or twice there. It has the same fingerprint if it is read as the same.
    let mut other = body.to_vec();
    if !other.is_empty() {
        let at = dice.below(other.len());
        match dice.below(3) {
            0 => other[at] ^= 1 << dice.below(8),
            1 => drop(other.remove(at)),
            _ => other.insert(at, other[at]),
        }
    }
    let other = Request { body: other.into(), ..request.clone() };
    let same = made(&other, TIME).parts == seen.parts;
    assert_eq!(verify(&other, print, TIME).is_ok(), same);
    let is_raw = |piece: &ClientPiece| piece.parts.iter().any(|part| bytes(part) == b"raw");
    assert!(!same || !is_raw(&seen) || other.body == request.body, "raw bytes are equal only if they are");
}

fn bytes(part: &Framed) -> &[u8] {
    match &part.hashed {
        Hashed::Part(bytes) => bytes,
        Hashed::Count(_) | Hashed::Digest(..) => panic!("a pre-image is nothing but parts"),
    }
}

/// The fingerprint by its definition: the hash of nine netstrings.
fn framed(parts: &[Framed], time: &str) -> String {
    assert_eq!(parts.iter().map(|part| part.label).collect::<Vec<_>>(), PARTS);
    assert_eq!(parts.last().map(bytes), Some(time.as_bytes()));
    let mut preimage = Vec::new();
    for part in parts.iter().map(bytes) {
        preimage.extend_from_slice(format!("{}:", part.len()).as_bytes());
        preimage.extend_from_slice(part);
        preimage.push(b',');
    }
    Sha256::digest(&preimage).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn neighbour(print: &str, dice: &mut Dice) -> String {
    let mut digits = print.as_bytes().to_vec();
    let at = dice.below(digits.len());
    digits[at] = if digits[at] == b'0' { b'1' } else { b'0' };
    digits.into_iter().map(char::from).collect()
}

/// A time has one spelling: 1 to 15 digits, without a zero in front.
fn as_time(value: &HeaderValue) {
    let text = value.as_bytes().trim_ascii();
    let is_time =
        matches!(text.len(), 1..=15) && text.iter().all(u8::is_ascii_digit) && (text.len() == 1 || text[0] != b'0');
    let mut request = signed(&post("", b""), NONE, TIME);
    request.headers.insert(TIMESTAMP, value.clone());
    let naming = Naming::new(route(ClientWord::Trust));
    let told = naming.identify(&request, SALT).map(drop);
    assert_eq!(told.is_ok(), is_time, "{value:?}");
    assert!(is_time || matches!(told, Err(Refusal::TimestampInvalid(_))), "{told:?}");
    request.headers.append(TIMESTAMP, value.clone());
    assert!(matches!(naming.identify(&request, SALT), Err(Refusal::TimestampInvalid(_))));
}

/// A fingerprint has one spelling: 64 digits, in lower case.
fn as_print(value: &HeaderValue) {
    let text = value.as_bytes().trim_ascii();
    let is_print = text.len() == 64 && text.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let mut request = signed(&post("", b""), NONE, TIME);
    request.headers.insert(PRINT, value.clone());
    let naming = Naming::new(route(ClientWord::Trust));
    let told = naming.identify(&request, SALT);
    assert_eq!(told.is_ok(), is_print, "{value:?}");
    assert!(is_print || matches!(told, Err(Refusal::FingerprintInvalid(_))), "{told:?}");
}
