//! Commands as they are written to a server: words, each with its length. Pure.

/// A command: its name and what belongs to it.
pub(in crate::store::redis) type Words<'a> = &'a [&'a [u8]];

/// The longest number in decimal digits.
const LONGEST: usize = 20;

/// Every number of two digits.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number as usize] = [b'0' + number / 10, b'0' + number % 10];
        number += 1;
    }
    pairs
};

/// A command as it is sent.
pub(in crate::store::redis) fn command(words: Words<'_>) -> Vec<u8> {
    let mut out = beginning(words.len(), words);
    end(&mut out);
    out
}

/// What all commands of so many words begin with whose first words are these, up to the end of the last of them.
pub(in crate::store::redis) fn beginning(count: usize, words: Words<'_>) -> Vec<u8> {
    let mut out = b"*".to_vec();
    out.extend_from_slice(Digits::of(count as u64).text());
    for word in words {
        add(&mut out, word);
    }
    out
}

/// Adds a word to a command that has been begun.
pub(in crate::store::redis) fn add(out: &mut Vec<u8>, word: &[u8]) {
    if let Some((front, length)) = short_front(word.len() as u64) {
        // All of it, though not all of it counts: of a size that is known, it is one step.
        out.extend_from_slice(&front);
        out.truncate(out.len() - front.len() + length);
    } else {
        out.extend_from_slice(b"\r\n$");
        out.extend_from_slice(Digits::of(word.len() as u64).text());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(word);
}

/// Ends a command.
pub(in crate::store::redis) fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

/// What stands in front of a word, the end of what was before and its length, and how much of that counts; none where the
/// word has a thousand bytes or more.
fn short_front(length: u64) -> Option<([u8; 8], usize)> {
    let [tens, ones] = PAIRS[(length % 100) as usize];
    match length {
        0..10 => Some(([b'\r', b'\n', b'$', ones, b'\r', b'\n', 0, 0], 6)),
        10..100 => Some(([b'\r', b'\n', b'$', tens, ones, b'\r', b'\n', 0], 7)),
        100..1_000 => Some(([b'\r', b'\n', b'$', b'0' + (length / 100 % 10) as u8, tens, ones, b'\r', b'\n'], 8)),
        _ => None,
    }
}

/// A number as a word.
pub(in crate::store::redis) struct Digits {
    digits: [u8; LONGEST],
    begin: usize,
}

impl Digits {
    pub(in crate::store::redis) fn of(mut number: u64) -> Self {
        let (mut digits, mut begin) = ([b'0'; LONGEST], LONGEST);
        for pair in digits.as_chunks_mut::<2>().0.iter_mut().rev() {
            *pair = PAIRS[(number % 100) as usize];
            begin -= 2;
            if number < 100 {
                begin += usize::from(number < 10);
                break;
            }
            number /= 100;
        }
        Self { digits, begin }
    }

    pub(in crate::store::redis) fn text(&self) -> &[u8] {
        &self.digits[self.begin..]
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_command_is_written_as_the_client_library_writes_it(words in vec(any::<Vec<u8>>(), 1..9)) {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let expected = redis::Cmd::new().arg(&words).get_packed_command();
            prop_assert_eq!(command(&words), &expected[..]);
            for first in 0..=words.len() {
                let mut out = beginning(words.len(), &words[..first]);
                words[first..].iter().for_each(|word| add(&mut out, word));
                end(&mut out);
                prop_assert_eq!(&out, &expected, "{} words at once", first);
            }
        }

        #[test]
        fn a_number_is_written_in_its_digits(number: u64) {
            let digits = Digits::of(number);
            prop_assert_eq!(std::str::from_utf8(digits.text()).unwrap(), number.to_string());
        }
    }

    #[test]
    fn words_of_every_length_are_written_as_the_client_library_writes_them() {
        let long = vec![b'x'; 12_345];
        for length in [0, 9, 10, 99, 100, 999, 1_000, 9_999, 12_345] {
            let words: Words<'_> = &[b"SET", &long[..length], b"PX"];
            assert_eq!(command(words), redis::Cmd::new().arg(words).get_packed_command(), "{length}");
        }
    }

    #[test]
    fn the_ends_of_the_range_are_numbers_too() {
        for number in [0, 9, 10, u64::MAX] {
            assert_eq!(Digits::of(number).text(), number.to_string().as_bytes());
        }
    }
}
