//! Fingerprints of requests of every kind: equal meaning gives an equal one, and any single change another, in a
//! million generated pairs. What is read of a request is checked elsewhere.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

#[path = "../support/coded.rs"]
mod coded;
mod coding;
mod dice;
mod json;
mod multipart;
mod pairs;
mod request;

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use dice::Dice;
use oncegate::machine::Print;
use request::{Kind, Sent, prints, settings};

/// How many pairs all tests here make together. `ONCEGATE_PAIRS` asks for more.
fn all_pairs() -> usize {
    std::env::var("ONCEGATE_PAIRS").map_or(1_000_000, |pairs| pairs.parse().expect("ONCEGATE_PAIRS is a number"))
}

fn hashed(meaning: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    meaning.hash(&mut hasher);
    hasher.finish()
}

/// Makes requests of a kind. Each is sent in two spellings, and changed in one place: two pairs. No two requests of the
/// run share a fingerprint unless they mean the same.
fn hold(kind: Kind) {
    let settings = settings();
    let mut known: HashMap<Print, u64> = HashMap::new();
    let rounds = all_pairs() / 8;
    for round in 0..rounds {
        // The round alone tells what happens in it: a finding shows itself again.
        let dice = &mut Dice::new((round as u64) << 8 | kind as u64);
        let sent = Sent::any(kind, dice);
        let (one, other) = (sent.spelled(dice), sent.spelled(dice));
        let print = prints(&settings, &one);
        let again = prints(&settings, &other);
        assert!(print.canonical == again.canonical, "{round}: {sent:?}\n{one:?}\n{other:?}");
        let changed = sent.changed(dice);
        let apart = prints(&settings, &changed.spelled(dice));
        assert!(print.canonical != apart.canonical, "{round}: {sent:?}\n{changed:?}");
        assert!(print.raw != apart.raw, "{round}: {sent:?}\n{changed:?}");
        for (print, sent) in [(print.canonical, &sent), (apart.canonical, &changed)] {
            let meaning = hashed(&sent.meaning());
            assert_eq!(*known.entry(print).or_insert(meaning), meaning, "{round}: {sent:?} and another one");
        }
    }
    // Where all were alike, nothing would have been looked at.
    assert!(known.len() * 2 > rounds, "{} of {rounds} rounds", known.len());
}

#[test]
fn json_is_its_value() {
    hold(Kind::Json);
}

#[test]
fn a_form_is_its_pairs() {
    hold(Kind::Form);
}

#[test]
fn multipart_is_its_parts() {
    hold(Kind::Multipart);
}

#[test]
fn any_other_body_is_its_bytes() {
    hold(Kind::Raw);
}
