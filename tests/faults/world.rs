//! What clients ask and hear, kept for the verdict; and what befalls the machines meanwhile. It judges nothing.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use oncegate::clock::Clock;

use crate::client::{Answer, Call, leave, read_answer};
use crate::history::{Ailment, Exchange, Heard, Moment, Name, News, Story, Trouble};
use crate::ledger;
use crate::verdict::{Case, Fault, Receipts, Terms};

/// How long a client waits for an answer: longer than any that comes at all.
const PATIENCE: Duration = Duration::from_secs(15);

/// Fields of an answer that belong to the connection, the moment or the gateway.
const NOT_END_TO_END: [&str; 13] = [
    "connection",
    "content-length",
    "date",
    "idempotency-expires",
    "idempotent-replayed",
    "keep-alive",
    "oncegate-operation",
    "oncegate-outcome",
    "oncegate-unguarded",
    "transfer-encoding",
    "via",
    "x-idempotent-retry",
    "x-request-id",
];

/// All stories as clients tell them.
pub(crate) struct World {
    began: Instant,
    ledger: File,
    ticks: AtomicU64,
    requests: AtomicU64,
    heard: AtomicU64,
    refused_by_store: AtomicU64,
    told: Mutex<HashMap<Name, Vec<Exchange>>>,
    /// Operations in the order of their first request.
    names: Mutex<Vec<Name>>,
    troubles: Mutex<Vec<Trouble>>,
    /// What refusals call an operation.
    digests: Mutex<HashMap<Name, String>>,
}

/// An operation that went wrong.
pub(crate) type Wrong = (Name, Vec<Fault>, Story);

impl World {
    /// A world beside an upstream that keeps this ledger.
    pub(crate) fn beside(ledger: &Path) -> Self {
        Self {
            began: Clock::instant(),
            ledger: File::open(ledger).unwrap(),
            ticks: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            refused_by_store: AtomicU64::new(0),
            told: Mutex::default(),
            names: Mutex::default(),
            troubles: Mutex::default(),
            digests: Mutex::default(),
        }
    }

    pub(crate) fn now(&self) -> Moment {
        Moment {
            tick: self.ticks.fetch_add(1, Ordering::SeqCst) + 1,
            ledger: self.ledger.metadata().unwrap().len(),
            millis: u64::try_from(self.began.elapsed().as_millis()).unwrap(),
        }
    }

    pub(crate) fn names(&self) -> Vec<Name> {
        self.names.lock().unwrap().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.names.lock().unwrap().len()
    }

    /// How many answers of the upstream's clients have heard.
    pub(crate) fn heard(&self) -> u64 {
        self.heard.load(Ordering::SeqCst)
    }

    /// How many requests were refused because the store was away.
    pub(crate) fn refused_by_store(&self) -> u64 {
        self.refused_by_store.load(Ordering::SeqCst)
    }

    /// Some operation, or one of the latest so many.
    pub(crate) fn name_at(&self, place: impl FnOnce(usize) -> Option<usize>) -> Option<Name> {
        let names = self.names.lock().unwrap();
        place(names.len()).and_then(|place| names.get(place).cloned())
    }

    /// What refusals called it.
    pub(crate) fn digest(&self, name: &Name) -> Option<String> {
        self.digests.lock().unwrap().get(name).cloned()
    }

    pub(crate) fn begin(&self, ailment: Ailment, what: &str) -> usize {
        let from = self.now();
        let mut troubles = self.troubles.lock().unwrap();
        troubles.push(Trouble { what: what.to_owned(), ailment, from, to: None });
        troubles.len() - 1
    }

    pub(crate) fn end(&self, trouble: usize) {
        let now = self.now();
        self.troubles.lock().unwrap()[trouble].to = Some(now);
    }

    pub(crate) fn troubles(&self) -> Vec<Trouble> {
        self.troubles.lock().unwrap().clone()
    }

    /// One request for an operation, new or not, and what came of it.
    pub(crate) fn ask(&self, to: SocketAddr, name: &Name, variant: u8) -> News {
        self.ask_and(to, name, variant, None)
    }

    /// The same by a client that leaves after a while.
    pub(crate) fn ask_and_leave(&self, to: SocketAddr, name: &Name, after: Duration) {
        self.ask_and(to, name, 0, Some(after));
    }

    fn ask_and(&self, to: SocketAddr, name: &Name, variant: u8, leaves: Option<Duration>) -> News {
        if let Entry::Vacant(vacant) = self.told.lock().unwrap().entry(name.clone()) {
            vacant.insert(Vec::new());
            self.names.lock().unwrap().push(name.clone());
        }
        let request = self.requests.fetch_add(1, Ordering::SeqCst) + 1;
        let call = call(name, request, variant);
        let asked = self.now();
        let news = self.exchange(to, name, &call, leaves);
        let heard = self.now();
        match &news {
            News::Answer(_) => self.heard.fetch_add(1, Ordering::SeqCst),
            News::Refused { code, .. } if code == "store-unavailable" => {
                self.refused_by_store.fetch_add(1, Ordering::SeqCst)
            }
            _ => 0,
        };
        let exchange = Exchange { request, variant, asked, heard, news: news.clone() };
        self.told.lock().unwrap().entry(name.clone()).or_default().push(exchange);
        news
    }

    fn exchange(&self, to: SocketAddr, name: &Name, call: &Call, leaves: Option<Duration>) -> News {
        let Ok(mut stream) = TcpStream::connect_timeout(&to, PATIENCE) else { return News::Unreached };
        let _ = (stream.set_read_timeout(Some(PATIENCE)), stream.set_write_timeout(Some(PATIENCE)));
        let sent = stream.write_all(&call.bytes());
        if let Some(after) = leaves {
            std::thread::sleep(after);
            leave(stream);
            return News::Left;
        }
        let Ok(answer) = sent.and_then(|()| read_answer(&mut stream)) else { return News::Broken };
        if let Some(digest) = answer.header("oncegate-operation") {
            self.digests.lock().unwrap().entry(name.clone()).or_insert_with(|| digest.to_owned());
        }
        news(&answer)
    }

    /// Asks until somebody says what became of it.
    pub(crate) fn ask_until_conclusive(&self, to: SocketAddr, name: &Name, most: Duration) -> News {
        let deadline = Clock::instant() + most;
        loop {
            let mut news = self.ask(to, name, 0);
            if news == News::Changed {
                // It was the other one that came first.
                news = self.ask(to, name, 1);
            }
            // Giving up is no verdict: the checker finds what is missing.
            if news.is_final() || Clock::instant() > deadline {
                return news;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Every story, as the ledger and the clients tell it.
    pub(crate) fn stories(&self, ledger: &Path) -> HashMap<Name, Story> {
        let mut stories: HashMap<Name, Story> = HashMap::new();
        for (name, run) in ledger::read(&std::fs::read_to_string(ledger).unwrap()) {
            stories.entry(name).or_default().runs.push(run);
        }
        for (name, exchanges) in self.told.lock().unwrap().iter() {
            stories.entry(name.clone()).or_default().exchanges.clone_from(exchanges);
        }
        stories
    }
}

/// All that went wrong.
pub(crate) fn judge(stories: &HashMap<Name, Story>, terms: &Terms) -> Vec<Wrong> {
    let owners = stories.iter().flat_map(|(name, story)| story.runs.iter().map(|run| (run.receipt, name.clone())));
    let receipts: Receipts = owners.collect();
    let judged = stories.iter().map(|(name, story)| {
        let case = Case { name, story, receipts: &receipts, terms };
        (name.clone(), case.faults(), story.clone())
    });
    judged.filter(|(_, faults, _)| !faults.is_empty()).collect()
}

/// A request with a number of its own, by which the upstream's ledger names it.
fn call(name: &Name, request: u64, variant: u8) -> Call {
    Call::post("/orders")
        .key(&format!("key-{}", name.key))
        .header("X-Customer-Id", name.scope.to_string())
        .header("X-Request-Id", format!("request-{request}"))
        .json(&format!(r#"{{"order":{},"variant":{variant}}}"#, name.key))
}

fn news(answer: &Answer) -> News {
    match answer.code().as_deref() {
        Some("outcome-unknown") => News::InDoubt,
        Some("request-in-flight") => News::InFlight,
        Some("key-reused") => News::Changed,
        Some(code) => {
            let not_executed = answer.header("oncegate-outcome") == Some("not-executed");
            News::Refused { code: code.to_owned(), not_executed }
        }
        None => News::Answer(heard(answer)),
    }
}

fn heard(answer: &Answer) -> Heard {
    let receipt = answer.header("x-receipt").and_then(|receipt| receipt.parse().ok());
    let replayed = answer.is_replay();
    Heard {
        status: answer.status,
        receipt,
        replayed,
        recorded: answer.header("idempotency-expires").is_some(),
        unguarded: answer.header("oncegate-unguarded").is_some(),
        exact: receipt.is_some_and(|receipt| is_exact(answer, receipt, replayed)),
    }
}

/// Whether status, body and end-to-end fields are those that belong to the receipt. A replay never sets a cookie.
fn is_exact(answer: &Answer, receipt: u64, replayed: bool) -> bool {
    let (mut expected, body) = ledger::answer(answer.status, receipt);
    if !replayed {
        expected.push(("set-cookie".to_owned(), format!("session={receipt}")));
    }
    expected.sort();
    let own = answer.headers.iter().filter(|(name, _)| !NOT_END_TO_END.contains(&name.as_str()));
    let mut own: Vec<_> =
        own.map(|(name, value)| (name.clone(), String::from_utf8_lossy(value).into_owned())).collect();
    own.sort();
    answer.body == body && own == expected
}
