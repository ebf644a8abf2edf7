//! Records in Redis or Valkey: one key an operation, one command a reservation, one script a fenced write.
//! It compares fences and keeps expiries; who may act is decided elsewhere.

mod faults;
mod link;
mod server;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::{Cmd, Value, cmd};

use self::faults::{read, unavailable};
use self::link::Link;
pub use self::server::Report;
use super::codec::{self, Codec};
use super::{Cursor, Page, Reply, Store, StoreError, Written};
use crate::clock::Clock;
use crate::machine::{AttemptId, Expect, Fence, OperationId, Record, Time};

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

/// How to reach Redis.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// `redis://[user:password@]host:port/db`.
    pub url: String,
    /// What every key begins with.
    pub key_prefix: String,
    /// Whether a `maxmemory-policy` other than `noeviction` is accepted.
    pub allow_eviction: bool,
}

impl Settings {
    /// The URL without user, password and query: what logs and errors may show.
    pub fn address(&self) -> String {
        let (scheme, rest) = self.url.split_once("://").unwrap_or(("", &self.url));
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        let place = place.split(['?', '#']).next().unwrap_or_default();
        format!("{scheme}://{place}")
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("address", &self.address())
            .field("key_prefix", &self.key_prefix)
            .field("allow_eviction", &self.allow_eviction)
            .finish_non_exhaustive()
    }
}

/// Why a store cannot even be tried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the store's url is not usable: {0}")]
pub struct BadUrl(String);

/// A store of records in Redis, over one pipelined connection of its own.
///
/// It belongs to the runtime that makes the first call: each worker has its own. The connection is made when it is
/// first needed and again whenever it breaks; a call that meets a broken one is sent once more over a fresh one. So a
/// call may be carried out twice, and the second time lose to its own first: callers know their writes by the fence.
pub struct RedisStore {
    link: Link,
    key_prefix: Vec<u8>,
    command_timeout: Duration,
    clock: Clock,
    codec: Codec,
    write: Arc<redis::Script>,
    remove: Arc<redis::Script>,
}

impl RedisStore {
    /// A store that connects when it is first asked. It calibrates `clock` on every connection.
    ///
    /// # Errors
    /// When the URL is none, or asks for what this build cannot do. That nobody answers there is no error.
    pub fn new(settings: &Settings, command_timeout: Duration, clock: Clock) -> Result<Self, BadUrl> {
        let link = Link::new(settings, command_timeout, clock.clone()).map_err(|error| BadUrl(error.to_string()))?;
        Ok(Self {
            link,
            key_prefix: format!("{}:", settings.key_prefix).into_bytes(),
            command_timeout,
            clock,
            codec: Codec::default(),
            write: Arc::new(redis::Script::new(WRITE)),
            remove: Arc::new(redis::Script::new(REMOVE)),
        })
    }

    /// This store with another way to make records into bytes.
    #[must_use]
    pub fn with_codec(self, codec: Codec) -> Self {
        Self { codec, ..self }
    }

    /// The same store over a connection of its own, for another runtime.
    #[must_use]
    pub fn sibling(&self) -> Self {
        Self {
            link: self.link.sibling(),
            key_prefix: self.key_prefix.clone(),
            command_timeout: self.command_timeout,
            clock: self.clock.clone(),
            codec: self.codec.clone(),
            write: Arc::clone(&self.write),
            remove: Arc::clone(&self.remove),
        }
    }

    /// Asks the server what it is and whether it may evict records, and calibrates the clock. For the start (refuse to
    /// serve when [`Report::refusal`] says why) and from time to time (the configuration may change while it runs).
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the server does not answer within the command timeout.
    pub fn check(&self) -> Reply<'_, Report> {
        Box::pin(self.bounded(self.link.report()))
    }

    /// Holds a call to the command timeout. A connection that lets it pass is given up: it may be a dead one.
    async fn bounded<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let generation = self.link.generation();
        if let Ok(reply) = tokio::time::timeout(self.command_timeout, call).await {
            return reply;
        }
        self.link.give_up(generation, "no answer in time");
        Err(unavailable(format!("no answer within {:?}", self.command_timeout)))
    }

    fn key(&self, id: &OperationId) -> Vec<u8> {
        [&self.key_prefix[..], &id.0].concat()
    }

    /// The operation of a key; none when the key is not one of an operation.
    fn operation(&self, key: &[u8]) -> Option<OperationId> {
        key.strip_prefix(&self.key_prefix[..])?.try_into().ok().map(OperationId)
    }

    async fn load_record(&self, id: &OperationId) -> Result<Option<Record>, StoreError> {
        read(&self.codec, id, self.link.send(cmd("GET").arg(self.key(id))).await?)
    }

    async fn reserve(&self, key: &[u8], value: &[u8], expires: Time) -> Result<Option<Vec<u8>>, StoreError> {
        let mut set = cmd("SET");
        set.arg(key).arg(value).arg("NX").arg("GET").arg("PXAT").arg(millis(expires));
        faults::bytes(self.link.send(&set).await?)
    }

    async fn fenced(&self, script: &redis::Script, body: &str, call: Call<'_>) -> Result<Value, StoreError> {
        let reply = self.link.send(&call.command("EVALSHA", script.get_hash())).await?;
        if faults::is_unknown_script(&reply) {
            // After a restart or SCRIPT FLUSH: the text itself makes the script known again.
            return self.link.send(&call.command("EVAL", body)).await;
        }
        Ok(reply)
    }

    async fn write_record(&self, id: &OperationId, expect: Expect, record: &Record) -> Result<Written, StoreError> {
        let (key, value) = (self.key(id), self.codec.encode(id, record)?);
        match expect {
            Expect::Absent => match self.reserve(&key, &value, record.expires).await? {
                None => Ok(Written::Done),
                Some(found) => Ok(Written::Lost(Some(self.codec.decode(id, &found)?))),
            },
            Expect::Fence(fence) => {
                let value = Some((&value[..], record.expires));
                let call = Call { key: &key, fence: codec::fence_prefix(&fence), value };
                self.written(id, self.fenced(&self.write, WRITE, call).await?)
            }
        }
    }

    async fn remove_record(&self, id: &OperationId, fence: Fence) -> Result<Written, StoreError> {
        let key = self.key(id);
        let call = Call { key: &key, fence: codec::fence_prefix(&fence), value: None };
        self.written(id, self.fenced(&self.remove, REMOVE, call).await?)
    }

    /// What a script says: 1 when it did its work, else what is there.
    fn written(&self, id: &OperationId, reply: Value) -> Result<Written, StoreError> {
        if reply == Value::Int(1) { Ok(Written::Done) } else { read(&self.codec, id, reply).map(Written::Lost) }
    }

    async fn list_keys(&self, from: Cursor, limit: usize) -> Result<Page, StoreError> {
        let mut scan = cmd("SCAN");
        scan.arg(from.position()?).arg("MATCH").arg(pattern(&self.key_prefix)).arg("COUNT").arg(limit.max(1));
        let (next, keys): (u64, Vec<Vec<u8>>) = faults::parse(self.link.send(&scan).await?)?;
        let ids: Vec<_> = keys.iter().filter_map(|key| self.operation(key)).collect();
        // One GET each, pipelined, where MGET would hide what is not a string among what has gone meanwhile.
        let found = join_all(ids.iter().map(|id| self.load_record(id))).await;
        let mut page = Page { records: vec![], unreadable: 0, next: (next != 0).then(|| Cursor::at(next)) };
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

    async fn tell_time(&self) -> Result<Time, StoreError> {
        let asked = Clock::instant();
        let time = server::time(faults::parse(self.link.send(&cmd("TIME")).await?)?);
        self.clock.calibrate(time, asked.elapsed());
        Ok(time)
    }

    /// Takes the way of a reservation and its removal, under a key that no operation and no other probe has.
    async fn try_out(&self) -> Result<(), StoreError> {
        let fence = Fence { attempt: AttemptId(rand::random()), version: 1 };
        let key = [&self.key_prefix[..], b"probe:", &fence.attempt.0].concat();
        let fence = codec::fence_prefix(&fence);
        self.reserve(&key, &fence, self.clock.now().plus(PROBE_LIFE)).await?;
        faults::refuse(self.fenced(&self.remove, REMOVE, Call { key: &key, fence, value: None }).await?)?;
        Ok(())
    }
}

impl Store for RedisStore {
    fn load<'a>(&'a self, id: &'a OperationId) -> Reply<'a, Option<Record>> {
        Box::pin(self.bounded(self.load_record(id)))
    }

    fn write<'a>(&'a self, id: &'a OperationId, expect: Expect, record: &'a Record) -> Reply<'a, Written> {
        Box::pin(self.bounded(self.write_record(id, expect, record)))
    }

    fn remove<'a>(&'a self, id: &'a OperationId, fence: Fence) -> Reply<'a, Written> {
        Box::pin(self.bounded(self.remove_record(id, fence)))
    }

    fn list(&self, from: Cursor, limit: usize) -> Reply<'_, Page> {
        Box::pin(self.bounded(self.list_keys(from, limit)))
    }

    /// Also calibrates the clock.
    fn time(&self) -> Reply<'_, Time> {
        Box::pin(self.bounded(self.tell_time()))
    }

    fn probe(&self) -> Reply<'_, ()> {
        Box::pin(self.bounded(self.try_out()))
    }
}

/// A call of one of the scripts.
struct Call<'a> {
    key: &'a [u8],
    fence: [u8; codec::FENCE_PREFIX_LEN],
    value: Option<(&'a [u8], Time)>,
}

impl Call<'_> {
    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = cmd(name);
        command.arg(script).arg(1).arg(self.key).arg(&self.fence[..]);
        if let Some((value, expires)) = self.value {
            command.arg(value).arg(millis(expires));
        }
        command
    }
}

impl Cursor {
    fn at(position: u64) -> Self {
        Self(position.to_be_bytes().to_vec())
    }

    fn position(&self) -> Result<u64, StoreError> {
        match <[u8; 8]>::try_from(&self.0[..]) {
            Ok(bytes) => Ok(u64::from_be_bytes(bytes)),
            Err(_) if *self == Self::START => Ok(0),
            Err(_) => Err(unavailable("the listing was begun in another store")),
        }
    }
}

/// A time as Redis takes it: it refuses 0 and what does not fit a signed number.
fn millis(time: Time) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX).max(1)
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

    fn settings(url: &str) -> Settings {
        Settings { url: url.to_owned(), key_prefix: "og".to_owned(), allow_eviction: false }
    }

    #[test]
    fn secrets_do_not_show() {
        let urls = [
            ("redis://user:s3cret@db:6379/2", "redis://db:6379/2"),
            ("redis://:s3cret@p@db?protocol=resp3", "redis://db"),
            ("redis+unix:///run/redis.sock?pass=s3cret", "redis+unix:///run/redis.sock"),
            ("redis://127.0.0.1:6379", "redis://127.0.0.1:6379"),
        ];
        for (url, address) in urls {
            assert_eq!(settings(url).address(), address);
            assert!(!format!("{:?}", settings(url)).contains("s3cret"));
        }
    }

    #[test]
    fn a_bad_url_is_refused_without_repeating_it() {
        for url in ["", "db:6379", "http://s3cret@db", "redis://u:s3cret@db/x", "rediss://:s3cret@db"] {
            let Err(error) = RedisStore::new(&settings(url), Duration::from_secs(1), Clock::system()) else {
                panic!("{url} was accepted")
            };
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn signs_of_the_prefix_mean_themselves() {
        assert_eq!(pattern(b"og:"), b"og:*");
        assert_eq!(pattern(b"a*[b]?\\:"), b"a\\*\\[b\\]\\?\\\\:*");
    }

    #[test]
    fn cursors_of_other_stores_are_refused() {
        assert_eq!(Cursor::at(77).position().unwrap(), 77);
        assert_eq!(Cursor::START.position().unwrap(), 0);
        assert!(Cursor(vec![1, 2, 3]).position().is_err());
    }
}
