//! JSON numbers as exact decimals. Nothing goes through a float, and exponents are never expanded.

use std::io::Write;

/// Exponents from here on are beyond all measure.
const FAR: u128 = 10_u128.pow(36);

/// A number as it stands in the text: the digits of `whole` and `fraction`.
pub(super) struct Number<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    /// How many of these digits there are up to the last one that is not zero; 0 when all are.
    kept: usize,
    /// Of the last digit that is not zero, and zero when there is none: it does not depend on the spelling.
    exponent: i128,
}

impl<'a> Number<'a> {
    /// Reads the number at the start of `text` by RFC 8259, and tells how many bytes it takes.
    ///
    /// None when there is none, or when its exponent is beyond all measure.
    pub(super) fn read(text: &'a [u8]) -> Option<(Self, usize)> {
        let negative = text.first() == Some(&b'-');
        let mut at = usize::from(negative);
        let whole = digits(text, at);
        at += whole.len();
        if whole.is_empty() || (whole.len() > 1 && whole[0] == b'0') {
            return None;
        }
        let mut fraction: &[u8] = &[];
        if text.get(at) == Some(&b'.') {
            fraction = digits(text, at + 1);
            at += 1 + fraction.len();
            if fraction.is_empty() {
                return None;
            }
        }
        let (stated, at) = read_exponent(text, at)?;
        let (kept, exponent) = match significant(fraction) {
            0 => {
                let kept = significant(whole);
                (kept, stated.saturating_add(as_exponent(whole.len() - kept)))
            }
            kept => (whole.len() + kept, stated.saturating_sub(as_exponent(kept))),
        };
        let exponent = if kept == 0 { 0 } else { exponent };
        (exponent.unsigned_abs() < FAR).then_some((Self { negative, whole, fraction, kept, exponent }, at))
    }

    /// Appends the one spelling that all equal numbers share: digits without zeros at either end, and an exponent.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        if self.kept == 0 {
            // Minus zero is zero.
            out.push(b'0');
            return;
        }
        if self.negative {
            out.push(b'-');
        }
        match self.kept.checked_sub(self.whole.len()) {
            None => out.extend_from_slice(&self.whole[..self.kept]),
            Some(kept) => {
                let fraction = &self.fraction[..kept];
                if self.whole == b"0" {
                    let leading = fraction.iter().take_while(|digit| **digit == b'0').count();
                    out.extend_from_slice(&fraction[leading..]);
                } else {
                    out.extend_from_slice(self.whole);
                    out.extend_from_slice(fraction);
                }
            }
        }
        match i8::try_from(self.exponent) {
            Ok(0) => {}
            // What amounts of money have, and the like.
            Ok(exponent @ -9..0) => out.extend_from_slice(&[b'e', b'-', b'0' + exponent.unsigned_abs()]),
            // Writing to a vector cannot fail.
            _ => drop(write!(out, "e{}", self.exponent)),
        }
    }
}

/// How many bytes a whole number takes at the start of `text` that is spelled there in its one way. None does not say that
/// there is no such number.
pub(super) fn whole(text: &[u8]) -> Option<usize> {
    let digits = digits(text, 0);
    let goes_on = matches!(text.get(digits.len()), Some(b'.' | b'e' | b'E'));
    let spelled = matches!(digits, [b'0'..=b'9'] | [b'1'..=b'9', .., b'1'..=b'9']);
    (spelled && !goes_on).then_some(digits.len())
}

/// How many digits there are up to the last one that is not zero.
fn significant(digits: &[u8]) -> usize {
    digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1)
}

fn as_exponent(count: usize) -> i128 {
    i128::try_from(count).unwrap_or(i128::MAX)
}

/// The digits at `start`; may be empty.
fn digits(text: &[u8], start: usize) -> &[u8] {
    let rest = text.get(start..).unwrap_or_default();
    &rest[..rest.iter().take_while(|byte| byte.is_ascii_digit()).count()]
}

/// The exponent at `at` (0 when there is none), and where it ends.
fn read_exponent(text: &[u8], mut at: usize) -> Option<(i128, usize)> {
    if !matches!(text.get(at), Some(b'e' | b'E')) {
        return Some((0, at));
    }
    at += 1;
    let sign = text.get(at).filter(|byte| matches!(byte, b'+' | b'-'));
    at += usize::from(sign.is_some());
    let all = digits(text, at);
    if all.is_empty() {
        return None;
    }
    // What does not fit is far beyond all measure, and stays so.
    let more = |size: i128, digit: &u8| size.saturating_mul(10).saturating_add(i128::from(digit - b'0'));
    let size = all.iter().fold(0, more);
    Some((if sign == Some(&b'-') { -size } else { size }, at + all.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> Option<String> {
        let (number, end) = Number::read(text.as_bytes())?;
        let mut out = Vec::new();
        number.write(&mut out);
        (end == text.len()).then(|| String::from_utf8(out).unwrap())
    }

    const FARTHEST: &str = "1e999999999999999999999999999999999999";

    #[test]
    fn equal_numbers_share_one_spelling() {
        for (value, spellings) in [
            ("1", &["1", "1.0", "1e0", "1E+0", "10e-1", "0.1e1", "1.000e000"][..]),
            ("0", &["0", "-0", "0.0", "0e400000000", "-0.00e-7"]),
            ("12e2", &["1200", "1.2e3", "0.0012E6"]),
            ("-15e-1", &["-1.5", "-15e-1", "-0.150E1"]),
            ("1e400000000", &["1e400000000", "10e399999999", "0.1e400000001"]),
            ("1e99999999999999999999", &["1e99999999999999999999", "10e99999999999999999998"]),
            (
                FARTHEST,
                &[FARTHEST, "10e999999999999999999999999999999999998", "0.1e1000000000000000000000000000000000000"],
            ),
            ("0", &["0e9999999999999999999999999999999999999999999999", "0.0e-1000000000000000000000000000000000000"]),
        ] {
            for spelling in spellings {
                assert_eq!(canonical(spelling).as_deref(), Some(value), "{spelling}");
            }
        }
    }

    #[test]
    fn different_numbers_stay_apart() {
        for (one, other) in [
            ("9007199254740992", "9007199254740993"),
            ("0.1", "0.10000000000000001"),
            ("1e400000000", "1e400000001"),
            ("1", "-1"),
            ("0", "1e-400000000"),
        ] {
            assert_ne!(canonical(one), canonical(other), "{one} {other}");
        }
    }

    #[test]
    fn beyond_all_measure_is_told_by_the_value_and_not_by_its_spelling() {
        for text in [
            "1e1000000000000000000000000000000000000",
            "10e999999999999999999999999999999999999",
            "1e-1000000000000000000000000000000000000",
            "0.1e-999999999999999999999999999999999999",
            "1e99999999999999999999999999999999999999999999",
            "10e-99999999999999999999999999999999999999999999",
        ] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }

    #[test]
    fn what_the_grammar_does_not_know_is_no_number() {
        let huge = format!("1e{}", "9".repeat(40));
        for text in ["", "-", "01", "-01", "1.", ".5", "1e", "1e+", "+1", "0x1", "1.e1", "NaN", &huge] {
            assert_eq!(canonical(text), None, "{text}");
        }
    }
}
