//! Tests of the record's bytes.

use proptest::prelude::*;

use super::*;

/// The operation that records here belong to.
const ID: OperationId = OperationId([0x1D; 32]);

fn encode(record: &Record) -> Vec<u8> {
    Codec::default().encode(&ID, record).unwrap()
}

fn decode(bytes: &[u8]) -> Result<Record, CodecError> {
    Codec::default().decode(&ID, bytes)
}

/// A codec with keys of these names; each name's first byte is its secret.
fn keyed(names: &[&str]) -> Codec {
    let key = |name: &&str| Key::new(name, &[name.as_bytes()[0]; SECRET_LEN]).unwrap();
    Codec::new(Keyring::new(names.iter().map(key).collect()))
}

fn bytes(length: usize) -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..length).prop_map(Bytes::from)
}

fn time() -> impl Strategy<Value = Time> {
    // Real times cluster; extreme ones must survive too.
    prop_oneof![1_700_000_000_000_u64..1_900_000_000_000, any::<u64>()].prop_map(Time)
}

fn name() -> impl Strategy<Value = Bytes> {
    prop_oneof![prop::sample::select(&COMMON_NAMES[..]).prop_map(Bytes::from), bytes(40)]
}

fn answer() -> impl Strategy<Value = Answer> {
    let recorded = || {
        let headers = prop::collection::vec((name(), bytes(60)), 0..12);
        (any::<u16>(), headers, bytes(600)).prop_map(|(status, headers, body)| Recorded { status, headers, body })
    };
    let by = prop_oneof![Just(Witness::Probe), Just(Witness::Operator)];
    prop_oneof![
        recorded().prop_map(Answer::Recorded),
        (by, recorded()).prop_map(|(by, answer)| Answer::Told { by, answer }),
        (any::<u16>(), prop::option::of(bytes(80)))
            .prop_map(|(status, location)| Answer::TooLarge { status, location }),
        Just(Answer::Unseen),
    ]
}

fn cause() -> impl Strategy<Value = Cause> {
    prop_oneof![
        Just(Cause::LeaseLost),
        Just(Cause::Broken),
        Just(Cause::TimedOut),
        any::<u16>().prop_map(Cause::Status),
        Just(Cause::RetryNotSent),
        Just(Cause::Abandoned),
        Just(Cause::Forgotten),
    ]
}

fn state() -> impl Strategy<Value = State> {
    prop_oneof![
        (time(), time()).prop_map(|(since, lease)| State::InFlight { since, lease }),
        (time(), cause()).prop_map(|(since, cause)| State::InDoubt { since, cause }),
        (time(), answer()).prop_map(|(at, answer)| State::Completed { at, answer }),
    ]
}

fn probe() -> impl Strategy<Value = Option<Box<Probe>>> {
    let probe = (bytes(60), prop::collection::vec((name(), bytes(60)), 0..4));
    prop::option::of(probe.prop_map(|(target, headers)| Box::new(Probe { target, headers })))
}

fn record() -> impl Strategy<Value = Record> {
    let fence =
        (any::<[u8; 16]>(), any::<u32>()).prop_map(|(attempt, version)| Fence { attempt: AttemptId(attempt), version });
    let prints = (any::<[u8; 16]>(), any::<[u8; 16]>(), any::<u32>()).prop_map(|(raw, canonical, settings)| Prints {
        raw: Print(raw),
        canonical: Print(canonical),
        settings,
    });
    let credentials = prop::option::of(any::<[u8; 16]>().prop_map(Print));
    (fence, any::<u32>(), state(), prints, credentials, any::<u32>(), time(), probe()).prop_map(
        |(fence, number, state, prints, credentials, namespace, expires, probe)| Record {
            fence,
            number,
            state,
            prints,
            credentials,
            namespace: NamespaceTag(namespace),
            expires,
            probe,
        },
    )
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

    #[test]
    fn a_record_survives_the_round_trip(record in record()) {
        let encoded = encode(&record);
        prop_assert_eq!(&encoded[..FENCE_PREFIX_LEN], &fence_prefix(&record.fence)[..]);
        prop_assert_eq!(decode(&encoded), Ok(record));
    }

    #[test]
    fn a_cut_or_lengthened_record_is_refused(record in record(), tail in any::<u8>()) {
        let mut encoded = encode(&record);
        for length in 0..encoded.len() {
            prop_assert!(decode(&encoded[..length]).is_err(), "cut to {} of {}", length, encoded.len());
        }
        encoded.push(tail);
        prop_assert_eq!(decode(&encoded), Err(CodecError::Trailing(1)));
    }

    #[test]
    fn foreign_bytes_are_refused_calmly(
        noise in prop::collection::vec(any::<u8>(), 0..200),
        record in record(),
        at in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let _ = decode(&noise);
        let mut damaged = encode(&record);
        let at = at.index(damaged.len());
        damaged[at] = byte;
        // Any answer will do, as long as it comes.
        let _ = decode(&damaged);
    }
}

/// A completed record as the gateway writes it.
fn sample() -> Record {
    let headers = [("content-type", &b"application/json"[..]), ("location", b"/orders/7"), ("x-shop", b"caf\xe9")];
    Record {
        fence: Fence { attempt: AttemptId([0xA1; 16]), version: 3 },
        number: 1,
        state: State::Completed {
            at: Time(1_790_000_000_000),
            answer: Answer::Recorded(Recorded {
                status: 201,
                headers: headers.iter().map(|(name, value)| (Bytes::from(*name), Bytes::from(*value))).collect(),
                body: Bytes::from_static(b"{\"id\":7}"),
            }),
        },
        prints: Prints { raw: Print([0xB2; 16]), canonical: Print([0xC3; 16]), settings: 0x0102_0304 },
        credentials: Some(Print([0xD4; 16])),
        namespace: NamespaceTag(0x0506_0708),
        expires: Time(1_790_086_400_000),
        probe: None,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

/// Records outlive the program that wrote them: a change of these bytes needs a new format version.
#[test]
fn the_format_does_not_change_by_accident() {
    let golden = concat!(
        "01a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a100000003",
        "0182010506070801020304",
        "b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4",
        "8090dbcb8c3480f0b25200c903",
        "01106170706c69636174696f6e2f6a736f6e03092f6f72646572732f370006782d73686f7004636166e9",
        "087b226964223a377d",
    );
    assert_eq!(hex(&encode(&sample())), golden);
}

/// The same for a doubt that can be asked about.
#[test]
fn the_format_of_a_probe_does_not_change_by_accident() {
    let headers = [("authorization", "Bearer x"), ("etag", "7")];
    let probe = Probe {
        target: Bytes::from_static(b"/orders?ref=k"),
        headers: headers.iter().map(|(name, value)| (Bytes::from(*name), Bytes::from(*value))).collect(),
    };
    let expires = Time(1_790_000_259_200);
    let state = State::InDoubt { since: Time(1_790_000_000_000), cause: Cause::Broken };
    let record = Record { state, credentials: None, expires, probe: Some(Box::new(probe)), ..sample() };
    let golden = concat!(
        "01a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a100000003",
        "0141010506070801020304",
        "b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3",
        "80c1d1a28c34",
        "80d21f01",
        "0d2f6f72646572733f7265663d6b",
        "02000d617574686f72697a6174696f6e084265617265722078050137",
    );
    assert_eq!(hex(&encode(&record)), golden);
}

/// Stored records refer to names by their place: a second copy of the list catches a change of order.
#[test]
fn common_names_keep_their_places() {
    let known = "content-type content-length location cache-control etag last-modified content-encoding \
        content-language vary expires link content-disposition accept-ranges allow pragma content-location \
        strict-transport-security x-content-type-options x-frame-options content-security-policy";
    assert!(COMMON_NAMES.join(" ").starts_with(known));
}

#[test]
fn a_completed_record_costs_little_over_its_answer() {
    let body = Bytes::from(vec![b'x'; 200]);
    let mut record = sample();
    record.credentials = None;
    record.state = State::Completed {
        at: Time(1_790_000_000_000),
        answer: Answer::Recorded(Recorded { status: 200, headers: vec![], body: body.clone() }),
    };
    let bare = encode(&record).len();
    let overhead = bare - body.len() - 2;
    assert!(overhead <= 77, "{overhead} bytes of overhead");

    let name = Bytes::from_static(b"content-type");
    let value = Bytes::from_static(b"application/json");
    let field = vec![(name, value.clone())];
    record.state = State::Completed {
        at: Time(1_790_000_000_000),
        answer: Answer::Recorded(Recorded { status: 200, headers: field, body }),
    };
    assert_eq!(encode(&record).len(), bare + value.len() + 2, "a common name takes one byte");
}

#[test]
fn says_what_is_wrong() {
    let good = encode(&sample());
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        decode(&bytes)
    };
    assert_eq!(with(0, 2), Err(CodecError::UnknownFormat(2)));
    assert_eq!(with(21, 9), Err(CodecError::UnknownFingerprint(9)));
    assert_eq!(with(22, 0x88), Err(CodecError::UnknownTag { field: "kind", tag: 8 }));
    assert_eq!(decode(&[]), Err(CodecError::Truncated("format version")));
    assert_eq!(decode(&good[..10]), Err(CodecError::Truncated("attempt id")));
}

#[test]
fn lengths_are_not_believed() {
    let mut record = sample();
    record.state = State::Completed {
        at: record.expires,
        answer: Answer::Recorded(Recorded { status: 200, headers: vec![], body: Bytes::new() }),
    };
    let mut bytes = encode(&record);
    let body = bytes.pop();
    assert_eq!(body, Some(0));
    // A body of 2^63 bytes, then one whose length does not even fit 64 bits.
    let huge = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01];
    assert_eq!(decode(&[&bytes[..], &huge].concat()), Err(CodecError::OutOfRange("body")));
    assert_eq!(decode(&[&bytes[..], &[0xFF; 10]].concat()), Err(CodecError::OutOfRange("body")));
    bytes.pop();
    assert_eq!(decode(&[&bytes[..], &huge, &[0; 9]].concat()), Err(CodecError::OutOfRange("field count")));
}

#[test]
fn a_number_has_one_spelling() {
    let mut record = sample();
    record.state = State::Completed { at: record.expires, answer: Answer::Unseen };
    let mut bytes = encode(&record);
    assert_eq!(bytes.pop(), Some(0), "the distance of `at`");
    for overlong in [&[0x80, 0x00][..], &[0x80, 0x80, 0x00]] {
        assert_eq!(decode(&[&bytes[..], overlong].concat()), Err(CodecError::OutOfRange("time")));
    }
}

#[test]
fn unknown_names_and_causes_are_refused() {
    let mut record = sample();
    record.state = State::InDoubt { since: record.expires, cause: Cause::Forgotten };
    let mut bytes = encode(&record);
    let last = bytes.len() - 1;
    bytes[last] = 7;
    assert_eq!(decode(&bytes), Err(CodecError::UnknownTag { field: "cause", tag: 7 }));

    let name = Bytes::from_static(b"vary");
    record.state = State::Completed {
        at: record.expires,
        answer: Answer::Recorded(Recorded { status: 200, headers: vec![(name, Bytes::new())], body: Bytes::new() }),
    };
    let mut bytes = encode(&record);
    let place = bytes.len() - 3;
    bytes[place] = 21;
    assert_eq!(decode(&bytes), Err(CodecError::UnknownTag { field: "field name", tag: 21 }));
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
    let prints = Prints { raw: Print([9; 16]), ..own.prints };
    let other_answer = |status| {
        let State::Completed { at, answer: Answer::Recorded(recorded) } = own.state.clone() else { unreachable!() };
        State::Completed { at, answer: Answer::Recorded(Recorded { status, ..recorded }) }
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
    let mut out = Writer::new(0);
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
