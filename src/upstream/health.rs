//! What is known of one server: whether requests fail there, and what its checks say. Pure: the time is given.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use http::HeaderValue;
use http::uri::PathAndQuery;

/// When a server is left out because requests fail there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ejection {
    /// After so many failures in a row; 0: never.
    pub failures: usize,
    /// How long it is left out, until a single request tries it again.
    pub lasts: Duration,
}

/// How a server is asked whether it is well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// What is asked for, by GET.
    pub path: PathAndQuery,
    /// The `Host` of the question; none: the server's own name.
    pub host: Option<HeaderValue>,
    /// The rest between two rounds of questions.
    pub interval: Duration,
    /// How long an answer's head may take, with connecting.
    pub timeout: Duration,
    /// So many good answers in a row make it healthy again.
    pub healthy_after: usize,
    /// So many bad ones in a row make it unhealthy.
    pub unhealthy_after: usize,
    /// The statuses that are good answers.
    pub status: RangeInclusive<u16>,
}

/// How a server stands, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// It takes requests.
    Ready,
    /// Requests failed there: it is tried when no other is left.
    Ejected,
    /// Its checks fail: it is not used.
    Unhealthy,
}

/// A server's health. A new one counts as well until something speaks against it.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Failed requests in a row.
    failures: usize,
    ejected_until: Option<Instant>,
    /// The one request that tries an ejected server is under way.
    on_trial: bool,
    unhealthy: bool,
    /// Checks in a row that speak against what it counts as.
    contrary: usize,
}

impl Health {
    /// An ejected server whose time has passed takes one request: until that is over, it counts as ejected still.
    pub(super) fn standing(&self, now: Instant) -> Standing {
        match self.ejected_until {
            _ if self.unhealthy => Standing::Unhealthy,
            Some(until) if now < until || self.on_trial => Standing::Ejected,
            Some(_) | None => Standing::Ready,
        }
    }

    /// Whether nothing speaks against it that a request could find, or do away with.
    pub(super) fn is_calm(&self) -> bool {
        self.failures == 0 && self.ejected_until.is_none() && !self.on_trial && !self.unhealthy
    }

    /// A request is about to go there, because it stood like this. Whether it is the trial of an ejected server; none
    /// when it has come to stand worse, so that another may be the better choice now.
    pub(super) fn begin(&mut self, stood: Standing, now: Instant) -> Option<bool> {
        let stands = self.standing(now);
        if stands > stood {
            return None;
        }
        let trial = stands == Standing::Ready && self.ejected_until.is_some();
        self.on_trial |= trial;
        Some(trial)
    }

    /// A request has an answer's head. That brings an ejected server back, and only then is it true.
    pub(super) fn answered(&mut self) -> bool {
        if self.ejected_until.is_none() {
            return false;
        }
        (self.failures, self.ejected_until, self.on_trial) = (0, None, false);
        true
    }

    /// A request has its whole answer.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// A request failed. True when the server is ejected now that was not before; it must not be, when no other one
    /// would be left.
    pub(super) fn failed(&mut self, now: Instant, ejection: Ejection, others_left: bool) -> bool {
        self.failures = self.failures.saturating_add(1);
        self.on_trial = false;
        let was_ejected = self.ejected_until.is_some();
        let enough = ejection.failures > 0 && self.failures >= ejection.failures;
        if was_ejected || (enough && others_left) {
            self.ejected_until = Some(now + ejection.lasts);
        }
        !was_ejected && self.ejected_until.is_some()
    }

    /// A trial was given up before it showed anything: the next request may be one.
    pub(super) fn trial_given_up(&mut self) {
        self.on_trial = false;
    }

    /// A check has its answer. Whether the server is healthy now, if that is news.
    pub(super) fn checked(&mut self, passed: bool, check: &HealthCheck) -> Option<bool> {
        if passed != self.unhealthy {
            self.contrary = 0;
            return None;
        }
        self.contrary += 1;
        let enough = if passed { check.healthy_after } else { check.unhealthy_after };
        if self.contrary < enough {
            return None;
        }
        (self.unhealthy, self.contrary) = (!passed, 0);
        Some(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    const RULE: Ejection = Ejection { failures: 3, lasts: Duration::from_secs(10) };
    /// A little less than an ejection lasts.
    const ALMOST: Duration = Duration::from_millis(9_999);

    fn check() -> HealthCheck {
        HealthCheck {
            path: PathAndQuery::from_static("/healthz"),
            host: None,
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(1),
            healthy_after: 2,
            unhealthy_after: 3,
            status: 200..=399,
        }
    }

    fn ejected(now: Instant) -> Health {
        let mut health = Health::default();
        let ejected = [1, 2, 3].map(|_| health.failed(now, RULE, true));
        assert_eq!(ejected, [false, false, true]);
        health
    }

    /// What requests that do not fail ask of it and tell it, with what it says.
    fn unfailed(health: &mut Health, now: Instant) -> (Standing, Option<bool>, bool) {
        let said = (health.standing(now), health.begin(Standing::Ejected, now), health.answered());
        health.succeeded();
        said
    }

    #[test]
    fn a_calm_one_says_what_a_new_one_says_and_stays_calm() {
        let now = Clock::instant();
        let mut health = Health::default();
        assert!(health.is_calm());
        assert_eq!(health.checked(false, &check()), None);
        assert!(health.is_calm(), "a single bad answer to a check is nothing that a request could find");
        let said = unfailed(&mut health, now);
        assert_eq!(said, unfailed(&mut Health::default(), now));
        assert!(health.is_calm());
        assert!(!health.failed(now, RULE, true) && !health.is_calm());
        unfailed(&mut health, now);
        assert!(health.is_calm());
        health = ejected(now);
        assert!(!health.is_calm());
        assert_eq!(unfailed(&mut health, now + RULE.lasts), (Standing::Ready, Some(true), true));
        assert!(health.is_calm());
        assert!((0..3).any(|_| health.checked(false, &check()).is_some()) && !health.is_calm());
    }

    #[test]
    fn failures_in_a_row_eject_for_a_while() {
        let now = Clock::instant();
        let health = ejected(now);
        assert_eq!(health.standing(now + ALMOST), Standing::Ejected);
        assert_eq!(health.standing(now + RULE.lasts), Standing::Ready);
    }

    #[test]
    fn a_success_between_failures_clears_the_count() {
        let now = Clock::instant();
        let mut health = Health::default();
        for _ in 0..10 {
            assert!(!health.failed(now, RULE, true) && !health.failed(now, RULE, true));
            assert!(!health.answered(), "it was never left out");
            health.succeeded();
        }
        assert_eq!(health.standing(now), Standing::Ready);
    }

    #[test]
    fn the_last_one_left_stays_until_another_is_back() {
        let now = Clock::instant();
        let mut health = Health::default();
        assert!((0..10).all(|_| !health.failed(now, RULE, false)));
        assert_eq!(health.standing(now), Standing::Ready);
        assert!(health.failed(now, RULE, true));
    }

    #[test]
    fn without_a_rule_nothing_is_ejected() {
        let now = Clock::instant();
        let mut health = Health::default();
        assert!((0..10).all(|_| !health.failed(now, Ejection { failures: 0, ..RULE }, true)));
    }

    #[test]
    fn an_ejected_server_comes_back_one_request_at_a_time() {
        let now = Clock::instant();
        let mut health = ejected(now);
        let later = now + RULE.lasts;
        assert_eq!(health.begin(Standing::Ready, later), Some(true));
        assert_eq!(health.begin(Standing::Ready, later), None, "one at a time");
        assert_eq!(health.begin(Standing::Ejected, later), Some(false), "the last resort is open to all");
        assert!(health.answered());
        assert_eq!((health.standing(later), health.begin(Standing::Ready, later)), (Standing::Ready, Some(false)));
        assert!(!health.failed(later, RULE, true), "it begins anew");
    }

    #[test]
    fn a_failed_trial_ejects_again() {
        let now = Clock::instant();
        let mut health = ejected(now);
        let later = now + RULE.lasts;
        assert_eq!(health.begin(Standing::Ready, later), Some(true));
        assert!(!health.failed(later, RULE, false), "that is no news");
        assert_eq!(health.standing(later + ALMOST), Standing::Ejected);
        assert_eq!(health.begin(Standing::Ready, later + RULE.lasts), Some(true));
    }

    #[test]
    fn a_trial_that_is_given_up_leaves_room_for_the_next() {
        let now = Clock::instant();
        let mut health = ejected(now);
        let later = now + RULE.lasts;
        assert_eq!(health.begin(Standing::Ready, later), Some(true));
        health.trial_given_up();
        assert_eq!(health.begin(Standing::Ready, later), Some(true));
    }

    #[test]
    fn checks_in_a_row_decide() {
        let now = Clock::instant();
        let mut health = Health::default();
        let check = check();
        let mut told =
            |answers: &[bool]| answers.iter().map(|passed| health.checked(*passed, &check)).collect::<Vec<_>>();
        assert_eq!(told(&[true, false, false, true, false, false]), [None; 6]);
        assert_eq!(told(&[false]), [Some(false)]);
        assert_eq!(told(&[false, true, false, true]), [None; 4]);
        assert_eq!(told(&[true]), [Some(true)]);
        assert_eq!(health.standing(now), Standing::Ready);
    }

    #[test]
    fn an_unhealthy_server_is_not_even_a_last_resort() {
        let now = Clock::instant();
        let mut health = ejected(now);
        for _ in 0..3 {
            health.checked(false, &check());
        }
        assert_eq!(health.standing(now + RULE.lasts), Standing::Unhealthy);
        assert_eq!(health.begin(Standing::Ejected, now), None);
    }
}
