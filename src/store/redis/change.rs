//! A conditional change of a key as it goes to a server: how it is written, as often as it takes, and whether a reply
//! says that it is done. It sends nothing.

use redis::Value;

use super::deadline::Deadline;
use super::line::{Digits, add, beginning, end};
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

/// What a reservation begins with, as it is sent.
const SET: &[u8] = b"*7\r\n$3\r\nSET";

/// What stands in it between the value and its end.
const UNLESS_THERE: &[u8] = b"\r\n$2\r\nNX\r\n$3\r\nGET\r\n$4\r\nPXAT";

/// What runs on the server as one step: what its calls begin with, as they are sent.
pub(super) struct Script {
    /// By its text, which makes it known.
    by_text: Vec<u8>,
    /// By its digest, once the server has run it.
    by_digest: Vec<u8>,
}

impl Script {
    /// A script of one key and so many arguments.
    fn new(text: &'static str, arguments: usize) -> Self {
        let digest = redis::Script::new(text).get_hash().to_owned();
        let begun = |words: [&str; 2]| beginning(4 + arguments, &[words[0].as_bytes(), words[1].as_bytes(), b"1"]);
        Self { by_text: begun(["EVAL", text]), by_digest: begun(["EVALSHA", &digest]) }
    }

    fn call(&self, known: bool) -> &[u8] {
        if known { &self.by_digest } else { &self.by_text }
    }
}

/// The scripts of all changes.
pub(super) struct Scripts {
    write: Script,
    remove: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self { write: Script::new(WRITE, 3), remove: Script::new(REMOVE, 1) }
    }
}

/// What becomes of what is stored under a key.
pub(super) struct Change<'a> {
    pub(super) key: &'a [u8],
    /// What has to be there: a value that begins so; none: nothing.
    fence: Option<[u8; FENCE_PREFIX_LEN]>,
    /// What takes its place, and until when.
    value: Option<(&'a [u8], Time)>,
    /// Who else must have it before it counts.
    pub(super) wait: Option<Wait>,
    pub(super) deadline: Deadline,
}

impl<'a> Change<'a> {
    /// A value where there is none.
    pub(super) fn reserve(key: &'a [u8], value: &'a [u8], expires: Time, deadline: Deadline) -> Self {
        Self { key, fence: None, value: Some((value, expires)), wait: None, deadline }
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

    /// Writes the command. A server that does not know the script is told its text.
    pub(super) fn write(&self, scripts: &Scripts, known: bool, out: &mut Vec<u8>) {
        match (&self.fence, self.value) {
            (None, value) => {
                let (value, expires) = value.unwrap_or_default();
                out.extend_from_slice(SET);
                add(out, self.key);
                add(out, value);
                out.extend_from_slice(UNLESS_THERE);
                add(out, millis(expires).text());
            }
            (Some(fence), Some((value, expires))) => {
                out.extend_from_slice(scripts.write.call(known));
                add(out, self.key);
                add(out, fence);
                add(out, value);
                add(out, millis(expires).text());
            }
            (Some(fence), None) => {
                out.extend_from_slice(scripts.remove.call(known));
                add(out, self.key);
                add(out, fence);
            }
        }
        end(out);
    }
}

/// Whether the reply to a change of what is expected says that it is done; else it says what is there, or why not.
pub(super) fn is_done(expect: Expect, reply: &Value) -> bool {
    match expect {
        Expect::Absent => matches!(reply, Value::Nil),
        Expect::Fence(_) => matches!(reply, Value::Int(1)),
    }
}

/// A time as Redis takes it: it refuses 0 and what does not fit a signed number.
fn millis(time: Time) -> Digits {
    Digits::of(time.0.clamp(1, i64::MAX.cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::machine::AttemptId;

    #[test]
    fn changes_are_written_as_the_client_library_writes_them() {
        let (scripts, key, value) = (Scripts::new(), &[7; 35][..], &[b'v'; 400][..]);
        let fence = Fence { attempt: AttemptId([3; 16]), version: 1 };
        let (prefix, deadline) = (fence_prefix(&fence), Deadline::within(Duration::ZERO));
        let digest = |text| redis::Script::new(text).get_hash().to_owned();
        let reserve = || Change::reserve(key, value, Time(1_700_000_000_000), deadline);
        let [end, over] = [&b"1700000000000"[..], &prefix];
        for (change, known, words) in [
            (reserve(), true, vec![&b"SET"[..], key, value, b"NX", b"GET", b"PXAT", end]),
            (
                Change::reserve(key, value, Time(0), deadline),
                true,
                vec![b"SET", key, value, b"NX", b"GET", b"PXAT", b"1"],
            ),
            (
                reserve().over(Expect::Fence(fence)),
                true,
                vec![b"EVALSHA", digest(WRITE).as_bytes(), b"1", key, over, value, end],
            ),
            (reserve().over(Expect::Fence(fence)), false, vec![b"EVAL", WRITE.as_bytes(), b"1", key, over, value, end]),
            (Change::remove(key, fence, deadline), true, vec![b"EVALSHA", digest(REMOVE).as_bytes(), b"1", key, over]),
            (Change::remove(key, fence, deadline), false, vec![b"EVAL", REMOVE.as_bytes(), b"1", key, over]),
        ] {
            let mut out = b"before".to_vec();
            change.write(&scripts, known, &mut out);
            assert_eq!(out[6..], redis::Cmd::new().arg(words).get_packed_command());
        }
    }
}
