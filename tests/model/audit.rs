//! What really happened, and which promises that breaks. Knows the promises; uses none of the machine's rules.
//!
//! A request that was forwarded counts as executed, at any time from then on, unless the upstream itself said that it
//! did nothing: no more is assumed of the upstream.

use oncegate::machine::{Answer, Record, State};

use super::explore::digest;
use super::plan::{ATTEMPT_TIMEOUT, DOUBT_RETENTION, Plan, RETENTION};
use super::state::{End, Name, name};

/// What is broken, by the promises of the design.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Broken {
    /// P1: forwarded while another attempt runs.
    OneAtATime,
    /// P2: forwarded, shown otherwise or overwritten although an outcome is on record.
    OnceDoneDone,
    /// P3: run again while an outcome is not known.
    DoubtIsAState,
    /// P3, P2: the store has forgotten what it had to remember, through no fault of its own.
    Forgotten,
    /// P4: freed without proof,
    OnlyProofReleases,
    /// or not freed with it.
    NotFreed,
    /// P5: a whole answer came, and did not get on record.
    AnswerLost,
    /// P7: a changed request was forwarded, or saw a replay.
    ChangedIsNoRetry,
    /// A record was changed by somebody who had no right to.
    Fence,
    /// An ended lease that nothing can lapse.
    Hangs,
    /// Of two keys that were held together, one is in doubt and the other has an outcome, and so it stays.
    HalvesDiffer,
    /// A doubt was ended by somebody's word, and its other half was not.
    HalfAWord,
    /// The upstream has executed what a probe had said was not, and the operation again.
    ExecutedTwice,
}

/// A forwarded attempt whose operation must not run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Guard {
    pub(crate) attempt: Name,
    /// Its request differs from the first.
    changed: bool,
    /// Until when.
    pub(crate) until: u64,
    stage: Stage,
    /// When its time ends at the latest, by its claim.
    limit: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    Running,
    Open,
    /// Its gateway holds a whole answer.
    Answered,
    Recorded,
}

/// Attempts by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Names(u16);

impl Names {
    fn add(&mut self, name: Name) {
        self.0 |= 1 << name;
    }
    fn has(self, name: Name) -> bool {
        self.0 & 1 << name != 0
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Audit {
    pub(crate) guard: Option<Guard>,
    sent: Names,
    /// The upstream said of these that it did nothing.
    released: Names,
    doubted: Names,
    answered: Names,
    changed: Names,
    /// Where the upstream knows: what it has executed,
    executed: Names,
    /// and of what a probe was told that it was not.
    absent: Names,
    /// The store has lost what it had acknowledged.
    pub(crate) lossy: bool,
    /// A gateway has crashed.
    pub(crate) crashed: bool,
    /// An outcome was given up because the store was away for too long.
    pub(crate) gave_up: bool,
    pub(crate) broken: Option<Broken>,
}

impl Audit {
    /// What decides over what follows, with the names that the state calls its attempts by.
    pub(crate) fn digest(&self, names: &[Name], hash: &mut impl FnMut(u64)) {
        let place = |name: Name| names.iter().position(|other| *other == name).map_or(u64::MAX, |place| place as u64);
        if let Some(guard) = self.guard {
            hash(place(guard.attempt));
            hash(digest(&Guard { attempt: 0, ..guard }));
        }
        for name in names {
            let all = [self.released, self.doubted, self.answered, self.changed, self.executed, self.absent];
            let bits = all.map(|names| names.has(*name));
            hash(digest(&bits));
        }
        hash(digest(&(self.executed.0.count_ones().min(2), self.executed.0 & self.absent.0 != 0)));
        hash(digest(&(self.all_released(), self.lossy, self.crashed, self.gave_up, self.broken)));
    }

    fn all_released(&self) -> bool {
        self.sent.0 & !self.released.0 == 0
    }

    pub(crate) fn breaks(&mut self, broken: Broken) {
        self.broken.get_or_insert(broken);
    }

    pub(crate) fn arrived(&mut self, attempt: Name, changed: bool) {
        if changed {
            self.changed.add(attempt);
        }
    }

    /// An attempt goes to the upstream. `held` is the record that lets it.
    pub(crate) fn forwarded(&mut self, plan: &Plan, attempt: Name, held: &Record, now: u64) {
        let State::InFlight { since, lease } = held.state else { return self.breaks(Broken::Fence) };
        let changed = self.changed.has(attempt);
        if let Some(guard) = self.guard.filter(|guard| now < guard.until) {
            // Under `retry` the earlier one was in doubt; or this one, slow to use its right.
            if !(plan.retries() && (self.doubted.has(guard.attempt) || self.doubted.has(attempt))) {
                self.breaks(match guard.stage {
                    Stage::Running => Broken::OneAtATime,
                    Stage::Open | Stage::Answered => Broken::DoubtIsAState,
                    Stage::Recorded => Broken::OnceDoneDone,
                });
            } else if guard.changed != changed {
                self.breaks(Broken::ChangedIsNoRetry);
            }
        }
        self.sent.add(attempt);
        let mut guard = Guard { attempt, changed, until: 0, stage: Stage::Running, limit: since.0 + ATTEMPT_TIMEOUT };
        guard.until = guard.doubt_from(lease.0) + DOUBT_RETENTION;
        self.guard = Some(guard);
    }

    /// The attempt has ended for its gateway.
    pub(crate) fn ended(&mut self, attempt: Name, end: End, now: u64) {
        match end {
            End::Released => self.released.add(attempt),
            End::Kept => self.answered.add(attempt),
            End::NotSent | End::Doubtful | End::Unknown => {}
        }
        let Some(guard) = self.guard.as_mut().filter(|guard| guard.attempt == attempt) else { return };
        if end == End::Released {
            self.guard = None;
        } else if guard.stage == Stage::Running {
            guard.stage = if end == End::Kept { Stage::Answered } else { Stage::Open };
            guard.until = guard.until.min(now + DOUBT_RETENTION);
        }
    }

    /// The upstream executes an attempt.
    pub(crate) fn executed(&mut self, attempt: Name) {
        self.executed.add(attempt);
        if self.executed.0 & self.absent.0 != 0 && self.executed.0.count_ones() > 1 {
            self.breaks(Broken::ExecutedTwice);
        }
    }

    pub(crate) fn has_sent(&self, attempt: Name) -> bool {
        self.sent.has(attempt)
    }

    pub(crate) fn has_answered(&self, attempt: Name) -> bool {
        self.answered.has(attempt)
    }

    pub(crate) fn has_executed(&self, attempt: Name) -> bool {
        self.executed.has(attempt)
    }

    /// A probe was told that this attempt was not executed, late enough.
    pub(crate) fn absent(&mut self, attempt: Name) {
        self.absent.add(attempt);
    }

    /// The gateway of this attempt is no more.
    pub(crate) fn crashed(&mut self, attempt: Name, now: u64) {
        self.ended(attempt, End::Unknown, now);
        if let Some(guard) = self.guard.as_mut().filter(|guard| guard.attempt == attempt)
            && guard.stage == Stage::Answered
        {
            guard.stage = Stage::Open;
        }
    }

    /// The store has carried out a write or a removal.
    pub(crate) fn written(&mut self, plan: &Plan, before: Option<&Record>, after: Option<&Record>, now: u64) {
        let open = self.guard.is_some_and(|guard| now < guard.until);
        match (before, after) {
            // The upstream's word.
            (Some(before), None) if self.absent.has(name(before.fence.attempt)) => {
                self.guard.take_if(|guard| guard.attempt == name(before.fence.attempt));
            }
            (Some(before), None) if open && self.holds(before) => {
                self.breaks(Broken::OnlyProofReleases);
            }
            // Under `retry` an answer to a further attempt speaks for the operation.
            (Some(before), None) if plan.retries() && self.released.has(name(before.fence.attempt)) => {
                self.guard = None;
            }
            (Some(before), Some(after)) => self.replaced(plan, before, after),
            _ => {}
        }
        let Some(after) = after else { return };
        let of = name(after.fence.attempt);
        if matches!(after.state, State::InDoubt { .. }) {
            self.doubted.add(of);
        }
        let Some(guard) = self.guard.as_mut().filter(|guard| guard.attempt == of) else { return };
        match after.state {
            State::InFlight { lease, .. } if guard.stage == Stage::Running => {
                guard.until = guard.until.max(guard.doubt_from(lease.0) + DOUBT_RETENTION);
            }
            State::Completed { at, .. } => {
                guard.stage = Stage::Recorded;
                guard.until = at.0 + RETENTION;
            }
            _ => {}
        }
    }

    /// Whether a record stands for something that may have been executed: its attempt, or one before.
    fn holds(&self, record: &Record) -> bool {
        let of = name(record.fence.attempt);
        !self.released.has(of) && (self.sent.has(of) || record.number > 1)
    }

    fn replaced(&mut self, plan: &Plan, before: &Record, after: &Record) {
        let same = before.fence.attempt == after.fence.attempt;
        match before.state {
            // An outcome may be written twice, when a reply was lost.
            State::Completed { .. } if !same || !done(after) => self.breaks(Broken::OnceDoneDone),
            // A gateway may put what it knows of a lost record in the place of its own claim, instead of acting on it.
            State::InFlight { .. } if !same && (!plan.exact || self.sent.has(name(before.fence.attempt))) => {
                self.breaks(Broken::Fence);
            }
            State::InDoubt { .. } if !same && !plan.retries() => self.breaks(Broken::Fence),
            _ => {}
        }
    }

    /// A replay is shown.
    pub(crate) fn shown(&mut self, changed: bool, record: &Record) {
        let of = name(record.fence.attempt);
        if self.changed.has(of) != changed {
            self.breaks(Broken::ChangedIsNoRetry);
        }
        let State::Completed { answer, .. } = &record.state else { return };
        let true_to_life = match answer {
            Answer::Recorded(answer) => self.answered.has(of) && answer.body() == [of],
            Answer::Told { answer, .. } => answer.body().first().is_some_and(|name| self.executed.has(*name)),
            _ => false,
        };
        if !true_to_life {
            self.breaks(Broken::OnceDoneDone);
        }
    }

    /// What has to hold in every state.
    pub(crate) fn stands(&mut self, plan: &Plan, stored: Option<&Record>, quiet: bool, now: u64) {
        self.guard.take_if(|guard| guard.until <= now);
        if self.lossy {
            return;
        }
        // Under `retry` an answer to a further attempt speaks for one that was in doubt.
        let spoken_for = |guard: Guard| plan.retries() && self.doubted.has(guard.attempt);
        if self.guard.is_some_and(|guard| !spoken_for(guard)) && stored.is_none() {
            self.breaks(Broken::Forgotten);
        }
        if !quiet {
            return;
        }
        // Under `retry` a doubt holds nobody up.
        if self.all_released() && !self.crashed && !self.gave_up && !plan.retries() && stored.is_some() {
            self.breaks(Broken::NotFreed);
        }
        // Under `retry` a later attempt may have taken the record over.
        let answered = self.guard.filter(|guard| guard.stage == Stage::Answered);
        // A probe that was quicker may have written what it was told instead.
        let recorded = |guard: Guard| stored.is_some_and(|it| done(it) && name(it.fence.attempt) == guard.attempt);
        if answered.is_some_and(|guard| !recorded(guard)) && !self.gave_up && !plan.retries() {
            self.breaks(Broken::AnswerLost);
        }
    }
}

fn done(record: &Record) -> bool {
    matches!(record.state, State::Completed { .. })
}

impl Guard {
    /// When the doubt begins if the attempt is not heard of again.
    fn doubt_from(&self, lease: u64) -> u64 {
        lease.min(self.limit)
    }
}
