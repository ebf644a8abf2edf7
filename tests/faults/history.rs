//! What clients and the upstream saw of one operation, and what befell the machines meanwhile. Whether all of it can be
//! true of a gateway that keeps its promises is for `verdict` to say.

/// The order of everything that clients see: one counter for all threads.
pub(crate) type Tick = u64;

/// When something was seen, by three clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Moment {
    pub(crate) tick: Tick,
    /// How long the upstream's ledger was: what stands behind it there happened later.
    pub(crate) ledger: u64,
    /// Milliseconds since the beginning.
    pub(crate) millis: u64,
}

/// Who asks for what: the same key of another scope is another operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) scope: u8,
    pub(crate) key: u64,
}

/// One run of an operation at the upstream, as its ledger tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    /// The client's request that was forwarded.
    pub(crate) request: u64,
    /// The number that the gateway gave the attempt.
    pub(crate) attempt: u32,
    /// Which of the bodies that clients send under one key.
    pub(crate) variant: u8,
    pub(crate) status: u16,
    /// Unlike that of every other run. Status and receipt make the answer.
    pub(crate) receipt: u64,
    /// Where in the ledger it began.
    pub(crate) began: u64,
    /// Where in the ledger its answer was about to be sent.
    pub(crate) ended: Option<u64>,
    /// Where in the ledger it was over: with its answer, or with the process that ran it.
    pub(crate) over: Option<u64>,
}

/// One request of a client, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exchange {
    pub(crate) request: u64,
    pub(crate) variant: u8,
    pub(crate) asked: Moment,
    pub(crate) heard: Moment,
    pub(crate) news: News,
}

/// What a client heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum News {
    /// An answer of the upstream's, at first hand or repeated.
    Answer(Heard),
    /// 409 `outcome-unknown`.
    InDoubt,
    /// 409 `request-in-flight`.
    InFlight,
    /// 422 `key-reused`.
    Changed,
    /// Another refusal of the gateway's own.
    Refused {
        code: String,
        /// It says that nothing was executed.
        not_executed: bool,
    },
    /// The connection broke before the answer, or nothing came for very long.
    Broken,
    /// The client left without waiting.
    Left,
    /// There was no connection.
    Unreached,
}

/// An answer of the upstream's.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a mark that an answer bears or not")]
pub(crate) struct Heard {
    pub(crate) status: u16,
    /// None when it bears none that can be read.
    pub(crate) receipt: Option<u64>,
    /// Marked as a replay.
    pub(crate) replayed: bool,
    /// It says until when it is remembered.
    pub(crate) recorded: bool,
    /// Let through without a guard.
    pub(crate) unguarded: bool,
    /// Its body and its end-to-end fields are byte for byte those that belong to its receipt.
    pub(crate) exact: bool,
}

/// What befell the machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ailment {
    GatewayDied,
    GatewayStopped,
    /// The wall clock of a gateway jumped: no excuse for anything.
    GatewayClock,
    /// The upstream's process, or the way to it.
    Upstream,
    /// The way to the store.
    StorePath,
    /// A process of the store.
    Store,
    /// The store's clock jumped. Gateways notice one after the other, some of them only after a while.
    StoreClock,
    /// The way from clients to a gateway.
    ClientPath,
}

/// When.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    /// For a reader.
    pub(crate) what: String,
    pub(crate) ailment: Ailment,
    pub(crate) from: Moment,
    /// None while it lasts.
    pub(crate) to: Option<Moment>,
}

/// Everything that is known of one operation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Story {
    pub(crate) runs: Vec<Run>,
    pub(crate) exchanges: Vec<Exchange>,
}

/// What an answer's status means for the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    Kept,
    Released,
    Unknown,
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

impl Run {
    pub(crate) fn meaning(&self) -> Meaning {
        Meaning::of(self.status)
    }

    /// Its answer was given, and frees the key.
    pub(crate) fn has_freed(&self) -> bool {
        self.ended.is_some() && self.meaning() == Meaning::Released
    }
}

impl Heard {
    pub(crate) fn is_kept(&self) -> bool {
        Meaning::of(self.status) == Meaning::Kept
    }
}

impl News {
    /// It says what became of the operation.
    pub(crate) fn is_conclusive(&self) -> bool {
        matches!(self, Self::Answer(_) | Self::InDoubt | Self::Changed)
    }

    pub(crate) fn is_kept(&self) -> bool {
        matches!(self, Self::Answer(heard) if heard.is_kept())
    }

    /// Asked for once more, it would be heard again, or the operation would run anew.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::InDoubt)
            || matches!(self, Self::Answer(heard) if Meaning::of(heard.status) != Meaning::Unknown)
    }

    /// It says nothing about the operation.
    pub(crate) fn is_silence(&self) -> bool {
        match self {
            Self::Broken | Self::Left | Self::Unreached => true,
            Self::Refused { code, .. } => code != "upstream-unreachable",
            Self::Answer(_) | Self::InDoubt | Self::InFlight | Self::Changed => false,
        }
    }

    /// It promises that the request was not forwarded.
    pub(crate) fn denies_a_run(&self) -> bool {
        match self {
            Self::InDoubt | Self::InFlight | Self::Changed => true,
            Self::Answer(heard) => heard.replayed,
            Self::Refused { code, not_executed } => {
                *not_executed || ["store-unavailable", "overloaded", "record-unreadable"].contains(&code.as_str())
            }
            Self::Broken | Self::Left | Self::Unreached => false,
        }
    }
}

impl Trouble {
    /// Whether it lasted at any time between two moments.
    pub(crate) fn overlaps(&self, from: Tick, to: Tick) -> bool {
        self.from.tick <= to && self.to.is_none_or(|end| end.tick >= from)
    }
}

impl Story {
    /// What was heard last of all.
    pub(crate) fn last_news(&self) -> Option<&News> {
        self.exchanges.iter().max_by_key(|exchange| exchange.heard.tick).map(|exchange| &exchange.news)
    }

    /// All of it in its order, a line each.
    pub(crate) fn text(&self) -> String {
        let run = |run: &Run| {
            let Run { request, variant, status, receipt, began, over, .. } = run;
            (
                *began,
                format!(
                    "at {began}: request {request} runs to {over:?}: {status}, receipt {receipt}, variant {variant}"
                ),
            )
        };
        let exchange = |exchange: &Exchange| {
            let Exchange { request, variant, asked, heard, news } = exchange;
            let (from, to) = (asked.ledger, heard.ledger);
            let when = format!("{}..{} ms", asked.millis, heard.millis);
            (from, format!("at {from}: request {request} asks, variant {variant}, until {to}, {when}: {news:?}"))
        };
        let mut lines: Vec<_> = self.exchanges.iter().map(exchange).chain(self.runs.iter().map(run)).collect();
        lines.sort();
        let lines: Vec<_> = lines.into_iter().map(|(_, line)| line).collect();
        lines.join("\n")
    }
}
