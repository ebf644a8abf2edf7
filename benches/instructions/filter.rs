//! The Bloom filter as a first request uses it: one question, then one insertion, at a rate of 0.001 %.

use std::hint::black_box;
use std::time::Duration;

use gungraun::{library_benchmark, library_benchmark_group};
use oncegate::clock::Clock;
use oncegate::machine::{OperationId, Time};
use oncegate::store::filter::{Filter, Settings};

use super::at_most;

/// A filter with 1,000 operations in it, all of them in the generation before, and one more operation.
fn used(_: ()) -> (Filter, OperationId) {
    let clock = Clock::manual(Time(1_790_000_000_000));
    let lifetime = Duration::from_hours(1);
    let settings = Settings { capacity: 1_000_000, false_positive_rate: 0.000_01, lifetime };
    let filter = Filter::new(settings, clock.clone()).unwrap();
    (0..1_000).for_each(|number| filter.insert(&id(number)));
    clock.advance(lifetime);
    filter.rotate_if_due();
    filter.insert(&id(2_000));
    (filter, id(1_000))
}

/// Spread over all bits, as digests are.
fn id(number: u64) -> OperationId {
    let mut bytes = [0; 32];
    for (part, word) in (1..).zip(bytes.chunks_exact_mut(8)) {
        word.copy_from_slice(&(number + part).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
    }
    OperationId(bytes)
}

#[library_benchmark]
#[bench::first(args = ((),), setup = used, config = at_most(585))]
fn check_and_insert((filter, id): (Filter, OperationId)) -> (Filter, bool) {
    let known = filter.check(black_box(&id));
    filter.insert(black_box(&id));
    (filter, black_box(known))
}

#[library_benchmark]
#[bench::again(args = ((),), setup = used, config = at_most(525))]
fn check((filter, _): (Filter, OperationId)) -> (Filter, bool) {
    let known = filter.check(black_box(&id(2_000)));
    (filter, black_box(known))
}

library_benchmark_group!(name = bloom_filter, benchmarks = [check_and_insert, check]);
