//! The invariants, checked against what really happened. Knows the promises; uses none of the machine's rules.

use std::collections::{HashMap, HashSet};
use std::fmt;

use bytes::Bytes;
use oncegate::machine::{Answer, AttemptId, Fence, InDoubt, Policy, Record, Recorded, State};

use super::store::{Message, Short, Store, short};
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
    /// What was not sent, or was released, leaves nothing behind.
    NothingIsLeft,
    /// The two halves of a pair come to the same.
    BothEndAlike,
    /// Somebody's word on one half of a doubt ends both.
    OneWordForBoth,
    /// Whoever holds the second of two holds all.
    SecondHoldsAll,
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

/// What really became of an attempt, as far as one of its operations is concerned.
#[expect(clippy::struct_excessive_bools, reason = "each may hold beside any other")]
#[derive(Debug, Default)]
struct Attempt {
    variant: u8,
    /// The other operation that it names.
    beside: Option<usize>,
    /// Which change of the store first held its claim.
    claimed: u64,
    forwarded: Option<u64>,
    /// When its gateway stopped listening, for whatever reason.
    ended: Option<u64>,
    at_upstream: bool,
    released: bool,
    /// Somebody has said truly that it was not executed.
    absent: bool,
    /// It ended in good order without having been sent.
    given_up: bool,
    /// Its gateway died before it had said so to the store, or its claim came when nobody waited for it any more.
    died: bool,
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
    /// Changed requests are refused.
    compare: bool,
    /// Which change of the store was its last.
    changed: u64,
    attempts: Vec<AttemptId>,
    /// Attempts on record one over the other since the key was last absent.
    chain: Vec<AttemptId>,
    completed: Option<Completed>,
}

/// Everything that really happened.
pub(crate) struct Audit {
    operations: Vec<Operation>,
    attempts: HashMap<(usize, AttemptId), Attempt>,
    /// What the upstream has executed.
    acted: HashSet<AttemptId>,
    fences: HashMap<(usize, Fence), Record>,
    changes: u64,
}

impl Audit {
    pub(crate) fn new(policies: &[Policy]) -> Self {
        let operation = |policy: &Policy| Operation {
            retry: policy.in_doubt == InDoubt::Retry,
            compare: policy.compare,
            ..Operation::default()
        };
        Self {
            operations: policies.iter().map(operation).collect(),
            attempts: HashMap::new(),
            acted: HashSet::new(),
            fences: HashMap::new(),
            changes: 0,
        }
    }

    pub(crate) fn minted(&mut self, ops: &[usize], attempt: AttemptId, variant: u8) {
        for op in ops {
            let beside = ops.iter().copied().find(|other| other != op);
            self.operations[*op].attempts.push(attempt);
            self.attempts.insert((*op, attempt), Attempt { variant, beside, ..Attempt::default() });
        }
    }

    fn of(&mut self, op: usize, attempt: AttemptId) -> &mut Attempt {
        self.attempts.entry((op, attempt)).or_default()
    }

    /// Attempts on record one over the other since the key was last absent.
    pub(crate) fn chain(&self, op: usize) -> &[AttemptId] {
        &self.operations[op].chain
    }

    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    pub(crate) fn unchanged_since(&self, op: usize, change: u64) -> bool {
        self.operations[op].changed <= change
    }

    /// Whether the outcome of a forwarded attempt is open, within `doubt_retention` of its end.
    fn open(&self, now: u64, op: usize, attempt: AttemptId) -> bool {
        let attempt = &self.attempts[&(op, attempt)];
        let until = attempt.ended.unwrap_or(now) + DOUBT_RETENTION - TOLERANCE;
        attempt.forwarded.is_some() && !attempt.known && !attempt.released && !attempt.absent && now < until
    }

    /// An attempt goes to the upstream.
    pub(crate) fn forwarded(&mut self, now: u64, op: usize, attempt: AttemptId) -> Result<(), Broken> {
        let operation = &self.operations[op];
        let mine = &self.attempts[&(op, attempt)];
        for other in operation.attempts.iter().filter(|other| **other != attempt) {
            let its = &self.attempts[&(op, *other)];
            // Under `retry` the earlier of the two was in doubt; it may be this one, slow to use its right. Under another
            // first key, the upstream would not know it for the same.
            let allowed = operation.retry && (its.doubted || mine.doubted) && its.beside == mine.beside;
            unless(!its.at_upstream || allowed, Invariant::OneAtATime, || {
                format!("{} of op {op} forwarded while {} runs", short(attempt), short(*other))
            })?;
            unless(!self.open(now, op, *other) || allowed, Invariant::DoubtIsAState, || {
                format!("{} of op {op} forwarded while the outcome of {} is open", short(attempt), short(*other))
            })?;
        }
        if let Some(done) = operation.completed.as_ref().filter(|done| now < done.until) {
            // Under `retry` an attempt admitted before the outcome was known may still be under way.
            unless(operation.retry && mine.claimed < done.change, Invariant::OnceDoneDone, || {
                format!("{} of op {op} forwarded although an outcome is on record", short(attempt))
            })?;
        }
        let attempt = self.of(op, attempt);
        (attempt.forwarded, attempt.at_upstream) = (Some(now), true);
        Ok(())
    }

    pub(crate) fn left_upstream(&mut self, op: usize, attempt: AttemptId) {
        self.of(op, attempt).at_upstream = false;
    }

    /// The gateway no longer listens for the attempt's answer.
    pub(crate) fn ended(&mut self, now: u64, op: usize, attempt: AttemptId) {
        self.of(op, attempt).ended.get_or_insert(now);
    }

    /// The attempt will not be sent, and its gateway sees to it that nothing is left of it.
    pub(crate) fn given_up(&mut self, now: u64, op: usize, attempt: AttemptId) {
        self.ended(now, op, attempt);
        self.of(op, attempt).given_up = true;
    }

    /// Nobody sees to it any more.
    pub(crate) fn died(&mut self, op: usize, attempt: AttemptId) {
        self.of(op, attempt).died = true;
    }

    pub(crate) fn acted(&mut self, attempt: AttemptId) {
        self.acted.insert(attempt);
    }

    pub(crate) fn has_acted(&self, attempt: AttemptId) -> bool {
        self.acted.contains(&attempt)
    }

    /// Somebody knows that these were not executed, and never will be.
    pub(crate) fn absent(&mut self, op: usize, attempts: &[AttemptId]) {
        for attempt in attempts {
            if let Some(known) = self.attempts.get_mut(&(op, *attempt)) {
                known.absent = true;
            }
        }
    }

    pub(crate) fn answered(&mut self, op: usize, attempt: AttemptId, released: bool, answer: Bytes) {
        let attempt = self.of(op, attempt);
        (attempt.released, attempt.answer) = (released, Some(answer));
    }

    /// A replay is shown.
    pub(crate) fn shown(&self, now: u64, op: usize, variant: u8, record: &Record) -> Result<(), Broken> {
        let first = self.attempts[&(op, record.fence.attempt)].variant;
        let same = first == variant || !self.operations[op].compare;
        unless(same, Invariant::ChangedIsNoRetry, || format!("op {op}: a changed request sees a replay"))?;
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
        self.operations[op].changed = self.changes;
        if newcomer {
            self.operations[op].chain.push(after.fence.attempt);
            self.claimed(op, after.fence.attempt, message.stray)?;
        }
        match &after.state {
            State::InFlight { .. } => {}
            State::InDoubt { .. } => self.of(op, after.fence.attempt).doubted = true,
            State::Completed { .. } => self.completed(op, after, message.sent)?,
        }
        Ok(())
    }

    fn claimed(&mut self, op: usize, attempt: AttemptId, stray: bool) -> Result<(), Broken> {
        let changes = self.changes;
        let own = self.of(op, attempt);
        own.claimed = changes;
        // A claim that comes late is remembered by nobody, perhaps.
        own.died |= stray;
        if let Some(first) = own.beside.filter(|first| *first < op && !stray) {
            unless(self.of(first, attempt).claimed > 0, Invariant::SecondHoldsAll, || {
                format!("{} holds op {op} and never held op {first}", short(attempt))
            })?;
        }
        self.looks_like_the_first(op, attempt)
    }

    fn looks_like_the_first(&self, op: usize, attempt: AttemptId) -> Result<(), Broken> {
        let Operation { chain, compare, .. } = &self.operations[op];
        let first = chain.first().map(|first| self.attempts[&(op, *first)].variant);
        let same = first == Some(self.attempts[&(op, attempt)].variant) || !compare;
        unless(same, Invariant::ChangedIsNoRetry, || {
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
        let mut attempts = self.operations[op].attempts.iter();
        let true_to_life = match &after.state {
            State::Completed { answer: Answer::Told { .. }, .. } => attempts.any(|attempt| self.has_acted(*attempt)),
            // A half may have its answer from the other one, which an earlier attempt has completed.
            _ if after.beside.is_some() => attempts.any(|attempt| self.attempts[&(op, *attempt)].answer == answer),
            _ => self.attempts[&(op, after.fence.attempt)].answer == answer,
        };
        unless(answer.is_some() && true_to_life, Invariant::OnceDoneDone, || {
            format!("op {op} records {answer:?} for {}, which nobody said", short(after.fence.attempt))
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
            self.of(op, attempt).known = true;
        }
    }

    /// The store removed a record.
    pub(crate) fn removed(&mut self, before: &Record, message: &Message) -> Result<(), Broken> {
        self.changes += 1;
        let op = message.op;
        speaks_for_itself(before, message)?;
        self.operations[op].changed = self.changes;
        let last = &self.attempts[&(op, before.fence.attempt)];
        let never_sent = self.operations[op].chain.iter().all(|attempt| {
            let attempt = &self.attempts[&(op, *attempt)];
            attempt.forwarded.is_none() && attempt.ended.is_some()
        });
        unless(last.released || last.absent || never_sent, Invariant::OnlyProofReleases, || {
            format!("op {op} became free without proof: {}", Short(before))
        })?;
        self.settle_chain(op);
        Ok(())
    }

    /// The store forgot a record at its expiry.
    pub(crate) fn expired(&mut self, now: u64, op: usize, before: &Record) -> Result<(), Broken> {
        self.changes += 1;
        let operation = &mut self.operations[op];
        operation.changed = self.changes;
        let operation = &self.operations[op];
        if let (State::Completed { .. }, Some(done)) = (&before.state, &operation.completed) {
            return unless(now >= done.until, Invariant::OnceDoneDone, || format!("op {op} forgot its outcome early"));
        }
        let open = operation.chain.iter().find(|attempt| self.open(now, op, **attempt));
        unless(open.is_none(), Invariant::DoubtIsAState, || {
            format!("op {op} was forgotten while the outcome of {:?} is open", open.copied().map(short))
        })
    }

    /// Nothing is under way any more.
    pub(crate) fn at_rest(&self, store: &Store) -> Result<(), Broken> {
        for (op, stored) in store.0.iter().enumerate() {
            // A further attempt over a doubt proves nothing of what was before.
            let (Some(stored), [only]) = (stored, &self.operations[op].chain[..]) else { continue };
            let attempt = &self.attempts[&(op, *only)];
            let unsent = attempt.given_up && attempt.forwarded.is_none();
            // An outcome on record is another attempt's, by what was held beside this one.
            let open = !matches!(stored.state, State::Completed { .. });
            let gone = (unsent || attempt.released) && !attempt.died && stored.number == 1 && open;
            unless(!gone, Invariant::NothingIsLeft, || {
                format!("op {op}: of an attempt that ended without effect there is left {}", Short(stored))
            })?;
        }
        Ok(())
    }
}

fn body(record: &Record) -> Option<Bytes> {
    match &record.state {
        State::Completed { answer, .. } => answer.whole().map(Recorded::shared_body),
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
