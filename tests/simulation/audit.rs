//! The invariants, checked against what really happened. Knows the promises; uses none of the machine's rules.

use std::collections::HashMap;
use std::fmt;

use bytes::Bytes;
use oncegate::machine::{Answer, AttemptId, Fence, Record, State};

use super::store::{Message, Short, short};
use super::world::{DOUBT_RETENTION, RETENTION};

/// Clocks are off by up to 200 ms, on both sides of a difference.
const TOLERANCE: u64 = 400;

/// A promise of DESIGN.md section 1, or what carries one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Invariant {
    OneAtATime,
    OnceDoneDone,
    DoubtIsAState,
    OnlyProofReleases,
    LeavingChangesNothing,
    ChangedIsNoRetry,
    /// An old attempt never changes a newer record, and a fence names one content.
    Fence,
    /// Nothing stays in flight for ever.
    NothingHangs,
}

/// A broken invariant.
#[derive(Debug, Clone)]
pub(crate) struct Broken {
    pub(crate) invariant: Invariant,
    pub(crate) what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.invariant, self.what)
    }
}

fn unless(holds: bool, invariant: Invariant, what: impl FnOnce() -> String) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(Broken { invariant, what: what() }) }
}

/// What really became of an attempt.
#[expect(clippy::struct_excessive_bools, reason = "each may hold beside any other")]
#[derive(Debug, Default)]
struct Attempt {
    variant: u8,
    /// Which change of the store first held its claim.
    claimed: u64,
    forwarded: Option<u64>,
    /// When its gateway stopped listening, for whatever reason.
    ended: Option<u64>,
    at_upstream: bool,
    released: bool,
    /// The store has said that it is in doubt.
    doubted: bool,
    /// Its outcome, or a later one that speaks for it, is on record or freed the key.
    known: bool,
    answer: Option<Bytes>,
}

#[derive(Debug)]
struct Completed {
    answer: Bytes,
    until: u64,
    change: u64,
}

#[derive(Debug, Default)]
struct Operation {
    retry: bool,
    attempts: Vec<AttemptId>,
    /// Attempts on record one over the other since the key was last absent.
    chain: Vec<AttemptId>,
    completed: Option<Completed>,
}

/// Everything that really happened.
pub(crate) struct Audit {
    operations: Vec<Operation>,
    attempts: HashMap<AttemptId, Attempt>,
    fences: HashMap<(usize, Fence), Record>,
    changes: u64,
}

impl Audit {
    pub(crate) fn new(retries: impl Iterator<Item = bool>) -> Self {
        let operations = retries.map(|retry| Operation { retry, ..Operation::default() }).collect();
        Self { operations, attempts: HashMap::new(), fences: HashMap::new(), changes: 0 }
    }

    pub(crate) fn minted(&mut self, op: usize, attempt: AttemptId, variant: u8) {
        self.operations[op].attempts.push(attempt);
        self.attempts.insert(attempt, Attempt { variant, ..Attempt::default() });
    }

    fn of(&mut self, attempt: AttemptId) -> &mut Attempt {
        self.attempts.entry(attempt).or_default()
    }

    /// Whether the outcome of a forwarded attempt is open, within `doubt_retention` of its end.
    fn open(&self, now: u64, attempt: AttemptId) -> bool {
        let attempt = &self.attempts[&attempt];
        let until = attempt.ended.unwrap_or(now) + DOUBT_RETENTION - TOLERANCE;
        attempt.forwarded.is_some() && !attempt.known && !attempt.released && now < until
    }

    /// An attempt goes to the upstream.
    pub(crate) fn forwarded(&mut self, now: u64, op: usize, attempt: AttemptId) -> Result<(), Broken> {
        let operation = &self.operations[op];
        let mine = &self.attempts[&attempt];
        for other in operation.attempts.iter().filter(|other| **other != attempt) {
            // Under `retry` the earlier of the two was in doubt; it may be this one, slow to use its right.
            let allowed = operation.retry && (self.attempts[other].doubted || mine.doubted);
            unless(!self.attempts[other].at_upstream || allowed, Invariant::OneAtATime, || {
                format!("{} of op {op} forwarded while {} runs", short(attempt), short(*other))
            })?;
            unless(!self.open(now, *other) || allowed, Invariant::DoubtIsAState, || {
                format!("{} of op {op} forwarded while the outcome of {} is open", short(attempt), short(*other))
            })?;
        }
        if let Some(done) = operation.completed.as_ref().filter(|done| now < done.until) {
            // Under `retry` an attempt admitted before the outcome was known may still be under way.
            unless(operation.retry && mine.claimed < done.change, Invariant::OnceDoneDone, || {
                format!("{} of op {op} forwarded although an outcome is on record", short(attempt))
            })?;
        }
        let attempt = self.of(attempt);
        (attempt.forwarded, attempt.at_upstream) = (Some(now), true);
        Ok(())
    }

    pub(crate) fn left_upstream(&mut self, attempt: AttemptId) {
        self.of(attempt).at_upstream = false;
    }

    /// The gateway no longer listens for the attempt's answer.
    pub(crate) fn ended(&mut self, now: u64, attempt: AttemptId) {
        self.of(attempt).ended.get_or_insert(now);
    }

    pub(crate) fn answered(&mut self, attempt: AttemptId, released: bool, answer: Bytes) {
        let attempt = self.of(attempt);
        (attempt.released, attempt.answer) = (released, Some(answer));
    }

    /// A replay is shown.
    pub(crate) fn shown(&self, now: u64, op: usize, variant: u8, record: &Record) -> Result<(), Broken> {
        let first = self.attempts[&record.fence.attempt].variant;
        unless(first == variant, Invariant::ChangedIsNoRetry, || format!("op {op}: a changed request sees a replay"))?;
        let shown = body(record);
        let done = self.operations[op].completed.as_ref().map(|done| &done.answer);
        // Read just before it expired, and shown just after: the next run may have its own answer by then.
        let ended = record.expires.0 <= now + TOLERANCE;
        unless(shown.is_some() && (shown.as_ref() == done || ended), Invariant::OnceDoneDone, || {
            format!("op {op} shows {shown:?}, recorded is {done:?}")
        })
    }

    /// The store carried out a write.
    pub(crate) fn written(&mut self, before: Option<&Record>, after: &Record, message: &Message) -> Result<(), Broken> {
        self.changes += 1;
        let op = message.op;
        self.fits(before, after, message)?;
        let newcomer = before.is_none_or(|before| before.fence.attempt != after.fence.attempt);
        if before.is_none() {
            self.operations[op].chain.clear();
        }
        if newcomer {
            self.operations[op].chain.push(after.fence.attempt);
            let changes = self.changes;
            self.of(after.fence.attempt).claimed = changes;
            self.looks_like_the_first(op, after.fence.attempt)?;
        }
        match &after.state {
            State::InFlight { .. } => {}
            State::InDoubt { .. } => self.of(after.fence.attempt).doubted = true,
            State::Completed { .. } => self.completed(op, after, message.sent)?,
        }
        Ok(())
    }

    fn looks_like_the_first(&self, op: usize, attempt: AttemptId) -> Result<(), Broken> {
        let first = self.operations[op].chain.first().map(|first| self.attempts[first].variant);
        unless(first == Some(self.attempts[&attempt].variant), Invariant::ChangedIsNoRetry, || {
            format!("{} of op {op} is admitted with a changed request", short(attempt))
        })
    }

    /// Fences, and what is on record as done, are respected.
    fn fits(&mut self, before: Option<&Record>, after: &Record, message: &Message) -> Result<(), Broken> {
        let op = message.op;
        let known = self.fences.entry((op, after.fence)).or_insert_with(|| after.clone());
        let same = known.number == after.number
            && std::mem::discriminant(&known.state) == std::mem::discriminant(&after.state);
        unless(same, Invariant::Fence, || format!("op {op}: one fence names {} and {}", Short(known), Short(after)))?;
        let Some(before) = before else { return Ok(()) };
        unless(!matches!(before.state, State::Completed { .. }), Invariant::OnceDoneDone, || {
            format!("op {op}: the recorded outcome was overwritten by {}", Short(after))
        })?;
        speaks_for_itself(before, message)
    }

    fn completed(&mut self, op: usize, after: &Record, sent: u64) -> Result<(), Broken> {
        let answer = body(after);
        let given = self.of(after.fence.attempt).answer.clone();
        unless(answer.is_some() && answer == given, Invariant::OnceDoneDone, || {
            format!("op {op} records {answer:?}, the upstream said {given:?}")
        })?;
        let until = sent + RETENTION - TOLERANCE;
        let change = self.changes;
        self.operations[op].completed = answer.map(|answer| Completed { answer, until, change });
        self.settle_chain(op);
        Ok(())
    }

    /// The last attempt's outcome speaks for the ones before it.
    fn settle_chain(&mut self, op: usize) {
        for attempt in self.operations[op].chain.clone() {
            self.of(attempt).known = true;
        }
    }

    /// The store removed a record.
    pub(crate) fn removed(&mut self, before: &Record, message: &Message) -> Result<(), Broken> {
        self.changes += 1;
        let op = message.op;
        speaks_for_itself(before, message)?;
        let last = &self.attempts[&before.fence.attempt];
        let never_sent = self.operations[op].chain.iter().all(|attempt| {
            let attempt = &self.attempts[attempt];
            attempt.forwarded.is_none() && attempt.ended.is_some()
        });
        unless(last.released || never_sent, Invariant::OnlyProofReleases, || {
            format!("op {op} became free without proof: {}", Short(before))
        })?;
        self.settle_chain(op);
        Ok(())
    }

    /// The store forgot a record at its expiry.
    pub(crate) fn expired(&mut self, now: u64, op: usize, before: &Record) -> Result<(), Broken> {
        self.changes += 1;
        let operation = &self.operations[op];
        if let (State::Completed { .. }, Some(done)) = (&before.state, &operation.completed) {
            return unless(now >= done.until, Invariant::OnceDoneDone, || format!("op {op} forgot its outcome early"));
        }
        let open = operation.chain.iter().find(|attempt| self.open(now, **attempt));
        unless(open.is_none(), Invariant::DoubtIsAState, || {
            format!("op {op} was forgotten while the outcome of {:?} is open", open.copied().map(short))
        })
    }
}

fn body(record: &Record) -> Option<Bytes> {
    match &record.state {
        State::Completed { answer: Answer::Recorded(recorded), .. } => Some(recorded.body.clone()),
        _ => None,
    }
}

fn speaks_for_itself(before: &Record, message: &Message) -> Result<(), Broken> {
    let own = message.speaks_for.is_none_or(|attempt| attempt == before.fence.attempt);
    unless(own, Invariant::Fence, || {
        let speaker = message.speaks_for.map(short);
        format!("op {}: {speaker:?} changed {}", message.op, Short(before))
    })
}
