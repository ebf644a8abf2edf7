//! What a Redis server says of itself. It asks and judges; it does not connect.

use redis::aio::MultiplexedConnection;
use redis::{RedisError, pipe};

use crate::clock::Clock;
use crate::machine::Time;

/// The first version with `SET … NX GET`: reserving and fetching in one command.
const OLDEST: u32 = 7;

/// What a server is, as far as it matters for records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The version of Redis that it is, or says to be compatible with.
    pub version: String,
    /// Its `maxmemory-policy`.
    pub eviction_policy: String,
    /// Whether it may drop records before they expire.
    pub may_evict: bool,
    /// Why it must not be used; none when it may.
    pub refusal: Option<String>,
}

impl Report {
    fn new(server: &str, memory: &str, allow_eviction: bool) -> Self {
        let version = field(server, "redis_version");
        let eviction_policy = field(memory, "maxmemory_policy");
        let may_evict = eviction_policy != "noeviction";
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        let refusal = if major.is_none_or(|major| major < OLDEST) {
            Some(format!("Redis {version} is too old: {OLDEST}.0 or later is needed"))
        } else if may_evict && !allow_eviction {
            Some(format!("maxmemory-policy is {eviction_policy}, which may drop records: set it to noeviction"))
        } else {
            None
        };
        Self { version: version.to_owned(), eviction_policy: eviction_policy.to_owned(), may_evict, refusal }
    }
}

/// Asks the server what it is, and calibrates the clock by it.
pub(super) async fn ask(
    connection: &mut MultiplexedConnection,
    allow_eviction: bool,
    clock: &Clock,
) -> Result<Report, RedisError> {
    let mut questions = pipe();
    questions.cmd("INFO").arg("server").cmd("INFO").arg("memory").cmd("TIME");
    let asked = Clock::instant();
    let (server, memory, now): (String, String, (u64, u64)) = questions.query_async(connection).await?;
    clock.calibrate(time(now), asked.elapsed());
    Ok(Report::new(&server, &memory, allow_eviction))
}

/// The reply to `TIME`: seconds and microseconds.
pub(super) fn time((seconds, micros): (u64, u64)) -> Time {
    Time(seconds.saturating_mul(1_000).saturating_add(micros / 1_000))
}

fn field<'a>(info: &'a str, name: &str) -> &'a str {
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.map_or("unknown", str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(version: &str, policy: &str, allow_eviction: bool) -> Report {
        let server = format!("# Server\r\nredis_version:{version}\r\nredis_mode:standalone\r\n");
        let memory = format!("# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:{policy}\r\n");
        Report::new(&server, &memory, allow_eviction)
    }

    #[test]
    fn takes_what_keeps_records_and_refuses_the_rest() {
        assert_eq!(report("7.0.15", "noeviction", false).refusal, None);
        assert_eq!(report("10.1.0", "noeviction", false).refusal, None);
        assert_eq!(report("7.2.4", "allkeys-lru", true).refusal, None);
        let old = report("6.2.14", "noeviction", true).refusal.unwrap();
        assert!(old.contains("6.2.14"), "{old}");
        let evicting = report("7.2.4", "volatile-ttl", false);
        assert!(evicting.may_evict);
        assert!(evicting.refusal.unwrap().contains("volatile-ttl"));
    }

    #[test]
    fn what_is_not_said_is_not_trusted() {
        let silent = Report::new("", "", false);
        assert!(silent.may_evict && silent.refusal.is_some());
        let hidden = Report::new("redis_version:7.0.0", "", false);
        assert!(hidden.refusal.unwrap().contains("unknown"));
    }
}
