//! Encryption of stored answers: the keys as written, and what they become. Says nothing of any secret.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::define::section;
use super::finding::{Place, Report};
use super::reader::{At, Field};
use super::values::{Name, Text, not_empty};
use crate::machine::OperationId;
use crate::store::codec::{Key, Keyring, SECRET_LEN};

/// How many keys there may be.
const MOST: usize = 64;

section! {
    /// Encryption of the answers that are stored for replay.
    Encryption {
        /// The first key seals, all of them open. An answer stays readable as long as its key is in this list.
        keys: Vec<Field<StoreKey>> = Required("write `keys: [ { id: \"2026-11\", secret: \"${STORE_KEY}\" } ]`"),
    }
    later {}
}

section! {
    /// A key for stored answers: 32 random bytes, written in base64 or as 64 hex digits.
    StoreKey {
        /// What the key is called: it stands in each record that is sealed with it, so it never changes.
        id: Name = Required("write `id: \"2026-11\"`, a name that no other key ever had"),
        /// The secret itself, best from a variable.
        secret: Text = Optional,
        /// A file with the secret, instead.
        secret_file: Text = Optional,
    }
    later {}
}

/// Translates the list; without the section nothing is encrypted.
pub(super) fn compile(section: &Field<Encryption>, report: &mut Report) -> Option<Keyring> {
    section.either(|at| keyring(&at.value, report), || Some(Keyring::default()))?
}

fn keyring(section: &Encryption, report: &mut Report) -> Option<Keyring> {
    let list = section.keys.at()?;
    not_empty(&list.place, list.value.is_empty(), "`{ id: \"2026-11\", secret: \"${STORE_KEY}\" }`", report);
    if list.value.len() > MOST {
        report.fault(&list.place, format!("has {} keys, and {MOST} may be here", list.value.len()));
    }
    let mut seen: Vec<&str> = Vec::new();
    for id in list.value.iter().filter_map(|key| key.value()?.id.at()) {
        if seen.contains(&id.value.0.as_str()) {
            report.fault(&id.place, format!("`{}` is the id of an earlier key: each key needs its own", id.value.0));
        }
        seen.push(&id.value.0);
    }
    let keys: Vec<Option<Key>> = list.value.iter().map(|field| key(field.at()?, report)).collect();
    Some(Keyring::new(keys.into_iter().collect::<Option<_>>()?))
}

fn key(at: &At<StoreKey>, report: &mut Report) -> Option<Key> {
    let (place, text) = text(at, report)?;
    let id = &at.value.id.value()?.0;
    let secret = secret(text.trim());
    let made = secret.ok_or_else(|| NO_SECRET.to_owned()).and_then(|secret| {
        let key = Key::new(id, &secret);
        key.map_err(|error| error.to_string())
    });
    made.map_err(|message| report.fault(place, message)).ok()
}

/// The secret's text, and where it comes from.
fn text<'a>(at: &'a At<StoreKey>, report: &mut Report) -> Option<(&'a Place, String)> {
    match (&at.value.secret, &at.value.secret_file) {
        (Field::Broken, _) | (_, Field::Broken) => {}
        (Field::Given(secret), Field::Absent) => return Some((&secret.place, secret.value.0.clone())),
        (Field::Absent, Field::Given(file)) => match std::fs::read_to_string(&file.value.0) {
            Ok(text) => return Some((&file.place, text)),
            Err(error) => report.fault(&file.place, format!("`{}` cannot be read: {error}", file.value.0)),
        },
        (Field::Absent, Field::Absent) => report.fault(&at.place, "needs `secret` or `secret_file`"),
        (Field::Given(_), Field::Given(file)) => {
            report.fault(&file.place, "stands beside `secret`: remove one of them");
        }
    }
    None
}

/// Nothing of the text itself: it may be most of a secret.
const NO_SECRET: &str = "is no key of 32 bytes: write them in base64 (`openssl rand -base64 32`) or as 64 hex digits (`openssl rand -hex 32`)";

fn secret(text: &str) -> Option<[u8; SECRET_LEN]> {
    if text.len() == 2 * SECRET_LEN {
        return OperationId::parse(text).map(|digits| digits.0);
    }
    let forgiving = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let alphabet = if text.contains(['-', '_']) { &alphabet::URL_SAFE } else { &alphabet::STANDARD };
    GeneralPurpose::new(alphabet, forgiving).decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::secret;

    #[test]
    fn takes_32_bytes_in_base64_or_hex_and_nothing_else() {
        let bytes: [u8; 32] = std::array::from_fn(|place| place.to_le_bytes()[0].wrapping_mul(37) ^ 0xFB);
        let hex = bytes.map(|byte| format!("{byte:02x}")).concat();
        assert_eq!(secret(&hex), Some(bytes));
        assert_eq!(secret(&hex.to_uppercase()), Some(bytes));
        let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes);
        for text in
            [encoded.clone(), encoded.trim_end_matches('=').to_owned(), encoded.replace('+', "-").replace('/', "_")]
        {
            assert_eq!(secret(&text), Some(bytes), "{text}");
        }
        let (short, long) = (&hex[2..], format!("{hex}00"));
        for text in ["", "password", short, &long, &hex.replace('f', "g"), &encoded[4..], &format!("{encoded}AAAA")] {
            assert_eq!(secret(text), None, "{text}");
        }
    }
}
