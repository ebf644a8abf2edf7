//! Tests of sealed records: for whom they open, and what shows of them.

use super::*;

/// A codec with keys of these names; each name's first byte is its secret.
fn keyed(names: &[&str]) -> Codec {
    let key = |name: &&str| Key::new(name, &[name.as_bytes()[0]; SECRET_LEN]).unwrap();
    Codec::new(Keyring::new(names.iter().map(key).collect()))
}

proptest! {
    #[test]
    fn a_sealed_record_opens_for_its_operation_and_no_other(record in record(), other: [u8; 32]) {
        let codec = keyed(&["new", "old"]);
        let sealed = codec.encode(&ID, &record).unwrap();
        prop_assert_eq!(&sealed[..FENCE_PREFIX_LEN], &fence_prefix(&record.fence)[..]);
        prop_assert_eq!(codec.decode(&ID, &sealed), Ok(record.clone()));
        if secret::is_in(&record) {
            prop_assert_eq!(decode(&sealed), Err(CodecError::UnknownKey("new".to_owned())));
            prop_assert_eq!(codec.decode(&OperationId(other), &sealed), Err(CodecError::BrokenSeal("new".to_owned())));
        } else {
            prop_assert_eq!(sealed, encode(&record));
        }
        // What was written before there were keys stays readable.
        prop_assert_eq!(codec.decode(&ID, &encode(&record)), Ok(record));
    }
}

/// Each answer that has something secret, and what of it must not be seen.
fn secretive() -> Vec<(Record, &'static [u8])> {
    let completed = |answer| Record { state: State::Completed { at: Time(1_790_000_000_000), answer }, ..sample() };
    let State::Completed { answer: Answer::Recorded(recorded), .. } = sample().state else { unreachable!() };
    let told = |by| completed(Answer::Told { by, answer: recorded.clone() });
    let headers = vec![(Bytes::from_static(b"authorization"), Bytes::from_static(b"Bearer abc"))];
    let probe = Some(Box::new(Probe { target: Bytes::from_static(b"/orders?ref=77"), headers }));
    let asked = Record { state: State::InFlight { since: Time(1), lease: Time(2) }, probe, ..sample() };
    let location = Some(Bytes::from_static(b"/orders/7?token=abc"));
    vec![
        (sample(), b"{\"id\":7}"),
        (sample(), b"/orders/7"),
        (sample(), b"x-shop"),
        (told(Witness::Probe), b"{\"id\":7}"),
        (told(Witness::Operator), b"{\"id\":7}"),
        (completed(Answer::TooLarge { status: 303, location }), b"token=abc"),
        (asked.clone(), b"ref=77"),
        (asked, b"Bearer abc"),
    ]
}

#[test]
fn nothing_of_an_answer_shows_when_it_is_sealed() {
    let shows = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
    for (record, text) in secretive() {
        assert!(shows(&encode(&record), text), "the test looks for the wrong thing");
        let (first, second) =
            (keyed(&["a"]).encode(&ID, &record).unwrap(), keyed(&["a"]).encode(&ID, &record).unwrap());
        assert!(!shows(&first, text), "{record:?}");
        assert_ne!(first, second, "the nonce is a new one each time");
    }
}

#[test]
fn a_changed_byte_opens_nothing() {
    let codec = keyed(&["2026-11"]);
    for (record, _) in secretive() {
        let sealed = codec.encode(&ID, &record).unwrap();
        for place in 0..sealed.len() {
            for change in [0x01, SEALED, 0x40, 0x80, 0xFF] {
                let mut changed = sealed.clone();
                changed[place] ^= change;
                let found = codec.decode(&ID, &changed);
                assert!(found.is_err(), "byte {place} changed by {change:#x}: {found:?}");
            }
            assert!(codec.decode(&ID, &sealed[..place]).is_err(), "cut to {place}");
        }
        let longer = [&sealed[..], &[0]].concat();
        assert_eq!(codec.decode(&ID, &longer), Err(CodecError::BrokenSeal("2026-11".to_owned())));
    }
}

/// The secret part of one record behind the clear part of another: what somebody with a hand in the store could try.
#[test]
fn a_secret_part_fits_no_other_record() {
    let codec = keyed(&["k"]);
    let own = sample();
    let sealed = codec.encode(&ID, &own).unwrap();
    let prints = Prints { raw: RawPrint([9; 16]), ..own.prints };
    let other_answer = |status| {
        let mut state = own.state.clone();
        let State::Completed { answer: Answer::Recorded(recorded), .. } = &mut state else { unreachable!() };
        recorded.status = status;
        state
    };
    let others = [
        Record { fence: Fence { version: 4, ..own.fence }, ..own.clone() },
        Record { fence: Fence { attempt: AttemptId([0xA2; 16]), ..own.fence }, ..own.clone() },
        Record { number: 2, ..own.clone() },
        Record { credentials: Some(Print([0xD5; 16])), ..own.clone() },
        Record { namespace: NamespaceTag(1), ..own.clone() },
        Record { prints, ..own.clone() },
        Record { expires: own.expires.plus(std::time::Duration::from_hours(1)), ..own.clone() },
        Record { state: other_answer(200), ..own.clone() },
    ];
    let secret_at = |bytes: &[u8]| bytes.len() - (sealed.len() - clear_len(&own));
    for other in others {
        let target = codec.encode(&ID, &other).unwrap();
        let mixed = [&target[..secret_at(&target)], &sealed[clear_len(&own)..]].concat();
        assert_eq!(codec.decode(&ID, &mixed), Err(CodecError::BrokenSeal("k".to_owned())), "{other:?}");
    }
}

fn clear_len(record: &Record) -> usize {
    let mut out = Writer::behind(Vec::new(), 0);
    encode_clear(&mut out, record, SEALED);
    out.so_far().len()
}

#[test]
fn keys_are_rotated_without_losing_a_record() {
    let (plain, first, second, third) = (Codec::default(), keyed(&["1"]), keyed(&["2", "1"]), keyed(&["3", "2"]));
    let unknown = |id: &str| Err(CodecError::UnknownKey(id.to_owned()));
    let record = sample();
    let by_first = first.encode(&ID, &record).unwrap();
    let by_second = second.encode(&ID, &record).unwrap();
    assert_eq!(second.decode(&ID, &by_first), Ok(record.clone()));
    assert_eq!(third.decode(&ID, &by_second), Ok(record.clone()));
    assert_eq!(third.decode(&ID, &by_first), unknown("1"));
    assert_eq!(first.decode(&ID, &by_second), unknown("2"));
    assert_eq!(plain.decode(&ID, &by_second), unknown("2"));
    // A gateway that runs takes its new keys over for all its lines to the store.
    let line = first.clone();
    first.exchange(Keyring::new(vec![Key::new("2", &[b'2'; SECRET_LEN]).unwrap()]));
    assert_eq!(line.decode(&ID, &by_second), Ok(record.clone()));
    assert_eq!(line.decode(&ID, &by_first), unknown("1"));
    // Another secret under a known name.
    line.exchange(Keyring::new(vec![Key::new("2", &[0; SECRET_LEN]).unwrap()]));
    assert_eq!(line.decode(&ID, &by_second), Err(CodecError::BrokenSeal("2".to_owned())));
}

/// Sealed records outlive the program that wrote them, too.
#[test]
fn a_sealed_record_of_an_earlier_version_opens() {
    let sealed = SEALED_SAMPLE;
    let bytes: Vec<u8> =
        (0..sealed.len()).step_by(2).map(|at| u8::from_str_radix(&sealed[at..at + 2], 16).unwrap()).collect();
    assert_eq!(keyed(&["2026-11"]).decode(&ID, &bytes), Ok(sample()));
}

const SEALED_SAMPLE: &str = concat!(
    "01a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a10000000301a2010506070801020304b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2c3c3",
    "c3c3c3c3c3c3c3c3c3c3c3c3c3c3d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4d48090dbcb8c3480f0b25200c9800007323032362d",
    "31319fd6e82938fe0762f0b7c45e2c64ba845e11533c3374333bbf05a323d8ee5eb62859df45071bb8c77181451198160ea2",
    "d7d7ff1bddbc7fbd83722145e3f0002e953f0988e246844d10c19f0604281338",
);

#[test]
fn names_of_keys_are_short_and_visible() {
    for name in ["", "a b", "caf\u{e9}", "a\n", &"k".repeat(65)] {
        assert_eq!(Key::new(name, &[1; SECRET_LEN]).err(), Some(BadKey::Id), "{name:?}");
    }
    assert_eq!(format!("{:?}", keyed(&["a", "b"]).keys.load()), "[\"a\", \"b\"]");
}
