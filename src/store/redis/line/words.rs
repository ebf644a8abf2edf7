//! Commands as they are written to a server: words, each with its length. Pure.

/// A command: its name and what belongs to it.
pub(in crate::store::redis) type Words<'a> = &'a [&'a [u8]];

/// What a word takes beside itself at most: two ends of lines, a sign, a length.
const FRAME: usize = LONGEST + 5;

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

/// Adds a command to what is to be sent. Room is made once: this is done for every word of every command.
pub(super) fn write(out: &mut Vec<u8>, words: Words<'_>) {
    let mut at = out.len();
    let most = FRAME * (words.len() + 1) + words.iter().map(|word| word.len()).sum::<usize>();
    out.resize(at + most, 0);
    let room = out.as_mut_slice();
    let mut put = |at: usize, bytes: &[u8]| {
        room[at..at + bytes.len()].copy_from_slice(bytes);
        at + bytes.len()
    };
    at = put(at, b"*");
    at = put(at, Digits::of(words.len() as u64).text());
    for word in words {
        at = if let Some((front, length)) = short_front(word.len() as u64) {
            // All of it, though not all of it counts: of a size that is known, it is one step.
            put(at, &front) - front.len() + length
        } else {
            at = put(at, b"\r\n$");
            at = put(at, Digits::of(word.len() as u64).text());
            put(at, b"\r\n")
        };
        at = put(at, word);
    }
    at = put(at, b"\r\n");
    out.truncate(at);
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
            let mut out = b"before".to_vec();
            write(&mut out, &words);
            let expected = redis::Cmd::new().arg(&words).get_packed_command();
            prop_assert_eq!(&out[6..], &expected[..]);
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
            let mut out = Vec::new();
            write(&mut out, words);
            assert_eq!(out, redis::Cmd::new().arg(words).get_packed_command(), "{length}");
        }
    }

    #[test]
    fn the_ends_of_the_range_are_numbers_too() {
        for number in [0, 9, 10, u64::MAX] {
            assert_eq!(Digits::of(number).text(), number.to_string().as_bytes());
        }
    }
}
