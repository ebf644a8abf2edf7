//! Names of fields that stand in nearly every message, known by a few words of memory instead of byte by byte. Which name
//! means what is not said here.

use http::HeaderName;

/// A name out of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known(u8);

macro_rules! names {
    ($($text:literal)*) => {
        /// By length, so that few are compared, and the most usual first.
        const TEXTS: [&str; [$($text),*].len()] = [$($text),*];
        static NAMES: [HeaderName; TEXTS.len()] = [$(HeaderName::from_static($text)),*];
    };
}

names! {
    "te"
    "via"
    "age"
    "host"
    "date"
    "etag"
    "vary"
    "range"
    "accept"
    "server"
    "cookie"
    "expect"
    "origin"
    "referer"
    "trailer"
    "upgrade"
    "if-match"
    "location"
    "connection"
    "user-agent"
    "keep-alive"
    "set-cookie"
    "tracestate"
    "traceparent"
    "retry-after"
    "content-type"
    "x-request-id"
    "cache-control"
    "authorization"
    "accept-ranges"
    "if-none-match"
    "last-modified"
    "content-length"
    "accept-charset"
    "sec-fetch-dest"
    "sec-fetch-mode"
    "sec-fetch-site"
    "idempotency-key"
    "accept-encoding"
    "x-forwarded-for"
    "accept-language"
    "content-encoding"
    "content-language"
    "proxy-connection"
    "x-forwarded-host"
    "transfer-encoding"
    "if-modified-since"
    "x-forwarded-proto"
}

/// The longest of them.
const LONGEST: usize = 17;

/// How many bytes words may stand for.
const COVERED: usize = 24;

/// Up to [`COVERED`] bytes as words, which overlap where the length is no multiple of theirs. Names of one length have the
/// same words only where they have the same bytes.
type Words = [u64; 3];

/// A name's words, and the bits in them that tell upper case from lower case.
struct Pattern {
    words: Words,
    cases: Words,
}

static PATTERNS: [Pattern; TEXTS.len()] = {
    let mut patterns = [const { Pattern { words: [0; 3], cases: [0; 3] } }; TEXTS.len()];
    let mut at = 0;
    while at < TEXTS.len() {
        let text = TEXTS[at].as_bytes();
        let mut cases = [0; LONGEST];
        let mut byte = 0;
        while byte < text.len() {
            cases[byte] = if text[byte].is_ascii_alphabetic() { 0x20 } else { 0 };
            byte += 1;
        }
        patterns[at] = Pattern { words: words(text), cases: words(cases.split_at(text.len()).0) };
        at += 1;
    }
    patterns
};

/// How many there are.
const COUNT: u8 = {
    let mut count = 0;
    while (count as usize) < TEXTS.len() {
        count += 1;
    }
    count
};

/// Where the names of each length begin; the next length's beginning is their end.
static BEGINS: [u8; LONGEST + 2] = {
    let mut begins = [COUNT; LONGEST + 2];
    let mut at = COUNT;
    while at > 0 {
        at -= 1;
        let mut length = 0;
        while length <= TEXTS[at as usize].len() {
            begins[length] = at;
            length += 1;
        }
    }
    begins
};

impl Known {
    pub(super) const HOST: Self = Self::named("host");
    pub(super) const EXPECT: Self = Self::named("expect");
    pub(super) const UPGRADE: Self = Self::named("upgrade");
    pub(super) const CONNECTION: Self = Self::named("connection");
    pub(super) const KEEP_ALIVE: Self = Self::named("keep-alive");
    pub(super) const CONTENT_LENGTH: Self = Self::named("content-length");
    pub(super) const TRANSFER_ENCODING: Self = Self::named("transfer-encoding");

    /// How many there are.
    pub const COUNT: usize = TEXTS.len();

    /// Each of them, by its place.
    pub fn all() -> [Self; Self::COUNT] {
        let mut place = 0..;
        TEXTS.map(|_| Self(place.next().unwrap_or_default()))
    }

    /// Where it stands among them.
    pub fn place(self) -> usize {
        usize::from(self.0)
    }

    /// The name of these bytes, in any case, if it is known.
    pub fn of(name: &[u8]) -> Option<Self> {
        let [mut place, end] = *BEGINS.get(name.len()..)?.first_chunk()?;
        let words = words(name);
        while place < end {
            let Pattern { words: of, cases } = PATTERNS.get(usize::from(place))?;
            if (0..3).fold(0, |differs, at| differs | (words[at] | cases[at]) ^ of[at]) == 0 {
                return Some(Self(place));
            }
            place += 1;
        }
        None
    }

    /// The name itself.
    pub fn name(self) -> HeaderName {
        NAMES[self.place()].clone()
    }

    /// A name that has to be in the table, by its lower case.
    const fn named(text: &str) -> Self {
        let mut at = 0;
        // Beyond the table's end, this does not compile.
        while !is_same(TEXTS[at as usize].as_bytes(), text.as_bytes()) {
            at += 1;
        }
        Self(at)
    }
}

/// Whether a name is another in the same or in another case.
pub(in crate::wire) fn is_spelling(name: &[u8], of: &[u8]) -> bool {
    if name.len() != of.len() || name.len() > COVERED {
        return name.eq_ignore_ascii_case(of);
    }
    let (words, of) = (words(name), words(of));
    (0..3).all(|at| (words[at] ^ of[at]) & !cases(of[at]) == 0)
}

/// Of each of eight bytes the bit that tells upper case from lower case; none of what has no case.
fn cases(eight: u64) -> u64 {
    const EACH: u64 = u64::from_le_bytes([1; 8]);
    // The high bit of each byte says whether it is at least `a`, and beyond `z`. Nothing is carried from one to the next.
    let lower = (eight | (EACH * 0x20)) & (EACH * 0x7f);
    let (reaches_a, passes_z) = (lower + EACH * (0x80 - 0x61), lower + EACH * (0x80 - 0x7b));
    (reaches_a & !passes_z & !eight & (EACH * 0x80)) >> 2
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

const fn words(name: &[u8]) -> Words {
    match name.len() {
        17.. => [word(name, 0), word(name, 8), word(name, name.len() - 8)],
        8.. => [word(name, 0), word(name, name.len() - 8), 0],
        4.. => [half(name, 0) | half(name, name.len() - 4) << 32, 0, 0],
        0 => [0; 3],
        length => [name[0] as u64 | (name[length / 2] as u64) << 8 | (name[length - 1] as u64) << 16, 0, 0],
    }
}

/// Eight bytes from there on, which there are.
const fn word(bytes: &[u8], at: usize) -> u64 {
    match bytes.split_at(at).1.first_chunk() {
        Some(eight) => u64::from_le_bytes(*eight),
        None => 0,
    }
}

/// Four bytes from there on.
const fn half(bytes: &[u8], at: usize) -> u64 {
    match bytes.split_at(at).1.first_chunk() {
        Some(four) => u32::from_le_bytes(*four) as u64,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_known_name_is_found_in_any_case_and_nothing_beside_it() {
        assert!(TEXTS.is_sorted_by_key(|text| text.len()));
        for text in TEXTS {
            let found = Known::of(text.as_bytes()).unwrap();
            assert_eq!((found.name().as_str(), Known::of(text.to_uppercase().as_bytes())), (text, Some(found)));
            for at in 0..text.len() {
                for byte in 0..=255 {
                    let mut other = text.as_bytes().to_vec();
                    other[at] = byte;
                    let same = other.eq_ignore_ascii_case(text.as_bytes());
                    assert_eq!(Known::of(&other) == Some(found), same, "{}", other.escape_ascii());
                }
            }
            assert_ne!(Known::of(&text.as_bytes()[1..]), Some(found));
            assert_ne!(Known::of(format!("{text}{text}").as_bytes()), Some(found));
        }
    }

    proptest! {
        #[test]
        fn a_spelling_differs_in_case_alone(name in "[!-~]{0,30}", other in "[!-~]{0,30}", at in any::<usize>(), byte: u8) {
            let mut spelled = name.to_uppercase().into_bytes();
            prop_assert!(is_spelling(&spelled, name.as_bytes()));
            prop_assert_eq!(is_spelling(other.as_bytes(), name.as_bytes()), other.eq_ignore_ascii_case(&name));
            if !spelled.is_empty() {
                let at = at % spelled.len();
                for byte in [byte, spelled[at] ^ 0x20, spelled[at] ^ 0x80] {
                    spelled[at] = byte;
                    prop_assert_eq!(is_spelling(&spelled, name.as_bytes()), spelled.eq_ignore_ascii_case(name.as_bytes()));
                }
            }
        }

        #[test]
        fn whatever_is_found_is_what_it_is(name in prop::collection::vec(any::<u8>(), 0..24)) {
            let found = Known::of(&name).map(|known| known.name().as_str().to_owned());
            let expected = TEXTS.iter().find(|text| text.as_bytes().eq_ignore_ascii_case(&name)).copied();
            prop_assert_eq!(found.as_deref(), expected);
        }
    }
}
