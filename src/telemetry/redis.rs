//! What is counted of a Redis that keeps the records. Knows nothing of Redis.

use prometheus::{IntCounter, IntGauge, Registry};

use super::register::register;

/// The handles of the store's servers; they stay at 0 with another kind of store.
pub struct RedisMetrics {
    primaries: IntGauge,
    replicas: IntGauge,
    wanted: IntGauge,
    persistence: IntGauge,
    unacknowledged: IntCounter,
}

impl RedisMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let gauge = |name, help: &str| register(registry, IntGauge::new(name, help));
        Ok(Self {
            primaries: gauge("redis_primaries", "Primaries that the store's records are spread over.")?,
            replicas: gauge("redis_replicas", "Replicas of the primary that has the fewest.")?,
            wanted: gauge("redis_replicas_wanted", "Replicas that a claim waits for.")?,
            persistence: gauge(
                "redis_persistence",
                "What a restart leaves of the records: 0 nothing, 1 snapshots, 2 append-only file, 3 with appendfsync \
                 always; -1 unknown.",
            )?,
            unacknowledged: register(
                registry,
                IntCounter::new("redis_unacknowledged_total", "Claims taken back because too few replicas had them."),
            )?,
        })
    }

    /// How many primaries there are, how many replicas the worst off has, and how many are wanted.
    pub fn replicated(&self, primaries: usize, replicas: usize, wanted: u32) {
        let number = |count| i64::try_from(count).unwrap_or(i64::MAX);
        self.primaries.set(number(primaries));
        self.replicas.set(number(replicas));
        self.wanted.set(wanted.into());
    }

    /// What a restart leaves of the records, as the gauge numbers it.
    pub fn persists(&self, level: i64) {
        self.persistence.set(level);
    }

    /// Too few replicas had a claim in time.
    pub fn unacknowledged(&self) {
        self.unacknowledged.inc();
    }
}
