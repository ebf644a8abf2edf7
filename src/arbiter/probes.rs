//! Which doubts the upstream is to be asked about, and when: in memory, bounded, and each by one at a time in this
//! gateway. Who asks is the gateway's door; what the answers mean is decided by the rules.
//!
//! Several gateways may ask about one doubt: a GET changes nothing, and whoever writes first wins. Each looks at the
//! record before it asks, and doubts that were only met in the store are asked about a little later than by their own
//! gateway, each gateway's own while.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::{Arbiter, Shared, Terms};
use crate::machine::{Expect, InDoubt, NamespaceTag, OperationId, Policy, Record, State, Time, lapse, next_probe};
use crate::store::StoreError;
use crate::telemetry::{ProbeFinding, StoreOp};

/// Doubts that are kept in mind at most. One that finds no place waits for a duplicate, or for the next sweep.
const MOST: usize = 16_384;
/// Doubts that are asked about by schedule at once: of one namespace, so that an upstream that is silent does not hold up
/// the others, and in all.
const AT_ONCE: (usize, usize) = (16, 128);
/// The longest while by which doubts of unknown gateways are put off.
const SCATTER: Duration = Duration::from_secs(10);

/// The doubts to be asked about.
#[derive(Default)]
pub struct Probes(Mutex<HashMap<OperationId, Entry>>);

struct Entry {
    namespace: NamespaceTag,
    /// When it is asked about by schedule; none: only when a duplicate comes.
    due: Option<Time>,
    /// Until when no duplicate causes a probe.
    quiet_until: Time,
    /// It is being asked about; ends with that.
    asking: Option<watch::Receiver<()>>,
    /// That is so because its time had come.
    by_schedule: bool,
}

/// The right to ask about an operation, of which there is one in this gateway. Dropped, it is as if nobody had asked.
pub struct Asking {
    shared: Arc<Shared>,
    id: OperationId,
    /// Wakes who waits, when it is dropped.
    done: Option<watch::Sender<()>>,
}

/// The end of somebody's asking.
pub struct Waiting(watch::Receiver<()>);

/// What a duplicate of an operation in doubt is to do.
pub enum Turn {
    /// It is the first: it asks.
    Ask(Asking, Waiting),
    /// Somebody asks already.
    Wait(Waiting),
    /// The upstream was asked just now, or too many operations are in doubt.
    Leave,
}

impl Probes {
    /// How many doubts are kept in mind.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Asks for a turn because a duplicate does.
    pub fn turn(shared: &Arc<Shared>, id: OperationId, namespace: NamespaceTag) -> Turn {
        let now = shared.clock.now();
        let mut entries = shared.probes.lock();
        match entries.get(&id) {
            Some(Entry { asking: Some(asking), .. }) => return Turn::Wait(Waiting(asking.clone())),
            Some(entry) if now < entry.quiet_until => return Turn::Leave,
            Some(_) | None => {}
        }
        if !entries.contains_key(&id) && !make_room(&mut entries, now) {
            return Turn::Leave;
        }
        let entry = entries.entry(id).or_insert(Entry::new(namespace, None, now));
        let (asking, waiting) = entry.begin(Arc::clone(shared), id, false);
        Turn::Ask(asking, waiting)
    }

    /// The doubts whose time has come, the ones that have waited longest first; no more than may be asked about at once.
    pub fn due(shared: &Arc<Shared>) -> Vec<(NamespaceTag, Asking)> {
        let now = shared.clock.now();
        let mut entries = shared.probes.lock();
        let due = |entry: &Entry| entry.due.filter(|due| entry.asking.is_none() && *due <= now);
        let mut all: Vec<_> = entries.iter().filter_map(|(id, entry)| Some((due(entry)?, *id))).collect();
        all.sort_unstable();
        let mut of_one: HashMap<NamespaceTag, usize> = HashMap::new();
        let mut in_all = 0;
        for entry in entries.values().filter(|entry| entry.asking.is_some() && entry.by_schedule) {
            *of_one.entry(entry.namespace).or_default() += 1;
            in_all += 1;
        }
        let mut chosen = Vec::new();
        for (_, id) in all {
            let Some(entry) = entries.get_mut(&id).filter(|_| in_all + chosen.len() < AT_ONCE.1) else { break };
            let count = of_one.entry(entry.namespace).or_default();
            if *count < AT_ONCE.0 {
                *count += 1;
                chosen.push((entry.namespace, entry.begin(Arc::clone(shared), id, true).0));
            }
        }
        chosen
    }

    /// A doubt is to be asked about then. False when there is no room for it.
    fn plan(&self, id: OperationId, namespace: NamespaceTag, due: Time, now: Time) -> bool {
        let mut entries = self.lock();
        if let Some(entry) = entries.get_mut(&id) {
            entry.due = Some(entry.due.map_or(due, |planned| planned.min(due)));
            return true;
        }
        let room = make_room(&mut entries, now);
        if room {
            entries.insert(id, Entry::new(namespace, Some(due), now));
        }
        room
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<OperationId, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets go of what only keeps duplicates quiet, if there is no room otherwise. True when there is some.
fn make_room(entries: &mut HashMap<OperationId, Entry>, now: Time) -> bool {
    if entries.len() >= MOST {
        entries.retain(|_, entry| entry.is_open() || now < entry.quiet_until);
    }
    if entries.len() >= MOST {
        entries.retain(|_, entry| entry.is_open());
    }
    entries.len() < MOST
}

impl Entry {
    fn new(namespace: NamespaceTag, due: Option<Time>, now: Time) -> Self {
        Self { namespace, due, quiet_until: now, asking: None, by_schedule: false }
    }

    fn is_open(&self) -> bool {
        self.due.is_some() || self.asking.is_some()
    }

    fn begin(&mut self, shared: Arc<Shared>, id: OperationId, by_schedule: bool) -> (Asking, Waiting) {
        let (done, waiting) = watch::channel(());
        (self.asking, self.by_schedule) = (Some(waiting.clone()), by_schedule);
        (Asking { shared, id, done: Some(done) }, Waiting(waiting))
    }
}

impl Asking {
    /// What is asked about.
    pub fn operation(&self) -> &OperationId {
        &self.id
    }

    /// It was asked about. It will be again at `next`; until `quiet_until` no duplicate has it asked about.
    pub fn end(self, next: Option<Time>, quiet_until: Time) {
        if let Some(entry) = self.shared.probes.lock().get_mut(&self.id) {
            (entry.due, entry.quiet_until) = (next, quiet_until);
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let now = self.shared.clock.now();
        let mut entries = self.shared.probes.lock();
        if let Some(entry) = entries.get_mut(&self.id) {
            entry.asking = None;
            if !entry.is_open() && entry.quiet_until <= now {
                entries.remove(&self.id);
            }
        }
        drop(entries);
        self.done = None;
    }
}

impl Waiting {
    /// Waits until it is over.
    pub async fn over(mut self) {
        // Nothing is ever sent: the only change is the end.
        while self.0.changed().await.is_ok() {}
    }
}

impl Terms {
    /// When a doubt is asked about next; none: not by schedule.
    pub fn next_probe(&self, doubt: &Record, now: Time) -> Option<Time> {
        next_probe(doubt, self.schedule.as_ref()?, &self.policy, now)
    }
}

impl Arbiter {
    /// The doubt that an operation is in. An attempt that was not heard of until its lease ended becomes one.
    ///
    /// # Errors
    /// When the store gave no answer.
    pub async fn doubt(&self, id: &OperationId, policy: &Policy) -> Result<Option<Record>, StoreError> {
        let Some(found) = self.timed(StoreOp::Load, self.store.load(id)).await? else { return Ok(None) };
        let found = match lapse(&found, policy.doubt_retention, self.shared.clock.now()) {
            None => Some(found),
            Some(doubt) => {
                let left = self.write_lapse(id, Expect::Fence(found.fence), doubt).await?;
                left.map(Arc::unwrap_or_clone)
            }
        };
        Ok(found.filter(|record| matches!(record.state, State::InDoubt { .. })))
    }

    /// This gateway's own attempt has ended in doubt.
    pub(super) fn doubted(&self, id: &OperationId, held: &Record, terms: &Terms) {
        let (Some(schedule), InDoubt::Probe { absent_after }) = (&terms.schedule, terms.policy.in_doubt) else {
            return;
        };
        if held.probe.is_none() {
            terms.route.probed(ProbeFinding::Impossible);
            tracing::warn!(operation = %id.short(), "held: its request lacks what the probe's template needs");
            return;
        }
        let now = self.shared.clock.now();
        self.plan(id, held, terms, now.plus(schedule.first().copied().unwrap_or(absent_after)), now);
    }

    /// A doubt of whatever gateway was met in the store. What its schedule says after `from` is still to come; none: whoever
    /// noticed it may be gone, so that it is asked about at once.
    pub(super) fn noticed(&self, id: &OperationId, doubt: &Record, terms: &Terms, from: Option<Time>) {
        let now = self.shared.clock.now();
        let due = match from {
            Some(from) => terms.next_probe(doubt, from),
            None => (terms.schedule.is_some() && doubt.probe.is_some()).then_some(now),
        };
        if let Some(due) = due {
            let most = (due.since(now) / 4).clamp(Duration::from_millis(250), SCATTER);
            self.plan(id, doubt, terms, due.plus(most.mul_f64(rand::random())), now);
        }
    }

    fn plan(&self, id: &OperationId, record: &Record, terms: &Terms, due: Time, now: Time) {
        if !self.shared.probes.plan(*id, record.namespace, due, now) {
            terms.route.probed(ProbeFinding::Dropped);
        }
    }
}

#[cfg(test)]
mod tests;
