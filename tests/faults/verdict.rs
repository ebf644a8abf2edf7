//! Which stories cannot be true of a gateway that keeps its promises P1 to P8, under the default outcomes,
//! `in_doubt: hold` and a store that fails closed. It judges what was seen, and knows nothing of how it came about.

use std::collections::HashMap;

use crate::history::{Ailment, Exchange, Heard, Meaning, Name, News, Run, Story, Tick, Trouble};

/// Something that must not be. The number of the promise that it breaks stands before each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// P1: It ran again before the run before was over.
    Overlapped,
    /// P2: It ran again although the run before was not answered with a status that frees the key.
    RanTwice,
    /// P2: A kept answer was heard, and later something else.
    Forgotten(News),
    /// P2: Status, body or end-to-end fields of an answer are not those of the run whose receipt it bears.
    Altered(u64),
    /// P2: A run's answer was heard at first hand by another request than the one that ran.
    Unmarked(u64),
    /// P2: A client got an answer that no run had given.
    Invented(Option<u64>),
    /// P2: An answer was repeated that the outcome table does not keep.
    RepeatedUnkept(u16),
    /// P3: The outcome was unknown, and then the key was treated as if it were not, without proof.
    DoubtLeft(News),
    /// P3: In the end nobody could say what became of it.
    Unsettled,
    /// P3: It ran and was not freed, and in the end it was neither completed nor in doubt.
    DoubtForgotten(News),
    /// P3: A client was told of a doubt that operators do not find.
    DoubtHidden,
    /// P3: So many doubts were told, and the metric counts another number.
    DoubtsMiscounted { told: u32, counted: String },
    /// P4: The outcome was unknown although nothing had happened that can make it so.
    DoubtWithoutCause,
    /// P4: The key was held for longer than the lease although nothing was sent.
    Blocked(News),
    /// P4: A client was told that nothing was executed for its request, and it was.
    DeniedRun(News),
    /// P6: An answer of another operation was heard.
    Strange(Name),
    /// P7: An answer to another request than the one that was asked.
    AnsweredChanged(u64),
    /// P7: A request was called changed, and there was no other.
    ChangedWithoutCause,
    /// P8: It was let through without a guard.
    Unguarded,
    /// P8: A client waited for longer than anything may take.
    Hung(u64),
    /// A refusal that has no place here.
    Odd(String),
}

/// What the judge has to know besides the story.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    /// From here on everything was asked for once more.
    pub(crate) closing: Tick,
    /// What befell the machines.
    pub(crate) troubles: Vec<Trouble>,
    /// In milliseconds.
    pub(crate) lease: u64,
    /// How long a client may wait at most, in milliseconds, when its own way is well.
    pub(crate) patience: u64,
    /// How much longer than it should anything may take on a busy machine, in milliseconds.
    pub(crate) margin: u64,
}

/// Whose receipts these are.
pub(crate) type Receipts = HashMap<u64, Name>;

/// A story before its judge.
pub(crate) struct Case<'a> {
    pub(crate) name: &'a Name,
    pub(crate) story: &'a Story,
    pub(crate) receipts: &'a Receipts,
    pub(crate) terms: &'a Terms,
}

/// How long what befell the way to the upstream may show afterwards, in milliseconds.
const AFTERMATH: u64 = 1_000;

const EXPECTED: [&str; 5] =
    ["store-unavailable", "overloaded", "upstream-unreachable", "upstream-timeout", "upstream-failed"];

impl Case<'_> {
    /// All that cannot be.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        let mut faults = self.of_runs();
        for exchange in &self.story.exchanges {
            faults.extend(self.of_exchange(exchange));
            faults.extend(self.after(exchange));
        }
        faults.extend(self.of_the_end());
        faults
    }

    fn of_runs(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for pair in self.story.runs.windows(2) {
            if !pair[0].has_freed() {
                faults.push(Fault::RanTwice);
            }
            if pair[0].over.is_none_or(|over| over > pair[1].began) {
                faults.push(Fault::Overlapped);
            }
        }
        faults
    }

    /// What is wrong with one answer by itself.
    fn of_exchange(&self, exchange: &Exchange) -> Vec<Fault> {
        let mut faults = Vec::new();
        let ran = self.story.runs.iter().any(|run| run.request == exchange.request);
        if ran && exchange.news.denies_a_run() {
            faults.push(Fault::DeniedRun(exchange.news.clone()));
        }
        match &exchange.news {
            News::Answer(heard) => faults.extend(self.of_answer(exchange, heard)),
            News::Refused { code, .. } if !EXPECTED.contains(&code.as_str()) => faults.push(Fault::Odd(code.clone())),
            News::InDoubt if !self.may_be_in_doubt(exchange) => faults.push(Fault::DoubtWithoutCause),
            News::InDoubt | News::InFlight if self.is_blocked(exchange) => {
                faults.push(Fault::Blocked(exchange.news.clone()));
            }
            News::Changed if !self.has_another_variant(exchange) => faults.push(Fault::ChangedWithoutCause),
            _ => {}
        }
        let waited = exchange.heard.millis - exchange.asked.millis;
        if waited > self.terms.patience && !self.suffered(exchange, &[Ailment::ClientPath, Ailment::GatewayStopped]) {
            faults.push(Fault::Hung(waited));
        }
        faults
    }

    fn of_answer(&self, exchange: &Exchange, heard: &Heard) -> Option<Fault> {
        if heard.unguarded {
            return Some(Fault::Unguarded);
        }
        let run = self.story.runs.iter().find(|run| Some(run.receipt) == heard.receipt);
        let Some(run) = run.filter(|run| run.began < exchange.heard.ledger) else {
            let stranger = heard.receipt.and_then(|receipt| self.receipts.get(&receipt));
            let stranger = stranger.filter(|owner| *owner != self.name).cloned();
            return Some(stranger.map_or(Fault::Invented(heard.receipt), Fault::Strange));
        };
        if run.status != heard.status || !heard.exact {
            return Some(Fault::Altered(run.receipt));
        }
        if run.variant != exchange.variant {
            return Some(Fault::AnsweredChanged(run.receipt));
        }
        match heard.replayed {
            true if !heard.is_kept() => Some(Fault::RepeatedUnkept(heard.status)),
            false if run.request != exchange.request => Some(Fault::Unmarked(run.receipt)),
            _ => None,
        }
    }

    /// Whether something happened before that may leave the outcome unknown.
    fn may_be_in_doubt(&self, doubt: &Exchange) -> bool {
        let mut ran = self.story.runs.iter().filter(|run| run.began < doubt.heard.ledger).peekable();
        let may_be_lost = [Ailment::GatewayDied, Ailment::GatewayStopped, Ailment::Upstream];
        let since = self.first_asked();
        let suffered = |ailments: &[Ailment]| self.befell(since, doubt.heard.tick, ailments);
        let clock = self.befell(0, doubt.heard.tick, &[Ailment::StoreClock]);
        if suffered(&may_be_lost) || suffered(&[Ailment::Store]) || clock {
            return true;
        }
        // What was under way while the store was away could not renew its lease; what never ran was only a claim.
        let could_not_renew = ran.peek().is_some() && suffered(&[Ailment::StorePath]);
        could_not_renew || ran.any(|run| run.meaning() == Meaning::Unknown)
    }

    /// Whether the key was held for too long at this moment, though nothing of it ever reached the upstream's way.
    fn is_blocked(&self, exchange: &Exchange) -> bool {
        let at = exchange.asked;
        let others = || self.story.exchanges.iter().filter(|other| other.request != exchange.request);
        let excused = [Ailment::GatewayDied, Ailment::GatewayStopped, Ailment::Upstream, Ailment::Store];
        let clock = self.befell(0, exchange.heard.tick, &[Ailment::StoreClock]);
        if self.story.runs.iter().any(|run| run.began < exchange.heard.ledger)
            || others().any(|other| other.asked.tick < exchange.heard.tick && other.heard.tick > at.tick)
            || self.befell(self.first_asked(), exchange.heard.tick, &excused)
            || clock
        {
            return false;
        }
        let last_claim = others().filter(|other| other.heard.tick <= at.tick).map(|other| other.heard.millis).max();
        let troubles = self.terms.troubles.iter().filter(|trouble| trouble.ailment == Ailment::StorePath);
        let troubles = troubles.filter(|trouble| trouble.from.tick <= exchange.heard.tick);
        let well_since = troubles.map(|trouble| trouble.to.unwrap_or(exchange.heard).millis).max();
        let held_since = last_claim.max(well_since).unwrap_or(0);
        at.millis > held_since + self.terms.lease + self.terms.margin
    }

    fn has_another_variant(&self, exchange: &Exchange) -> bool {
        let mut others = self.story.exchanges.iter().filter(|other| other.variant != exchange.variant);
        others.any(|other| other.asked.tick < exchange.heard.tick)
    }

    /// What may not follow on what a client heard.
    fn after(&self, first: &Exchange) -> Vec<Fault> {
        let later = self.story.exchanges.iter();
        let later = later.filter(|later| later.asked.tick > first.heard.tick && !later.news.is_silence());
        match &first.news {
            News::Answer(heard) if heard.is_kept() => {
                later.filter(|later| !repeats(later, first, heard)).map(|l| Fault::Forgotten(l.news.clone())).collect()
            }
            News::InDoubt => {
                let left = |later: &&Exchange| !self.may_follow_doubt(&later.news, first);
                later.filter(left).map(|later| Fault::DoubtLeft(later.news.clone())).collect()
            }
            _ => Vec::new(),
        }
    }

    /// A late answer ends a doubt: it completes the record, or it frees the key. So does the proof that nothing was
    /// sent, which only a gateway can have that lives: one that stood still, or whose claim nobody waited for any more.
    fn may_follow_doubt(&self, news: &News, doubt: &Exchange) -> bool {
        let known = self.story.runs.iter().rfind(|run| run.began < doubt.heard.ledger);
        match news {
            News::InDoubt | News::Changed => true,
            News::Answer(heard) if heard.replayed => true,
            _ => known.map_or_else(|| self.may_be_unsent(doubt), Run::has_freed),
        }
    }

    fn may_be_unsent(&self, doubt: &Exchange) -> bool {
        let mut before = self.story.exchanges.iter().filter(|other| other.asked.tick < doubt.heard.tick);
        let given_up = |other: &Exchange| matches!(other.news, News::Left | News::Refused { .. });
        self.befell(0, Tick::MAX, &[Ailment::GatewayStopped])
            || before.any(|other| given_up(other) || self.suffered(other, &[Ailment::ClientPath]))
    }

    fn of_the_end(&self) -> Option<Fault> {
        let last = self.story.exchanges.iter().filter(|last| last.asked.tick > self.terms.closing);
        let Some(last) = last.filter(|last| last.news.is_conclusive()).max_by_key(|last| last.heard.tick) else {
            // The lease of a gateway that is dead ends late by as much as the store's clock was set back.
            let clock = self.befell(0, Tick::MAX, &[Ailment::StoreClock]);
            let excused = clock && self.story.last_news() == Some(&News::InFlight);
            return (!excused).then_some(Fault::Unsettled);
        };
        let run = self.story.runs.last()?;
        let told = match &last.news {
            News::Answer(heard) => heard.receipt == Some(run.receipt),
            News::InDoubt => true,
            // Whose variant ran is remembered, completed or in doubt.
            _ => last.variant != run.variant,
        };
        (!told && !run.has_freed()).then(|| Fault::DoubtForgotten(last.news.clone()))
    }

    fn first_asked(&self) -> Tick {
        self.story.exchanges.iter().map(|exchange| exchange.asked.tick).min().unwrap_or(0)
    }

    fn suffered(&self, exchange: &Exchange, ailments: &[Ailment]) -> bool {
        self.befell(exchange.asked.tick, exchange.heard.tick, ailments)
    }

    /// Whether a way to the upstream was ill shortly before. What broke is noticed when it is used next: a request that was
    /// sent on a connection which has just been reset may have arrived.
    fn is_aftermath(&self, from: Tick, to: Tick) -> bool {
        let exchanges = || self.story.exchanges.iter().filter(|exchange| exchange.asked.tick >= from);
        let Some(began) = exchanges().map(|exchange| exchange.asked).min_by_key(|asked| asked.tick) else {
            return false;
        };
        let upstream = self.terms.troubles.iter().filter(|trouble| trouble.ailment == Ailment::Upstream);
        let mut over = upstream.filter(|trouble| trouble.from.tick <= to).filter_map(|trouble| trouble.to);
        over.any(|over| over.tick <= began.tick && over.millis + AFTERMATH >= began.millis)
    }

    /// Whether one of these lasted at any time between two ticks.
    fn befell(&self, from: Tick, to: Tick, ailments: &[Ailment]) -> bool {
        let mut troubles = self.terms.troubles.iter().filter(|trouble| ailments.contains(&trouble.ailment));
        troubles.any(|trouble| trouble.overlaps(from, to))
            || (ailments.contains(&Ailment::Upstream) && self.is_aftermath(from, to))
    }
}

/// Whether what was heard later is a true duplicate's answer to a kept one.
fn repeats(later: &Exchange, first: &Exchange, kept: &Heard) -> bool {
    match &later.news {
        News::Answer(again) => again.replayed && again.receipt == kept.receipt && again.status == kept.status,
        News::Changed => later.variant != first.variant,
        // The store was away when it was answered: until it is written, it is under way, and with its gateway it is lost.
        News::InFlight | News::InDoubt => !kept.recorded,
        _ => false,
    }
}
