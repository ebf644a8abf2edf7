//! The verbs of the machine, as the model's gateways use them: its own, or with one condition weakened on purpose.

use std::sync::Arc;
use std::time::Duration;

use oncegate::machine::{
    self, Admission, Arrival, AttemptId, Cause, Duplicate, Ending, Expect, Finding, Policy, Record, Settled, Settling,
    State, Time,
};

use super::plan::{DOUBT_RETENTION, RETENTION};

/// A rule broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// A running attempt is taken over like one in doubt.
    InFlightIsFree,
    /// A lease that ended means that the key is free.
    LapsedIsFree,
    /// A changed request counts as a retry.
    ChangedIsSame,
    /// A claim expires with its lease.
    ClaimExpiresWithLease,
    /// An attempt begins though its lease has ended.
    BeginsWithoutLease,
    /// What is not known counts as not sent.
    UnknownReleases,
    /// A later attempt that was not sent frees the key.
    RetryNotSentReleases,
    /// Settling takes whatever it finds for its own.
    SettleIgnoresFence,
    /// A late answer does not end the doubt.
    LateAnswerIsDropped,
    /// An outcome is forgotten early.
    OutcomeForgotten,
    /// A doubt is forgotten early.
    DoubtForgotten,
    /// Nothing lapses.
    NothingLapses,
    /// Claims whose reply was lost are not remembered.
    ClaimsForgotten,
    /// A claim is withdrawn by removing whatever is there.
    WithdrawsAnything,
    /// An outcome that the store does not take is thrown away.
    OutcomeNotKept,
    /// A duplicate of an attempt that runs here writes its record again.
    RecallsTheRunning,
    /// A claim gives the right to act whatever is known exactly.
    ActsOnEveryClaim,
    /// A claim that is withdrawn takes another attempt from what is known exactly.
    ForgetsAnother,
    /// A probe that finds nothing frees the key, however early.
    AbsenceCountsAtOnce,
    /// The time that the upstream has counts to its answer, not to the question.
    AbsenceCountsByTheAnswer,
    /// A lost lease is taken for the attempt's end.
    LostIsOver,
    /// What a probe found is written over whatever is there.
    FindingIgnoresFence,
    /// What a probe does not learn counts as absence.
    UnheardIsAbsent,
    /// A duplicate is told that an outcome is remembered for longer, and it is not.
    TellsAnEndThatIsNotWritten,
    /// The second of two is claimed when the request has been sent.
    SecondClaimedAfterSending,
    /// Of two, the first alone is settled.
    SecondNotSettled,
    /// Refused by the second, the first is not freed.
    FirstNotFreed,
    /// A doubt is tried again under whichever first key.
    AnothersDoubtIsTried,
    /// Nobody looks at what was held beside a doubt.
    NobodyLooksBeside,
    /// Somebody's word ends the half that was asked for, and no more.
    WordEndsOneHalf,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules(pub(crate) Option<Mutation>);

impl Rules {
    pub(crate) fn broken(self, mutation: Mutation) -> bool {
        self.0 == Some(mutation)
    }

    pub(crate) fn admit(
        self,
        found: Option<&Record>,
        arrival: &Arrival,
        policy: &Policy,
        attempt: AttemptId,
        now: Time,
    ) -> Admission {
        let policy = Policy { compare: policy.compare && !self.broken(Mutation::ChangedIsSame), ..policy.clone() };
        let mut admission = machine::admit(found.cloned().map(Arc::new).as_ref(), arrival, &policy, attempt, now);
        let taken_over = match &admission {
            Admission::Lapse { .. } => self.broken(Mutation::LapsedIsFree),
            Admission::Duplicate(Duplicate::InFlight { .. }) => self.broken(Mutation::InFlightIsFree),
            _ => false,
        };
        if let (true, Some(found), Admission::Claim { record, .. }) =
            (taken_over, found, machine::admit(None, arrival, &policy, attempt, now))
        {
            admission = Admission::Claim { expect: Expect::Fence(found.fence), record };
        }
        match &mut admission {
            Admission::Claim { record, .. } | Admission::Lapse { record, .. } => self.weaken(record),
            Admission::Own(_) | Admission::Duplicate(_) | Admission::Untimely(_) => {}
        }
        admission
    }

    pub(crate) fn renew(self, held: &Record, policy: &Policy, now: Time) -> Option<Record> {
        let mut renewed = machine::renew(held, policy, now)?;
        self.weaken(&mut renewed);
        Some(renewed)
    }

    pub(crate) fn lapse(self, found: &Record, policy: &Policy, now: Time) -> Option<Record> {
        let mut lapsed = machine::lapse(found, policy.doubt_retention, now)?;
        self.weaken(&mut lapsed);
        (!self.broken(Mutation::NothingLapses)).then_some(lapsed)
    }

    pub(crate) fn settle(
        self,
        held: &Record,
        found: Option<&Record>,
        ending: &Ending,
        policy: &Policy,
        now: Time,
    ) -> Settling {
        let mut held = held.clone();
        if let (Some(found), true) = (found, self.broken(Mutation::SettleIgnoresFence)) {
            held.fence = found.fence;
        }
        if self.broken(Mutation::RetryNotSentReleases) {
            held.number = 1;
        }
        let late = found.is_some_and(|found| matches!(found.state, State::InDoubt { .. }));
        if late && self.broken(Mutation::LateAnswerIsDropped) {
            return Settling::Done(Settled::Doubted);
        }
        let unknown = matches!(ending, Ending::Unknown(_));
        let ending = if unknown && self.broken(Mutation::UnknownReleases) { &Ending::NotSent } else { ending };
        let mut settling = machine::settle(&held, found, ending, policy, now);
        if let Settling::Write { record, .. } = &mut settling {
            self.weaken(record);
        }
        settling
    }

    pub(crate) fn recall(self, lost: &Record, runs: bool, policy: &Policy, now: Time) -> Record {
        let mut recalled = machine::recall(lost, runs.then_some(policy.lease), policy.doubt_retention, now);
        self.weaken(&mut recalled);
        recalled
    }

    /// What the machine makes of a finding; heard now.
    pub(crate) fn probed(
        self,
        doubt: &Record,
        finding: &Finding,
        policy: &Policy,
        asked: Time,
        now: Time,
    ) -> Option<Ending> {
        let State::InDoubt { since, .. } = doubt.state else { return None };
        let mut doubt = doubt.clone();
        if self.broken(Mutation::LostIsOver) {
            doubt.state = State::InDoubt { since, cause: Cause::Broken };
        }
        let asked = match self.0 {
            Some(Mutation::AbsenceCountsAtOnce) => Time(u64::MAX),
            Some(Mutation::AbsenceCountsByTheAnswer) => now,
            _ => asked,
        };
        machine::probed(&doubt, finding, policy, asked)
    }

    /// Records that are forgotten too early.
    fn weaken(self, record: &mut Record) {
        let half = |whole: u64| Duration::from_millis(whole / 2);
        record.expires = match record.state {
            State::InFlight { lease, .. } if self.broken(Mutation::ClaimExpiresWithLease) => lease,
            State::InDoubt { since, .. } if self.broken(Mutation::DoubtForgotten) => since.plus(half(DOUBT_RETENTION)),
            State::Completed { at, .. } if self.broken(Mutation::OutcomeForgotten) => at.plus(half(RETENTION)),
            _ => record.expires,
        };
    }
}
