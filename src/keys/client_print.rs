//! Fingerprints that clients make of their requests, and the time that goes with them: read, and held against the request.
//! What is hashed is defined in `preimage`; when a time is too far off is for the rules to say.

use http::HeaderMap;
use subtle::ConstantTimeEq;

use super::frame::Hash;
use super::header::{self, Line};
use super::preimage::Preimage;
use super::source::Body;
use super::{ClientPrints, ClientWord, Refusal};
use crate::machine::{Print, Time, Untimely, Validity};

/// The most digits of a timestamp: until the year 33658.
const MAX_DIGITS: usize = 15;

/// What a client says of its request.
pub(super) struct Shown<'a> {
    settings: &'a ClientPrints,
    pub(super) digest: Hash,
    pub(super) timestamp: &'a str,
    time: Time,
}

/// What the head of a request shows; none when it shows nothing, and need not.
pub(super) fn shown<'a>(
    settings: Option<&'a ClientPrints>,
    headers: &'a HeaderMap,
) -> Result<Option<Shown<'a>>, Refusal> {
    let Some(settings) = settings else { return Ok(None) };
    let name = &settings.header;
    let invalid = |what: &str| Err(Refusal::FingerprintInvalid(format!("The fingerprint ({name}) {what}.")));
    let digest = match header::line(headers, name) {
        Line::Absent if settings.required => return invalid("is missing, and this route needs one"),
        Line::Absent => return Ok(None),
        Line::Several => return invalid("is on several lines"),
        Line::One(value) => match read_digest(value) {
            Some(digest) => digest,
            None => return invalid("is not 64 lower-case hex digits"),
        },
    };
    let (timestamp, time) = read_time(settings, headers)?;
    Ok(Some(Shown { settings, digest, timestamp, time }))
}

fn read_time<'a>(settings: &ClientPrints, headers: &'a HeaderMap) -> Result<(&'a str, Time), Refusal> {
    let name = &settings.timestamp_header;
    let invalid = |what: &str| Refusal::TimestampInvalid(format!("The timestamp ({name}) {what}."));
    let value = match header::line(headers, name) {
        Line::Absent => return Err(invalid("is missing, and the fingerprint needs it")),
        Line::Several => return Err(invalid("is on several lines")),
        Line::One(value) => value,
    };
    let digits = std::str::from_utf8(value).ok().filter(|text| is_timestamp(text));
    let time = digits.and_then(|digits| digits.parse().ok().map(|millis| (digits, Time(millis))));
    time.ok_or_else(|| {
        invalid("is not a number of milliseconds since 1970: 1 to 15 digits, without a sign or zeros in front")
    })
}

/// One spelling for each time: the digits are hashed.
fn is_timestamp(text: &str) -> bool {
    (1..=MAX_DIGITS).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && (text == "0" || !text.starts_with('0'))
}

/// One spelling for each digest: it may be a key.
fn read_digest(text: &[u8]) -> Option<Hash> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut digest = [0; 32];
    if text.len() != 64 {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(text.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(digest)
}

impl Shown<'_> {
    /// Holds it against the request, where the client's word alone is not enough.
    ///
    /// What the fingerprint should have been is not told: a client can make it itself.
    pub(super) fn check(&self, body: &Body<'_>) -> Result<(), Refusal> {
        if self.settings.word == ClientWord::Trust {
            return Ok(());
        }
        let name = &self.settings.header;
        let invalid = |what: String| Err(Refusal::FingerprintInvalid(format!("The fingerprint ({name}) {what}.")));
        match Preimage::of(body, self.timestamp) {
            None => invalid("speaks of a request with several lines of Content-Type".to_owned()),
            Some(own) if bool::from(own.digest().ct_eq(&self.digest)) => Ok(()),
            Some(own) => {
                let (form, timestamp) = (own.form(), &self.settings.timestamp_header);
                invalid(format!(
                    "is not the one of this request, whose body counts as `{form}`, with this timestamp ({timestamp})"
                ))
            }
        }
    }

    /// What the record keeps instead of a digest of the gateway's own, where the client's word is enough.
    pub(super) fn print(&self) -> Option<Print> {
        (self.settings.word == ClientWord::Trust).then(|| super::frame::print(&self.digest))
    }

    /// When the request may begin an operation: around the time that it states. A retry states its first time, so this
    /// says nothing to one of a known operation.
    pub(super) fn validity(&self) -> Validity {
        let skew = self.settings.skew;
        let early = Time(self.time.0.saturating_sub(u64::try_from(skew.as_millis()).unwrap_or(u64::MAX)));
        Validity { from: early, until: self.time.plus(skew), otherwise: Untimely::OffTime(self.time) }
    }
}

#[cfg(test)]
mod tests;
