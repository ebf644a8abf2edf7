//! What a Redis server says of itself. It asks and judges; it does not connect.

use std::collections::HashMap;
use std::fmt;

use redis::FromRedisValue as _;

use super::StoreError;
use super::deadline::Deadline;
use super::faults;
use super::line::{Line, Lost, Words, command};
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
    /// Whether it takes writes: it follows no other server.
    pub is_primary: bool,
    /// How many replicas have all that it has written, or are catching up.
    pub replicas: usize,
    /// `min-replicas-to-write`; none where it may not be asked.
    pub min_replicas: Option<usize>,
    /// What of its records is left when it ends and starts again.
    pub persistence: Persistence,
    /// Why it must not be used; none when it may.
    pub refusal: Option<String>,
    /// Tells this run of the server from others, which number what they hold in another way.
    pub(super) run: u64,
}

/// What is left of a server's records when it ends and starts again; the later the better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Persistence {
    /// It does not say.
    Unknown = -1,
    /// Nothing.
    Nothing = 0,
    /// What was there at the last snapshot.
    Snapshots = 1,
    /// All but what was written last: the append-only file is not flushed for every write.
    Log = 2,
    /// All: `appendfsync always`.
    FlushedLog = 3,
}

impl fmt::Display for Persistence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown",
            Self::Nothing => "none",
            Self::Snapshots => "snapshots",
            Self::Log => "append-only file",
            Self::FlushedLog => "append-only file, appendfsync always",
        })
    }
}

impl Report {
    /// `info` is what the server says of itself, `settings` what it lets be asked of its configuration.
    fn new(info: &Info<'_>, settings: Option<&HashMap<String, String>>, allow_eviction: bool) -> Self {
        let (version, eviction_policy) = (info.field("redis_version"), info.field("maxmemory_policy"));
        let may_evict = eviction_policy != "noeviction";
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        let refusal = if major.is_none_or(|major| major < OLDEST) {
            Some(format!("Redis {version} is too old: {OLDEST}.0 or later is needed"))
        } else if may_evict && !allow_eviction {
            Some(format!("maxmemory-policy is {eviction_policy}, which may drop records: set it to noeviction"))
        } else {
            None
        };
        let setting = |name: &str| settings.and_then(|settings| settings.get(name)).map(String::as_str);
        Self {
            version: version.to_owned(),
            eviction_policy: eviction_policy.to_owned(),
            may_evict,
            is_primary: info.field("role") == "master",
            replicas: info.field("connected_slaves").parse().unwrap_or(0),
            min_replicas: setting("min-replicas-to-write").and_then(|number| number.parse().ok()),
            persistence: persistence(info, setting("appendfsync"), setting("save")),
            refusal,
            run: info.field("run_id").get(..16).and_then(|id| u64::from_str_radix(id, 16).ok()).unwrap_or(0),
        }
    }
}

fn persistence(info: &Info<'_>, flushed: Option<&str>, snapshots: Option<&str>) -> Persistence {
    match (info.field("aof_enabled"), flushed, snapshots) {
        ("1", Some("always"), _) => Persistence::FlushedLog,
        ("1", _, _) => Persistence::Log,
        ("0", _, Some("")) => Persistence::Nothing,
        ("0", _, Some(_)) => Persistence::Snapshots,
        _ => Persistence::Unknown,
    }
}

/// Asks the server what it is, and sets the clock by it, if one is given.
pub(super) async fn ask(
    line: &Line,
    allow_eviction: bool,
    clock: Option<&Clock>,
    deadline: Deadline,
) -> Result<Result<Report, StoreError>, Lost> {
    let asked = Clock::instant();
    let sections: [&[u8]; 4] = [b"server", b"memory", b"persistence", b"replication"];
    let [server, memory, persistence, replication] = sections.map(|section| [&b"INFO"[..], section]);
    // Not every user may ask this; then it is not known.
    let settings: Words = &[b"CONFIG", b"GET", b"save", b"appendfsync", b"min-replicas-to-write"];
    let all: [Words; 6] = [&server, &memory, &persistence, &replication, &[b"TIME"], settings];
    let [told @ .., now, settings] = line.send(all.map(command).each_ref().map(Vec::as_slice), deadline).await?;
    let taken = asked.elapsed();
    let settings = HashMap::from_redis_value(settings).ok();
    let judge = || {
        if let Some(clock) = clock {
            clock.calibrate(time(faults::parse(now)?), taken);
        }
        let told = told.into_iter().map(faults::parse).collect::<Result<Vec<String>, _>>()?;
        Ok(Report::new(&Info::of(&told.concat()), settings.as_ref(), allow_eviction))
    };
    Ok(judge())
}

/// The reply to `TIME`: seconds and microseconds.
pub(super) fn time((seconds, micros): (u64, u64)) -> Time {
    Time(seconds.saturating_mul(1_000).saturating_add(micros / 1_000))
}

/// The lines of `INFO`, told apart once: name and value.
struct Info<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Info<'a> {
    fn of(text: &'a str) -> Self {
        Self(text.lines().filter_map(|line| line.split_once(':')).collect())
    }

    fn field(&self, name: &str) -> &'a str {
        let value = self.0.iter().find_map(|(own, value)| (*own == name).then_some(*value));
        value.map_or("unknown", str::trim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(version: &str, policy: &str, allow_eviction: bool) -> Report {
        let info = format!(
            "# Server\r\nredis_version:{version}\r\nredis_mode:standalone\r\nrun_id:0000000000c0ffee1111111111\r\n\
             # Memory\r\nmaxmemory:0\r\nmaxmemory_policy:{policy}\r\n\
             # Persistence\r\naof_enabled:1\r\n\
             # Replication\r\nrole:master\r\nconnected_slaves:2\r\n"
        );
        Report::new(&Info::of(&info), None, allow_eviction)
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
        let silent = Report::new(&Info::of(""), None, false);
        assert!(silent.may_evict && silent.refusal.is_some() && !silent.is_primary);
        assert_eq!((silent.replicas, silent.persistence), (0, Persistence::Unknown));
        let hidden = Report::new(&Info::of("redis_version:7.0.0"), None, false);
        assert!(hidden.refusal.unwrap().contains("unknown"));
    }

    #[test]
    fn replicas_and_persistence_are_told() {
        let told = report("7.0.15", "noeviction", false);
        assert!(told.is_primary);
        assert_eq!((told.replicas, told.min_replicas, told.run), (2, None, 0x00c0_ffee));
        let all = [
            ("aof_enabled:1", Some("always"), Some(""), Persistence::FlushedLog),
            ("aof_enabled:1", Some("everysec"), Some(""), Persistence::Log),
            ("aof_enabled:1", None, None, Persistence::Log),
            ("aof_enabled:0", Some("always"), Some("3600 1"), Persistence::Snapshots),
            ("aof_enabled:0", Some("always"), Some(""), Persistence::Nothing),
            ("aof_enabled:0", None, None, Persistence::Unknown),
        ];
        for (info, flushed, snapshots, what) in all {
            assert_eq!(persistence(&Info::of(info), flushed, snapshots), what, "{info} {flushed:?} {snapshots:?}");
        }
    }
}
