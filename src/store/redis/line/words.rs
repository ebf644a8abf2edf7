//! Commands as they are written to a server: words, each with its length. Pure.

/// A command: its name and what belongs to it.
pub(in crate::store::redis) type Words<'a> = &'a [&'a [u8]];

/// What a word takes beside itself, nearly always: a sign, a length, two ends of lines.
const FRAME: usize = 12;

/// The longest number in decimal digits.
const LONGEST: usize = 20;

/// Adds a command to what is to be sent.
pub(super) fn write(out: &mut Vec<u8>, words: Words<'_>) {
    out.reserve(FRAME + words.iter().map(|word| FRAME + word.len()).sum::<usize>());
    out.push(b'*');
    out.extend_from_slice(Digits::of(words.len() as u64).text());
    for word in words {
        front(out, word.len());
        out.extend_from_slice(word);
    }
    out.extend_from_slice(b"\r\n");
}

/// What stands in front of a word: the end of what was before, and its length. This is done for every word, and nearly
/// every one has fewer than a thousand bytes.
fn front(out: &mut Vec<u8>, length: usize) {
    let length = length as u64;
    let digit = |number: u64| b'0' + (number % 10) as u8;
    match length {
        0..10 => out.extend_from_slice(&[b'\r', b'\n', b'$', digit(length), b'\r', b'\n']),
        10..100 => out.extend_from_slice(&[b'\r', b'\n', b'$', digit(length / 10), digit(length), b'\r', b'\n']),
        100..1_000 => {
            let [hundreds, tens] = [length / 100, length / 10].map(digit);
            out.extend_from_slice(&[b'\r', b'\n', b'$', hundreds, tens, digit(length), b'\r', b'\n']);
        }
        _ => {
            out.extend_from_slice(b"\r\n$");
            out.extend_from_slice(Digits::of(length).text());
            out.extend_from_slice(b"\r\n");
        }
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
            // Two digits at a time: never more than 99.
            let last = (number % 100) as u8;
            *pair = [b'0' + last / 10, b'0' + last % 10];
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
    fn the_ends_of_the_range_are_numbers_too() {
        for number in [0, 9, 10, u64::MAX] {
            assert_eq!(Digits::of(number).text(), number.to_string().as_bytes());
        }
    }
}
