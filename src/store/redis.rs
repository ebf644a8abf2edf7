//! Records in Redis or Valkey: one key an operation, one command a reservation, one script a fenced write.
//! It compares fences and keeps expiries; who may act is decided elsewhere.

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
mod sentinel;
mod server;
mod settings;
mod slots;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;

pub use self::condition::Condition;
use self::deadline::Deadline;
use self::faults::read;
use self::line::{Digits, Words};
pub use self::line::{Malformed, Replies};
use self::lines::Lines;
use self::link::{Answer, Link, Request, Terms};
use self::position::Position;
pub use self::server::{Persistence, Report};
pub use self::settings::{Access, Address, BadUrl, Node, Password, Protocol, Sentinel, Servers, Settings, Wait};
use super::codec::{self, Codec};
use super::{Cursor, Page, Reply, Store, StoreError, Written};
use crate::clock::Clock;
use crate::machine::{AttemptId, Expect, Fence, OperationId, Record, State, Time};

/// Replaces the value if it begins with the fence, else tells what is there.
const WRITE: &str = "\
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'PXAT', ARGV[3])
  return 1
end
return redis.call('GET', KEYS[1])";

/// Removes the value if it begins with the fence, else tells what is there.
const REMOVE: &str = "\
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  return 1
end
return redis.call('GET', KEYS[1])";

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
    codec: Codec,
    write: Arc<Script>,
    remove: Arc<Script>,
}

impl RedisStore {
    /// A store that connects when it is first asked. It calibrates `clock` by the server that keeps the store's time.
    pub fn new(settings: Settings, command_timeout: Duration, clock: Clock) -> Self {
        let key_prefix = format!("{}:", settings.key_prefix).into_bytes();
        let terms = Arc::new(Terms::new(settings, command_timeout, clock));
        Self {
            lines: Lines::new(&terms),
            terms,
            key_prefix,
            codec: Codec::default(),
            write: Arc::new(Script::new(WRITE)),
            remove: Arc::new(Script::new(REMOVE)),
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
            codec: self.codec.clone(),
            write: Arc::clone(&self.write),
            remove: Arc::clone(&self.remove),
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

    fn key(&self, id: &OperationId) -> Vec<u8> {
        [&self.key_prefix[..], &id.0].concat()
    }

    /// The operation of a key; none when the key is not one of an operation.
    fn operation(&self, key: &[u8]) -> Option<OperationId> {
        key.strip_prefix(&self.key_prefix[..])?.try_into().ok().map(OperationId)
    }

    async fn load_record(&self, id: &OperationId, deadline: Deadline) -> Result<Option<Record>, StoreError> {
        let key = self.key(id);
        let answer = self.lines.send(&key, Request::plain(&[b"GET", &key]), deadline).await?;
        read(&self.codec, id, answer.reply)
    }

    /// Stores a value where there is none; `Nil` says that there was none.
    async fn reserve(&self, call: &Call<'_>, value: &[u8], expires: Time) -> Result<Answer, StoreError> {
        let expires = millis(expires);
        let set: Words = &[b"SET", call.key, value, b"NX", b"GET", b"PXAT", expires.text()];
        self.lines.send(call.key, call.request(set), call.deadline).await
    }

    /// Runs a script on what carries the fence.
    async fn fenced(
        &self,
        call: &Call<'_>,
        script: &Script,
        fence: [u8; codec::FENCE_PREFIX_LEN],
        value: Option<(&[u8], Time)>,
    ) -> Result<Answer, StoreError> {
        let (value, expires) = value.unzip();
        let expires = millis(expires.unwrap_or_default());
        let length = if value.is_some() { 7 } else { 5 };
        let [known, text] = [(&b"EVALSHA"[..], &script.digest[..]), (b"EVAL", script.text)].map(|(name, script)| {
            [name, script.as_bytes(), b"1", call.key, &fence, value.unwrap_or_default(), expires.text()]
        });
        let answer = self.lines.send(call.key, call.request(&known[..length]), call.deadline).await?;
        if faults::is_unknown_script(&answer.reply) {
            // After a restart or SCRIPT FLUSH: the text itself makes the script known again.
            return self.lines.send(call.key, call.request(&text[..length]), call.deadline).await;
        }
        Ok(answer)
    }

    async fn replace(&self, call: &Call<'_>, fence: &Fence, value: &[u8], expires: Time) -> Result<Answer, StoreError> {
        self.fenced(call, &self.write, codec::fence_prefix(fence), Some((value, expires))).await
    }

    async fn write_record(&self, id: &OperationId, expect: Expect, record: &Record) -> Result<Written, StoreError> {
        let key = self.key(id);
        let wait = self.terms.settings.wait.filter(|_| is_awaited(expect, record));
        let call = Call { key: &key, wait, deadline: self.deadline() };
        let value = self.codec.encode(id, record)?;
        let (written, acknowledged) = match expect {
            Expect::Absent => {
                let answer = self.reserve(&call, &value, record.expires).await?;
                let found = read(&self.codec, id, answer.reply)?;
                (found.map_or(Written::Done, |found| Written::Lost(Some(found))), answer.acknowledged)
            }
            Expect::Fence(fence) => {
                let answer = self.replace(&call, &fence, &value, record.expires).await?;
                (self.written(id, answer.reply)?, answer.acknowledged)
            }
        };
        let Some(wait) = wait else { return Ok(written) };
        match &written {
            Written::Done => acknowledged_by(acknowledged.as_ref(), wait).map(|()| written),
            Written::Lost(Some(found)) if found.fence == record.fence => {
                // Its own, from a sending whose reply was lost with its connection: on this one nothing has been written
                // that replicas could acknowledge. So it is written once more.
                let answer = self.replace(&call, &record.fence, &value, record.expires).await?;
                match self.written(id, answer.reply)? {
                    Written::Done => acknowledged_by(answer.acknowledged.as_ref(), wait).map(|()| written),
                    newer @ Written::Lost(_) => Ok(newer),
                }
            }
            // Somebody else's: whether it is acknowledged is for them to know.
            Written::Lost(_) => Ok(written),
        }
    }

    async fn remove_record(&self, id: &OperationId, fence: Fence) -> Result<Written, StoreError> {
        let key = self.key(id);
        let call = Call { key: &key, wait: None, deadline: self.deadline() };
        let fence = codec::fence_prefix(&fence);
        self.written(id, self.fenced(&call, &self.remove, fence, None).await?.reply)
    }

    /// What a script says: 1 when it did its work, else what is there.
    fn written(&self, id: &OperationId, reply: Value) -> Result<Written, StoreError> {
        if reply == Value::Int(1) { Ok(Written::Done) } else { read(&self.codec, id, reply).map(Written::Lost) }
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
        let found = join_all(ids.iter().map(|id| self.load_record(id, deadline))).await;
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
            let scan: Words = &[b"SCAN", cursor.text(), b"MATCH", &matching, b"COUNT", count.text()];
            let (run, reply) = link.send_to_run(scan, deadline).await?;
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
        let answer = link.send(Request::plain(&[b"TIME"]), deadline).await?;
        let time = server::time(faults::parse(answer.reply)?);
        self.terms.clock.calibrate(time, asked.elapsed());
        Ok(time)
    }

    /// Takes the way of a reservation and its removal, under a key that no operation and no other probe has.
    async fn try_out(&self) -> Result<(), StoreError> {
        let fence = Fence { attempt: AttemptId(rand::random()), version: 1 };
        let key = [&self.key_prefix[..], b"probe:", &fence.attempt.0].concat();
        let fence = codec::fence_prefix(&fence);
        let wait = self.terms.settings.wait;
        let call = Call { key: &key, wait, deadline: self.deadline() };
        let answer = self.reserve(&call, &fence, self.terms.clock.now().plus(PROBE_LIFE)).await?;
        faults::refuse(answer.reply)?;
        let acknowledged = wait.map_or(Ok(()), |wait| acknowledged_by(answer.acknowledged.as_ref(), wait));
        faults::refuse(self.fenced(&Call { wait: None, ..call }, &self.remove, fence, None).await?.reply)?;
        acknowledged
    }
}

impl Store for RedisStore {
    fn load<'a>(&'a self, id: &'a OperationId) -> Reply<'a, Option<Record>> {
        Box::pin(self.load_record(id, self.deadline()))
    }

    fn write<'a>(&'a self, id: &'a OperationId, expect: Expect, record: &'a Record) -> Reply<'a, Written> {
        Box::pin(self.write_record(id, expect, record))
    }

    fn remove<'a>(&'a self, id: &'a OperationId, fence: Fence) -> Reply<'a, Written> {
        Box::pin(self.remove_record(id, fence))
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

/// What runs on the server as one step.
struct Script {
    text: &'static str,
    /// What the server knows it by, once it has run it.
    digest: String,
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, digest: redis::Script::new(text).get_hash().to_owned() }
    }
}

/// What the requests of a call have in common.
struct Call<'a> {
    key: &'a [u8],
    wait: Option<Wait>,
    deadline: Deadline,
}

impl Call<'_> {
    fn request<'a>(&self, command: Words<'a>) -> Request<'a> {
        Request { command, wait: self.wait, asking: false }
    }
}

/// Whether replicas must have a write before anybody acts on it: a new attempt's first, on which a request is sent, and an
/// outcome, which a client is told was recorded. Any other that a failover undoes leaves an attempt that is running or in
/// doubt, and that nobody repeats.
fn is_awaited(expect: Expect, record: &Record) -> bool {
    let is_new = match expect {
        Expect::Absent => true,
        Expect::Fence(fence) => fence.attempt != record.fence.attempt,
    };
    match record.state {
        State::InFlight { .. } => is_new,
        State::Completed { .. } => true,
        State::InDoubt { .. } => false,
    }
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

/// A time as Redis takes it: it refuses 0 and what does not fit a signed number.
fn millis(time: Time) -> Digits {
    Digits::of(time.0.clamp(1, i64::MAX.cast_unsigned()))
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
