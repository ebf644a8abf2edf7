//! The one thread that writes: it gathers what is waiting and makes it durable with one sync. It knows no deadlines.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::super::{StoreError, Written};
use super::disk::{Changed, Disk, guarded};
use super::high_water::HighWater;
use super::rest::Rest;
use super::tables::{Answer, Change};
use crate::clock::Clock;
use crate::machine::Time;

/// The most changes that share one sync; no more than the reclaim limit, so that full batches free what they add.
const BATCH: usize = 200;

/// The most expired records that one transaction frees.
const RECLAIM_LIMIT: usize = 200;

/// Expired records that a change frees in passing: more than the one that it adds.
const RECLAIMED_PER_CHANGE: usize = 2;

/// Where an answer goes. A caller that has gone away hears nothing.
pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// What the writer can be asked for.
pub(super) enum Request {
    Change(Change, Reply<Written>),
    /// Frees expired records; also shows whether the database still works, and mends it if not.
    Reclaim(Reply<usize>),
}

pub(super) struct Writer {
    disk: Arc<Disk>,
    time: Arc<HighWater>,
    requests: mpsc::Receiver<Request>,
    rest: Rest,
}

#[derive(Default)]
struct Batch {
    changes: Vec<(Change, Reply<Written>)>,
    reclaims: Vec<Reply<usize>>,
}

impl Writer {
    pub(super) fn new(disk: Arc<Disk>, time: Arc<HighWater>, requests: mpsc::Receiver<Request>) -> Self {
        Self { disk, time, requests, rest: Rest::default() }
    }

    /// Serves until every sender is gone, then closes the database.
    pub(super) fn run(mut self) {
        while let Some(first) = self.requests.blocking_recv() {
            let mut batch = Batch::default();
            batch.add(first);
            while batch.changes.len() < BATCH
                && let Ok(next) = self.requests.try_recv()
            {
                batch.add(next);
            }
            self.serve(batch);
        }
        self.finish();
    }

    /// Keeps the time that was told since the last commit, so that the next run does not take it back.
    fn finish(&self) {
        if let Err(error) = guarded(|| self.mark()) {
            tracing::warn!(%error, "the embedded store could not keep its time");
        }
        self.disk.close();
    }

    fn mark(&self) -> Result<(), redb::Error> {
        self.disk.commit(|tables| Ok((tables.set_high_water(self.time.now())?, Changed::Yes)))
    }

    /// Carries a batch out, or says that it cannot. After a fault the database refuses to work until it is opened anew.
    fn serve(&mut self, mut batch: Batch) {
        if let Some(why) = self.rest.goes_on(Clock::instant()) {
            return batch.fail(why);
        }
        let done = guarded(|| {
            self.reopen()?;
            self.execute(&mut batch)
        });
        let Err(error) = done else { return };
        tracing::error!(%error, file = %self.disk.file.display(), "the embedded store failed and is closed");
        batch.fail(&error.to_string());
        self.disk.suspect(&error);
        self.disk.close();
        if self.rest.begin(Clock::instant(), &error)
            && let Err(error) = guarded(|| self.reopen())
        {
            tracing::error!(%error, file = %self.disk.file.display(), "the embedded store stays closed");
            self.disk.suspect(&error);
            self.disk.close();
        }
    }

    /// Opens the database if it is closed. It counts as open when it has taken a write: what a failed sync may have left
    /// visible and yet not durable is durable from then on.
    fn reopen(&self) -> Result<(), redb::Error> {
        if self.disk.ensure_open()? {
            self.mark()?;
            tracing::info!("the embedded store is open again");
        }
        Ok(())
    }

    fn execute(&self, batch: &mut Batch) -> Result<(), redb::Error> {
        self.disk.ensure_sound()?;
        let now = self.time.now();
        self.refuse_losers(batch, now)?;
        if batch.changes.is_empty() && batch.reclaims.is_empty() {
            return Ok(());
        }
        let (answers, freed) = self.disk.commit(|tables| {
            // What losers are refused by is what the last commit left: it holds but for what the batch itself has changed.
            let mut met = HashSet::with_capacity(batch.changes.len());
            let mut apply = |(change, _): &(Change, _)| {
                let anew = !met.insert(change.id);
                tables.apply(&self.disk.codec, change, now, anew)
            };
            let answers = batch.changes.iter().map(&mut apply).collect::<Result<Vec<Answer>, _>>()?;
            let done = answers.iter().filter(|answer| matches!(answer, Ok(Written::Done))).count();
            let limit = if batch.reclaims.is_empty() { done * RECLAIMED_PER_CHANGE } else { RECLAIM_LIMIT };
            let freed = tables.reclaim(now, limit.min(RECLAIM_LIMIT))?;
            if done + freed == 0 {
                return Ok(((answers, 0), Changed::No));
            }
            tables.set_high_water(now)?;
            Ok(((answers, freed), Changed::Yes))
        })?;
        batch.answer(answers, freed);
        Ok(())
    }

    /// Answers what loses against the last commit without a write transaction: a duplicate needs no sync. All of a
    /// batch was asked before this look and is answered after it, so the order within the batch is ours to choose.
    fn refuse_losers(&self, batch: &mut Batch, now: Time) -> Result<(), redb::Error> {
        let snapshot = self.disk.snapshot()?;
        let refuse = |(change, _): &(Change, _)| snapshot.refusal(change, now);
        let refusals = batch.changes.iter().map(refuse).collect::<Result<Vec<_>, _>>()?;
        let waiting = std::mem::take(&mut batch.changes).into_iter().zip(refusals);
        for ((change, reply), refusal) in waiting {
            match refusal {
                Some(answer) => send(reply, answer.map_err(StoreError::from)),
                None => batch.changes.push((change, reply)),
            }
        }
        Ok(())
    }
}

impl Batch {
    /// A change whose caller has gone away before it began is left out: nobody would look after what it leaves.
    fn add(&mut self, request: Request) {
        match request {
            Request::Change(change, reply) if !reply.is_closed() => self.changes.push((change, reply)),
            Request::Change(..) => {}
            Request::Reclaim(reply) => self.reclaims.push(reply),
        }
    }

    fn answer(&mut self, answers: Vec<Answer>, freed: usize) {
        for ((_, reply), answer) in self.changes.drain(..).zip(answers) {
            send(reply, answer.map_err(StoreError::from));
        }
        self.reclaims.drain(..).for_each(|reply| send(reply, Ok(freed)));
    }

    fn fail(self, why: &str) {
        let unavailable = || StoreError::Unavailable(why.to_owned());
        self.changes.into_iter().for_each(|(_, reply)| send(reply, Err(unavailable())));
        self.reclaims.into_iter().for_each(|reply| send(reply, Err(unavailable())));
    }
}

fn send<T>(reply: Reply<T>, answer: Result<T, StoreError>) {
    // A caller whose time has run out does not listen any more, and counts the command as perhaps executed.
    let _ = reply.send(answer);
}
