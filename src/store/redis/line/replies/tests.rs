//! What is taken for a reply, and what is not; measured by the client library's own reader.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// What comes of bytes that arrive in pieces, up to a fault.
fn taken(replies: &mut Replies, pieces: &[&[u8]]) -> (Vec<Value>, Option<Malformed>) {
    let mut all = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            let room = replies.room();
            let count = rest.len().min(room.len());
            room[..count].copy_from_slice(&rest[..count]);
            replies.fill(count);
            rest = &rest[count..];
        }
        loop {
            match replies.reply() {
                Ok(Some(reply)) => all.push(reply),
                Ok(None) => break,
                Err(fault) => return (all, Some(fault)),
            }
        }
    }
    (all, None)
}

fn whole(bytes: &[u8]) -> (Vec<Value>, Option<Malformed>) {
    taken(&mut Replies::default(), &[bytes])
}

fn byte_by_byte(bytes: &[u8]) -> (Vec<Value>, Option<Malformed>) {
    taken(&mut Replies::default(), &bytes.chunks(1).collect::<Vec<_>>())
}

/// What the client library reads, up to what it does not understand.
fn by_the_library(mut bytes: &[u8]) -> Vec<Value> {
    let mut parser = redis::Parser::new();
    std::iter::from_fn(|| parser.parse_value(&mut bytes).ok()).collect()
}

fn counted(kind: char, bytes: &[u8]) -> Vec<u8> {
    [format!("{kind}{}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn of_several(kind: char, each: usize, values: &[Vec<u8>]) -> Vec<u8> {
    [format!("{kind}{}\r\n", values.len() / each).into_bytes(), values.concat()].concat()
}

/// Replies as a server writes them.
fn reply() -> impl Strategy<Value = Vec<u8>> {
    let bytes = || vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n')], 0..40);
    let words = "[ -~]{0,20}";
    let leaf = prop_oneof![
        4 => bytes().prop_map(|bytes| counted('$', &bytes)),
        2 => any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes()),
        2 => words.prop_map(|words| format!("+{words}\r\n").into_bytes()),
        2 => "(ERR|MOVED|READONLY|[A-Z]{3,9}) [ -~]{1,20}".prop_map(|words| format!("-{words}\r\n").into_bytes()),
        2 => prop::sample::select(vec!["$-1\r\n", "*-1\r\n", "_\r\n", "#t\r\n", "#f\r\n", ",1.5\r\n", "(12\r\n"])
            .prop_map(|text| text.as_bytes().to_vec()),
        1 => words.prop_map(|words| counted('=', format!("txt:{words}").as_bytes())),
        1 => "ERR [ -~]{1,20}".prop_map(|words| counted('!', words.as_bytes())),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let several = || vec(inner.clone(), 0..6);
        prop_oneof![
            several().prop_map(|values| of_several('*', 1, &values)),
            several().prop_map(|values| of_several('~', 1, &values)),
            vec(inner.clone(), 0..=3).prop_map(|values| of_several('%', 2, &[&values[..], &values].concat())),
        ]
    })
}

proptest! {
    #[test]
    fn replies_are_read_as_the_client_library_reads_them_however_they_are_cut(
        replies in vec(reply(), 1..6),
        cuts in vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let bytes = replies.concat();
        let expected: Vec<_> = replies.iter().map(|reply| parse_redis_value(reply).unwrap()).collect();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len())).chain([0, bytes.len()]).collect();
        cuts.sort_unstable();
        let pieces: Vec<_> = cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
        prop_assert_eq!(taken(&mut Replies::default(), &pieces), (expected.clone(), None));
        prop_assert_eq!(byte_by_byte(&bytes), (expected, None));
    }

    #[test]
    fn half_a_reply_is_none(reply in reply(), cut in any::<prop::sample::Index>()) {
        prop_assert_eq!(whole(&reply[..cut.index(reply.len())]), (vec![], None));
    }

    /// What this takes the library takes for the same, and cuts change nothing.
    #[test]
    fn odd_bytes_are_refused_or_read_as_the_client_library_reads_them(
        parts in vec(prop::sample::select(vec![
            "$", "*", ":", "+", "-", "%", "~", "_", "=", "!", "|", "#", ",", "(", "\r\n", "\r", "\n", "\r\n", "\r\n",
            "0", "1", "2", "3", "-1", "ab", "OK", "ERR x", "\u{e9}", "\0", " ",
        ]), 0..24),
    ) {
        let bytes = parts.concat().into_bytes();
        let (all, fault) = whole(&bytes);
        prop_assert_eq!(byte_by_byte(&bytes), (all.clone(), fault));
        let theirs = by_the_library(&bytes);
        prop_assert!(theirs.starts_with(&all), "{:?} are not the first of {:?}", all, theirs);
    }
}

#[test]
fn each_kind_is_what_it_is() {
    let bulk = |text: &str| Value::BulkString(text.into());
    for (bytes, expected) in [
        ("$0\r\n\r\n", bulk("")),
        ("$3\r\na\r\n\r\n", bulk("a\r\n")),
        ("$-1\r\n", Value::Nil),
        (":-7\r\n", Value::Int(-7)),
        ("+OK\r\n", Value::Okay),
        ("*2\r\n$1\r\na\r\n*1\r\n:1\r\n", Value::Array(vec![bulk("a"), Value::Array(vec![Value::Int(1)])])),
        ("*0\r\n", Value::Array(vec![])),
        ("_\r\n", Value::Nil),
    ] {
        assert_eq!(byte_by_byte(bytes.as_bytes()), (vec![expected], None), "{bytes:?}");
    }
    let (told, _) = whole(b"-READONLY You can't write\r\n");
    assert!(matches!(&told[..], [Value::ServerError(error)] if error.code() == "READONLY"), "{told:?}");
}

#[test]
fn what_nobody_asked_for_is_passed_over() {
    let (all, fault) = byte_by_byte(b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n:1\r\n");
    assert_eq!((all, fault), (vec![Value::Int(1)], None));
}

#[test]
fn what_is_no_reply_is_a_fault_and_takes_no_memory() {
    let long_line = format!("+{}", "x".repeat(LINE + 1));
    let deep = format!("{}:1\r\n", "*1\r\n".repeat(2_000));
    for (bytes, expected) in [
        ("$-2\r\n", Malformed::Form),
        ("*-2\r\n", Malformed::Form),
        ("%-1\r\n", Malformed::Form),
        ("$1x\r\n", Malformed::Form),
        ("$ 1\r\n", Malformed::Form),
        ("$\r\n", Malformed::Form),
        (":\r\n", Malformed::Form),
        ("$1\r\nab\r\n", Malformed::Form),
        ("$1\nwithout the sign that ends a line", Malformed::Form),
        ("HTTP/1.1 400\r\n", Malformed::Form),
        ("\r\n", Malformed::Form),
        ("$99999999999999999999\r\n", Malformed::Form),
        ("$000000000000000000000000000001\r\n", Malformed::Form),
        ("$9223372036854775807\r\n", Malformed::Length),
        ("$2000000000\r\n", Malformed::Length),
        ("*9223372036854775807\r\n", Malformed::Length),
        ("%9223372036854775807\r\n", Malformed::Length),
        ("*1000000000\r\n", Malformed::Length),
        ("*1\r\n$100000000\r\n", Malformed::Length),
        (&long_line, Malformed::Form),
        (&deep, Malformed::Form),
    ] {
        let mut replies = Replies::default();
        let told = bytes.get(..40).unwrap_or(bytes);
        assert_eq!(taken(&mut replies, &[bytes.as_bytes()]), (vec![], Some(expected)), "{told:?}");
        assert!(replies.buffer.len() < 1 << 18, "{told:?}: {}", replies.buffer.len());
    }
}

#[test]
fn a_value_that_is_too_long_costs_its_own_call_alone() {
    let long = counted('$', &[b'x'; 1_000]);
    let bytes = [b":1\r\n", &long[..], b"$2\r\nok\r\n"].concat();
    for size in [1, 7, 100, bytes.len()] {
        let mut replies = Replies::up_to(100);
        let pieces: Vec<_> = bytes.chunks(size).collect();
        let (all, fault) = taken(&mut replies, &pieces);
        let [Value::Int(1), Value::ServerError(error), Value::BulkString(last)] = &all[..] else {
            panic!("{all:?}, {fault:?}")
        };
        assert_eq!((error.code(), &last[..], fault), ("TOOLONG", &b"ok"[..], None));
    }
    let mut exactly = Replies::up_to(counted('$', &[0; 50]).len());
    assert_eq!(taken(&mut exactly, &[&counted('$', &[7; 50])]).0, [Value::BulkString(vec![7; 50])]);
}

#[test]
fn room_grows_with_what_comes_and_goes_when_it_is_taken() {
    let mut replies = Replies::default();
    let long = counted('$', &vec![b'x'; 3 << 20]);
    let (half, rest) = long.split_at(long.len() / 2);
    assert_eq!(taken(&mut replies, &[b"$80000000\r\n"]).0, []);
    assert!(replies.buffer.len() < 1 << 16, "a length alone takes no room");
    let mut replies = Replies::default();
    assert_eq!(taken(&mut replies, &[half]).0, []);
    assert!(replies.buffer.len() < 2 * half.len() + 4 * CHUNK);
    assert_eq!(taken(&mut replies, &[rest]).0.len(), 1);
    replies.room();
    assert!(replies.buffer.len() <= KEPT);
}
