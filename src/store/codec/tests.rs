//! Tests of the record's bytes.

mod sealed;

use proptest::prelude::*;

use super::*;
use crate::packed::{COMMON_FIELDS, COMMON_NAMES};

/// The operation that records here belong to.
const ID: OperationId = OperationId([0x1D; 32]);

fn encode(record: &Record) -> Vec<u8> {
    Codec::default().encode(&ID, record).unwrap()
}

fn decode(bytes: &[u8]) -> Result<Record, CodecError> {
    Codec::default().decode(&ID, bytes)
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

fn field() -> impl Strategy<Value = (Bytes, Bytes)> {
    let common = prop::sample::select(&COMMON_FIELDS[..]);
    prop_oneof![(name(), bytes(60)), common.prop_map(|(name, value)| (Bytes::from(name), Bytes::from(value)))]
}

fn answer() -> impl Strategy<Value = Answer> {
    let recorded = || {
        let headers = prop::collection::vec(field(), 0..12);
        (any::<u16>(), headers, bytes(600)).prop_map(|(status, headers, body)| Recorded::new(status, headers, &body))
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
        raw: RawPrint(raw),
        canonical: Print(canonical),
        settings,
    });
    let credentials = prop::option::of(any::<[u8; 16]>().prop_map(Print));
    let beside = prop::option::of(any::<[u8; 32]>().prop_map(|id| Box::new(OperationId(id))));
    let times = (time(), prop::option::of(time()));
    (fence, any::<u32>(), state(), prints, credentials, any::<u32>(), times, probe(), beside).prop_map(
        |(fence, number, state, prints, credentials, namespace, (expires, good_until), probe, beside)| Record {
            fence,
            number,
            state,
            prints,
            credentials,
            namespace: NamespaceTag(namespace),
            expires,
            probe,
            beside,
            good_until,
        },
    )
}

proptest! {
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
            answer: Answer::Recorded(Recorded::new(201, headers, b"{\"id\":7}")),
        },
        prints: Prints { raw: RawPrint([0xB2; 16]), canonical: Print([0xC3; 16]), settings: 0x0102_0304 },
        credentials: Some(Print([0xD4; 16])),
        namespace: NamespaceTag(0x0506_0708),
        expires: Time(1_790_086_400_000),
        probe: None,
        beside: None,
        good_until: None,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// Records outlive the program that wrote them: a change of these bytes needs a new format version.
#[test]
fn the_format_does_not_change_by_accident() {
    let clear = concat!(
        "01a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a100000003",
        "0182010506070801020304",
        "b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4d4",
        "8090dbcb8c3480f0b25200c903",
    );
    let rest = "03092f6f72646572732f370006782d73686f7004636166e9087b226964223a377d";
    assert_eq!(hex(&encode(&sample())), [clear, "80", rest].concat());
    // As it was written before there were bytes for whole fields.
    let before = [clear, "01106170706c69636174696f6e2f6a736f6e", rest].concat();
    assert_eq!(decode(&unhex(&before)), Ok(sample()));
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

/// The same for a record whose key has an end.
#[test]
fn the_format_of_a_keys_end_does_not_change_by_accident() {
    let expires = Time(1_790_000_259_200);
    let state = State::InDoubt { since: Time(1_790_000_000_000), cause: Cause::Broken };
    let good_until = Some(Time(1_790_000_259_000));
    let record = Record { state, credentials: None, expires, good_until, ..sample() };
    let golden = concat!(
        "01a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a100000003",
        "0111010506070801020304",
        "b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3",
        "80c1d1a28c34",
        "9003",
        "80d21f01",
    );
    assert_eq!(hex(&encode(&record)), golden);
}

/// The same for an operation that was held beside another one.
#[test]
fn the_format_of_a_pair_does_not_change_by_accident() {
    let (expires, since) = (Time(1_790_000_259_200), Time(1_790_000_000_000));
    let state = State::InDoubt { since, cause: Cause::Broken };
    let beside = Some(Box::new(OperationId([0xE5; 32])));
    let record = Record { state, credentials: None, expires, beside, ..sample() };
    let golden = concat!(
        "01a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a100000003",
        "010901",
        "010506070801020304",
        "b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3",
        "e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5",
        "80c1d1a28c34",
        "80d21f01",
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
    let fields = COMMON_FIELDS.map(|(name, value)| format!("{name}: {value}")).join("\n");
    assert!(fields.starts_with(
        "content-type: application/json\ncontent-type: application/json; charset=utf-8\n\
         content-type: application/json;charset=utf-8\ncontent-type: application/json;charset=UTF-8\n\
         content-type: application/json; charset=UTF-8\ncontent-type: application/problem+json\n\
         content-type: application/hal+json\ncontent-type: application/vnd.api+json\n\
         content-type: text/plain; charset=utf-8\ncontent-type: text/html; charset=utf-8\n\
         content-type: application/xml\ncache-control: no-store\ncache-control: no-cache\n\
         x-content-type-options: nosniff\nx-frame-options: DENY\nvary: Accept-Encoding"
    ));
}

#[test]
fn a_completed_record_costs_little_over_its_answer() {
    let body = Bytes::from(vec![b'x'; 200]);
    let mut record = sample();
    record.credentials = None;
    record.state =
        State::Completed { at: Time(1_790_000_000_000), answer: Answer::Recorded(Recorded::bare(200, &body)) };
    let bare = encode(&record).len();
    let overhead = bare - body.len() - 2;
    assert!(overhead <= 77, "{overhead} bytes of overhead");

    for (value, cost) in [("application/json", 1), ("application/pdf", 2 + "application/pdf".len())] {
        let field = ("content-type", value);
        record.state = State::Completed {
            at: Time(1_790_000_000_000),
            answer: Answer::Recorded(Recorded::new(200, [field], &body)),
        };
        assert_eq!(encode(&record).len(), bare + cost, "{value}");
    }
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
    // The byte of further flags is the attempt's number here.
    for tag in [0, 2, 3, 0x81] {
        let mut bytes = good.clone();
        (bytes[22], bytes[23]) = (0x8A, tag);
        assert_eq!(decode(&bytes), Err(Malformed::UnknownTag { field: "flag", tag }.into()));
    }
    assert_eq!(decode(&[]), Err(Malformed::Truncated("format version").into()));
    assert_eq!(decode(&good[..10]), Err(Malformed::Truncated("attempt id").into()));
}

#[test]
fn lengths_are_not_believed() {
    let mut record = sample();
    record.state = State::Completed { at: record.expires, answer: Answer::Recorded(Recorded::empty(200)) };
    let mut bytes = encode(&record);
    let body = bytes.pop();
    assert_eq!(body, Some(0));
    // A body of 2^63 bytes, then one whose length does not even fit 64 bits.
    let huge = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01];
    assert_eq!(decode(&[&bytes[..], &huge].concat()), Err(Malformed::OutOfRange("body").into()));
    assert_eq!(decode(&[&bytes[..], &[0xFF; 10]].concat()), Err(Malformed::OutOfRange("body").into()));
    bytes.pop();
    assert_eq!(decode(&[&bytes[..], &huge, &[0; 9]].concat()), Err(Malformed::OutOfRange("field count").into()));
}

#[test]
fn a_number_has_one_spelling() {
    let mut record = sample();
    record.state = State::Completed { at: record.expires, answer: Answer::Unseen };
    let mut bytes = encode(&record);
    assert_eq!(bytes.pop(), Some(0), "the distance of `at`");
    for overlong in [&[0x80, 0x00][..], &[0x80, 0x80, 0x00]] {
        assert_eq!(decode(&[&bytes[..], overlong].concat()), Err(Malformed::OutOfRange("time").into()));
    }
}

#[test]
fn unknown_names_and_causes_are_refused() {
    let mut record = sample();
    record.state = State::InDoubt { since: record.expires, cause: Cause::Forgotten };
    let mut bytes = encode(&record);
    let last = bytes.len() - 1;
    bytes[last] = 7;
    assert_eq!(decode(&bytes), Err(Malformed::UnknownTag { field: "cause", tag: 7 }.into()));

    let name = Bytes::from_static(b"vary");
    record.state =
        State::Completed { at: record.expires, answer: Answer::Recorded(Recorded::new(200, [(name, "")], b"")) };
    let mut bytes = encode(&record);
    let place = bytes.len() - 3;
    for tag in [21, 0x7F, 0x90, 0xFF] {
        bytes[place] = tag;
        assert_eq!(decode(&bytes), Err(Malformed::UnknownTag { field: "field name", tag }.into()));
    }
}
