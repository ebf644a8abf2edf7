//! The checker itself: it passes what may be, and finds what was made up to be wrong.

use crate::history::{Exchange, Execution, Fault, News, Story, Tick};

/// A story in the order it is told; each sentence takes one tick, or two.
struct Teller(Story, Tick);

impl Teller {
    fn tick(&mut self) -> Tick {
        self.1 += 1;
        self.1
    }

    /// A run, answered before anything else happens. Its body is its number.
    fn runs(mut self, status: u16) -> Self {
        let (started, body) = (self.tick(), self.0.executions.len().to_string());
        let answered = Some(self.tick());
        self.0.executions.push(Execution { started, answered, status, body });
        self
    }

    /// An exchange that was asked before all that was told since `ticks` ago.
    fn hears_since(mut self, ticks: Tick, news: News) -> Self {
        let asked = self.tick() - ticks;
        let heard = self.tick();
        self.0.exchanges.push(Exchange { asked, heard, news });
        self
    }

    fn hears(self, news: News) -> Self {
        self.hears_since(0, news)
    }

    fn faults(self) -> Vec<Fault> {
        self.0.faults(0)
    }
}

fn tell() -> Teller {
    // Time enough before the first tick for what was asked before it.
    Teller(Story::default(), 10)
}

fn answer(status: u16, run: u32, replayed: bool) -> News {
    News::Answer { status, body: run.to_string(), replayed }
}

#[test]
fn what_may_be_is_passed() {
    let plain = tell().runs(201).hears_since(3, answer(201, 0, false)).hears(answer(201, 0, true));
    assert_eq!(plain.faults(), []);
    let crash = tell().runs(201).hears_since(3, News::Broken).hears(News::InFlight).hears(News::InDoubt);
    assert_eq!(crash.hears(News::Unreached).hears(News::InDoubt).faults(), []);
    let never_sent = tell().hears(News::Broken).hears(News::InDoubt);
    assert_eq!(never_sent.faults(), []);
    let doubtful = tell().runs(502).hears_since(3, answer(502, 0, false)).hears(News::InDoubt);
    assert_eq!(doubtful.faults(), []);
    let freed = tell().runs(402).hears_since(3, answer(402, 0, false)).runs(201).hears_since(3, answer(201, 1, false));
    assert_eq!(freed.hears(News::Refused("store-unavailable".to_owned())).hears(answer(201, 1, true)).faults(), []);
    let late = tell().hears(News::Broken).runs(201).hears(News::InDoubt).hears(answer(201, 0, true));
    assert_eq!(late.faults(), []);
    // An answer may be overtaken by one that was asked for before it was heard.
    let overtaken = tell().runs(201).hears_since(3, answer(201, 0, false)).hears_since(4, News::InFlight);
    assert_eq!(overtaken.faults(), []);
}

#[test]
fn a_second_run_is_found() {
    let twice = tell().hears(News::Broken).runs(201).runs(201).hears(answer(201, 1, false));
    assert_eq!(twice.faults(), [Fault::RanTwice]);
    let after_doubt = tell().hears(News::Broken).runs(402).hears(News::InDoubt).runs(201);
    assert_eq!(after_doubt.faults(), [Fault::RanInDoubt]);
    let mut side_by_side = tell().runs(402).runs(201).hears(answer(201, 1, false));
    side_by_side.0.executions[0].answered = Some(14);
    assert_eq!(side_by_side.faults(), [Fault::Overlapped]);
    let mut unanswered = tell().runs(402).runs(201).hears(answer(201, 1, false));
    unanswered.0.executions[0].answered = None;
    assert_eq!(unanswered.faults(), [Fault::Overlapped]);
}

#[test]
fn a_forgotten_answer_is_found() {
    let heard = || tell().runs(201).hears_since(3, answer(201, 0, false));
    for news in [News::InDoubt, News::InFlight] {
        let story = heard().hears(News::Broken).hears(news.clone());
        assert_eq!(story.faults(), [Fault::Forgotten(news)]);
    }
    let freed = heard().hears(answer(402, 0, false)).faults();
    assert!(freed.contains(&Fault::Forgotten(answer(402, 0, false))), "{freed:?}");
    let rerun = heard().runs(201).hears_since(2, answer(201, 1, false)).faults();
    assert_eq!(rerun, [Fault::RanTwice, Fault::Forgotten(answer(201, 1, false))]);
}

#[test]
fn a_wrong_answer_is_found() {
    let invented = tell().runs(201).hears(answer(201, 7, false)).faults();
    assert_eq!(invented, [Fault::Invented("7".to_owned())]);
    let too_early = tell().hears(answer(201, 0, false)).runs(201).faults();
    assert_eq!(too_early, [Fault::Invented("0".to_owned())]);
    let unmarked = tell().runs(402).hears(answer(402, 0, false)).hears(answer(402, 0, false)).faults();
    assert_eq!(unmarked, [Fault::Unmarked("0".to_owned()), Fault::Unmarked("0".to_owned())]);
    let repeated = tell().runs(402).hears(answer(402, 0, true)).faults();
    assert_eq!(repeated, [Fault::RepeatedUnkept(402)]);
    let odd = tell().hears(News::Refused("key-reused".to_owned())).runs(402).hears(answer(402, 0, false)).faults();
    assert_eq!(odd, [Fault::Odd("key-reused".to_owned())]);
}

#[test]
fn a_doubt_without_cause_or_without_end_is_found() {
    let causeless = tell().runs(201).hears(News::Unreached).hears(News::InDoubt).faults();
    assert_eq!(causeless, [Fault::DoubtWithoutCause]);
    let left = tell().hears(News::Broken).hears(News::InDoubt).hears(News::InFlight).faults();
    assert_eq!(left, [Fault::DoubtLeft(News::InFlight)]);
    for news in [News::InFlight, News::Broken, News::Unreached] {
        let story = tell().runs(201).hears(news).0;
        assert_eq!(story.faults(0), [Fault::Unsettled]);
    }
    // What was known before the last start does not count.
    let story = tell().runs(201).hears_since(3, answer(201, 0, false)).0;
    assert_eq!(story.faults(99), [Fault::Unsettled]);
}
