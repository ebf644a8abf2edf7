//! Gateways without doors: arbiters over one store, on a clock that is moved by hand.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use oncegate::arbiter::{Admitted, Arbiter, Permit, Shared, Terms};
use oncegate::clock::Clock;
use oncegate::machine::{
    Answer, Arrival, Duplicate, Ending, InDoubt, NamespaceTag, OperationId, Outcomes, Policy, Preset, Recorded, Salt,
    Time, Window,
};
use oncegate::store::StoreError;
use oncegate::store::codec::Codec;
use oncegate::store::filter::{Filter, Settings};
use oncegate::store::journal::{self, Journal};
use oncegate::telemetry::Metrics;

use crate::alike::Alike;
use crate::watched::Watched;

pub(crate) const LEASE: Duration = Duration::from_secs(15);
/// Short: an outcome can end while the local cache still trusts what it has.
pub(crate) const RETENTION: Duration = Duration::from_secs(90);
pub(crate) const NAMESPACE: NamespaceTag = NamespaceTag(7);
pub(crate) const CACHE: usize = 1 << 20;

/// A store and the gateways that share it.
pub(crate) struct Ward {
    pub(crate) clock: Clock,
    pub(crate) store: Arc<Watched>,
    pub(crate) gateways: Vec<Arc<Arbiter>>,
    pub(crate) terms: Arc<Terms>,
}

impl Ward {
    pub(crate) fn new(gateways: usize, in_doubt: InDoubt, cache: usize) -> Self {
        let clock = Clock::manual(Time(1_000_000));
        clock.calibrate(Time(1_000_000), Duration::ZERO);
        let store = Arc::new(Watched::new(clock.clone()));
        let gateway = || {
            Arc::new(Arbiter::new(
                Arc::clone(&store) as _,
                shared(&clock, cache, None, Arc::new(Metrics::new().unwrap())),
            ))
        };
        let gateways: Vec<_> = std::iter::repeat_with(gateway).take(gateways).collect();
        let route = Metrics::new().unwrap().route("orders");
        let route = gateways.first().map_or(route, |first| first.shared().metrics.route("orders"));
        Self {
            clock,
            store,
            gateways,
            terms: Arc::new(Terms { policy: Arc::new(policy(in_doubt)), beside: None, route, schedule: None }),
        }
    }

    /// The only gateway of its store, with a journal in this file.
    pub(crate) fn alone(journal: &Path, in_doubt: InDoubt) -> Self {
        let mut ward = Self::new(0, in_doubt, CACHE);
        ward.start(journal);
        ward
    }

    /// A gateway that knows only what the store and the journal say, in the place of the one that was there.
    pub(crate) fn start(&mut self, journal: &Path) {
        self.gateways.clear();
        let settings = journal::Settings { path: journal.to_owned(), size: 1 << 20 };
        let metrics = Arc::new(Metrics::new().unwrap());
        let journal = Journal::open(&settings, Codec::default(), self.clock.clone(), Arc::clone(&metrics)).unwrap();
        let shared = shared(&self.clock, CACHE, Some(journal), metrics);
        Arc::make_mut(&mut self.terms).route = shared.metrics.route("orders");
        self.gateways.push(Arc::new(Arbiter::new(Arc::clone(&self.store) as _, shared)));
    }

    /// One gateway with everything at its usual.
    pub(crate) fn plain() -> Self {
        Self::new(1, InDoubt::Hold, CACHE)
    }

    pub(crate) fn arbiter(&self) -> &Arc<Arbiter> {
        &self.gateways[0]
    }

    pub(crate) async fn admit(&self, key: u8) -> Result<Admitted, StoreError> {
        self.arbiter().admit(&arrival(key, 0), &self.terms).await
    }

    /// The permit of a request that may act.
    pub(crate) async fn permit(&self, key: u8) -> Permit {
        match self.admit(key).await.unwrap() {
            Admitted::Proceed(permit) => permit,
            Admitted::Duplicate(duplicate) | Admitted::Also(duplicate) => panic!("{duplicate:?}"),
            Admitted::Untimely(untimely) => panic!("{untimely:?}"),
        }
    }

    /// What a request that may not act is told.
    pub(crate) async fn duplicate(&self, key: u8) -> Duplicate {
        match self.admit(key).await.unwrap() {
            Admitted::Proceed(permit) => panic!("attempt {} may run", permit.number()),
            Admitted::Duplicate(duplicate) => duplicate,
            Admitted::Also(duplicate) => panic!("by its second key: {duplicate:?}"),
            Admitted::Untimely(untimely) => panic!("{untimely:?}"),
        }
    }

    /// Waits until what outlives its request has ended.
    pub(crate) async fn settled(&self) {
        for gateway in &self.gateways {
            let tasks = &gateway.shared().tasks;
            tasks.close();
            tasks.wait().await;
            tasks.reopen();
        }
    }

    /// The value of one series of the first gateway.
    pub(crate) fn metric(&self, series: &str) -> f64 {
        let page = self.arbiter().shared().metrics.render();
        let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.parse().unwrap())
    }
}

fn shared(clock: &Clock, cache: usize, journal: Option<Journal>, metrics: Arc<Metrics>) -> Arc<Shared> {
    let filter = Settings { capacity: 1_000, false_positive_rate: 0.001, lifetime: RETENTION * 72 };
    let alone = journal.is_some();
    let settings = oncegate::arbiter::Settings {
        replay_cache: cache,
        waiters: 10_000,
        dispatched: 1_000,
        outcomes_waiting: 10,
        alone,
    };
    let filter = Filter::new(filter, clock.clone()).unwrap();
    Arc::new(Shared::new(settings, filter, journal, metrics, clock.clone()))
}

fn policy(in_doubt: InDoubt) -> Policy {
    Policy {
        lease: LEASE,
        attempt_timeout: Duration::from_mins(5),
        retention: RETENTION,
        doubt_retention: RETENTION * 2,
        clock_skew: None,
        window: Window::Fixed,
        in_doubt,
        compare: true,
        replays: true,
        outcomes: Outcomes::new(Preset::SuccessOnly, BTreeMap::new()),
    }
}

/// The namespaces that a sweep looks after.
pub(crate) fn namespaces(ward: &Ward) -> HashMap<NamespaceTag, oncegate::arbiter::Watched> {
    let (route, policy) = (Arc::clone(&ward.terms.route), Arc::clone(&ward.terms.policy));
    HashMap::from([(NAMESPACE, oncegate::arbiter::Watched { route, policy, probed: None, second_to: HashSet::new() })])
}

pub(crate) fn id(key: u8) -> OperationId {
    // The filter and the lines choose their shard by the first byte.
    OperationId([key; 32])
}

/// A request under a key; requests of another look are changed ones.
pub(crate) fn arrival(key: u8, look: u8) -> Arrival<'static> {
    Arrival::new(id(key), NAMESPACE, Salt(rand::random()), 1, None, Alike::to(look))
}

/// The upstream's answer, as the outcome table judges it.
pub(crate) fn answered(terms: &Terms, status: u16, mark: u8) -> Ending {
    let recorded = Recorded::bare(status, &[mark]);
    let judgement = terms.policy.outcomes.judge(status, false);
    Ending::Answered { judgement, status, answer: Answer::Recorded(recorded), retention: None }
}
