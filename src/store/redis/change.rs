//! A conditional change of a key as it goes to a server: its words, made once and sent as often as it takes, and whether a
//! reply says that it is done. It sends nothing.

use redis::Value;

use super::deadline::Deadline;
use super::line::{Digits, Words};
use super::settings::Wait;
use crate::machine::{Expect, Fence, Time};
use crate::store::codec::{FENCE_PREFIX_LEN, fence_prefix};

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

/// What runs on the server as one step.
pub(super) struct Script {
    text: &'static str,
    /// What the server knows it by, once it has run it.
    digest: String,
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, digest: redis::Script::new(text).get_hash().to_owned() }
    }
}

/// The scripts of all changes.
pub(super) struct Scripts {
    write: Script,
    remove: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self { write: Script::new(WRITE), remove: Script::new(REMOVE) }
    }
}

/// What becomes of what is stored under a key.
pub(super) struct Change<'a> {
    pub(super) key: &'a [u8],
    /// What has to be there: a value that begins so; none: nothing.
    fence: Option<[u8; FENCE_PREFIX_LEN]>,
    /// What takes its place, and until when.
    value: Option<(&'a [u8], Digits)>,
    /// Who else must have it before it counts.
    pub(super) wait: Option<Wait>,
    pub(super) deadline: Deadline,
}

impl<'a> Change<'a> {
    /// A value where there is none.
    pub(super) fn reserve(key: &'a [u8], value: &'a [u8], expires: Time, deadline: Deadline) -> Self {
        Self { key, fence: None, value: Some((value, millis(expires))), wait: None, deadline }
    }

    /// No value where there is one with this fence.
    pub(super) fn remove(key: &'a [u8], fence: Fence, deadline: Deadline) -> Self {
        Self { key, fence: Some(fence_prefix(&fence)), value: None, wait: None, deadline }
    }

    /// The same over what is expected there.
    pub(super) fn over(self, expect: Expect) -> Self {
        let fence = match expect {
            Expect::Absent => None,
            Expect::Fence(fence) => Some(fence_prefix(&fence)),
        };
        Self { fence, ..self }
    }

    /// The same, which counts when replicas have it too.
    pub(super) fn awaiting(self, wait: Option<Wait>) -> Self {
        Self { wait, ..self }
    }

    /// The command. A server that does not know the script is told its text.
    pub(super) fn command<'b>(&'b self, scripts: &'b Scripts, known: bool) -> Command<'b> {
        let (value, expires) = self.value.as_ref().map_or((&[][..], &[][..]), |(value, end)| (*value, end.text()));
        let Some(fence) = &self.fence else {
            return Command { words: [b"SET", self.key, value, b"NX", b"GET", b"PXAT", expires], count: 7 };
        };
        let (script, count) = if self.value.is_some() { (&scripts.write, 7) } else { (&scripts.remove, 5) };
        let [name, script] = if known { ["EVALSHA", &script.digest] } else { ["EVAL", script.text] };
        Command { words: [name.as_bytes(), script.as_bytes(), b"1", self.key, fence, value, expires], count }
    }
}

/// Whether the reply to a change of what is expected says that it is done; else it says what is there, or why not.
pub(super) fn is_done(expect: Expect, reply: &Value) -> bool {
    match expect {
        Expect::Absent => matches!(reply, Value::Nil),
        Expect::Fence(_) => matches!(reply, Value::Int(1)),
    }
}

/// A command of at most so many words.
pub(super) struct Command<'a> {
    words: [&'a [u8]; 7],
    count: usize,
}

impl Command<'_> {
    pub(super) fn words(&self) -> Words<'_> {
        &self.words[..self.count]
    }
}

/// A time as Redis takes it: it refuses 0 and what does not fit a signed number.
fn millis(time: Time) -> Digits {
    Digits::of(time.0.clamp(1, i64::MAX.cast_unsigned()))
}
