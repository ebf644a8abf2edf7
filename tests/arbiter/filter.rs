//! Promise P9: the filter saves work and decides nothing. Whatever it says, every request is told the same.

use std::time::Duration;

use oncegate::arbiter::{Admitted, Permit, Renewal, Sweep};
use oncegate::machine::{Answer, Cause, Duplicate, Ending, InDoubt, Record, Settled, State};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::ward::{CACHE, LEASE, RETENTION, Ward, answered, arrival, namespaces};

const SEEDS: u64 = 60;
const STEPS: usize = 300;
const GATEWAYS: usize = 2;

/// What is done to the filters while the requests come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forced {
    /// Nothing.
    No,
    /// They call every operation perhaps seen, from the beginning.
    Full,
    /// They forget everything before every request.
    Empty,
    /// Now and then they are filled or emptied.
    Random,
}

/// What was told, step by step, and how many writes that took.
async fn story(seed: u64, forced: Forced, cache: usize) -> (Vec<String>, usize) {
    let in_doubt = if seed.is_multiple_of(2) { InDoubt::Hold } else { InDoubt::Retry };
    let ward = Ward::new(GATEWAYS, in_doubt, cache);
    let mut chance = SmallRng::seed_from_u64(seed);
    // Of its own, so that the story is the same whatever happens to the filters.
    let mut mischief = SmallRng::seed_from_u64(!seed);
    let mut permits = Vec::new();
    let mut told = Vec::new();
    for _ in 0..STEPS {
        meddle(&ward, forced, &mut mischief);
        told.push(step(&ward, &mut permits, &mut chance).await);
    }
    drop(permits);
    ward.settled().await;
    (told, ward.store.writes())
}

fn meddle(ward: &Ward, forced: Forced, chance: &mut SmallRng) {
    for gateway in &ward.gateways {
        let filter = &gateway.shared().filter;
        match (forced, chance.random_range(0..10)) {
            (Forced::Full, _) | (Forced::Random, 0) => filter.saturate(),
            (Forced::Empty, _) | (Forced::Random, 1) => filter.clear(),
            (Forced::No | Forced::Random, _) => {}
        }
    }
}

/// A request, or something that happens to an attempt, or time that goes by.
async fn step(ward: &Ward, permits: &mut Vec<Permit>, chance: &mut SmallRng) -> String {
    let gateway = &ward.gateways[chance.random_range(0..GATEWAYS)];
    match chance.random_range(0..20) {
        0..11 => {
            let look = u8::from(chance.random_ratio(1, 10));
            match gateway.admit(&arrival(chance.random_range(0..4), look), &ward.terms).await.unwrap() {
                Admitted::Proceed(permit) => {
                    let number = permit.number();
                    permits.push(permit);
                    format!("attempt {number}")
                }
                Admitted::Duplicate(duplicate) | Admitted::Also(duplicate) => tell(&duplicate),
                Admitted::Untimely(untimely) => format!("{untimely:?}"),
            }
        }
        11..16 if !permits.is_empty() => {
            let permit = permits.swap_remove(chance.random_range(0..permits.len()));
            let ending = match chance.random_range(0..6) {
                0 => answered(&ward.terms, 500, 0),
                1 => answered(&ward.terms, 502, 0),
                2 => Ending::NotSent,
                3 => Ending::Unknown(Cause::Broken),
                _ => answered(&ward.terms, 201, chance.random()),
            };
            let Ok(settled) = permit.settle(ending).await else { panic!("the store is well") };
            format!("settled {}", name(settled))
        }
        16 if !permits.is_empty() => {
            drop(permits.swap_remove(chance.random_range(0..permits.len())));
            ward.settled().await;
            "dropped".to_owned()
        }
        17 if !permits.is_empty() => {
            let at = chance.random_range(0..permits.len());
            format!("renewed {}", permits[at].renew().await == Renewal::Held)
        }
        18 => {
            assert!(Sweep::new(namespaces(ward)).step(gateway).await.unwrap());
            "swept".to_owned()
        }
        _ => {
            let spans = [Duration::from_secs(1), LEASE / 2, LEASE, Duration::from_mins(2), RETENTION];
            ward.clock.advance(spans[chance.random_range(0..spans.len())]);
            format!("{:?}", ward.clock.now())
        }
    }
}

fn name(settled: Settled) -> &'static str {
    match settled {
        Settled::Kept(_) => "kept",
        Settled::Released => "released",
        Settled::NotSent => "not sent",
        Settled::Doubted => "doubted",
        Settled::Superseded => "superseded",
    }
}

/// Everything about a refusal that a client can see; the attempt's random name is not.
fn tell(duplicate: &Duplicate) -> String {
    let answer = |record: &Record| match &record.state {
        State::Completed { answer: Answer::Recorded(recorded), .. } => {
            format!("{} {:?} until {:?}", recorded.status, recorded.shared_body(), record.expires)
        }
        state => panic!("{state:?} is not completed"),
    };
    match duplicate {
        Duplicate::Completed(record) => format!("replay {}", answer(record)),
        Duplicate::Stranger(record) => format!("stranger {}", answer(record)),
        Duplicate::InFlight { since } => format!("in flight since {since:?}"),
        Duplicate::InDoubt { .. } => "in doubt".to_owned(),
        Duplicate::Changed => "changed".to_owned(),
        Duplicate::Unsure => "unsure".to_owned(),
    }
}

#[tokio::test]
async fn whatever_the_filter_says_every_request_is_told_the_same() {
    let (mut replays, mut asked, mut unasked) = (0, 0, 0);
    for seed in 0..SEEDS {
        let (plain, writes) = story(seed, Forced::No, CACHE).await;
        for (forced, cache) in
            [(Forced::Full, CACHE), (Forced::Empty, CACHE), (Forced::Random, CACHE), (Forced::Full, 0)]
        {
            let (told, _) = story(seed, forced, cache).await;
            let differ = plain.iter().zip(&told).position(|(plain, told)| plain != told);
            if let Some(at) = differ {
                panic!("seed {seed}, {forced:?}, step {at}: `{}` became `{}`", plain[at], told[at]);
            }
        }
        replays += plain.iter().filter(|told| told.starts_with("replay")).count();
        asked += writes;
        unasked += story(seed, Forced::Empty, CACHE).await.1;
    }
    assert!(replays > 500, "only {replays} replays: the stories say too little");
    assert!(asked + 100 < unasked, "{asked} writes where {unasked} are without the filter: it was never asked");
}

#[tokio::test]
async fn a_false_positive_is_counted_and_costs_one_look() {
    let ward = Ward::plain();
    ward.arbiter().shared().filter.saturate();
    let permit = ward.permit(1).await;
    assert_eq!(ward.store.calls(), 2);
    assert!((ward.metric("oncegate_filter_false_positives_total") - 1.0).abs() < 0.1);
    assert!(permit.settle(answered(&ward.terms, 201, 1)).await.is_ok());
}

#[tokio::test]
async fn a_further_attempt_over_a_doubt_is_no_false_positive() {
    let ward = Ward::new(1, InDoubt::Retry, CACHE);
    let first = ward.permit(1).await;
    assert!(matches!(first.settle(Ending::Unknown(Cause::Broken)).await, Ok(Settled::Doubted)));
    ward.arbiter().shared().filter.saturate();
    let second = ward.permit(1).await;
    assert_eq!(second.number(), 2);
    assert!(ward.metric("oncegate_filter_false_positives_total") < 0.1);
    assert!(second.settle(answered(&ward.terms, 201, 1)).await.is_ok());
}
