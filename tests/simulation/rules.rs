//! The rules under test: the machine's own, or the machine's with one deliberate fault.

use std::sync::Arc;

use oncegate::machine::{
    self, Admission, Arrival, AttemptId, Cause, Duplicate, Ending, Expect, Policy, Record, Settled, Settling, State,
    Time,
};

/// A rule broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// A lapsed lease counts as an absent record.
    LapsedIsAbsent,
    /// A running attempt is taken over like one in doubt.
    InFlightIsFree,
    /// Settling takes whatever fence it finds for its own.
    SettleIgnoresFence,
    /// A later attempt that was not sent frees the key.
    RetryNotSentReleases,
    /// A permit dropped unsettled frees the key.
    DroppedPermitReleases,
    /// A claim expires with its lease.
    ClaimExpiresWithLease,
    /// An unconfirmed claim is withdrawn by removing whatever is stored.
    WithdrawWithoutFence,
    /// An unconfirmed claim over a doubt is withdrawn by removal, and the doubt goes with it.
    WithdrawForgetsDoubt,
    /// An outcome expires after half its retention.
    CompletedExpiresEarly,
    /// An attempt is given up when its client leaves.
    LeaverDropsPermit,
    /// Lapsing never happens.
    NothingLapses,
    /// Time is the gateway's wall clock instead of the store's.
    WallClock,
    /// A changed request counts as a retry.
    ChangedIsSame,
    /// The second of two is claimed when the request has been sent.
    SecondClaimedAfterSending,
    /// Of two, the first alone is settled.
    SecondNotSettled,
    /// Refused by the second, the first is not freed.
    FirstNotFreed,
    /// One gateway claims the first before the second, another one the second before the first.
    OrderDiffers,
    /// A doubt is tried again under whichever first key.
    AnothersDoubtIsTried,
    /// Nobody looks at what was held beside a doubt.
    NobodyLooksBeside,
    /// That nothing is known of what was held beside a doubt counts as proof that nothing was done.
    AbsentBesideFrees,
    /// A doubt ends by the outcome of whichever pair.
    AnothersOutcomeCounts,
    /// Somebody's word ends the half that was asked for, and no more.
    WordEndsOneHalf,
}

/// The verbs, as the simulated gateways use them.
#[derive(Clone, Copy)]
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
        let mut policy = policy.clone();
        policy.compare &= !self.broken(Mutation::ChangedIsSame);
        let mut admission = machine::admit(found.cloned().map(Arc::new).as_ref(), arrival, &policy, attempt, now);
        let taken_over = match &admission {
            Admission::Lapse { .. } => self.broken(Mutation::LapsedIsAbsent),
            Admission::Duplicate(Duplicate::InFlight { .. }) => self.broken(Mutation::InFlightIsFree),
            _ => false,
        };
        if let (true, Some(found), Admission::Claim { record, .. }) =
            (taken_over, found, machine::admit(None, arrival, &policy, attempt, now))
        {
            admission = Admission::Claim { expect: Expect::Fence(found.fence), record };
        }
        if let Admission::Claim { record, .. } = &mut admission
            && let State::InFlight { lease, .. } = record.state
            && self.broken(Mutation::ClaimExpiresWithLease)
        {
            record.expires = lease;
        }
        admission
    }

    pub(crate) fn renew(self, held: &Record, policy: &Policy, now: Time) -> Option<Record> {
        let mut renewed = machine::renew(held, policy, now)?;
        if let State::InFlight { lease, .. } = renewed.state
            && self.broken(Mutation::ClaimExpiresWithLease)
        {
            renewed.expires = lease;
        }
        Some(renewed)
    }

    pub(crate) fn lapse(self, found: &Record, policy: &Policy, now: Time) -> Option<Record> {
        let lapsed = machine::lapse(found, policy.doubt_retention, now);
        lapsed.filter(|_| !self.broken(Mutation::NothingLapses))
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
        let dropped = matches!(ending, Ending::Unknown(Cause::Abandoned));
        let ending = if dropped && self.broken(Mutation::DroppedPermitReleases) { &Ending::NotSent } else { ending };
        let mut settling = machine::settle(&held, found, ending, policy, now);
        if let Settling::Write { record, settled: Settled::Kept(_), .. } = &mut settling
            && self.broken(Mutation::CompletedExpiresEarly)
        {
            record.expires = now.plus(policy.retention / 2);
        }
        settling
    }
}
