//! What a search is about, and its bounds. The times are small numbers in the proportions that the rules ask for.

use std::collections::BTreeMap;
use std::time::Duration;

use oncegate::machine::{InDoubt, Outcomes, Policy, Preset, Window};

use super::rules::Mutation;

pub(crate) const LEASE: u64 = 2;
pub(crate) const ATTEMPT_TIMEOUT: u64 = 3;
pub(crate) const RETENTION: u64 = 4;
pub(crate) const DOUBT_RETENTION: u64 = 4;
pub(crate) const ABSENT_AFTER: u64 = 1;

/// Duplicates of an operation in doubt are refused, and the upstream is asked.
pub(crate) const PROBES: InDoubt = InDoubt::Probe { absent_after: Duration::from_millis(ABSENT_AFTER) };

/// How often each thing may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Left {
    pub(crate) requests: u8,
    /// How many of the requests may differ from the first.
    pub(crate) changed: u8,
    /// Steps of time.
    pub(crate) ticks: u8,
    /// Leaps of time, to when something is forgotten.
    pub(crate) leaps: u8,
    /// Calls to the store without an answer. They may be executed at any later time, or never.
    pub(crate) losses: u8,
    pub(crate) crashes: u8,
    pub(crate) failovers: u8,
    pub(crate) flushes: u8,
    /// Questions to the upstream about a doubt.
    pub(crate) probes: u8,
}

/// One search.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Plan {
    pub(crate) gateways: usize,
    pub(crate) policy: Policy,
    pub(crate) left: Left,
    /// How many writes the replica may be behind.
    pub(crate) lag: usize,
    /// Nothing is forwarded before the replica has the write that allows it.
    pub(crate) wait: bool,
    /// Gateways know exactly what they have dispatched.
    pub(crate) exact: bool,
    /// A request may look before it claims: its gateway's filter takes it for a duplicate, rightly or not.
    pub(crate) looks: bool,
    /// The upstream may execute a request at any later time: `absent_after` is not true.
    pub(crate) unruly: bool,
    /// A rule that is broken on purpose.
    pub(crate) mutation: Option<Mutation>,
}

impl Plan {
    pub(crate) fn new(gateways: usize, in_doubt: InDoubt, left: Left) -> Self {
        let policy = policy(in_doubt);
        Self { gateways, policy, left, lag: 0, wait: false, exact: false, looks: false, unruly: false, mutation: None }
    }

    /// With a replica that may be this many writes behind.
    pub(crate) fn replica(self, lag: usize) -> Self {
        Self { lag, ..self }
    }

    pub(crate) fn wait(self) -> Self {
        Self { wait: true, ..self }
    }

    pub(crate) fn exact(self) -> Self {
        Self { exact: true, ..self }
    }

    pub(crate) fn looking(self) -> Self {
        Self { looks: true, ..self }
    }

    pub(crate) fn unruly(self) -> Self {
        Self { unruly: true, ..self }
    }

    pub(crate) fn broken(self, mutation: Mutation) -> Self {
        Self { mutation: Some(mutation), ..self }
    }

    /// One more of everything that may happen at all, but failovers and flushes.
    pub(crate) fn wider(mut self) -> Self {
        let Left { requests, ticks, leaps, losses, crashes, probes, .. } = &mut self.left;
        for bound in [requests, ticks, leaps, losses, crashes, probes] {
            *bound += u8::from(*bound > 0);
        }
        self
    }

    pub(crate) fn probes(&self) -> bool {
        matches!(self.policy.in_doubt, InDoubt::Probe { .. })
    }

    pub(crate) fn retries(&self) -> bool {
        self.policy.in_doubt == InDoubt::Retry
    }
}

fn policy(in_doubt: InDoubt) -> Policy {
    Policy {
        lease: Duration::from_millis(LEASE),
        attempt_timeout: Duration::from_millis(ATTEMPT_TIMEOUT),
        retention: Duration::from_millis(RETENTION),
        doubt_retention: Duration::from_millis(DOUBT_RETENTION),
        in_doubt,
        compare: true,
        replays: true,
        clock_skew: None,
        window: Window::Fixed,
        outcomes: Outcomes::new(Preset::SuccessOnly, BTreeMap::new()),
    }
}
