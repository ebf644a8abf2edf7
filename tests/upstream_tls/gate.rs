//! Where a server waits for its test, and the test for its server.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// How often the test has let the server go on, and how often the server has done what it then does.
#[derive(Default)]
pub(crate) struct Gate {
    turns: Mutex<[usize; 2]>,
    changed: Condvar,
}

impl Gate {
    /// For the test: lets the server go on once, and waits until it is done.
    pub(crate) fn go_on(&self) {
        let mut turns = self.turns.lock().unwrap();
        turns[0] += 1;
        self.changed.notify_all();
        let waited = self.changed.wait_timeout_while(turns, Duration::from_secs(10), |turns| turns[1] < turns[0]);
        assert!(!waited.unwrap().1.timed_out(), "the server never went on");
    }

    /// For the server: waits until it may go on, but not for ever, as a test that failed never says so.
    pub(crate) fn pass(&self) {
        let turns = self.turns.lock().unwrap();
        let waits = |turns: &mut [usize; 2]| turns[0] == turns[1];
        drop(self.changed.wait_timeout_while(turns, Duration::from_secs(10), waits));
    }

    /// For the server: it has done what there was to do.
    pub(crate) fn done(&self) {
        self.turns.lock().unwrap()[1] += 1;
        self.changed.notify_all();
    }
}
