//! Keys that say when they were made: UUIDs of version 7 (RFC 9562, section 5.7). Whether that is too long ago is for the
//! rules to say.

use super::source::{Found, Value};
use super::{Refusal, Settings};
use crate::machine::Time;

/// When the key says that it was made; none where keys do not say, or there is none yet.
pub(super) fn made(settings: &Settings, found: &Found<'_>) -> Result<Option<Time>, Refusal> {
    let Found::Key(parts) = found else { return Ok(None) };
    if !settings.dated {
        return Ok(None);
    }
    match parts.as_slice() {
        [part] => match &part.value {
            Value::Text(text) | Value::Typed { text, .. } => {
                time(text).map(Some).ok_or_else(|| none(&part.source.to_string()))
            }
            Value::Number(_) | Value::Boolean(_) | Value::Digest(_) | Value::Token(_) => {
                Err(none(&part.source.to_string()))
            }
        },
        _ => Err(none("of several parts")),
    }
}

fn none(source: &str) -> Refusal {
    Refusal::KeyInvalid(format!("The key ({source}) is no UUID of version 7, which this route needs."))
}

/// The time in a UUID of version 7 in its usual form; none when it is anything else.
pub(super) fn time(text: &str) -> Option<Time> {
    let is_placed = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        14 => byte == b'7',
        19 => b"89abAB".contains(&byte),
        _ => byte.is_ascii_hexdigit(),
    };
    let is_one = text.len() == 36 && text.bytes().enumerate().all(is_placed);
    let (high, low) = text.get(..8).zip(text.get(9..13)).filter(|_| is_one)?;
    u64::from_str_radix(&[high, low].concat(), 16).ok().map(Time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_rfcs_example_says_when_it_was_made() {
        // RFC 9562, A.6: Tuesday, February 22, 2022 2:22:22.00 PM GMT-05:00.
        assert_eq!(time("017F22E2-79B0-7CC3-98C4-DC0C0C07398F"), Some(Time(1_645_557_742_000)));
        assert_eq!(time("017f22e2-79b0-7cc3-98c4-dc0c0c07398f"), Some(Time(1_645_557_742_000)));
    }

    #[test]
    fn what_is_no_uuid_of_version_7_says_nothing() {
        for text in [
            "",
            "017f22e2-79b0-4cc3-98c4-dc0c0c07398f",
            "017f22e2-79b0-7cc3-78c4-dc0c0c07398f",
            "017f22e2-79b0-7cc3-c8c4-dc0c0c07398f",
            "017f22e279b07cc398c4dc0c0c07398f",
            "{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}",
            "urn:uuid:017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
            "017f22e2-79b0-7cc3-98c4-dc0c0c07398",
            "017f22e2-79b0-7cc3-98c4-dc0c0c07398fa",
            "017f22e2_79b0-7cc3-98c4-dc0c0c07398f",
            "+17f22e2-79b0-7cc3-98c4-dc0c0c07398f",
            "017f22e2-79b0-7cc3-98c4-dc0c0c07398g",
            "017f22e2-79b0-7cc3-98c4-dc0c0c0739\u{e9}",
        ] {
            assert_eq!(time(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_uuid_of_version_7_says_its_time(millis in 0..1_u64 << 48, rest in any::<u128>()) {
            let bits = u128::from(millis) << 80 | 7 << 76 | (rest & 0xfff) << 64 | 2 << 62 | rest >> 66;
            let text = uuid::Uuid::from_u128(bits).to_string();
            prop_assert_eq!(time(&text), Some(Time(millis)));
            prop_assert_eq!(time(&text.to_uppercase()), Some(Time(millis)));
        }

        #[test]
        fn any_other_text_says_nothing_and_harms_nothing(text in "\\PC{0,40}|[0-9a-f-]{36}") {
            let is_one = uuid::Uuid::try_parse(&text)
                .is_ok_and(|uuid| uuid.get_version_num() == 7 && uuid.get_variant() == uuid::Variant::RFC4122);
            prop_assert_eq!(time(&text).is_some(), is_one && text.len() == 36 && text.matches('-').count() == 4);
        }
    }
}
