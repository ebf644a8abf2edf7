//! What is counted of JSON Web Tokens, and of the keys that they are verified with. Knows nothing of either.

use prometheus::IntGauge;

use super::counted::Counter;
use super::labels::{KeysRead, TokenCheck};
use super::register::{Register, register};

/// The handles; they stay at 0 where no scope reads a token.
pub(super) struct TokenMetrics {
    checks: Vec<Counter>,
    readings: Vec<Counter>,
    read: IntGauge,
}

impl TokenMetrics {
    pub(super) fn new(to: &Register) -> Result<Self, prometheus::Error> {
        let checks = to.counters("jwt_checks_total", "Tokens by what came of them.", &["result"])?;
        let readings = to.counters("jwks_reads_total", "Readings of the keys for tokens.", &["result"])?;
        let when = "When the keys for tokens were last read well; 0: never.";
        Ok(Self {
            checks: TokenCheck::ALL.iter().map(|check| checks.with_label_values(&[check.label()])).collect(),
            readings: KeysRead::ALL.iter().map(|read| readings.with_label_values(&[read.label()])).collect(),
            read: register(&to.registry, IntGauge::new("jwks_read_timestamp_seconds", when))?,
        })
    }

    pub(super) fn checked(&self, check: TokenCheck) {
        self.checks[check as usize].inc();
    }

    pub(super) fn read(&self, result: KeysRead, at: u64) {
        self.readings[result as usize].inc();
        if result == KeysRead::Ok {
            self.read.set(i64::try_from(at).unwrap_or(i64::MAX));
        }
    }
}
