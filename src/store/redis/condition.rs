//! How the primaries are, all together: what is worth a line in the log and a figure. Pure.

use std::fmt;

use super::server::{Persistence, Report};
use super::settings::{Node, Wait};

/// What the primaries said of themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    primaries: Vec<(Node, Report)>,
    wanted: u32,
}

impl Condition {
    /// Of these primaries, where claims wait for so many replicas.
    pub(super) fn new(primaries: Vec<(Node, Report)>, wait: Option<Wait>) -> Self {
        Self { primaries, wanted: wait.map_or(0, |wait| wait.replicas) }
    }

    /// Why they must not be used; none when they may.
    pub fn refusal(&self) -> Option<String> {
        self.primaries.iter().find_map(|(node, report)| Some(format!("{node}: {}", report.refusal.as_ref()?)))
    }

    /// Whether one may drop records that have not expired.
    pub fn may_evict(&self) -> bool {
        self.primaries.iter().any(|(_, report)| report.may_evict)
    }

    /// How many there are.
    pub fn primaries(&self) -> usize {
        self.primaries.len()
    }

    /// How many replicas the one has that has the fewest.
    pub fn replicas(&self) -> usize {
        self.primaries.iter().map(|(_, report)| report.replicas).min().unwrap_or(0)
    }

    /// How many replicas a claim waits for.
    pub fn wanted(&self) -> u32 {
        self.wanted
    }

    /// What is left of the records of the one that keeps the least.
    pub fn persistence(&self) -> Persistence {
        self.primaries.iter().map(|(_, report)| report.persistence).min().unwrap_or(Persistence::Unknown)
    }

    /// What an operator should change.
    pub fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        for (node, report) in &self.primaries {
            if report.replicas < self.wanted as usize {
                let (wanted, there) = (self.wanted, report.replicas);
                all.push(format!(
                    "{node} has {there} replicas and `wait_replicas` is {wanted}: guarded routes answer 503"
                ));
            }
            if report.persistence == Persistence::Nothing {
                all.push(format!("{node} writes nothing to disk: a restart of it forgets every operation"));
            }
        }
        all
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (node, report)) in self.primaries.iter().enumerate() {
            let role = if report.is_primary { "primary" } else { "replica" };
            let between = if number == 0 { "" } else { "; " };
            write!(f, "{between}{node}: {role}, version {}, {} replicas", report.version, report.replicas)?;
            if let Some(least) = report.min_replicas {
                write!(f, ", min-replicas-to-write {least}")?;
            }
            write!(f, ", persistence {}, maxmemory-policy {}", report.persistence, report.eviction_policy)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn primary(port: u16, replicas: usize, persistence: Persistence) -> (Node, Report) {
        let report = Report {
            version: "7.0.15".to_owned(),
            eviction_policy: "noeviction".to_owned(),
            may_evict: false,
            is_primary: true,
            replicas,
            min_replicas: Some(1),
            persistence,
            refusal: None,
            run: 1,
        };
        (Node { host: "10.0.0.1".to_owned(), port }, report)
    }

    #[test]
    fn the_worst_of_them_counts() {
        let wait = Some(Wait { replicas: 2, timeout: Duration::from_millis(100) });
        let mut all = vec![primary(1, 2, Persistence::FlushedLog), primary(2, 1, Persistence::Nothing)];
        let condition = Condition::new(all.clone(), wait);
        assert_eq!((condition.primaries(), condition.replicas()), (2, 1));
        assert_eq!(condition.persistence(), Persistence::Nothing);
        let warnings = condition.warnings();
        assert!(
            matches!(&warnings[..], [replicas, disk] if replicas.contains("10.0.0.1:2 has 1 replicas")
            && disk.contains("10.0.0.1:2 writes nothing")),
            "{warnings:?}"
        );
        assert_eq!((condition.may_evict(), condition.refusal()), (false, None));
        all[1].1.may_evict = true;
        all[1].1.refusal = Some("maxmemory-policy is allkeys-lru".to_owned());
        let condition = Condition::new(all, None);
        assert!(condition.may_evict());
        assert_eq!(condition.refusal().unwrap(), "10.0.0.1:2: maxmemory-policy is allkeys-lru");
        assert_eq!(condition.warnings().len(), 1);
    }

    #[test]
    fn a_line_says_it_all() {
        let condition =
            Condition::new(vec![primary(1, 2, Persistence::Log), primary(2, 1, Persistence::Snapshots)], None);
        let expected = "10.0.0.1:1: primary, version 7.0.15, 2 replicas, min-replicas-to-write 1, \
                        persistence append-only file, maxmemory-policy noeviction; \
                        10.0.0.1:2: primary, version 7.0.15, 1 replicas, min-replicas-to-write 1, \
                        persistence snapshots, maxmemory-policy noeviction";
        assert_eq!(condition.to_string(), expected);
    }
}
