//! What clients and the upstream saw of one key, and what of it cannot be true of a gateway that lets each operation
//! through once, under the default outcomes and `in_doubt: hold`. It knows nothing of how the story came about.

/// The order of everything that is seen: one counter for all threads.
pub(crate) type Tick = u64;

/// One run of the operation at the upstream.
#[derive(Debug, Clone)]
pub(crate) struct Execution {
    pub(crate) started: Tick,
    /// When its answer was about to be sent; none while it runs.
    pub(crate) answered: Option<Tick>,
    pub(crate) status: u16,
    /// Unlike that of every other execution.
    pub(crate) body: String,
}

/// One request of a client, and what came of it.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    pub(crate) asked: Tick,
    pub(crate) heard: Tick,
    pub(crate) news: News,
}

/// What a client heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum News {
    /// An answer of the upstream's, at first hand or repeated.
    Answer { status: u16, body: String, replayed: bool },
    /// 409 `outcome-unknown`.
    InDoubt,
    /// 409 `request-in-flight`.
    InFlight,
    /// Another refusal of the gateway's own, by its code.
    Refused(String),
    /// The connection broke before the answer.
    Broken,
    /// There was no connection.
    Unreached,
}

/// Everything that is known of one key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Story {
    pub(crate) executions: Vec<Execution>,
    pub(crate) exchanges: Vec<Exchange>,
}

/// What an answer's status means for the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    Kept,
    Released,
    Unknown,
}

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It ran again although the run before was not answered with a status that frees the key.
    RanTwice,
    /// It ran again before the run before was answered.
    Overlapped,
    /// It ran after a client had been told that the outcome is unknown.
    RanInDoubt,
    /// A client got an answer that no run gave.
    Invented(String),
    /// Two clients got the same answer as the first.
    Unmarked(String),
    /// An answer was repeated that the outcome table does not keep.
    RepeatedUnkept(u16),
    /// A kept answer was heard, and later something else.
    Forgotten(News),
    /// The outcome was unknown, and then the key was treated as if it were not.
    DoubtLeft(News),
    /// The outcome was unknown although no exchange broke and no run was answered with a status of doubt.
    DoubtWithoutCause,
    /// After the last start nobody could say what became of it.
    Unsettled,
    /// A refusal that has no place here.
    Odd(String),
}

impl Meaning {
    /// The default outcome table.
    pub(crate) fn of(status: u16) -> Self {
        match status {
            502 | 504 => Self::Unknown,
            400.. => Self::Released,
            _ => Self::Kept,
        }
    }
}

impl Execution {
    fn meaning(&self) -> Meaning {
        Meaning::of(self.status)
    }

    fn gave(&self, status: u16, body: &str) -> bool {
        self.status == status && self.body == body
    }
}

impl News {
    /// It says something about the operation for good, or at least until the next run.
    pub(crate) fn is_conclusive(&self) -> bool {
        matches!(self, Self::Answer { .. } | Self::InDoubt)
    }

    pub(crate) fn is_kept(&self) -> bool {
        matches!(self, Self::Answer { status, .. } if Meaning::of(*status) == Meaning::Kept)
    }

    /// It says nothing about the operation.
    fn is_silence(&self) -> bool {
        matches!(self, Self::Broken | Self::Unreached | Self::Refused(_))
    }

    /// The gateway may have died, or lost the store, between its claim and its answer.
    fn may_leave_doubt(&self) -> bool {
        matches!(self, Self::Broken) || matches!(self, Self::Refused(code) if code == "store-unavailable")
    }

    fn repeats(&self, first: &Self) -> bool {
        match (self, first) {
            (Self::Answer { status, body, replayed: true }, Self::Answer { status: was, body: first, .. }) => {
                status == was && body == first
            }
            _ => false,
        }
    }
}

impl Story {
    /// All that cannot be. `last_start` is when the gateway was started for the last time.
    pub(crate) fn faults(&self, last_start: Tick) -> Vec<Fault> {
        let mut faults = self.of_runs();
        faults.extend(self.exchanges.iter().filter_map(|exchange| self.of_answer(exchange)));
        for first in &self.exchanges {
            faults.extend(self.after(first));
        }
        if !self.exchanges.iter().any(|last| last.asked > last_start && last.news.is_conclusive()) {
            faults.push(Fault::Unsettled);
        }
        faults
    }

    /// Whether a client was told that the outcome is unknown.
    pub(crate) fn was_in_doubt(&self) -> bool {
        self.exchanges.iter().any(|exchange| exchange.news == News::InDoubt)
    }

    /// Whether the last run, if there was one, freed the key: then a doubt is about an attempt that was never sent, or
    /// about an answer that the gateway did not live to record.
    pub(crate) fn ran_to_no_avail(&self) -> bool {
        self.executions.last().is_none_or(|last| last.meaning() == Meaning::Released)
    }

    fn of_runs(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for pair in self.executions.windows(2) {
            if pair[0].meaning() != Meaning::Released {
                faults.push(Fault::RanTwice);
            }
            if pair[0].answered.is_none_or(|answered| answered > pair[1].started) {
                faults.push(Fault::Overlapped);
            }
        }
        faults
    }

    /// What is wrong with one answer by itself.
    fn of_answer(&self, exchange: &Exchange) -> Option<Fault> {
        const EXPECTED: [&str; 3] = ["store-unavailable", "overloaded", "upstream-unreachable"];
        match &exchange.news {
            News::Refused(code) if !EXPECTED.contains(&code.as_str()) => Some(Fault::Odd(code.clone())),
            News::Answer { status, body, replayed } => {
                let given = |run: &Execution| run.gave(*status, body) && run.started < exchange.heard;
                if !self.executions.iter().any(given) {
                    return Some(Fault::Invented(body.clone()));
                }
                if *replayed {
                    return (Meaning::of(*status) != Meaning::Kept).then_some(Fault::RepeatedUnkept(*status));
                }
                let same = self.exchanges.iter().filter(|other| other.news == exchange.news);
                (same.count() > 1).then(|| Fault::Unmarked(body.clone()))
            }
            News::InDoubt if !self.may_be_in_doubt(exchange) => Some(Fault::DoubtWithoutCause),
            _ => None,
        }
    }

    fn may_be_in_doubt(&self, doubt: &Exchange) -> bool {
        self.executions.iter().any(|run| run.meaning() == Meaning::Unknown && run.started < doubt.heard)
            || self.exchanges.iter().any(|other| other.asked < doubt.heard && other.news.may_leave_doubt())
    }

    /// What may not follow on what a client heard.
    fn after(&self, first: &Exchange) -> Vec<Fault> {
        let later = self.exchanges.iter().filter(|later| later.asked > first.heard && !later.news.is_silence());
        let later = later.map(|later| &later.news);
        if first.news.is_kept() {
            return later.filter(|news| !news.repeats(&first.news)).cloned().map(Fault::Forgotten).collect();
        }
        if first.news != News::InDoubt {
            return Vec::new();
        }
        // The late answer of an attempt that was thought lost may end a doubt.
        let ends = |news: &&News| matches!(news, News::InDoubt | News::Answer { replayed: true, .. });
        let left = later.filter(|news| !ends(news)).cloned().map(Fault::DoubtLeft);
        let ran = self.executions.iter().filter(|run| run.started > first.heard).map(|_| Fault::RanInDoubt);
        left.chain(ran).collect()
    }
}
