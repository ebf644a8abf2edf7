//! Prometheus metrics: one method per fact. Handles are resolved once per route, never on the hot path.

mod route;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use prometheus::{Encoder, IntCounter, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder};

use super::counted::{Bounds, Counter, Family, Gauge, Timing};
use super::kept::{DoubtsFound, KeptMetrics};
use super::labels::{
    FilterAnswer, Handshake, KeysRead, Outcome, ProbeFinding, ReloadResult, StoreOp, Timeout, TokenCheck, Verdict,
};
use super::redis::RedisMetrics;
use super::register::{REQUEST_BUCKETS, Register, register};
use super::tokens::TokenMetrics;
use super::upstreams::{UpstreamFamilies, UpstreamMetrics};
use super::usual::Usual;

/// Upper bounds, in seconds, of the histogram of store calls.
const STORE_BUCKETS: Bounds = &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0];

/// The label of requests that matched no route.
const NO_ROUTE: &str = "";

/// All metrics of this process.
pub struct Metrics {
    registry: Registry,
    families: Families,
    no_route: Arc<RouteMetrics>,
    upstreams: UpstreamFamilies,
    redis: RedisMetrics,
    tokens: TokenMetrics,
    store_seconds: Vec<Timing>,
    store_errors: Vec<Counter>,
    filter_checks: Vec<Counter>,
    timeouts: Vec<Counter>,
    filter_false_positives: IntCounter,
    filter_fill_ratio: prometheus::Gauge,
    handshakes_failed: Vec<Counter>,
    tls_reload_failed: IntGauge,
    lease_lost: IntCounter,
    late_answers: IntCounter,
    kept: KeptMetrics,
    log_lines_lost: IntGauge,
    access_log_dropped: IntCounter,
    reloads: Vec<Counter>,
    config_loaded: IntGauge,
}

/// A histogram that begins when it is first needed: it is many series.
type LazyHistogram = LazyLock<Timing, Box<dyn FnOnce() -> Timing + Send>>;

/// The handles of one route.
pub struct RouteMetrics {
    name: String,
    requests: Vec<Counter>,
    seconds: Vec<LazyHistogram>,
    outcomes: Vec<Counter>,
    probes: Vec<Counter>,
    duplicates: Counter,
    also_refused: Counter,
    clients_gone: Counter,
    executed_but_failed: Counter,
    outcome_headers_unclear: Counter,
    tokens_issued: Counter,
    in_flight: Gauge,
    doubts: IntGauge,
    oldest_doubt: IntGauge,
    doubts_expiring: IntGauge,
    usual: Arc<Usual>,
}

struct Families {
    requests: Family<Counter>,
    seconds: Family<Timing>,
    outcomes: Family<Counter>,
    probes: Family<Counter>,
    duplicates: Family<Counter>,
    also_refused: Family<Counter>,
    clients_gone: Family<Counter>,
    executed_but_failed: Family<Counter>,
    outcome_headers_unclear: Family<Counter>,
    tokens_issued: Family<Counter>,
    in_flight: Family<Gauge>,
    doubts: IntGaugeVec,
    oldest_doubt: IntGaugeVec,
    doubts_expiring: IntGaugeVec,
    /// How long attempts take, by route. Looked into once for each configuration.
    usual: Mutex<HashMap<String, Arc<Usual>>>,
}

impl Metrics {
    /// Metrics that nothing was counted in yet. Routes and upstreams get theirs when they are first asked for.
    ///
    /// # Errors
    /// When two of them have one name.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new_custom(Some("oncegate".to_owned()), None)?;
        let to = Register::new(registry.clone());
        let families = Families::new(&to)?;
        let store_seconds = to.timings("store_seconds", "Seconds of a store call.", &["op"], STORE_BUCKETS)?;
        let store_errors = to.counters("store_errors_total", "Store calls without an answer.", &["op"])?;
        let early = "Connections that failed before their first request.";
        let handshakes = to.counters("handshakes_failed_total", early, &["step"])?;
        let checks = to.counters("filter_checks_total", "Bloom filter look-ups.", &["answer"])?;
        let reloads = to.counters("reloads_total", "Readings of a changed configuration.", &["result"])?;
        let timeouts = to.counters("timeouts_total", "Limits of time that were reached.", &["kind"])?;
        Ok(Self {
            no_route: Arc::new(families.route(NO_ROUTE)),
            families,
            upstreams: UpstreamFamilies::new(&to)?,
            redis: RedisMetrics::new(&registry)?,
            tokens: TokenMetrics::new(&to)?,
            store_seconds: StoreOp::ALL.iter().map(|op| store_seconds.with_label_values(&[op.label()])).collect(),
            store_errors: StoreOp::ALL.iter().map(|op| store_errors.with_label_values(&[op.label()])).collect(),
            filter_checks: FilterAnswer::ALL.iter().map(|a| checks.with_label_values(&[a.label()])).collect(),
            handshakes_failed: Handshake::ALL.iter().map(|s| handshakes.with_label_values(&[s.label()])).collect(),
            tls_reload_failed: register(
                &registry,
                IntGauge::new("tls_reload_failed", "1 while the certificate files as they are cannot be used."),
            )?,
            timeouts: Timeout::ALL.iter().map(|kind| timeouts.with_label_values(&[kind.label()])).collect(),
            filter_false_positives: register(
                &registry,
                IntCounter::new("filter_false_positives_total", "Operations called perhaps seen that were new."),
            )?,
            filter_fill_ratio: register(
                &registry,
                prometheus::Gauge::new(
                    "filter_fill_ratio",
                    "Share of the current filter generation's capacity in use.",
                ),
            )?,
            lease_lost: register(
                &registry,
                IntCounter::new("lease_lost_total", "Attempts that were not heard of until their lease ended."),
            )?,
            late_answers: register(
                &registry,
                IntCounter::new("late_answers_total", "Answers that came after the client's or the lease's end."),
            )?,
            kept: KeptMetrics::new(&registry)?,
            log_lines_lost: register(&registry, IntGauge::new("log_lines_lost", "Log lines dropped under pressure."))?,
            access_log_dropped: register(
                &registry,
                IntCounter::new("access_log_dropped_total", "Lines of the access log that were dropped."),
            )?,
            reloads: ReloadResult::ALL.iter().map(|r| reloads.with_label_values(&[r.label()])).collect(),
            config_loaded: register(
                &registry,
                IntGauge::new("config_loaded_timestamp_seconds", "When the configuration in force was read."),
            )?,
            registry,
        })
    }

    /// The handles of the route of this name. Whoever asks again counts on.
    pub fn route(&self, name: &str) -> Arc<RouteMetrics> {
        Arc::new(self.families.route(name))
    }

    /// The handles for requests that matched no route.
    pub fn no_route(&self) -> &Arc<RouteMetrics> {
        &self.no_route
    }

    /// What is told of records, and of what waits to be one.
    pub fn kept(&self) -> &KeptMetrics {
        &self.kept
    }

    /// The handles of the upstream of this name. Whoever asks again counts on.
    pub fn upstream(&self, name: &str) -> Arc<UpstreamMetrics> {
        self.upstreams.upstream(name)
    }

    /// The handles of a Redis that keeps the records.
    pub fn redis(&self) -> &RedisMetrics {
        &self.redis
    }

    /// A token was looked at.
    pub fn token_checked(&self, check: TokenCheck) {
        self.tokens.checked(check);
    }

    /// The keys that tokens are verified with were read, at this time in seconds since 1970.
    pub fn keys_read(&self, result: KeysRead, at: u64) {
        self.tokens.read(result, at);
    }

    /// A store call ended after this long.
    pub fn store_called(&self, op: StoreOp, took: Duration, failed: bool) {
        self.store_seconds[op as usize].observe(took);
        if failed {
            self.store_errors[op as usize].inc();
        }
    }

    /// A limit of time was reached.
    pub fn timed_out(&self, kind: Timeout) {
        self.timeouts[kind as usize].inc();
    }

    /// The filter was asked.
    pub fn filter_checked(&self, answer: FilterAnswer) {
        self.filter_checks[answer as usize].inc();
    }

    /// The filter said perhaps, and the operation was new.
    pub fn filter_false_positive(&self) {
        self.filter_false_positives.inc();
    }

    /// How full the current filter generation is, from 0 to 1.
    pub fn filter_filled(&self, ratio: f64) {
        self.filter_fill_ratio.set(ratio);
    }

    /// A connection failed before its first request.
    pub fn handshake_failed(&self, step: Handshake) {
        self.handshakes_failed[step as usize].inc();
    }

    /// Whether the certificate files as they are now cannot be used, so that older ones stay in use.
    pub fn tls_reload_failed(&self, failed: bool) {
        self.tls_reload_failed.set(i64::from(failed));
    }

    /// An attempt's lease ended unrenewed.
    pub fn lease_lost(&self) {
        self.lease_lost.inc();
    }

    /// An answer came after its client's deadline or after its lease.
    pub fn late_answer(&self) {
        self.late_answers.inc();
    }

    /// How many log lines were dropped since the start.
    pub fn log_lines_lost(&self, lines: usize) {
        self.log_lines_lost.set(i64::try_from(lines).unwrap_or(i64::MAX));
    }

    /// Lines of the access log were dropped, because what it is written to does not keep up.
    pub fn access_log_dropped(&self, lines: usize) {
        self.access_log_dropped.inc_by(u64::try_from(lines).unwrap_or(u64::MAX));
    }

    /// A changed configuration was read, and taken over or not.
    pub fn reloaded(&self, result: ReloadResult) {
        self.reloads[result as usize].inc();
    }

    /// When the configuration in force was read, in seconds since 1970.
    pub fn config_loaded(&self, at: u64) {
        self.config_loaded.set(i64::try_from(at).unwrap_or(i64::MAX));
    }

    /// The text exposition format, version 0.0.4.
    pub fn render(&self) -> String {
        let mut text = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&self.registry.gather(), &mut text) {
            tracing::error!(%error, "metrics cannot be written");
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Families {
    fn new(to: &Register) -> Result<Self, prometheus::Error> {
        let counter = |name, help, labels| to.counters(name, help, labels);
        let gauge = |name, help| register(&to.registry, IntGaugeVec::new(Opts::new(name, help), &["route"]));
        let from_head = "Seconds from a request's head to its answer's head.";
        Ok(Self {
            requests: counter("requests_total", "Requests by what became of them.", &["route", "verdict"])?,
            seconds: to.timings("request_seconds", from_head, &["route", "verdict"], REQUEST_BUCKETS)?,
            outcomes: counter("outcomes_total", "Attempts by what became of them.", &["route", "outcome"])?,
            probes: counter("probes_total", "Doubts that the upstream was asked about.", &["route", "finding"])?,
            duplicates: counter("duplicates_total", "Requests whose operation was on record.", &["route"])?,
            also_refused: counter("also_refused_total", "Duplicates by a route's second key alone.", &["route"])?,
            clients_gone: counter("clients_gone_total", "Clients that left before their answer.", &["route"])?,
            executed_but_failed: counter(
                "executed_but_failed_total",
                "Requests that were let through and failed at the upstream.",
                &["route"],
            )?,
            outcome_headers_unclear: counter(
                "outcome_headers_unclear_total",
                "Fields of the upstream's own word on an operation that cannot be made out.",
                &["route"],
            )?,
            tokens_issued: counter("tokens_issued_total", "Single-use tokens that clients got.", &["route"])?,
            in_flight: to.gauges("in_flight", "Attempts that are running.", &["route"])?,
            doubts: gauge("doubts", "Operations in doubt, by the last sweep.")?,
            oldest_doubt: gauge("oldest_doubt_seconds", "Age of the oldest doubt, by the last sweep.")?,
            doubts_expiring: gauge("doubts_expiring", "Doubts that are forgotten within a day, by the last sweep.")?,
            usual: Mutex::default(),
        })
    }

    fn route(&self, name: &str) -> RouteMetrics {
        let by_verdict = |verdict: &Verdict| [name, verdict.label()];
        RouteMetrics {
            name: name.to_owned(),
            requests: Verdict::ALL.iter().map(|v| self.requests.with_label_values(&by_verdict(v))).collect(),
            // Most verdicts never come up.
            seconds: Verdict::ALL.iter().map(|v| self.lazy_seconds(name, *v)).collect(),
            outcomes: Outcome::ALL.iter().map(|o| self.outcomes.with_label_values(&[name, o.label()])).collect(),
            probes: ProbeFinding::ALL.iter().map(|f| self.probes.with_label_values(&[name, f.label()])).collect(),
            duplicates: self.duplicates.with_label_values(&[name]),
            also_refused: self.also_refused.with_label_values(&[name]),
            clients_gone: self.clients_gone.with_label_values(&[name]),
            executed_but_failed: self.executed_but_failed.with_label_values(&[name]),
            outcome_headers_unclear: self.outcome_headers_unclear.with_label_values(&[name]),
            tokens_issued: self.tokens_issued.with_label_values(&[name]),
            in_flight: self.in_flight.with_label_values(&[name]),
            doubts: self.doubts.with_label_values(&[name]),
            oldest_doubt: self.oldest_doubt.with_label_values(&[name]),
            doubts_expiring: self.doubts_expiring.with_label_values(&[name]),
            usual: Arc::clone(
                self.usual.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_default(),
            ),
        }
    }

    fn lazy_seconds(&self, name: &str, verdict: Verdict) -> LazyHistogram {
        let (family, name) = (self.seconds.clone(), name.to_owned());
        LazyLock::new(Box::new(move || family.with_label_values(&[name.as_str(), verdict.label()])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::{CheckResult, ServerState};

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the clock is above")]
    fn what_is_usual_on_a_route_outlives_a_change_of_configuration() {
        let metrics = Metrics::new().unwrap();
        metrics.route("a").attempt_took(Duration::from_secs(1), std::time::Instant::now());
        assert_eq!(metrics.route("a").attempts_usually_take(), Some(Duration::from_secs(2)));
        assert_eq!(metrics.route("b").attempts_usually_take(), None);
    }

    #[test]
    fn facts_appear_under_their_public_names() {
        let metrics = Metrics::new().unwrap();
        let route = metrics.route("create-order");
        route.answered(Verdict::Replayed, Duration::from_millis(3));
        metrics.no_route().answered(Verdict::NoRoute, Duration::ZERO);
        metrics.store_called(StoreOp::Reserve, Duration::from_micros(300), true);
        metrics.filter_checked(FilterAnswer::Perhaps);
        let upstream = metrics.upstream("orders");
        upstream.servers(ServerState::Ejected, 3);
        upstream.ejected(4);
        upstream.checked(CheckResult::Failed, 5);
        metrics.route("create-order").doubts_found(DoubtsFound {
            count: 2,
            expiring: 1,
            oldest: Duration::from_secs(61),
        });
        let text = metrics.render();
        for line in [
            r#"oncegate_requests_total{route="create-order",verdict="replayed"} 1"#,
            r#"oncegate_requests_total{route="",verdict="no_route"} 1"#,
            r#"oncegate_request_seconds_count{route="create-order",verdict="replayed"} 1"#,
            r#"oncegate_store_errors_total{op="reserve"} 1"#,
            r#"oncegate_filter_checks_total{answer="perhaps"} 1"#,
            r#"oncegate_upstream_servers{state="ejected",upstream="orders"} 3"#,
            r#"oncegate_upstream_ejections_total{upstream="orders"} 4"#,
            r#"oncegate_upstream_health_checks_total{result="failed",upstream="orders"} 5"#,
            r#"oncegate_doubts{route="create-order"} 2"#,
            r#"oncegate_doubts_expiring{route="create-order"} 1"#,
            r#"oncegate_oldest_doubt_seconds{route="create-order"} 61"#,
            r#"oncegate_requests_total{route="create-order",verdict="executed"} 0"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains(r#"seconds_count{route="create-order",verdict="executed"}"#), "none was observed");
    }
}
