//! Records in Redis or Valkey: one key an operation, one command a reservation, one script a fenced write.
//! It compares fences and keeps expiries; who may act is decided elsewhere.

mod change;
mod cluster;
mod condition;
mod deadline;
mod dial;
mod faults;
mod line;
mod lines;
mod link;
mod newest;
mod position;
mod request;
mod sentinel;
mod server;
mod settings;
mod slots;
mod terms;
mod wanted;

use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;

use self::change::{Change, Scripts};
pub use self::condition::Condition;
use self::deadline::Deadline;
use self::faults::read;
use self::line::{Digits, beginning, command, end};
pub use self::line::{Malformed, Replies};
use self::lines::Lines;
use self::link::{Link, Sent};
use self::position::Position;
use self::request::{Answer, Request};
pub use self::server::{Persistence, Report};
pub use self::settings::{Access, Address, BadUrl, Node, Password, Protocol, Sentinel, Servers, Settings, Wait};
use self::terms::Terms;
use self::wanted::{Wanted, What, key_behind};
use super::codec::{self, Codec};
use super::{Cursor, Page, Reply, Store, StoreError, Written};
use crate::boxed::in_box;
use crate::clock::Clock;
use crate::machine::{AttemptId, Expect, Fence, OperationId, Record, Time};

/// How much room for a command's words is kept.
const DESK: usize = 64 << 10;

/// How long a probe stays when the gateway dies between its writing and its removal.
const PROBE_LIFE: Duration = Duration::from_mins(1);

/// A store of records in Redis, over pipelined connections of its own.
///
/// It belongs to the runtime that makes the first call: each worker has its own. Connections are made when they are
/// first needed and again whenever they break; a call that meets a broken one is sent once more over a fresh one. So a
/// call may be carried out twice, and the second time lose to its own first: callers know their writes by the fence.
pub struct RedisStore {
    lines: Lines,
    terms: Arc<Terms>,
    key_prefix: Vec<u8>,
    /// What the `GET` of an operation begins with, as it is sent, up to the operation.
    get: Vec<u8>,
    codec: Codec,
    scripts: Arc<Scripts>,
    /// Where what a change is made of is put together.
    desk: Mutex<Vec<u8>>,
}

impl RedisStore {
    /// A store that connects when it is first asked. It calibrates `clock` by the server that keeps the store's time.
    pub fn new(settings: Settings, command_timeout: Duration, clock: Clock) -> Self {
        let key_prefix = format!("{}:", settings.key_prefix).into_bytes();
        let terms = Arc::new(Terms::new(settings, command_timeout, clock));
        Self {
            lines: Lines::new(&terms),
            terms,
            get: get_of(&key_prefix),
            key_prefix,
            codec: Codec::default(),
            scripts: Arc::new(Scripts::new()),
            desk: Mutex::default(),
        }
    }

    /// This store with another way to make records into bytes.
    #[must_use]
    pub fn with_codec(self, codec: Codec) -> Self {
        Self { codec, ..self }
    }

    /// The same store over connections of its own, for another runtime.
    #[must_use]
    pub fn sibling(&self) -> Self {
        Self {
            lines: self.lines.sibling(),
            terms: Arc::clone(&self.terms),
            key_prefix: self.key_prefix.clone(),
            get: self.get.clone(),
            codec: self.codec.clone(),
            scripts: Arc::clone(&self.scripts),
            desk: Mutex::default(),
        }
    }

    /// Asks every primary what it is and whether it may evict records. For the start (refuse to serve when
    /// [`Condition::refusal`] says why) and from time to time (the configuration may change while it runs).
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when one does not answer within the command timeout.
    pub fn check(&self) -> Reply<'_, Condition> {
        Box::pin(async {
            let reports = self.lines.reports(self.deadline()).await?;
            Ok(Condition::new(reports, self.terms.settings.wait))
        })
    }

    /// Waits until it is time to look whether the primaries are still the primaries, or another one is told, and leaves
    /// those that are not; one step of a background task.
    ///
    /// # Errors
    /// When nobody answers who could know.
    pub fn watch(&self) -> Reply<'_, ()> {
        Box::pin(self.lines.watch(self.terms.timeout))
    }

    fn deadline(&self) -> Deadline {
        Deadline::within(self.terms.timeout)
    }

    /// The operation of a key; none when the key is not one of an operation.
    fn operation(&self, key: &[u8]) -> Option<OperationId> {
        key.strip_prefix(&self.key_prefix[..])?.try_into().ok().map(OperationId)
    }

    /// Writes the `GET` of an operation's key.
    fn write_get(&self, id: &OperationId, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.get);
        out.extend_from_slice(&id.0);
        end(out);
    }

    /// What the reply to a `GET` says, once it has come; it is sent by the long way where that did not go out at once.
    async fn load_record(
        &self,
        id: &OperationId,
        sent: Option<Sent<'_>>,
        deadline: Deadline,
    ) -> Result<Option<Record>, StoreError> {
        let again = sent.is_none();
        if let Some(sent) = sent
            && let Some(reply) = sent.reply().await?
        {
            return read(&self.codec, id, reply);
        }
        Box::pin(async move {
            let key = key_behind(Vec::new(), &self.key_prefix, id);
            let get = command(&[b"GET", &key]);
            let request = Request { again, ..Request::plain(&get) };
            read(&self.codec, id, self.lines.send(&key, request, deadline).await?.reply)
        })
        .await
    }

    /// Makes a change, and says what came of it. What it is made of is put together on the desk, and anew where it has not
    /// gone out at once: so it is moved nowhere.
    fn change<'a>(&'a self, wanted: Wanted<'a>) -> Reply<'a, Written> {
        match self.start(&wanted) {
            Ok(sent) => in_box(|| self.carry_out(wanted, sent)),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    /// It goes the long way where it has not gone out at once.
    async fn carry_out(&self, wanted: Wanted<'_>, sent: Option<Sent<'_>>) -> Result<Written, StoreError> {
        let mut again = true;
        if let Some(sent) = sent {
            match sent.reply().await? {
                Some(reply) if !faults::is_unknown_script(&reply) => return self.outcome(&wanted, reply),
                Some(_) => {}
                None => again = false,
            }
        }
        Box::pin(self.carry_out_slowly(wanted, again)).await
    }

    async fn carry_out_slowly(&self, wanted: Wanted<'_>, again: bool) -> Result<Written, StoreError> {
        let sheet = wanted.put_together(&self.codec, &self.key_prefix, Vec::new())?;
        let change = wanted.change(&sheet, self.terms.settings.wait);
        let answer = self.send(&change, again).await?;
        let written = self.outcome(&wanted, answer.reply)?;
        let Some(wait) = change.wait else { return Ok(written) };
        match (&written, wanted.own()) {
            (Written::Done, _) => acknowledged_by(answer.acknowledged.as_ref(), wait).map(|()| written),
            (Written::Lost(Some(found)), Some(own)) if found.fence == own => {
                // Its own, from a sending whose reply was lost with its connection: on this one nothing has been written
                // that replicas could acknowledge. So it is written once more.
                let (wanted, change) = (wanted.over(own), change.over(Expect::Fence(own)));
                let answer = self.send(&change, true).await?;
                match self.outcome(&wanted, answer.reply)? {
                    Written::Done => acknowledged_by(answer.acknowledged.as_ref(), wait).map(|()| written),
                    newer @ Written::Lost(_) => Ok(newer),
                }
            }
            // Somebody else's: whether it is acknowledged is for them to know.
            (Written::Lost(_), _) => Ok(written),
        }
    }

    /// Sends a change by the long way: over a connection that may have to be made, and to whom it concerns.
    async fn send(&self, change: &Change<'_>, again: bool) -> Result<Answer, StoreError> {
        let mut known = true;
        loop {
            let mut command = Vec::new();
            change.write(&self.scripts, known, &mut command);
            let request = Request { command: &command, wait: change.wait, asking: false, again };
            let answer = self.lines.send(change.key, request, change.deadline).await?;
            // After a restart or SCRIPT FLUSH: the text itself makes the script known again.
            if !known || !faults::is_unknown_script(&answer.reply) {
                return Ok(answer);
            }
            known = false;
        }
    }

    /// Sends a change at once, where that can be, and nobody else has to have it.
    fn start(&self, wanted: &Wanted<'_>) -> Result<Option<Sent<'_>>, StoreError> {
        let mut desk = self.desk();
        let sheet = wanted.put_together(&self.codec, &self.key_prefix, std::mem::take(&mut *desk))?;
        let change = wanted.change(&sheet, self.terms.settings.wait);
        let sent = if change.wait.is_some() {
            None
        } else {
            self.lines.start(|out| change.write(&self.scripts, true, out), change.deadline)
        };
        *desk = cleared(sheet.room());
        Ok(sent)
    }

    /// The desk, while a command is put together there and handed over, which waits for nothing.
    fn desk(&self) -> MutexGuard<'_, Vec<u8>> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outcome(&self, wanted: &Wanted<'_>, reply: Value) -> Result<Written, StoreError> {
        if wanted.is_done(&reply) {
            return Ok(Written::Done);
        }
        read(&self.codec, wanted.id, reply).map(Written::lost)
    }

    async fn list_keys(&self, from: Cursor, limit: usize) -> Result<Page, StoreError> {
        let deadline = self.deadline();
        let from = Position::read(&from)?;
        let Some(turn) = self.lines.turn(from.turn, deadline).await? else {
            return Ok(Page { records: vec![], unreadable: 0, next: None });
        };
        let (run, keys, next) = self.scan(&turn.link, &from.within(turn.at), limit, deadline).await?;
        let ids: Vec<_> = keys.iter().filter_map(|key| self.operation(key)).collect();
        // One GET each, pipelined, where MGET would hide what is not a string among what has gone meanwhile.
        let found = join_all(ids.iter().map(|id| self.load(id))).await;
        let mut page = Page { records: vec![], unreadable: 0, next: Position::after(&turn, run, next) };
        for (id, found) in ids.into_iter().zip(found) {
            match found {
                Ok(Some(record)) => page.records.push((id, record)),
                Ok(None) => {}
                Err(StoreError::Unreadable(_)) => page.unreadable += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(page)
    }

    /// Some keys of a server, and where it goes on there. A position is good within one run of the server: another run
    /// is gone through from its beginning.
    async fn scan(
        &self,
        link: &Link,
        from: &Position,
        limit: usize,
        deadline: Deadline,
    ) -> Result<(u64, Vec<Vec<u8>>, u64), StoreError> {
        let (mut at, matching) = (from.at, pattern(&self.key_prefix));
        loop {
            let (cursor, count) = (Digits::of(at), Digits::of(limit.max(1) as u64));
            let scan = command(&[b"SCAN", cursor.text(), b"MATCH", &matching, b"COUNT", count.text()]);
            let (run, reply) = link.send_to_run(&scan, deadline).await?;
            if at == 0 || run == from.run {
                let (next, keys) = faults::parse(reply)?;
                return Ok((run, keys, next));
            }
            at = 0;
        }
    }

    async fn tell_time(&self) -> Result<Time, StoreError> {
        let deadline = self.deadline();
        let link = self.lines.timekeeper(deadline).await?;
        let asked = Clock::instant();
        let answer = link.send(Request::plain(&command(&[b"TIME"])), deadline).await?;
        let time = server::time(faults::parse(answer.reply)?);
        self.terms.clock.calibrate(time, asked.elapsed());
        Ok(time)
    }

    /// Takes the way of a reservation and its removal, under a key that no operation and no other probe has.
    async fn try_out(&self) -> Result<(), StoreError> {
        let fence = Fence { attempt: AttemptId(rand::random()), version: 1 };
        let key = [&self.key_prefix[..], b"probe:", &fence.attempt.0].concat();
        let (prefix, wait, deadline) = (codec::fence_prefix(&fence), self.terms.settings.wait, self.deadline());
        let expires = self.terms.clock.now().plus(PROBE_LIFE);
        let probe = Change::reserve(&key, &prefix, expires, deadline).awaiting(wait);
        let answer = self.send(&probe, true).await?;
        faults::refuse(answer.reply)?;
        let acknowledged = wait.map_or(Ok(()), |wait| acknowledged_by(answer.acknowledged.as_ref(), wait));
        let removal = Change::remove(&key, fence, deadline);
        faults::refuse(self.send(&removal, true).await?.reply)?;
        acknowledged
    }
}

impl Store for RedisStore {
    fn load<'a>(&'a self, id: &'a OperationId) -> Reply<'a, Option<Record>> {
        let deadline = self.deadline();
        let sent = self.lines.start(|out| self.write_get(id, out), deadline);
        in_box(|| self.load_record(id, sent, deadline))
    }

    fn write<'a>(&'a self, id: &'a OperationId, expect: Expect, record: &'a Record) -> Reply<'a, Written> {
        self.change(Wanted { id, what: What::Record(record, expect), deadline: self.deadline() })
    }

    fn remove<'a>(&'a self, id: &'a OperationId, fence: Fence) -> Reply<'a, Written> {
        self.change(Wanted { id, what: What::Nothing(fence), deadline: self.deadline() })
    }

    fn list(&self, from: Cursor, limit: usize) -> Reply<'_, Page> {
        Box::pin(self.list_keys(from, limit))
    }

    /// Also calibrates the clock.
    fn time(&self) -> Reply<'_, Time> {
        Box::pin(self.tell_time())
    }

    fn probe(&self) -> Reply<'_, ()> {
        Box::pin(self.try_out())
    }
}

/// What the `GET` of every operation under this prefix begins with.
fn get_of(key_prefix: &[u8]) -> Vec<u8> {
    let id = OperationId([0; 32]);
    let mut get = beginning(2, &[b"GET", &key_behind(Vec::new(), key_prefix, &id)]);
    get.truncate(get.len() - id.0.len());
    get
}

/// The same room with nothing in it, and no more of it than is kept.
fn cleared(mut words: Vec<u8>) -> Vec<u8> {
    words.clear();
    words.shrink_to(DESK);
    words
}

/// Whether enough replicas have what was written, by the reply to `WAIT`.
fn acknowledged_by(reply: Option<&Value>, wait: Wait) -> Result<(), StoreError> {
    match reply {
        Some(Value::Int(replicas)) if *replicas >= i64::from(wait.replicas) => Ok(()),
        Some(Value::Int(replicas)) => Err(StoreError::Unacknowledged(format!(
            "{replicas} of {} replicas have it after {:?}",
            wait.replicas, wait.timeout
        ))),
        Some(reply) => Err(StoreError::Unacknowledged(match faults::refuse(reply.clone()) {
            Err(error) => faults::cause(&error),
            Ok(_) => "WAIT was answered with something else than a number".to_owned(),
        })),
        None => Err(StoreError::Unacknowledged("WAIT was not answered".to_owned())),
    }
}

/// What `SCAN` matches keys with this prefix by; the prefix's own signs mean themselves.
fn pattern(prefix: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(prefix.len() + 1);
    for &byte in prefix {
        if b"*?[]^\\".contains(&byte) {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    pattern.push(b'*');
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_the_prefix_mean_themselves() {
        assert_eq!(pattern(b"og:"), b"og:*");
        assert_eq!(pattern(b"a*[b]?\\:"), b"a\\*\\[b\\]\\?\\\\:*");
    }

    #[test]
    fn a_load_is_written_as_the_client_library_writes_it() {
        let settings = Settings::at("redis://localhost").unwrap();
        let store = RedisStore::new(settings, Duration::ZERO, Clock::manual(Time(0)));
        let id = OperationId([7; 32]);
        let mut out = b"before".to_vec();
        store.write_get(&id, &mut out);
        let key = [&store.key_prefix[..], &id.0].concat();
        assert_eq!(out[6..], redis::Cmd::new().arg(&["GET"]).arg(key).get_packed_command());
    }

    #[test]
    fn only_enough_replicas_are_enough() {
        let wait = Wait { replicas: 2, timeout: Duration::from_millis(50) };
        assert!(acknowledged_by(Some(&Value::Int(2)), wait).is_ok());
        assert!(acknowledged_by(Some(&Value::Int(3)), wait).is_ok());
        let refusal = redis::parse_redis_value(b"-NOPERM no WAIT for you\r\n").unwrap();
        for (reply, told) in [
            (Some(Value::Int(1)), "1 of 2 replicas"),
            (Some(Value::Int(0)), "0 of 2 replicas"),
            (Some(refusal), "NOPERM"),
            (Some(Value::Nil), "something else"),
            (None, "not answered"),
        ] {
            let error = acknowledged_by(reply.as_ref(), wait).unwrap_err();
            assert!(matches!(&error, StoreError::Unacknowledged(cause) if cause.contains(told)), "{error}");
        }
    }
}
