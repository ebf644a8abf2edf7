//! The checker itself: it passes what may be, and finds what was made up to be wrong.

use crate::history::{Ailment, Exchange, Heard, Moment, Name, News, Run, Story, Trouble};
use crate::verdict::{Case, Fault, Receipts, Terms};

const NAME: Name = Name { scope: 1, key: 7 };
const LEASE: u64 = 1_000;

/// A story in the order it is told. Each sentence takes its time: a tick, a byte of the ledger, a millisecond.
struct Teller {
    story: Story,
    troubles: Vec<Trouble>,
    receipts: Receipts,
    now: u64,
}

fn tell() -> Teller {
    Teller { story: Story::default(), troubles: Vec::new(), receipts: Receipts::new(), now: 10 }
}

impl Teller {
    fn moment(&mut self) -> Moment {
        self.now += 1;
        Moment { tick: self.now, ledger: self.now, millis: self.now }
    }

    fn waits(mut self, millis: u64) -> Self {
        self.now += millis;
        self
    }

    fn befalls(mut self, ailment: Ailment) -> Self {
        let (from, to) = (self.moment(), Some(self.moment()));
        self.troubles.push(Trouble { what: String::new(), ailment, from, to });
        self
    }

    /// A run that is answered before anything else happens. Its receipt is its request's number.
    fn runs(mut self, request: u64, status: u16) -> Self {
        let (began, ended) = (self.moment().ledger, Some(self.moment().ledger));
        let run = Run { request, attempt: 1, variant: 0, status, receipt: request, began, ended, over: ended };
        self.receipts.insert(request, NAME);
        self.story.runs.push(run);
        self
    }

    /// A run whose process is killed, and whose client hears nothing.
    fn dies_running(self, request: u64) -> Self {
        let mut told = self.waits(1).runs(request, 201);
        told.story.runs.last_mut().unwrap().ended = None;
        told.befalls(Ailment::Upstream).hears_since(request, 5, News::Broken)
    }

    /// Request `request` was asked `ago` before now, and hears this.
    fn hears_since(mut self, request: u64, ago: u64, news: News) -> Self {
        let mut asked = self.moment();
        for clock in [&mut asked.tick, &mut asked.ledger, &mut asked.millis] {
            *clock = clock.saturating_sub(ago);
        }
        let heard = self.moment();
        self.story.exchanges.push(Exchange { request, variant: 0, asked, heard, news });
        self
    }

    fn hears(self, request: u64, news: News) -> Self {
        self.hears_since(request, 0, news)
    }

    /// It runs, and its client hears so.
    fn answered(self, request: u64, status: u16) -> Self {
        self.waits(1).runs(request, status).hears_since(request, 3, first(status, request))
    }

    /// The same by a request with another body.
    fn of_variant(mut self) -> Self {
        self.story.exchanges.last_mut().unwrap().variant = 1;
        self
    }

    fn faults(mut self) -> Vec<Fault> {
        let closing = self.story.exchanges.last().map_or(0, |last| last.asked.tick - 1);
        let terms = Terms { closing, troubles: self.troubles, lease: LEASE, patience: 500, margin: 500 };
        self.story.runs.sort_by_key(|run| run.began);
        Case { name: &NAME, story: &self.story, receipts: &self.receipts, terms: &terms }.faults()
    }
}

fn heard(status: u16, receipt: u64) -> Heard {
    Heard { status, receipt: Some(receipt), replayed: false, recorded: status < 400, unguarded: false, exact: true }
}

fn first(status: u16, receipt: u64) -> News {
    News::Answer(heard(status, receipt))
}

fn replay(status: u16, receipt: u64) -> News {
    News::Answer(Heard { replayed: true, ..heard(status, receipt) })
}

fn refused(code: &str) -> News {
    News::Refused { code: code.to_owned(), not_executed: false }
}

fn not_executed() -> News {
    News::Refused { code: "upstream-unreachable".to_owned(), not_executed: true }
}

#[test]
fn what_may_be_is_passed() {
    let passes = |told: Teller| assert_eq!(told.faults(), []);
    passes(tell().answered(1, 201).hears(2, replay(201, 1)));
    passes(tell().answered(1, 402).answered(2, 500).answered(3, 201).hears(4, replay(201, 3)));
    passes(tell().hears(1, not_executed()).hears(2, refused("store-unavailable")).answered(3, 201));
    passes(tell().answered(1, 201).hears(2, News::Changed).of_variant().hears(3, replay(201, 1)));
    // A crash: in doubt for ever, or completed by a late answer.
    let crash = || tell().runs(1, 201).befalls(Ailment::GatewayDied).hears_since(1, 6, News::Broken);
    passes(crash().hears(2, News::InFlight).hears(3, News::InDoubt).hears(4, News::InDoubt));
    passes(crash().hears(3, News::InDoubt).hears(4, replay(201, 1)));
    passes(tell().dies_running(1).hears(2, News::InDoubt));
    // The late answer of an attempt that was thought lost frees the key.
    let late = tell().befalls(Ailment::GatewayStopped).runs(1, 402).hears_since(1, 6, News::Broken);
    passes(late.hears(2, News::InDoubt).answered(3, 201));
    // The gateway that stood still finds that it had sent nothing.
    let unsent = tell().befalls(Ailment::GatewayStopped).hears_since(1, 3, News::Broken).hears(2, News::InDoubt);
    passes(unsent.answered(3, 201));
    // An outcome that its gateway did not live to write down, and did not say was written.
    let unwritten = || News::Answer(Heard { recorded: false, ..heard(201, 1) });
    let told = tell().befalls(Ailment::StorePath).runs(1, 201).hears_since(1, 5, unwritten());
    passes(told.hears(2, News::InFlight).befalls(Ailment::GatewayDied).hears(3, News::InDoubt));
    // Overtaken by one that was asked for before it was heard.
    passes(tell().answered(1, 201).hears_since(2, 5, News::InFlight).hears(3, replay(201, 1)));
    // Held back by a claim whose reply was lost, for no longer than the lease.
    let claimed = tell().befalls(Ailment::StorePath).hears(1, refused("store-unavailable"));
    passes(claimed.waits(LEASE).hears(2, News::InFlight).answered(3, 201));
}

#[test]
fn a_second_run_is_found() {
    let twice = tell().befalls(Ailment::GatewayDied).runs(1, 201).answered(2, 201).faults();
    assert_eq!(twice, [Fault::RanTwice]);
    assert_eq!(tell().dies_running(1).answered(2, 201).faults(), [Fault::RanTwice]);
    assert_eq!(tell().runs(1, 502).answered(2, 201).faults(), [Fault::RanTwice]);
    // The same request, sent twice.
    let mut again = tell().runs(1, 201).answered(2, 201);
    again.story.runs[0].request = 2;
    assert_eq!(again.faults(), [Fault::RanTwice]);
    for over in [Some(99), None] {
        let mut overlapped = tell().runs(1, 402).answered(2, 201);
        overlapped.story.runs[0].over = over;
        assert_eq!(overlapped.faults(), [Fault::Overlapped]);
    }
}

#[test]
fn a_forgotten_answer_is_found() {
    for news in [News::InDoubt, News::InFlight, not_executed()] {
        let told = tell().answered(1, 201).befalls(Ailment::GatewayDied).hears(2, news.clone()).hears(3, News::InDoubt);
        assert!(told.faults().contains(&Fault::Forgotten(news)));
    }
    let rerun = tell().answered(1, 201).answered(2, 201).faults();
    assert_eq!(rerun, [Fault::RanTwice, Fault::Forgotten(first(201, 2))]);
    let other = tell().answered(1, 201).hears(2, replay(303, 1)).hears(3, replay(201, 1)).faults();
    assert_eq!(other, [Fault::Forgotten(replay(303, 1)), Fault::Altered(1), Fault::Forgotten(replay(201, 1))]);
    // Not written down, and yet the gateway lived on to say something else.
    let unwritten = News::Answer(Heard { recorded: false, ..heard(201, 1) });
    let told = tell().runs(1, 201).hears_since(1, 4, unwritten).hears(2, not_executed()).hears(3, replay(201, 1));
    assert_eq!(told.faults(), [Fault::Forgotten(not_executed())]);
}

#[test]
fn a_wrong_answer_is_found() {
    assert_eq!(tell().answered(1, 402).hears(2, replay(201, 9)).faults(), [Fault::Invented(Some(9))]);
    assert_eq!(tell().hears(1, first(201, 1)).runs(1, 201).faults(), [Fault::Invented(Some(1))]);
    let bent = News::Answer(Heard { exact: false, ..heard(201, 1) });
    assert_eq!(tell().runs(1, 201).hears_since(1, 4, bent).faults(), [Fault::Altered(1)]);
    let bare = News::Answer(Heard { receipt: None, exact: false, ..heard(201, 1) });
    let bare = tell().runs(1, 201).hears_since(1, 4, bare).faults();
    assert_eq!(
        bare,
        [
            Fault::Invented(None),
            Fault::DoubtForgotten(News::Answer(Heard { receipt: None, exact: false, ..heard(201, 1) }))
        ]
    );
    assert_eq!(tell().runs(1, 402).hears(2, first(402, 1)).faults(), [Fault::Unmarked(1)]);
    assert_eq!(tell().answered(1, 402).hears(2, replay(402, 1)).faults(), [Fault::RepeatedUnkept(402)]);
    let mut other = tell().hears(1, first(201, 5));
    other.receipts.insert(5, Name { scope: 2, key: 7 });
    assert_eq!(other.faults(), [Fault::Strange(Name { scope: 2, key: 7 })]);
    let unguarded = News::Answer(Heard { unguarded: true, ..heard(201, 1) });
    assert_eq!(tell().runs(1, 201).hears_since(1, 4, unguarded).faults(), [Fault::Unguarded]);
}

#[test]
fn an_untrue_refusal_is_found() {
    for news in [not_executed(), refused("store-unavailable"), refused("overloaded"), News::InFlight] {
        let told = tell().befalls(Ailment::Upstream).runs(1, 201).hears_since(1, 4, news.clone());
        let faults = told.hears(2, replay(201, 1)).faults();
        assert_eq!(faults, [Fault::DeniedRun(news)]);
    }
    let changed = tell().runs(1, 201).hears_since(1, 4, News::Changed).of_variant().hears(2, replay(201, 1)).faults();
    assert_eq!(changed, [Fault::DeniedRun(News::Changed), Fault::ChangedWithoutCause]);
    let causeless = tell().hears(1, News::Changed).hears(2, News::Changed).faults();
    assert_eq!(causeless, [Fault::ChangedWithoutCause, Fault::ChangedWithoutCause]);
    let answered = tell().answered(1, 201).hears(2, replay(201, 1)).of_variant().hears(3, replay(201, 1)).faults();
    assert_eq!(answered, [Fault::AnsweredChanged(1)]);
    assert_eq!(tell().hears(1, refused("no-route")).answered(2, 201).faults(), [Fault::Odd("no-route".to_owned())]);
}

#[test]
fn a_doubt_without_cause_is_found() {
    assert_eq!(tell().answered(1, 402).hears(2, News::InDoubt).faults(), [Fault::DoubtWithoutCause]);
    // Its reply was lost: it was a claim and no more, and is withdrawn.
    let claimed = tell().befalls(Ailment::StorePath).hears_since(1, 2, refused("store-unavailable"));
    assert_eq!(claimed.hears(2, News::InDoubt).faults(), [Fault::DoubtWithoutCause]);
    // What befell the machines before the first request is no cause.
    let after = tell().befalls(Ailment::Upstream).waits(99).hears(1, News::Broken).hears(2, News::InDoubt);
    assert_eq!(after.faults(), [], "a connection that has just been reset is noticed when it is used");
    let later = tell().befalls(Ailment::Upstream).waits(9_999).hears(1, News::Broken).hears(2, News::InDoubt);
    assert_eq!(later.faults(), [Fault::DoubtWithoutCause]);
    let before = tell().befalls(Ailment::GatewayDied).waits(9).hears(1, News::Broken).hears(2, News::InDoubt);
    assert_eq!(before.faults(), [Fault::DoubtWithoutCause]);
}

#[test]
fn a_doubt_that_is_left_or_forgotten_is_found() {
    let doubt = || tell().dies_running(1).hears(2, News::InDoubt);
    assert_eq!(doubt().hears(3, News::InFlight).hears(4, News::InDoubt).faults(), [Fault::DoubtLeft(News::InFlight)]);
    let rerun = doubt().answered(3, 201).faults();
    assert_eq!(rerun, [Fault::RanTwice, Fault::DoubtLeft(first(201, 3))]);
    // Nothing had reached the upstream, but no gateway stood still that could know it.
    let unknown = || tell().befalls(Ailment::GatewayDied).hears_since(1, 3, News::Broken).hears(2, News::InDoubt);
    assert_eq!(unknown().answered(3, 201).faults(), [Fault::DoubtLeft(first(201, 3))]);
    for news in [News::InFlight, News::Broken, refused("store-unavailable")] {
        assert_eq!(tell().answered(1, 402).hears(2, news).faults(), [Fault::Unsettled]);
    }
    // The last word is about another run than the last.
    let mut other = tell().answered(1, 402).runs(2, 201).hears(3, first(402, 1));
    other.story.exchanges[0].heard.tick = 0;
    assert!(other.faults().contains(&Fault::DoubtForgotten(first(402, 1))));
}

#[test]
fn a_key_that_is_held_too_long_is_found() {
    let claimed = || tell().befalls(Ailment::StorePath).hears(1, refused("store-unavailable"));
    let held = claimed().waits(2 * LEASE).hears(2, News::InFlight).answered(3, 201).faults();
    assert_eq!(held, [Fault::Blocked(News::InFlight)]);
    // Another one came meanwhile, and held it.
    let again = claimed().waits(2 * LEASE).hears(2, News::Broken).hears(3, News::InFlight).answered(4, 201);
    assert_eq!(again.faults(), []);
}

#[test]
fn a_client_that_waits_too_long_is_found() {
    let waited = tell().waits(900).runs(1, 201).hears_since(1, 800, first(201, 1)).faults();
    assert_eq!(waited, [Fault::Hung(801)]);
    let stood = tell().waits(900).befalls(Ailment::GatewayStopped).runs(1, 201).hears_since(1, 800, first(201, 1));
    assert_eq!(stood.faults(), []);
}
