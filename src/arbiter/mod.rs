//! Who may act: the rules of [`machine`](crate::machine) joined with a store. Every door comes through here; there is
//! no second way round the fence.

mod amnesia;
mod cache;
mod claim;
mod dispatched;
mod doubts;
mod few_first;
mod held;
mod lines;
mod local;
mod look;
mod outage;
mod outcomes;
mod pair;
mod permit;
mod probes;
mod settling;
mod shared;
mod sweep;
mod terms;
mod told;
mod unconfirmed;
mod window;

pub use cache::ReplayCache;
pub use dispatched::Dispatched;
pub use doubts::Resolved;
pub use held::Renewal;
pub use lines::{Line, Lines, Place};
pub use outcomes::Outcomes;
pub use permit::{Permit, Unsettled};
pub use probes::{Asking, Probes, Turn, Waiting};
pub use shared::{Settings, Shared};
pub use sweep::{Sweep, Watched};
pub use terms::Terms;
pub use told::Told;
pub use unconfirmed::Unconfirmed;

use std::sync::Arc;

use doubts::Beside;
use unconfirmed::Pending;
use window::Met;

use crate::boxed::in_box;
use crate::clock::Clock;
use crate::machine::{
    Admission, Arrival, AttemptId, Duplicate, Expect, OperationId, Policy, Record, Time, Untimely, admit,
};
use crate::store::journal::Journal;
use crate::store::{Reply, Store, StoreError, Written};
use crate::telemetry::{FilterAnswer, StoreOp};

/// How often one request may lose a race before it is told to come again. A race is lost to another writer, who has
/// made progress; more than a few in a row mean that the store is not telling the truth.
const ROUNDS: usize = 8;

/// One worker's way to the store.
pub struct Arbiter {
    store: Arc<dyn Store>,
    shared: Arc<Shared>,
    /// The same over the journal, for what begins while the store is away.
    journalled: Option<Arc<Self>>,
}

/// What a look at the store has led to.
enum Round {
    Told(Admitted),
    /// It has moved on: this is what is there.
    Again(Option<Arc<Record>>),
}

/// What a request was told.
pub enum Admitted {
    /// It may act.
    Proceed(Permit),
    /// It may not.
    Duplicate(Duplicate),
    /// It may not, by the second operation that it names. It may act on the first, and holds nothing of it any more.
    Also(Duplicate),
    /// It may not: nothing is known of its key, and its key is too old, or not made yet.
    Untimely(Untimely),
}

impl Arbiter {
    /// An arbiter over a worker's own connection to the store.
    pub fn new(store: Arc<dyn Store>, shared: Arc<Shared>) -> Self {
        let over = |journal: &Arc<Journal>| Self {
            store: Arc::clone(journal) as Arc<dyn Store>,
            shared: Arc::clone(&shared),
            journalled: None,
        };
        let journalled = shared.journal.as_ref().map(over).map(Arc::new);
        Self { store, shared, journalled }
    }

    /// What the workers share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The store, for the doors that look without acting.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Asks whether a request may act. One store round trip for a first request and for a duplicate, none for a duplicate
    /// of an attempt that runs here or of an outcome in the local cache; two where the filter takes a first request for a
    /// duplicate. Dropped midway, it leaves nothing behind that would block the key.
    ///
    /// # Errors
    /// When the store gave no answer: then nobody may act.
    pub async fn admit(self: &Arc<Self>, arrival: &Arrival<'_>, terms: &Arc<Terms>) -> Result<Admitted, StoreError> {
        let attempt = AttemptId(rand::random::<u128>().to_be_bytes());
        let admitted = if arrival.also.is_none() {
            // Each made where it stays: it is over before the request is sent.
            in_box(|| self.admit_one(arrival, terms, attempt)).await?
        } else {
            in_box(|| self.admit_pair(arrival, terms, attempt)).await?
        };
        Ok(admitted.handed_out())
    }

    /// Asks whether a request may act on its operation, whatever else it names. The permit is not handed out yet.
    async fn admit_one(
        self: &Arc<Self>,
        arrival: &Arrival<'_>,
        terms: &Arc<Terms>,
        attempt: AttemptId,
    ) -> Result<Admitted, StoreError> {
        let id = &arrival.operation;
        if self.journalled.is_some()
            && let Some(told) = Box::pin(self.admit_kept(arrival, terms, attempt)).await?
        {
            return Ok(told);
        }
        if !self.shared.clock.is_calibrated() {
            // Leases and expiries are told in the store's time, never in this machine's.
            self.store.time().await?;
        }
        let perhaps_seen = self.ask_filter(id);
        let mut found = None;
        if perhaps_seen && let Some(duplicate) = self.in_cache(arrival, terms, attempt) {
            let Some(later) = self.later_end(&duplicate, terms) else { return Ok(Admitted::Duplicate(duplicate)) };
            match Box::pin(self.slid(id, duplicate, later)).await {
                Met::Told(duplicate) => return Ok(Admitted::Duplicate(duplicate)),
                Met::Moved(newer) => found = self.catch_up(id, newer).await?,
            }
        } else if let Some(running) = self.shared.lines.running(id) {
            if let Some(duplicate) = self.in_flight(running, arrival, terms, attempt) {
                return Ok(Admitted::Duplicate(duplicate));
            }
            found = self.seen_before(id).await?;
            self.heard_of(id, found.as_deref());
        } else if perhaps_seen {
            found = self.seen_before(id).await?;
        }
        // Of a further attempt over a doubt the filter was right.
        let presumed = perhaps_seen && found.is_none();
        for round in 0..ROUNDS {
            match self.round(found.as_ref(), arrival, terms, attempt).await? {
                Round::Again(newer) => found = self.catch_up(id, newer).await?,
                Round::Told(told) => {
                    if presumed && round == 0 && matches!(told, Admitted::Proceed(_)) {
                        self.shared.metrics.filter_false_positive();
                    }
                    return Ok(told);
                }
            }
        }
        Err(StoreError::Unavailable(format!("{ROUNDS} races lost in a row for {}", id.short())))
    }

    /// Asks the rules, does what they say, once.
    async fn round(
        self: &Arc<Self>,
        found: Option<&Arc<Record>>,
        arrival: &Arrival<'_>,
        terms: &Arc<Terms>,
        attempt: AttemptId,
    ) -> Result<Round, StoreError> {
        // Earlier than it is, if anything: a lease that is begun ends the sooner, and one that is over is seen the later.
        let (id, now) = (&arrival.operation, self.shared.clock.now_lately());
        if let Some(found) = found.filter(|found| found.beside.is_some())
            && let Beside::Over(newer) = Box::pin(self.look_beside(id, found, &terms.policy)).await
        {
            return Ok(Round::Again(newer));
        }
        Ok(match admit(found, arrival, &terms.policy, attempt, now) {
            Admission::Own(record) => {
                let pending = Pending::new(self, *id, &record, &terms.policy);
                // What it was written over: a further attempt's, over the doubt that it knows of.
                let expect = if record.number == 1 { Expect::Absent } else { Expect::Fence(record.fence) };
                match Box::pin(self.stands(arrival, expect, &record, &terms.policy, pending, now)).await? {
                    Written::Done => Round::Told(self.permit(*id, record, terms)),
                    Written::Lost(newer) => Round::Again(newer),
                }
            }
            Admission::Duplicate(duplicate) => {
                self.remember(id, &duplicate);
                match self.later_end(&duplicate, terms) {
                    None => Round::Told(Admitted::Duplicate(duplicate)),
                    Some(later) => match Box::pin(self.slid(id, duplicate, later)).await {
                        Met::Told(duplicate) => Round::Told(Admitted::Duplicate(duplicate)),
                        Met::Moved(newer) => Round::Again(newer),
                    },
                }
            }
            Admission::Claim { expect, record } => {
                match self.claim(arrival, expect, &record, &terms.policy, now).await? {
                    Written::Done => Round::Told(self.permit(*id, record, terms)),
                    Written::Lost(newer) => Round::Again(newer),
                }
            }
            Admission::Lapse { expect, record } => Round::Again(Box::pin(self.write_lapse(id, expect, record)).await?),
            Admission::Untimely(untimely) => match Box::pin(self.what_is_known(id, &terms.policy)).await? {
                None => Round::Told(Admitted::Untimely(untimely)),
                known => Round::Again(known),
            },
        })
    }

    /// What the store holds of an operation that very probably has a record. A duplicate is told by that alone: only what
    /// claims brings a record with it, and with that the digest of the canonical request. It is judged like what a lost
    /// claim has come back with; so it is no matter how old it is by then, since whatever is written over it is
    /// conditional on it. Nothing there, a claim follows.
    async fn seen_before(&self, id: &OperationId) -> Result<Option<Arc<Record>>, StoreError> {
        let found = self.timed(StoreOp::Load, self.store.load(id)).await?.map(Arc::new);
        if self.shared.unconfirmed.is_empty() && self.shared.outcomes.is_empty() {
            // Nothing to know better by.
            return Ok(found);
        }
        Box::pin(self.catch_up(id, found)).await
    }

    fn ask_filter(&self, id: &OperationId) -> bool {
        let perhaps = self.shared.filter.check(id);
        self.shared.metrics.filter_checked(if perhaps { FilterAnswer::Perhaps } else { FilterAnswer::New });
        perhaps
    }

    /// What the store holds, or would if it had not lost it.
    async fn what_is_known(&self, id: &OperationId, policy: &Policy) -> Result<Option<Arc<Record>>, StoreError> {
        let found = self.timed(StoreOp::Load, self.store.load(id)).await?.map(Arc::new);
        match self.shared.dispatched.known(id, self.shared.clock.now()) {
            Some(known) if found.is_none() && known.running => Ok(self.running(id, policy)),
            Some(known) if found.is_none() => self.recall(id, Expect::Absent, &known.record, policy).await,
            _ => Ok(found),
        }
    }

    async fn write_lapse(
        &self,
        id: &OperationId,
        expect: Expect,
        record: Record,
    ) -> Result<Option<Arc<Record>>, StoreError> {
        match self.timed(StoreOp::Settle, self.store.write(id, expect, &record)).await? {
            Written::Done => {
                self.lapsed(id);
                Ok(Some(Arc::new(record)))
            }
            Written::Lost(newer) => Ok(newer),
        }
    }

    /// A lease ended unheard of, and that is written down.
    fn lapsed(&self, id: &OperationId) {
        self.shared.metrics.lease_lost();
        if self.shared.journal.is_some() {
            // Its record lives on, perhaps for longer than the filter has run: an earlier process may have claimed it.
            self.shared.filter.insert(id);
        }
        self.shared.lines.wake(id);
        tracing::warn!(operation = %id.short(), why = "its lease ended unheard of", "in doubt");
    }

    /// What the store holds when this gateway knows better than `found`: a claim of its own that nobody acted on is
    /// withdrawn, an outcome that still waits is written.
    async fn catch_up(&self, id: &OperationId, found: Option<Arc<Record>>) -> Result<Option<Arc<Record>>, StoreError> {
        let Some(record) = &found else { return Ok(found) };
        let (unconfirmed, outcomes) = (&self.shared.unconfirmed, &self.shared.outcomes);
        if unconfirmed.withdraw_met(self, id, record).await? || outcomes.write_met(self, id, record).await? {
            return Ok(self.timed(StoreOp::Load, self.store.load(id)).await?.map(Arc::new));
        }
        Ok(found)
    }

    fn permit(self: &Arc<Self>, id: OperationId, record: Record, terms: &Arc<Terms>) -> Admitted {
        Admitted::Proceed(Permit::new(Arc::clone(self), id, record, Arc::clone(terms)))
    }

    fn remember(&self, id: &OperationId, duplicate: &Duplicate) {
        if let Duplicate::Completed(record) | Duplicate::Stranger(record) = duplicate {
            self.remember_completed(id, Arc::clone(record), self.shared.clock.now_lately());
        }
    }

    fn remember_completed(&self, id: &OperationId, record: Arc<Record>, now: Time) {
        self.shared.filter.insert(id);
        self.shared.cache.insert(*id, record, now);
    }

    /// Whether this is the arbiter over the journal, whose calls are no store's.
    fn is_journalled(&self) -> bool {
        self.shared.journal.is_some() && self.journalled.is_none()
    }

    /// Runs a store call that has just been made, and measures it.
    async fn timed<T>(&self, op: StoreOp, call: Reply<'_, T>) -> Result<T, StoreError> {
        let started = Clock::lately();
        let answer = call.await;
        // Also for what comes of the answer.
        let ended = Clock::instant();
        if self.is_journalled() {
            return answer;
        }
        self.shared.metrics.store_called(op, ended.saturating_duration_since(started), answer.is_err());
        answer
    }
}

impl Admitted {
    fn handed_out(self) -> Self {
        match self {
            Self::Proceed(permit) => Self::Proceed(permit.handed_out()),
            told => told,
        }
    }
}
