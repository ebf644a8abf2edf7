//! One operation over a trivial conditional store, driven by the machine's verbs the way the arbiter drives them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oncegate::machine::{
    Admission, Answer, Arrival, AttemptId, Duplicate, Ending, Expect, Finding, InDoubt, NamespaceTag, OperationId,
    Outcomes, Policy, Preset, Print, Record, Recorded, Salt, Settled, Settling, Time, Untimely, Window, admit, lapse,
    probed, renew, settle,
};

use crate::alike::Alike;

pub(crate) const START: Time = Time(1_000_000);
pub(crate) const LEASE: u64 = 15_000;
pub(crate) const ATTEMPT_TIMEOUT: u64 = 60_000;
pub(crate) const RETENTION: u64 = 600_000;
pub(crate) const DOUBT_RETENTION: u64 = 900_000;

/// Above `LEASE`, below `ATTEMPT_TIMEOUT`.
pub(crate) const ABSENT_AFTER: u64 = 20_000;

pub(crate) fn asking() -> InDoubt {
    InDoubt::Probe { absent_after: Duration::from_millis(ABSENT_AFTER) }
}

pub(crate) fn policy(in_doubt: InDoubt) -> Policy {
    Policy {
        lease: Duration::from_millis(LEASE),
        attempt_timeout: Duration::from_millis(ATTEMPT_TIMEOUT),
        retention: Duration::from_millis(RETENTION),
        doubt_retention: Duration::from_millis(DOUBT_RETENTION),
        clock_skew: None,
        window: Window::Fixed,
        in_doubt,
        compare: true,
        replays: true,
        outcomes: Outcomes::new(Preset::SuccessOnly, BTreeMap::new()),
    }
}

/// What a request looks like, small enough to be chosen at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) raw: u8,
    pub(crate) canonical: u8,
    pub(crate) settings: u32,
    pub(crate) caller: Option<u8>,
}

pub(crate) const PLAIN: Look = Look { raw: 1, canonical: 1, settings: 1, caller: Some(1) };

pub(crate) fn arrival(look: Look) -> Arrival<'static> {
    let credentials = look.caller.map(|caller| Print([caller; 16]));
    let alike = Alike { raw: look.raw, canonical: look.canonical };
    Arrival::new(OperationId([7; 32]), NamespaceTag(3), salt(), look.settings, credentials, alike)
}

/// Another one for each arrival.
pub(crate) fn salt() -> Salt {
    thread_local! { static SALTS: Cell<u64> = const { Cell::new(0) }; }
    SALTS.set(SALTS.get() + 1);
    Salt(SALTS.get().to_be_bytes())
}

pub(crate) fn attempt(name: u8) -> AttemptId {
    AttemptId([name; 16])
}

pub(crate) fn answer(mark: u8) -> Answer {
    Answer::Recorded(Recorded::bare(201, &[mark]))
}

/// An answer as the outcome table judges it. The body names the attempt.
pub(crate) fn answered(policy: &Policy, status: u16, mark: u8) -> Ending {
    Ending::Answered { judgement: policy.outcomes.judge(status, false), status, answer: answer(mark), retention: None }
}

/// What a request was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    Act(Record),
    Refused(Duplicate),
    Untimely(Untimely),
}

pub(crate) struct System {
    pub(crate) policy: Policy,
    pub(crate) now: Time,
    /// When the key says that it was made.
    pub(crate) made: Option<Time>,
    pub(crate) stored: Option<Record>,
}

impl System {
    pub(crate) fn new(policy: Policy) -> Self {
        Self { policy, now: START, made: None, stored: None }
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        self.now = Time(self.now.0 + millis);
        let now = self.now;
        self.stored = self.stored.take().filter(|record| record.expires > now);
    }

    /// The conditional write; false when it lost.
    pub(crate) fn write(&mut self, expect: Expect, record: Record) -> bool {
        let met = match (expect, &self.stored) {
            (Expect::Absent, stored) => stored.is_none(),
            (Expect::Fence(fence), stored) => stored.as_ref().is_some_and(|stored| stored.fence == fence),
        };
        if met {
            self.stored = Some(record);
        }
        met
    }

    /// The admission loop, begun without looking: as a gateway does whose filter knows nothing.
    pub(crate) fn admit(&mut self, look: Look, name: u8) -> Told {
        let mut found = None;
        loop {
            let arrival = arrival(look).with_made(self.made);
            match admit(found.clone().map(Arc::new).as_ref(), &arrival, &self.policy, attempt(name), self.now) {
                Admission::Claim { expect, record } => {
                    if self.write(expect, record.clone()) {
                        return Told::Act(record);
                    }
                }
                Admission::Own(record) => return Told::Act(record),
                Admission::Lapse { expect, record } => {
                    self.write(expect, record);
                }
                Admission::Duplicate(duplicate) => return Told::Refused(duplicate),
                Admission::Untimely(untimely) if self.stored.is_none() => return Told::Untimely(untimely),
                Admission::Untimely(_) => {}
            }
            found.clone_from(&self.stored);
        }
    }

    /// The settling loop.
    pub(crate) fn settle(&mut self, held: &Record, ending: &Ending) -> Settled {
        let mut found = Some(held.clone());
        loop {
            match settle(held, found.as_ref(), ending, &self.policy, self.now) {
                Settling::Write { expect, record, settled } => {
                    if self.write(expect, record) {
                        return settled;
                    }
                }
                Settling::Remove { fence, settled } => {
                    if self.stored.as_ref().is_some_and(|stored| stored.fence == fence) {
                        self.stored = None;
                        return settled;
                    }
                }
                Settling::Done(settled) => return settled,
            }
            found.clone_from(&self.stored);
        }
    }

    /// The judgement over a record that was asked about at that time, written down once; what became of it, if it ended
    /// anything.
    pub(crate) fn probe(&mut self, seen: &Record, finding: &Finding, asked: Time) -> Option<Settled> {
        let ending = probed(seen, finding, &self.policy, asked)?;
        match settle(seen, Some(seen), &ending, &self.policy, self.now) {
            Settling::Write { expect, record, settled } => self.write(expect, record).then_some(settled),
            Settling::Remove { fence, settled } => {
                let met = self.stored.as_ref().is_some_and(|stored| stored.fence == fence);
                self.stored = self.stored.take().filter(|_| !met);
                met.then_some(settled)
            }
            Settling::Done(settled) => panic!("{settled:?} without a write"),
        }
    }

    /// A heartbeat of the attempt that holds `held`; the record as it stands when it was written.
    pub(crate) fn renew(&mut self, held: &Record) -> Option<Record> {
        let renewed = renew(held, &self.policy, self.now)?;
        self.write(Expect::Fence(held.fence), renewed.clone()).then_some(renewed)
    }

    /// The sweep's look at the operation.
    pub(crate) fn lapse(&mut self) -> bool {
        let Some(found) = self.stored.clone() else { return false };
        lapse(&found, self.policy.doubt_retention, self.now)
            .is_some_and(|record| self.write(Expect::Fence(found.fence), record))
    }
}
