//! The rules by themselves: a claim, a duplicate, a settlement.

use std::hint::black_box;
use std::sync::Arc;

use gungraun::{library_benchmark, library_benchmark_group};
use oncegate::config;
use oncegate::machine::{
    Admission, Answer, Arrival, AttemptId, Ending, Judgement, Policy, Record, Recorded, Settling, State, Time, admit,
    settle,
};

use super::{at_most, keys, orders};

pub(crate) const NOW: Time = Time(1_790_000_000_000);
const ATTEMPT: AttemptId = AttemptId([0xA1; 16]);

/// A route's rules, a request, and the claim that it would write.
pub(crate) struct Case {
    policy: Policy,
    arrival: Arrival<'static>,
    pub(crate) claim: Record,
    ending: Ending,
}

pub(crate) fn case(route: &str) -> Case {
    let text = orders::config("64MiB").replace("UPSTREAM", "127.0.0.1:9001");
    let routes = config::parse("bench", &text, &|_| None).unwrap().settings.gateway.routes;
    let policy = routes.into_iter().find(|own| own.name == route).and_then(|own| own.guard).unwrap().policy;
    let arrival = keys::case(route).arrival();
    arrival.prints();
    let Admission::Claim { record: claim, .. } = admit(None, &arrival, &policy, ATTEMPT, NOW) else {
        panic!("nothing is known of it");
    };
    let ending = Ending::Answered {
        judgement: Judgement::Keep,
        status: 201,
        answer: Answer::Recorded(answer()),
        retention: None,
    };
    Case { policy, arrival, claim, ending }
}

impl Case {
    /// The record of an operation that has been completed.
    pub(crate) fn completed(&self) -> Record {
        match settle(&self.claim, Some(&self.claim), &self.ending, &self.policy, NOW) {
            Settling::Write { record, .. } => record,
            other => panic!("{other:?}"),
        }
    }
}

/// An answer of 400 bytes with the usual fields.
fn answer() -> Recorded {
    let headers = [("content-type", "application/json"), ("location", "/orders/7"), ("content-length", "400")];
    Recorded::new(201, headers, &[b'x'; 400])
}

#[library_benchmark]
#[bench::claim(args = ("create-order",), setup = case, config = at_most(530))]
fn admit_first(case: Case) -> (Case, Admission) {
    let admission = admit(black_box(None), &case.arrival, &case.policy, ATTEMPT, NOW);
    (case, black_box(admission))
}

fn known(route: &str) -> (Case, Arc<Record>) {
    let case = case(route);
    assert!(matches!(case.completed().state, State::Completed { .. }));
    let record = Arc::new(case.completed());
    (case, record)
}

#[library_benchmark]
#[bench::replay(args = ("create-order",), setup = known, config = at_most(490))]
fn admit_again((case, record): (Case, Arc<Record>)) -> (Case, Arc<Record>, Admission) {
    let admission = admit(Some(black_box(&record)), &case.arrival, &case.policy, AttemptId([0xB2; 16]), NOW);
    (case, record, black_box(admission))
}

#[library_benchmark]
#[bench::kept(args = ("create-order",), setup = case, config = at_most(745))]
fn settle_answered(case: Case) -> (Case, Settling) {
    let settling = settle(&case.claim, Some(black_box(&case.claim)), &case.ending, &case.policy, NOW);
    (case, black_box(settling))
}

library_benchmark_group!(name = machine, benchmarks = [admit_first, admit_again, settle_answered]);
