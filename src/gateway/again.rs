//! When asking again is worth it: what `Retry-After` says. Advice only; nothing is decided by it.

use std::time::Duration;

use crate::machine::{InDoubt, Policy, Time};

/// The shortest advice, and the unit in which it is told.
const LEAST: Duration = Duration::from_secs(1);
/// The longest that a doubt is left alone. People take longer, but client libraries obey in the thread that called them.
const HELD: Duration = Duration::from_mins(1);

/// What is known of a route's operations now, for advice on one of them.
pub(super) struct Outlook<'a> {
    pub policy: &'a Policy,
    /// How long attempts of the route usually take; none while that is not known.
    pub usual: Option<Duration>,
    pub now: Time,
}

impl Outlook<'_> {
    /// When an attempt that began then has probably ended.
    pub(super) fn running(&self, since: Time) -> Duration {
        self.running_for(self.now.since(since))
    }

    /// The same of one that has run so long.
    pub(super) fn running_for(&self, running: Duration) -> Duration {
        while_running(self.usual, running, self.policy.attempt_timeout)
    }

    /// When a doubt that began then may have ended.
    pub(super) fn in_doubt(&self, since: Time) -> Duration {
        in_doubt(self.policy.in_doubt, self.now.since(since))
    }
}

/// While an attempt is running: what it will probably still take. `usual` is how long attempts of its route usually take,
/// `running` how long it has been, `most` how long it may take.
///
/// An attempt that is over its usual time may take much longer: it is asked for in steps that grow with its age.
fn while_running(usual: Option<Duration>, running: Duration, most: Duration) -> Duration {
    let left = usual.and_then(|usual| usual.checked_sub(running)).unwrap_or(running / 2);
    left.min(most.saturating_sub(running)).max(LEAST)
}

/// While an operation is in doubt, for so long already.
pub(super) fn in_doubt(policy: InDoubt, age: Duration) -> Duration {
    match policy {
        // It waits for people, for a late answer, or for an upstream that has said nothing clear so far, or cannot be
        // asked: the longer it has, the longer it will.
        InDoubt::Hold | InDoubt::Probe { .. } => (age / 2).clamp(LEAST, HELD),
        // The next request runs.
        InDoubt::Retry => soon(),
    }
}

/// When something is short that may be there again at any moment. Whoever was refused in one moment should not come back
/// in one: 1 to 3 seconds, by lot.
pub(super) fn soon() -> Duration {
    Duration::from_secs(1 + u64::from(rand::random::<u8>() % 3))
}

/// Whole seconds, rounded up: not sooner than meant.
pub(super) fn seconds(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(usual: Option<u64>, running: u64, most: u64) -> u64 {
        let millis = Duration::from_millis;
        seconds(while_running(usual.map(millis), millis(running), millis(most)))
    }

    #[test]
    fn an_attempt_is_asked_for_again_when_it_is_usually_over() {
        assert_eq!(told(Some(30_000), 0, 300_000), 30);
        assert_eq!(told(Some(30_000), 20_500, 300_000), 10);
        assert_eq!(told(Some(20), 0, 300_000), 1, "at least a second");
        assert_eq!(told(Some(30_000), 29_900, 300_000), 1);
        assert_eq!(told(Some(30_000), 60_000, 300_000), 30, "over its time: by half its age");
        assert_eq!(told(None, 0, 300_000), 1, "nothing is known yet");
        assert_eq!(told(None, 10_000, 300_000), 5);
        assert_eq!(told(Some(1_000_000), 0, 300_000), 300, "no attempt takes longer than it may");
        assert_eq!(told(Some(1_000), 299_000, 300_000), 1);
        assert_eq!(told(Some(1_000), 400_000, 300_000), 1, "a clock that is off");
    }

    #[test]
    fn a_doubt_that_is_held_is_asked_for_less_and_less_often() {
        for policy in [InDoubt::Hold, InDoubt::Probe { absent_after: Duration::from_mins(1) }] {
            let told = |age| seconds(in_doubt(policy, Duration::from_secs(age)));
            assert_eq!([0, 1, 10, 100, 200, 1_000_000].map(told), [1, 1, 5, 50, 60, 60]);
        }
        assert!((1..=3).contains(&seconds(in_doubt(InDoubt::Retry, Duration::from_hours(1)))));
    }

    proptest! {
        #[test]
        fn it_is_a_second_at_least_and_never_beyond_the_attempts_end(
            usual in proptest::option::of(0..1_000_000_u64), running in 0..1_000_000_u64, most in 1_000..1_000_000_u64,
        ) {
            let told = told(usual, running, most);
            prop_assert!(told >= 1);
            prop_assert!(told <= 1 + most.saturating_sub(running).div_ceil(1000));
        }

        #[test]
        fn what_is_short_is_asked_for_within_three_seconds(_ in 0..100) {
            prop_assert!((1..=3).contains(&seconds(soon())));
        }
    }
}
