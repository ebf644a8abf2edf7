//! How a request is compared with the one on record, and that no hash is made twice, or for nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use oncegate::machine::{
    Admission, Also, Arrival, Cause, Comparable, Duplicate, Ending, InDoubt, NamespaceTag, OperationId, Policy, Print,
    RawPrint, Record, Salt, admit,
};

use super::system::{Look, PLAIN, START, System, Told, attempt, policy, salt};
use crate::alike::Alike;

/// A request that counts what is made of it.
struct Counted<'a>(Alike, &'a Made);

#[derive(Default)]
struct Made {
    raw: AtomicUsize,
    canonical: AtomicUsize,
}

impl Made {
    fn both(&self) -> [usize; 2] {
        [&self.raw, &self.canonical].map(|count| count.load(Ordering::Relaxed))
    }
}

impl Comparable for Counted<'_> {
    fn raw(&self, salt: Salt) -> [u8; 8] {
        self.1.raw.fetch_add(1, Ordering::Relaxed);
        self.0.raw(salt)
    }

    fn canonical(&self) -> Print {
        self.1.canonical.fetch_add(1, Ordering::Relaxed);
        self.0.canonical()
    }
}

fn arrival(alike: Alike, made: &Made) -> Arrival<'_> {
    Arrival::new(OperationId([7; 32]), NamespaceTag(3), salt(), 1, None, Counted(alike, made))
}

/// The claim that it would write.
fn claimed(arrival: &Arrival<'_>) -> Arc<Record> {
    match admit(None, arrival, &policy(InDoubt::Hold), attempt(1), START) {
        Admission::Claim { record, .. } => Arc::new(record),
        other => panic!("nothing is known of it: {other:?}"),
    }
}

fn told(record: &Arc<Record>, arrival: &Arrival<'_>) -> Duplicate {
    match admit(Some(record), arrival, &policy(InDoubt::Hold), attempt(2), START) {
        Admission::Duplicate(duplicate) => duplicate,
        other => panic!("it may act: {other:?}"),
    }
}

#[test]
fn a_first_request_is_hashed_once_each_way() {
    let made = Made::default();
    let also = Also { operation: OperationId([8; 32]), namespace: NamespaceTag(4), credentials: None };
    let first = arrival(Alike::to(1), &made).with_also(Some(also));
    assert_eq!(made.both(), [0, 0]);
    claimed(&first);
    assert_eq!(made.both(), [1, 1]);
    claimed(&first);
    claimed(&first.second().expect("it names two"));
    assert_eq!(made.both(), [1, 1], "nor for another claim, or the second operation's");
}

#[test]
fn an_exact_retry_is_hashed_once_however_often_it_meets_its_record() {
    let (first, again) = (Made::default(), Made::default());
    let record = claimed(&arrival(Alike::to(1), &first));
    let retry = arrival(Alike::to(1), &again);
    for _ in 0..3 {
        assert_eq!(told(&record, &retry), Duplicate::InFlight { since: START });
    }
    assert_eq!(again.both(), [1, 0]);
    let (other, newer) = (Made::default(), Made::default());
    let newer = claimed(&arrival(Alike::to(1), &newer));
    assert_eq!(told(&newer, &retry), Duplicate::InFlight { since: START });
    assert_eq!(again.both(), [2, 0], "another claim has another salt");
    let changed = arrival(Alike::to(2), &other);
    for _ in 0..3 {
        assert_eq!(told(&record, &changed), Duplicate::Changed);
    }
    assert_eq!(other.both(), [1, 1]);
}

#[test]
fn each_claim_has_a_salt_of_its_own() {
    let made = Made::default();
    let [one, other] = [1, 1].map(|number| claimed(&arrival(Alike::to(number), &made)).prints);
    assert!(one.raw.salt() != other.raw.salt() && one.raw != other.raw);
    assert_eq!(one.canonical, other.canonical);
}

/// A first attempt is in doubt, and a further one may run.
fn doubted(policy: Policy) -> System {
    let mut system = System::new(policy);
    let Told::Act(held) = system.admit(PLAIN, 1) else { panic!("nothing is known of it") };
    system.settle(&held, &Ending::Unknown(Cause::Broken));
    system
}

/// Who can read the store may find another request that has the raw print on record.
#[test]
fn nobody_acts_for_the_first_request_by_the_raw_print_alone() {
    let forged = Look { canonical: 9, ..PLAIN };
    let retry = policy(InDoubt::Retry);
    assert_eq!(doubted(retry.clone()).admit(forged, 2), Told::Refused(Duplicate::Changed));
    let acts = |mut system: System, look| matches!(system.admit(look, 2), Told::Act(_));
    assert!(acts(doubted(retry.clone()), PLAIN));
    assert!(acts(doubted(retry.clone()), Look { settings: 2, ..forged }), "the bytes tell where digests cannot");
    assert!(acts(doubted(Policy { compare: false, ..retry }), forged), "nothing is compared");
}

/// Earlier versions kept a SHA-256 there, which a request hashes to by chance alone.
#[test]
fn a_record_whose_raw_print_fits_no_request_is_compared_by_the_canonical_digest() {
    let mut system = System::new(policy(InDoubt::Hold));
    assert!(matches!(system.admit(PLAIN, 1), Told::Act(_)));
    system.stored.as_mut().expect("there is a record").prints.raw = RawPrint(*b"a SHA-256 begins");
    assert!(matches!(system.admit(PLAIN, 2), Told::Refused(Duplicate::InFlight { .. })), "equal");
    let changed = Look { raw: 9, canonical: 9, ..PLAIN };
    assert_eq!(system.admit(changed, 2), Told::Refused(Duplicate::Changed));
    let told = system.admit(Look { settings: 2, ..PLAIN }, 2);
    assert_eq!(told, Told::Refused(Duplicate::Unsure), "nothing tells by now");
}
