//! Prometheus metrics: one method per fact. Handles are resolved once per route, never on the hot path.

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{Encoder, Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec};
use prometheus::{IntGauge, IntGaugeVec, Opts, Registry, TextEncoder};

/// A label value that is known at compile time.
macro_rules! labels {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident => $label:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The value as the metrics write it.
            pub fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)* }
            }
        }
    };
}

labels! {
    /// What became of a request. Every request counts once.
    Verdict {
        /// It ran, and the upstream's answer went back.
        Executed => "executed",
        /// It got the recorded answer.
        Replayed => "replayed",
        /// It was refused as a duplicate of a completed operation.
        Rejected => "rejected",
        /// It was refused: done, but the answer was not kept.
        AlreadyExecuted => "already_executed",
        /// It was refused: an attempt is running.
        InFlight => "in_flight",
        /// It was refused: the key belongs to a different request.
        Mismatch => "mismatch",
        /// It was refused: the outcome is not known.
        InDoubt => "in_doubt",
        /// It had no key.
        KeyMissing => "key_missing",
        /// Its key was no key.
        KeyInvalid => "key_invalid",
        /// Its scope's value was not there.
        ScopeMissing => "scope_missing",
        /// Its token was not valid.
        TokenInvalid => "token_invalid",
        /// Its body was over the limit.
        BodyTooLarge => "body_too_large",
        /// Its body did not arrive, or its client left before it was admitted.
        BodyAborted => "body_aborted",
        /// The client's deadline passed while the attempt goes on.
        UpstreamTimeout => "upstream_timeout",
        /// The upstream broke after the request was sent.
        UpstreamFailed => "upstream_failed",
        /// Nothing was sent.
        UpstreamUnreachable => "upstream_unreachable",
        /// A limit was reached.
        Overloaded => "overloaded",
        /// The store could not be asked.
        StoreUnavailable => "store_unavailable",
        /// The record could not be read.
        RecordUnreadable => "record_unreadable",
        /// It passed unguarded while the store was away.
        Unguarded => "unguarded",
        /// It passed a plain route, or had no key on a route that lets such requests pass.
        Passed => "passed",
        /// It passed a shadow route as what would have been a duplicate or a refusal.
        Shadowed => "shadowed",
        /// No route matched.
        NoRoute => "no_route",
        /// It was malformed, or refused by rule.
        BadRequest => "bad_request",
    }
}

labels! {
    /// What became of an attempt.
    Outcome {
        /// The answer is remembered.
        Kept => "kept",
        /// The answer freed the key.
        Released => "released",
        /// The outcome is not known.
        Doubted => "doubted",
        /// Nothing was sent.
        NotSent => "not_sent",
    }
}

labels! {
    /// A store call.
    StoreOp {
        /// The first conditional write of an attempt.
        Reserve => "reserve",
        /// A read.
        Load => "load",
        /// A lease's extension.
        Renew => "renew",
        /// The recording of an outcome or a doubt.
        Settle => "settle",
        /// A removal.
        Remove => "remove",
        /// A part of a listing.
        List => "list",
    }
}

labels! {
    /// What the Bloom filter said.
    FilterAnswer {
        /// Surely not seen by this gateway.
        New => "new",
        /// Perhaps seen.
        Perhaps => "perhaps",
    }
}

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
    filter_false_positives: IntCounter,
    filter_fill_ratio: Gauge,
    lease_lost: IntCounter,
    late_answers: IntCounter,
    store_may_evict: IntGauge,
    log_lines_lost: IntGauge,
}

/// The handles of one route.
pub struct RouteMetrics {
    requests: Vec<IntCounter>,
    seconds: Vec<Histogram>,
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
        let upstream_seconds =
            histogram_vec(&registry, "upstream_seconds", "Seconds from sending to the answer's head.", "upstream")?;
        let store_seconds = store_histogram(&registry)?;
        let store_errors = counter_vec(&registry, "store_errors_total", "Store calls without an answer.", &["op"])?;
        let checks = counter_vec(&registry, "filter_checks_total", "Bloom filter look-ups.", &["answer"])?;
        Ok(Self {
            routes: routes.iter().map(|name| families.route(name)).collect(),
            no_route: families.route(NO_ROUTE),
            upstreams: upstreams.iter().map(|name| upstream_seconds.with_label_values(&[name])).collect(),
            store_seconds: StoreOp::ALL.iter().map(|op| store_seconds.with_label_values(&[op.label()])).collect(),
            store_errors: StoreOp::ALL.iter().map(|op| store_errors.with_label_values(&[op.label()])).collect(),
            filter_checks: FilterAnswer::ALL.iter().map(|a| checks.with_label_values(&[a.label()])).collect(),
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
        let seconds = HistogramOpts::new("request_seconds", "Seconds from a request's head to its answer's head.")
            .buckets(REQUEST_BUCKETS.to_vec());
        Ok(Self {
            requests: counter("requests_total", "Requests by what became of them.", &["route", "verdict"])?,
            seconds: register(registry, HistogramVec::new(seconds, &["route", "verdict"]))?,
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
            seconds: Verdict::ALL.iter().map(|v| self.seconds.with_label_values(&by_verdict(v))).collect(),
            outcomes: Outcome::ALL.iter().map(|o| self.outcomes.with_label_values(&[name, o.label()])).collect(),
            duplicates: self.duplicates.with_label_values(&[name]),
            clients_gone: self.clients_gone.with_label_values(&[name]),
            executed_but_failed: self.executed_but_failed.with_label_values(&[name]),
            in_flight: self.in_flight.with_label_values(&[name]),
            doubts: self.doubts.with_label_values(&[name]),
            oldest_doubt: self.oldest_doubt.with_label_values(&[name]),
        }
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

fn histogram_vec(registry: &Registry, name: &str, help: &str, label: &str) -> Result<HistogramVec, prometheus::Error> {
    let options = HistogramOpts::new(name, help).buckets(REQUEST_BUCKETS.to_vec());
    register(registry, HistogramVec::new(options, &[label]))
}

fn store_histogram(registry: &Registry) -> Result<HistogramVec, prometheus::Error> {
    let options = HistogramOpts::new("store_seconds", "Seconds of a store call.").buckets(STORE_BUCKETS.to_vec());
    register(registry, HistogramVec::new(options, &["op"]))
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
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
