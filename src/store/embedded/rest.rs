//! When a database that failed is tried again: at once after a lone fault, with rests between when it goes on failing.
//! It opens and closes nothing.

use std::time::{Duration, Instant};

/// How long a database that goes on failing is left alone. Meanwhile every call fails at once.
const PAUSE: Duration = Duration::from_millis(250);

/// A fault that comes so soon after another is no lone one.
const SOON: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct Rest {
    /// When the last fault was, and what.
    last: Option<(Instant, String)>,
    until: Option<Instant>,
}

impl Rest {
    /// Why the database is left alone at `now`; none when it may be tried.
    pub(super) fn goes_on(&self, now: Instant) -> Option<&str> {
        let (_, why) = self.last.as_ref()?;
        self.until.is_some_and(|until| now < until).then_some(why)
    }

    /// The database has failed at `now`. Whether it may be tried again at once; else it rests.
    pub(super) fn begin(&mut self, now: Instant, why: &impl ToString) -> bool {
        let lone = self.last.as_ref().is_none_or(|(last, _)| now.duration_since(*last) > SOON);
        self.last = Some((now, why.to_string()));
        self.until = (!lone).then(|| now + PAUSE);
        lone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn a_lone_fault_is_tried_again_at_once_and_a_second_one_after_a_rest() {
        let (start, mut rest) = (Clock::instant(), Rest::default());
        assert_eq!(rest.goes_on(start), None);
        assert!(rest.begin(start, &"disk full"));
        assert_eq!(rest.goes_on(start), None);
        assert!(!rest.begin(start + PAUSE, &"still full"));
        assert_eq!(rest.goes_on(start + PAUSE), Some("still full"));
        assert_eq!(rest.goes_on(start + PAUSE * 2), None);
        assert!(!rest.begin(start + PAUSE * 2, &"still full"));
        assert!(rest.begin(start + PAUSE * 2 + SOON * 2, &"again"));
        assert_eq!(rest.goes_on(start + PAUSE * 2 + SOON * 2), None);
    }
}
