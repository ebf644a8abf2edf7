//! Prometheus metrics: one method per fact. Handles are resolved once per route, never on the hot path.

use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{Encoder, Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec};
use prometheus::{IntGauge, IntGaugeVec, Opts, Registry, TextEncoder};

use super::labels::{FilterAnswer, Outcome, StoreOp, Timeout, Verdict};

/// Upper bounds, in seconds, of the histograms of requests and upstream answers.
const REQUEST_BUCKETS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// Upper bounds, in seconds, of the histogram of store calls.
const STORE_BUCKETS: &[f64] = &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0];

/// The label of requests that matched no route.
const NO_ROUTE: &str = "";

/// All metrics of this process.
pub struct Metrics {
    registry: Registry,
    routes: Vec<RouteMetrics>,
    no_route: RouteMetrics,
    upstreams: Vec<Histogram>,
    store_seconds: Vec<Histogram>,
    store_errors: Vec<IntCounter>,
    filter_checks: Vec<IntCounter>,
    timeouts: Vec<IntCounter>,
    filter_false_positives: IntCounter,
    filter_fill_ratio: Gauge,
    lease_lost: IntCounter,
    late_answers: IntCounter,
    store_may_evict: IntGauge,
    log_lines_lost: IntGauge,
}

/// A histogram that begins when it is first needed: it is many series.
type LazyHistogram = LazyLock<Histogram, Box<dyn FnOnce() -> Histogram + Send>>;

/// The handles of one route.
pub struct RouteMetrics {
    requests: Vec<IntCounter>,
    seconds: Vec<LazyHistogram>,
    outcomes: Vec<IntCounter>,
    duplicates: IntCounter,
    clients_gone: IntCounter,
    executed_but_failed: IntCounter,
    in_flight: IntGauge,
    doubts: IntGauge,
    oldest_doubt: IntGauge,
}

struct Families {
    requests: IntCounterVec,
    seconds: HistogramVec,
    outcomes: IntCounterVec,
    duplicates: IntCounterVec,
    clients_gone: IntCounterVec,
    executed_but_failed: IntCounterVec,
    in_flight: IntGaugeVec,
    doubts: IntGaugeVec,
    oldest_doubt: IntGaugeVec,
}

impl Metrics {
    /// Metrics for routes and upstreams of these names, each addressed by its place in the list.
    ///
    /// # Errors
    /// When two names are equal in a way that the registry cannot hold.
    pub fn new(routes: &[String], upstreams: &[String]) -> Result<Self, prometheus::Error> {
        let registry = Registry::new_custom(Some("oncegate".to_owned()), None)?;
        let families = Families::new(&registry)?;
        let histogram = |name, help, label, bounds| histogram_vec(&registry, name, help, &[label], bounds);
        let from_sending = "Seconds from sending to the answer's head.";
        let upstream_seconds = histogram("upstream_seconds", from_sending, "upstream", REQUEST_BUCKETS)?;
        let store_seconds = histogram("store_seconds", "Seconds of a store call.", "op", STORE_BUCKETS)?;
        let store_errors = counter_vec(&registry, "store_errors_total", "Store calls without an answer.", &["op"])?;
        let checks = counter_vec(&registry, "filter_checks_total", "Bloom filter look-ups.", &["answer"])?;
        let timeouts = counter_vec(&registry, "timeouts_total", "Limits of time that were reached.", &["kind"])?;
        Ok(Self {
            routes: routes.iter().map(|name| families.route(name)).collect(),
            no_route: families.route(NO_ROUTE),
            upstreams: upstreams.iter().map(|name| upstream_seconds.with_label_values(&[name])).collect(),
            store_seconds: StoreOp::ALL.iter().map(|op| store_seconds.with_label_values(&[op.label()])).collect(),
            store_errors: StoreOp::ALL.iter().map(|op| store_errors.with_label_values(&[op.label()])).collect(),
            filter_checks: FilterAnswer::ALL.iter().map(|a| checks.with_label_values(&[a.label()])).collect(),
            timeouts: Timeout::ALL.iter().map(|kind| timeouts.with_label_values(&[kind.label()])).collect(),
            filter_false_positives: register(
                &registry,
                IntCounter::new("filter_false_positives_total", "Operations called perhaps seen that were new."),
            )?,
            filter_fill_ratio: register(
                &registry,
                Gauge::new("filter_fill_ratio", "Share of the current filter generation's capacity in use."),
            )?,
            lease_lost: register(
                &registry,
                IntCounter::new("lease_lost_total", "Attempts that were not heard of until their lease ended."),
            )?,
            late_answers: register(
                &registry,
                IntCounter::new("late_answers_total", "Answers that came after the client's or the lease's end."),
            )?,
            store_may_evict: register(
                &registry,
                IntGauge::new("store_may_evict", "1 while the store's eviction policy may drop records."),
            )?,
            log_lines_lost: register(&registry, IntGauge::new("log_lines_lost", "Log lines dropped under pressure."))?,
            registry,
        })
    }

    /// A route's handles.
    pub fn route(&self, index: usize) -> &RouteMetrics {
        self.routes.get(index).unwrap_or(&self.no_route)
    }

    /// The handles for requests that matched no route.
    pub fn no_route(&self) -> &RouteMetrics {
        &self.no_route
    }

    /// An upstream answered, or failed to, after this long.
    pub fn upstream_answered(&self, index: usize, took: Duration) {
        if let Some(histogram) = self.upstreams.get(index) {
            histogram.observe(took.as_secs_f64());
        }
    }

    /// A store call ended after this long.
    pub fn store_called(&self, op: StoreOp, took: Duration, failed: bool) {
        self.store_seconds[op as usize].observe(took.as_secs_f64());
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

    /// An attempt's lease ended unrenewed.
    pub fn lease_lost(&self) {
        self.lease_lost.inc();
    }

    /// An answer came after its client's deadline or after its lease.
    pub fn late_answer(&self) {
        self.late_answers.inc();
    }

    /// Whether the store may drop records under memory pressure.
    pub fn store_may_evict(&self, may: bool) {
        self.store_may_evict.set(i64::from(may));
    }

    /// How many log lines were dropped since the start.
    pub fn log_lines_lost(&self, lines: usize) {
        self.log_lines_lost.set(i64::try_from(lines).unwrap_or(i64::MAX));
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

impl RouteMetrics {
    /// A request ended.
    pub fn answered(&self, verdict: Verdict, took: Duration) {
        self.requests[verdict as usize].inc();
        self.seconds[verdict as usize].observe(took.as_secs_f64());
    }

    /// A client left before its answer; the request itself is counted by [`answered`](Self::answered).
    pub fn client_gone(&self) {
        self.clients_gone.inc();
    }

    /// An attempt ended.
    pub fn settled(&self, outcome: Outcome) {
        self.outcomes[outcome as usize].inc();
    }

    /// A request met a record of its operation.
    pub fn duplicate(&self) {
        self.duplicates.inc();
    }

    /// A request was let through and failed at the upstream.
    pub fn executed_but_failed(&self) {
        self.executed_but_failed.inc();
    }

    /// An attempt began (1) or ended (-1).
    pub fn attempts_running(&self, change: i64) {
        self.in_flight.add(change);
    }

    /// What the last sweep found: operations in doubt, and the age of the oldest.
    pub fn doubts_found(&self, count: usize, oldest: Duration) {
        self.doubts.set(i64::try_from(count).unwrap_or(i64::MAX));
        self.oldest_doubt.set(i64::try_from(oldest.as_secs()).unwrap_or(i64::MAX));
    }
}

impl Families {
    fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name, help, labels| counter_vec(registry, name, help, labels);
        let gauge = |name, help| register(registry, IntGaugeVec::new(Opts::new(name, help), &["route"]));
        let from_head = "Seconds from a request's head to its answer's head.";
        Ok(Self {
            requests: counter("requests_total", "Requests by what became of them.", &["route", "verdict"])?,
            seconds: histogram_vec(registry, "request_seconds", from_head, &["route", "verdict"], REQUEST_BUCKETS)?,
            outcomes: counter("outcomes_total", "Attempts by what became of them.", &["route", "outcome"])?,
            duplicates: counter("duplicates_total", "Requests whose operation was on record.", &["route"])?,
            clients_gone: counter("clients_gone_total", "Clients that left before their answer.", &["route"])?,
            executed_but_failed: counter(
                "executed_but_failed_total",
                "Requests that were let through and failed at the upstream.",
                &["route"],
            )?,
            in_flight: gauge("in_flight", "Attempts that are running.")?,
            doubts: gauge("doubts", "Operations in doubt, by the last sweep.")?,
            oldest_doubt: gauge("oldest_doubt_seconds", "Age of the oldest doubt, by the last sweep.")?,
        })
    }

    fn route(&self, name: &str) -> RouteMetrics {
        let by_verdict = |verdict: &Verdict| [name, verdict.label()];
        RouteMetrics {
            requests: Verdict::ALL.iter().map(|v| self.requests.with_label_values(&by_verdict(v))).collect(),
            // Most verdicts never come up.
            seconds: Verdict::ALL.iter().map(|v| self.lazy_seconds(name, *v)).collect(),
            outcomes: Outcome::ALL.iter().map(|o| self.outcomes.with_label_values(&[name, o.label()])).collect(),
            duplicates: self.duplicates.with_label_values(&[name]),
            clients_gone: self.clients_gone.with_label_values(&[name]),
            executed_but_failed: self.executed_but_failed.with_label_values(&[name]),
            in_flight: self.in_flight.with_label_values(&[name]),
            doubts: self.doubts.with_label_values(&[name]),
            oldest_doubt: self.oldest_doubt.with_label_values(&[name]),
        }
    }

    fn lazy_seconds(&self, name: &str, verdict: Verdict) -> LazyHistogram {
        let (family, name) = (self.seconds.clone(), name.to_owned());
        LazyLock::new(Box::new(move || family.with_label_values(&[name.as_str(), verdict.label()])))
    }
}

fn register<C: Collector + Clone + 'static>(
    registry: &Registry,
    collector: Result<C, prometheus::Error>,
) -> Result<C, prometheus::Error> {
    let collector = collector?;
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}

fn counter_vec(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<IntCounterVec, prometheus::Error> {
    register(registry, IntCounterVec::new(Opts::new(name, help), labels))
}

fn histogram_vec(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
    bounds: &[f64],
) -> Result<HistogramVec, prometheus::Error> {
    register(registry, HistogramVec::new(HistogramOpts::new(name, help).buckets(bounds.to_vec()), labels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_appear_under_their_public_names() {
        let metrics = Metrics::new(&["create-order".to_owned()], &["orders".to_owned()]).unwrap();
        metrics.route(0).answered(Verdict::Replayed, Duration::from_millis(3));
        metrics.no_route().answered(Verdict::NoRoute, Duration::ZERO);
        metrics.store_called(StoreOp::Reserve, Duration::from_micros(300), true);
        metrics.filter_checked(FilterAnswer::Perhaps);
        metrics.route(0).doubts_found(2, Duration::from_secs(61));
        let text = metrics.render();
        for line in [
            r#"oncegate_requests_total{route="create-order",verdict="replayed"} 1"#,
            r#"oncegate_requests_total{route="",verdict="no_route"} 1"#,
            r#"oncegate_request_seconds_count{route="create-order",verdict="replayed"} 1"#,
            r#"oncegate_store_errors_total{op="reserve"} 1"#,
            r#"oncegate_filter_checks_total{answer="perhaps"} 1"#,
            r#"oncegate_doubts{route="create-order"} 2"#,
            r#"oncegate_oldest_doubt_seconds{route="create-order"} 61"#,
            r#"oncegate_requests_total{route="create-order",verdict="executed"} 0"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains(r#"seconds_count{route="create-order",verdict="executed"}"#), "none was observed");
    }
}
