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

/// Appends the one spelling of a number like an amount of money: whole digits, a point, and up to nine digits that count.
/// How many bytes it takes at the start of `text`; None does not say that there is no number.
pub(super) fn amount(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let whole = digits(text, 0);
    let fraction = digits(text, whole.len() + 1);
    let end = whole.len() + 1 + fraction.len();
    let goes_on = matches!(text.get(end), Some(b'e' | b'E'));
    if !matches!(whole, [b'1'..=b'9', ..]) || text.get(whole.len()) != Some(&b'.') || goes_on {
        return None;
    }
    let kept = significant(fraction);
    let exponent = u8::try_from(kept).ok().filter(|kept| (1..=9).contains(kept))?;
    out.extend_from_slice(whole);
    out.extend_from_slice(&fraction[..kept]);
    out.extend_from_slice(&[b'e', b'-', b'0' + exponent]);
    Some(end)
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

    /// Each way to read it says the same, if it says something.
    fn canonical(text: &str) -> Option<String> {
        let spelled = Number::read(text.as_bytes()).and_then(|(number, end)| {
            let mut out = Vec::new();
            number.write(&mut out);
            (end == text.len()).then(|| String::from_utf8(out).unwrap())
        });
        let mut out = Vec::new();
        if let Some(end) = amount(text.as_bytes(), &mut out) {
            assert_eq!(spelled.as_deref().map(str::as_bytes), (end == text.len()).then_some(&out[..]), "{text}");
        }
        if let Some(end) = whole(text.as_bytes()) {
            assert_eq!(spelled.as_deref(), (end == text.len()).then_some(text), "{text}");
        }
        spelled
    }

    #[test]
    fn most_numbers_are_read_the_short_way() {
        for text in ["0", "7", "12", "101", "9007199254740993"] {
            assert_eq!(whole(text.as_bytes()), Some(text.len()), "{text}");
        }
        for text in ["10", "00", "01", "-1", "", "1.5", "1e5", "1E5", "."] {
            assert_eq!(whole(text.as_bytes()), None, "{text}");
        }
        for (text, expected) in
            [("7.50", "75e-1"), ("199.90,", "1999e-1"), ("10.01 ", "1001e-2"), ("1.123456789", "1123456789e-9")]
        {
            let mut out = Vec::new();
            let end = amount(text.as_bytes(), &mut out);
            assert_eq!((end, &*out), (Some(text.trim_end_matches([',', ' ']).len()), expected.as_bytes()), "{text}");
        }
        for text in ["0.5", "1.0", "1.", "1", ".5", "-1.5", "1.5e1", "1.5E1", "01.5", "1.1234567891", "1x5"] {
            assert_eq!(amount(text.as_bytes(), &mut Vec::new()), None, "{text}");
        }
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
