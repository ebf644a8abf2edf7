//! How long something usually takes, told from how long it took lately. A few words of memory, no lock. It is an estimate
//! for advice, not a metric.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Of what ends more often than this, the first each time is looked at, and the threads that count do not all write one
/// word. Of steady work that tells as much; of work that comes in bursts it is the quickest of each.
const EVERY: Duration = Duration::from_millis(10);

/// How much of the mean the newest one makes.
const MEAN_SHARE: f32 = 1.0 / 8.0;
/// How much of the mean deviation the newest one makes.
const DEVIATION_SHARE: f32 = 1.0 / 4.0;
/// How many mean deviations above the mean are still usual. With times that spread as exponentially as they do at most,
/// nine of ten are below.
const DEVIATIONS: f32 = 2.0;

/// A moving mean of durations and of their distance from it, as TCP keeps them of its round trips (RFC 6298).
///
/// Both are `f32`s, packed into one word, so that no reader sees one without the other. Zero: there was none yet.
#[derive(Debug, Default)]
pub(super) struct Usual {
    word: AtomicU64,
    first: OnceLock<Instant>,
    /// When the next one is looked at, in nanoseconds since the first.
    due: AtomicU64,
}

impl Usual {
    /// It took this long, and ended then.
    pub(super) fn ended(&self, span: Duration, at: Instant) {
        let first = self.first.get_or_init(|| at);
        let since = at.saturating_duration_since(*first);
        if since >= Duration::from_nanos(self.due.load(Ordering::Relaxed)) {
            let due = u64::try_from((since + EVERY).as_nanos()).unwrap_or(u64::MAX);
            self.due.store(due, Ordering::Relaxed);
            self.took(span);
        }
    }

    /// It took this long.
    fn took(&self, span: Duration) {
        let span = span.as_secs_f32();
        self.word.update(Ordering::Relaxed, Ordering::Relaxed, |word| match unpack(word) {
            None => pack(span, span / 2.0),
            Some((mean, deviation)) => {
                let off = span - mean;
                pack(mean + off * MEAN_SHARE, deviation + (off.abs() - deviation) * DEVIATION_SHARE)
            }
        });
    }

    /// How long it takes at most, unless something is unusual; none before there was one.
    pub(super) fn at_most(&self) -> Option<Duration> {
        let (mean, deviation) = unpack(self.word.load(Ordering::Relaxed))?;
        Duration::try_from_secs_f32(mean + DEVIATIONS * deviation).ok()
    }
}

fn pack(mean: f32, deviation: f32) -> u64 {
    u64::from(mean.to_bits()) << 32 | u64::from(deviation.to_bits())
}

fn unpack(word: u64) -> Option<(f32, f32)> {
    let bytes = word.to_be_bytes();
    let (mean, deviation) = (bytes.first_chunk()?, bytes.last_chunk()?);
    (word != 0).then(|| (f32::from_be_bytes(*mean), f32::from_be_bytes(*deviation)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn after(spans: impl IntoIterator<Item = u64>) -> Option<Duration> {
        let usual = Usual::default();
        spans.into_iter().for_each(|millis| usual.took(Duration::from_millis(millis)));
        usual.at_most()
    }

    #[test]
    fn the_first_one_tells_with_much_room_and_more_of_the_same_with_little() {
        assert_eq!(after([]), None);
        assert_eq!(after([1000]), Some(Duration::from_secs(2)));
        let steady = after([1000; 50]).unwrap();
        assert!((1000..1010).contains(&steady.as_millis()), "{steady:?}");
    }

    #[test]
    fn a_route_that_has_changed_is_soon_seen_as_it_is() {
        let slower = after([vec![20; 1000], vec![5000; 20]].concat()).unwrap();
        assert!(slower > Duration::from_secs(4), "{slower:?}");
        let faster = after([vec![5000; 1000], vec![20; 50]].concat()).unwrap();
        assert!(faster < Duration::from_millis(100), "{faster:?}");
    }

    #[test]
    fn a_lone_outlier_is_forgotten() {
        let calm = after([vec![100; 100], vec![60_000], vec![100; 100]].concat()).unwrap();
        assert!(calm < Duration::from_millis(110), "{calm:?}");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the clock is above")]
    fn of_what_ends_often_a_sample_tells_and_of_what_ends_seldom_each_one() {
        let (usual, start) = (Usual::default(), Instant::now());
        let often = EVERY / 10;
        (0..1000)
            .for_each(|i| usual.ended(Duration::from_millis(if i % 10 == 0 { 20 } else { 500 }), start + often * i));
        let sampled = usual.at_most().unwrap();
        assert!((20..25).contains(&sampled.as_millis()), "{sampled:?}");
        let seldom = start + often * 1000;
        (0..20).for_each(|i| usual.ended(Duration::from_secs(5), seldom + EVERY * i));
        let slower = usual.at_most().unwrap();
        assert!(slower > Duration::from_secs(4), "{slower:?}");
    }

    #[test]
    fn none_of_many_at_once_is_lost() {
        let usual = Usual::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| usual.took(Duration::from_secs(3))));
            }
        });
        let told = usual.at_most().unwrap();
        assert!((3000..3010).contains(&told.as_millis()), "{told:?}");
    }

    proptest! {
        /// It is never below the shortest, and never above what the longest could make of it.
        #[test]
        fn it_stays_within_what_was_seen(spans in proptest::collection::vec(1_u64..100_000_000, 1..60)) {
            let (least, most) = (*spans.iter().min().unwrap(), *spans.iter().max().unwrap());
            let told = after(spans).unwrap().as_secs_f64() * 1000.0;
            let in_millis = |millis: u64| Duration::from_millis(millis).as_secs_f64() * 1000.0;
            prop_assert!(told >= in_millis(least) * 0.999, "{told} {least}");
            prop_assert!(told <= in_millis(most) * 3.001, "{told} {most}");
        }

        /// Of times that spread as in queues, about nine of ten are over by then.
        #[test]
        fn most_are_over_by_then(seed in any::<u64>()) {
            let mut state = seed | 1;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let unit = f64::from(u32::try_from(state >> 32).unwrap()) / f64::from(u32::MAX);
                Duration::from_secs_f64(-(1.0 - unit * 0.999_999).ln())
            };
            let usual = Usual::default();
            (0..100).for_each(|_| usual.took(next()));
            let mut over = 0;
            for _ in 0..2000 {
                let span = next();
                over += u32::from(span <= usual.at_most().unwrap());
                usual.took(span);
            }
            prop_assert!((1600..1950).contains(&over), "{over} of 2000");
        }
    }
}
