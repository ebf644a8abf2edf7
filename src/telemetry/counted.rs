//! Metrics that requests count on their way, in cells of each thread. The `prometheus` crate keeps their families, and
//! writes them out as it does its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use prometheus::core::{Metric, MetricVec, MetricVecBuilder};
use prometheus::{Opts, proto};

use super::cells::{Cells, Ledger, add};

/// A number that only goes up.
#[derive(Clone)]
pub(super) struct Counter {
    labels: Labels,
    cells: Cells,
}

/// A number that goes up and down, perhaps up on one thread and down on another.
#[derive(Clone)]
pub(super) struct Gauge {
    labels: Labels,
    cells: Cells,
}

/// A histogram of seconds.
///
/// Its cells are its turns, the sum of all seconds, and a number for each bucket. A turn is odd while this thread counts,
/// so that whoever reads meanwhile sees it and reads again: what is read belongs together.
#[derive(Clone)]
pub(super) struct Timing {
    labels: Labels,
    cells: Cells,
    bounds: Bounds,
}

/// Upper bounds of a histogram's buckets, in seconds.
pub(super) type Bounds = &'static [f64];

type Labels = Arc<[proto::LabelPair]>;

impl Counter {
    #[inline]
    pub(super) fn inc(&self) {
        self.inc_by(1);
    }

    #[inline]
    pub(super) fn inc_by(&self, count: u64) {
        self.cells.write(|cells| add(&cells[0], count));
    }

    /// What all threads have counted.
    pub(super) fn get(&self) -> u64 {
        total(&self.cells)
    }
}

impl Gauge {
    pub(super) fn add(&self, change: i64) {
        self.cells.write(|cells| add(&cells[0], change.cast_unsigned()));
    }

    /// What is left of all threads' ups and downs.
    fn get(&self) -> i64 {
        total(&self.cells).cast_signed()
    }
}

fn total(cells: &Cells) -> u64 {
    let numbers = cells.all().flatten().map(|cell| cell.load(Ordering::Relaxed));
    numbers.fold(0, u64::wrapping_add)
}

impl Timing {
    pub(super) fn observe(&self, span: Duration) {
        let seconds = span.as_secs_f64();
        let bucket = self.bounds.iter().position(|bound| seconds <= *bound);
        self.cells.write(|cells| {
            let [turn, sum, buckets @ ..] = cells else { return };
            let before = turn.load(Ordering::Relaxed);
            turn.store(before + 1, Ordering::Relaxed);
            // What follows is not seen before the odd turn is.
            fence(Ordering::Release);
            let seconds = f64::from_bits(sum.load(Ordering::Relaxed)) + seconds;
            sum.store(seconds.to_bits(), Ordering::Relaxed);
            if let Some(bucket) = bucket {
                add(&buckets[bucket], 1);
            }
            turn.store(before + 2, Ordering::Release);
        });
    }

    fn histogram(&self) -> proto::Histogram {
        let (mut count, mut seconds, mut counts) = (0, 0.0, vec![0; self.bounds.len()]);
        for cells in self.cells.all() {
            let [turns, sum, buckets @ ..] = &*at_rest(cells) else { continue };
            count += turns / 2;
            seconds += f64::from_bits(*sum);
            counts.iter_mut().zip(buckets).for_each(|(count, bucket)| *count += bucket);
        }
        let cumulative = counts.iter().scan(0, |below, count| {
            *below += count;
            Some(*below)
        });
        let mut histogram = proto::Histogram::default();
        histogram.set_sample_count(count);
        histogram.set_sample_sum(seconds);
        histogram.set_bucket(self.bounds.iter().zip(cumulative).map(|(bound, count)| bucket(*bound, count)).collect());
        histogram
    }
}

/// A timing's cells as they are between two turns.
fn at_rest(cells: &[AtomicU64]) -> Vec<u64> {
    loop {
        // The turn is the first of them.
        let read: Vec<_> = cells.iter().map(|cell| cell.load(Ordering::Acquire)).collect();
        let turn = cells.first().map(|turn| turn.load(Ordering::Relaxed));
        if read.first().is_some_and(|first| first % 2 == 0 && turn == Some(*first)) {
            return read;
        }
        std::thread::yield_now();
    }
}

fn bucket(bound: f64, cumulative: u64) -> proto::Bucket {
    let mut bucket = proto::Bucket::default();
    bucket.set_upper_bound(bound);
    bucket.set_cumulative_count(cumulative);
    bucket
}

impl Metric for Counter {
    #[expect(clippy::cast_precision_loss, reason = "what is written out is a float")]
    fn metric(&self) -> proto::Metric {
        let mut counter = proto::Counter::default();
        counter.set_value(self.get() as f64);
        let mut metric = proto::Metric::from_label(self.labels.to_vec());
        metric.set_counter(counter);
        metric
    }
}

impl Metric for Gauge {
    #[expect(clippy::cast_precision_loss, reason = "what is written out is a float")]
    fn metric(&self) -> proto::Metric {
        let mut gauge = proto::Gauge::default();
        gauge.set_value(self.get() as f64);
        let mut metric = proto::Metric::from_label(self.labels.to_vec());
        metric.set_gauge(gauge);
        metric
    }
}

impl Metric for Timing {
    fn metric(&self) -> proto::Metric {
        let mut metric = proto::Metric::from_label(self.labels.to_vec());
        metric.set_histogram(self.histogram());
        metric
    }
}

/// A metric that a family is made of.
pub(super) trait Counted: Metric {
    const TYPE: proto::MetricType;
    /// What is the same in all of a family, but for its labels' names.
    type Shape: Send + Sync + Copy;

    fn new(ledger: &Ledger, labels: Labels, shape: Self::Shape) -> Self;
}

impl Counted for Counter {
    const TYPE: proto::MetricType = proto::MetricType::COUNTER;
    type Shape = ();

    fn new(ledger: &Ledger, labels: Labels, (): ()) -> Self {
        Self { labels, cells: Cells::new(ledger, 1) }
    }
}

impl Counted for Gauge {
    const TYPE: proto::MetricType = proto::MetricType::GAUGE;
    type Shape = ();

    fn new(ledger: &Ledger, labels: Labels, (): ()) -> Self {
        Self { labels, cells: Cells::new(ledger, 1) }
    }
}

impl Counted for Timing {
    const TYPE: proto::MetricType = proto::MetricType::HISTOGRAM;
    type Shape = Bounds;

    fn new(ledger: &Ledger, labels: Labels, bounds: Bounds) -> Self {
        Self { labels, cells: Cells::new(ledger, 2 + bounds.len()), bounds }
    }
}

/// Metrics of one name, told apart by their labels.
pub(super) type Family<M> = MetricVec<Maker<M>>;

/// What makes the metrics of a family.
#[derive(Clone)]
pub(super) struct Maker<M: Counted> {
    ledger: Arc<Ledger>,
    shape: M::Shape,
}

impl<M: Counted> MetricVecBuilder for Maker<M> {
    type M = M;
    type P = Opts;

    fn build<V: AsRef<str>>(&self, opts: &Opts, values: &[V]) -> Result<M, prometheus::Error> {
        let mut labels: Vec<_> = opts.variable_labels.iter().zip(values).map(|(n, v)| label(n, v.as_ref())).collect();
        labels.sort_by(|one, other| one.name().cmp(other.name()));
        Ok(M::new(&self.ledger, labels.into(), self.shape))
    }
}

fn label(name: &str, value: &str) -> proto::LabelPair {
    let mut label = proto::LabelPair::default();
    label.set_name(name.to_owned());
    label.set_value(value.to_owned());
    label
}

/// A family without metrics yet.
pub(super) fn family<M: Counted>(
    ledger: &Arc<Ledger>,
    opts: Opts,
    labels: &[&str],
    shape: M::Shape,
) -> Result<Family<M>, prometheus::Error> {
    let opts = opts.variable_labels(labels.iter().map(|&name| name.to_owned()).collect());
    MetricVec::create(M::TYPE, Maker { ledger: Arc::clone(ledger), shape }, opts)
}

#[cfg(test)]
mod tests {
    use prometheus::{Histogram, HistogramOpts};
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = &[0.001, 0.0025, 0.01, 0.5, 1.0];

    fn one<M: Counted>(shape: M::Shape) -> M {
        let family = family::<M>(&Ledger::new(), Opts::new("name", "Help."), &["route", "kind"], shape).unwrap();
        family.with_label_values(&["a", "b"])
    }

    fn observed(histogram: &proto::Histogram) -> (u64, Vec<u64>) {
        let counts = histogram.get_bucket().iter().map(proto::Bucket::cumulative_count).collect();
        (histogram.get_sample_count(), counts)
    }

    #[test]
    fn labels_are_in_the_order_that_the_crate_gives_them() {
        let own = one::<Counter>(());
        own.inc_by(3);
        let theirs = prometheus::IntCounterVec::new(Opts::new("name", "Help."), &["route", "kind"]).unwrap();
        let theirs = theirs.with_label_values(&["a", "b"]);
        theirs.inc_by(3);
        assert_eq!(own.metric(), theirs.metric());
    }

    #[test]
    fn what_goes_up_on_one_thread_and_down_on_another_is_level() {
        let gauge = one::<Gauge>(());
        std::thread::scope(|scope| {
            for change in [1, -1, 1, -1, -1] {
                let gauge = &gauge;
                scope.spawn(move || (0..10_000).for_each(|_| gauge.add(change)));
            }
        });
        assert_eq!(gauge.get(), -10_000);
        let theirs = prometheus::IntGaugeVec::new(Opts::new("name", "Help."), &["route", "kind"]).unwrap();
        let theirs = theirs.with_label_values(&["a", "b"]);
        theirs.set(-10_000);
        assert_eq!(gauge.metric(), theirs.metric());
    }

    /// Every span is a second: so many seconds as spans, and all of them in the last bucket.
    #[test]
    fn whoever_reads_while_others_count_reads_what_belongs_together() {
        let timing = one::<Timing>(BOUNDS);
        std::thread::scope(|scope| {
            let counting: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| (0..100_000).for_each(|_| timing.observe(Duration::from_secs(1)))))
                .collect();
            let mut before = 0;
            while !counting.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                let read = timing.histogram();
                let (count, counts) = observed(&read);
                assert_eq!(counts, [0, 0, 0, 0, count]);
                assert!((read.get_sample_sum() - f64::from(u32::try_from(count).unwrap())).abs() < 0.1);
                assert!(count >= before, "{count} after {before}");
                before = count;
            }
        });
        assert_eq!(timing.histogram().get_sample_count(), 300_000);
    }

    proptest! {
        /// Spans at, below and above the bounds are shown as the crate's own histogram shows them.
        #[test]
        fn a_timing_shows_what_a_histogram_would(
            millionths in proptest::collection::vec(prop_oneof![0_u64..3000, 0_u64..3_000_000], 0..200),
            threads in 1_usize..4,
        ) {
            let own = one::<Timing>(BOUNDS);
            let theirs = Histogram::with_opts(HistogramOpts::new("name", "Help.").buckets(BOUNDS.to_vec())).unwrap();
            let spans: Vec<_> = millionths.iter().map(|millionths| Duration::from_micros(*millionths)).collect();
            for span in &spans {
                theirs.observe(span.as_secs_f64());
            }
            std::thread::scope(|scope| {
                for part in spans.chunks(1 + spans.len() / threads) {
                    scope.spawn(|| part.iter().for_each(|span| own.observe(*span)));
                }
            });
            let (own, theirs) = (own.histogram(), theirs.metric().get_histogram().clone());
            if threads == 1 {
                prop_assert_eq!(own, theirs);
            } else {
                prop_assert_eq!(observed(&own), observed(&theirs));
                prop_assert!((own.get_sample_sum() - theirs.get_sample_sum()).abs() < 1e-9);
            }
        }
    }
}
