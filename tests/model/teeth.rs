//! Rules that are broken on purpose. Each is found, by the promise that it breaks: a search that finds nothing is then
//! worth something. The simulation breaks some of them too; here they are found for certain, by the shortest way.

use oncegate::machine::InDoubt;

use super::audit::Broken;
use super::plan::{Left, PROBES, Plan};
use super::rules::Mutation;
use super::search::finds;

const LEFT: Left =
    Left { requests: 2, changed: 0, ticks: 2, leaps: 1, losses: 0, crashes: 0, failovers: 0, flushes: 0, probes: 0 };
const LOSS: Left = Left { losses: 1, ..LEFT };
const PROBE: Left = Left { ticks: 1, leaps: 0, probes: 1, ..LEFT };

fn hold(left: Left) -> Plan {
    Plan::new(2, InDoubt::Hold, left)
}

fn probe(gateways: usize, left: Left) -> Plan {
    Plan::new(gateways, PROBES, left)
}

fn retry(left: Left) -> Plan {
    Plan::new(2, InDoubt::Retry, left)
}

macro_rules! broken_rules {
    ($($name:ident: $mutation:ident breaks $broken:ident in $plan:expr;)*) => {$(
        #[test]
        fn $name() {
            finds($plan.broken(Mutation::$mutation), Broken::$broken);
        }
    )*};
}

broken_rules! {
    a_running_attempt_is_not_free: InFlightIsFree breaks Fence in hold(LEFT);
    a_lapsed_lease_does_not_free: LapsedIsFree breaks Fence in hold(LEFT);
    a_changed_request_is_no_retry: ChangedIsSame breaks ChangedIsNoRetry in hold(Left { changed: 1, ..LEFT });
    a_claim_outlives_its_lease: ClaimExpiresWithLease breaks Forgotten in hold(LEFT);
    an_attempt_begins_with_its_lease: BeginsWithoutLease breaks OneAtATime in hold(LEFT);
    what_is_unknown_was_perhaps_sent: UnknownReleases breaks OnlyProofReleases in hold(LEFT);
    a_retry_not_sent_leaves_the_doubt: RetryNotSentReleases breaks OnlyProofReleases in retry(LEFT);
    settling_respects_the_fence: SettleIgnoresFence breaks Forgotten in hold(LEFT);
    a_late_answer_counts: LateAnswerIsDropped breaks NotFreed in hold(LEFT);
    an_outcome_is_remembered: OutcomeForgotten breaks Forgotten in hold(LEFT);
    a_doubt_is_remembered: DoubtForgotten breaks Forgotten in hold(LEFT);
    every_lease_lapses: NothingLapses breaks Hangs in hold(LEFT);
    a_claim_without_a_reply_is_withdrawn: ClaimsForgotten breaks NotFreed in hold(LOSS);
    a_withdrawal_respects_the_fence: WithdrawsAnything breaks OnlyProofReleases in hold(LOSS);
    an_outcome_waits_for_its_store: OutcomeNotKept breaks NotFreed in hold(LOSS);
    a_running_attempt_writes_for_itself: RecallsTheRunning breaks NotFreed in hold(LEFT).exact();
    no_claim_goes_before_what_is_known: ActsOnEveryClaim breaks OneAtATime
        in Plan::new(1, InDoubt::Hold, Left { flushes: 1, ..LEFT }).exact();
    a_withdrawal_takes_no_other_attempt: ForgetsAnother breaks OneAtATime
        in Plan::new(1, InDoubt::Hold, Left { flushes: 1, requests: 3, ticks: 0, leaps: 0, ..LOSS }).exact();
    a_window_ends_when_it_says: TellsAnEndThatIsNotWritten breaks Forgotten in hold(LEFT).sliding();
    absence_needs_time: AbsenceCountsAtOnce breaks ExecutedTwice in probe(1, PROBE);
    absence_needs_time_before_the_question: AbsenceCountsByTheAnswer breaks ExecutedTwice in probe(1, PROBE);
    a_lost_lease_is_no_end_of_its_attempt: LostIsOver breaks Forgotten in probe(1, Left { ticks: 3, ..PROBE });
    a_probe_that_hears_nothing_frees_nothing: UnheardIsAbsent breaks ExecutedTwice in probe(1, PROBE);
    a_finding_respects_the_fence: FindingIgnoresFence breaks OnlyProofReleases in probe(2, Left { probes: 2, ..PROBE });
}
