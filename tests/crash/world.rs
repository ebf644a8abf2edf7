//! An upstream that keeps a ledger and a client that keeps a diary: together they write the story of every key.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oncegate::clock::Clock;
use socket2::{Domain, Socket, Type};

use crate::client::{Answer, Call, PATIENCE, connect, read_answer};
use crate::dice::Dice;
use crate::history::{Exchange, Execution, Fault, News, Story, Tick};
use crate::upstream::{Recorded, Reply, ScriptedUpstream};

/// How the upstream behaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    /// The longest that it takes for an answer, in milliseconds.
    pub(crate) slowest: u64,
    /// How many of a hundred answers are no success.
    pub(crate) failures: u64,
}

/// All stories, and the upstream that takes part in them.
pub(crate) struct World {
    seed: u64,
    manner: Manner,
    ticks: AtomicU64,
    heard: AtomicUsize,
    stories: Mutex<HashMap<String, Story>>,
    /// Keys in the order of their first request.
    keys: Mutex<Vec<String>>,
}

impl World {
    pub(crate) fn new(seed: u64, manner: Manner) -> (Arc<Self>, ScriptedUpstream) {
        let world = Arc::new(Self {
            seed,
            manner,
            ticks: AtomicU64::new(0),
            heard: AtomicUsize::new(0),
            stories: Mutex::default(),
            keys: Mutex::default(),
        });
        let ledger = Arc::clone(&world);
        (world, ScriptedUpstream::start(move |request| ledger.execute(request)))
    }

    pub(crate) fn tick(&self) -> Tick {
        self.ticks.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// How many answers of the upstream's clients have heard.
    pub(crate) fn heard(&self) -> usize {
        self.heard.load(Ordering::SeqCst)
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.keys.lock().unwrap().clone()
    }

    pub(crate) fn story(&self, key: &str) -> Story {
        self.stories.lock().unwrap().get(key).cloned().unwrap_or_default()
    }

    /// All faults of all stories, each with its story.
    pub(crate) fn faults(&self, last_start: Tick) -> Vec<(String, Vec<Fault>, Story)> {
        let stories = self.stories.lock().unwrap();
        let found = stories.iter().map(|(key, story)| (key.clone(), story.faults(last_start), story.clone()));
        found.filter(|(_, faults, _)| !faults.is_empty()).collect()
    }

    /// One request for a key, new or not, and what came of it.
    pub(crate) fn ask(&self, to: SocketAddr, key: &str) -> News {
        self.keep(key, |story| {
            if story.exchanges.is_empty() && story.executions.is_empty() {
                self.keys.lock().unwrap().push(key.to_owned());
            }
        });
        let asked = self.tick();
        let news = exchange(to, key);
        let heard = self.tick();
        if matches!(news, News::Answer { .. }) {
            self.heard.fetch_add(1, Ordering::SeqCst);
        }
        self.keep(key, |story| story.exchanges.push(Exchange { asked, heard, news: news.clone() }));
        news
    }

    /// Asks until somebody says what became of it.
    pub(crate) fn ask_until_conclusive(&self, to: SocketAddr, key: &str) -> News {
        let deadline = Clock::instant() + PATIENCE;
        loop {
            let news = self.ask(to, key);
            // Giving up is no verdict: the checker finds what is missing.
            if news.is_conclusive() || Clock::instant() > deadline {
                return news;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The upstream's work: the answer to a key's nth run is settled by the seed alone.
    fn execute(&self, request: &Recorded) -> Reply {
        let key = request.text("Idempotency-Key");
        let started = self.tick();
        let (run, mut dice) = self.keep(&key, |story| {
            let run = story.executions.len();
            let mut dice = Dice::new(self.seed ^ hash(&key) ^ run as u64);
            let status = status(&mut dice, self.manner.failures);
            let body = format!("{key}, run {run}, no. {started}");
            story.executions.push(Execution { started, answered: None, status, body });
            (run, dice)
        });
        std::thread::sleep(Duration::from_millis(dice.between(0, self.manner.slowest)));
        self.keep(&key, |story| {
            let answered = self.tick();
            let execution = &mut story.executions[run];
            execution.answered = Some(answered);
            Reply::whole(execution.status, &[], &execution.body)
        })
    }

    fn keep<T>(&self, key: &str, change: impl FnOnce(&mut Story) -> T) -> T {
        change(self.stories.lock().unwrap().entry(key.to_owned()).or_default())
    }
}

fn status(dice: &mut Dice, failures: u64) -> u16 {
    const FAILURES: [u16; 6] = [402, 404, 429, 500, 503, 502];
    if dice.chance(failures) { dice.place(FAILURES.len()).map_or(500, |place| FAILURES[place]) } else { 201 }
}

/// FNV-1a: must mean the same for ever.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

fn exchange(to: SocketAddr, key: &str) -> News {
    let call = Call::post("/orders").key(key).json(&format!(r#"{{"order":"{key}"}}"#));
    let Ok(mut stream) = connect(to) else { return News::Unreached };
    let sent = std::io::Write::write_all(&mut stream, &call.bytes());
    match sent.and_then(|()| read_answer(&mut stream)) {
        Ok(answer) => news(&answer),
        Err(_) => News::Broken,
    }
}

fn news(answer: &Answer) -> News {
    match answer.code().as_deref() {
        Some("outcome-unknown") => News::InDoubt,
        Some("request-in-flight") => News::InFlight,
        Some(code) => News::Refused(code.to_owned()),
        None => News::Answer { status: answer.status, body: answer.text(), replayed: answer.is_replay() },
    }
}

/// A port that is this test's own for as long as it lives: bound here without listening, so that connections are
/// refused while the gateway, which shares the port with it, is down.
pub(crate) struct OwnPort(SocketAddr, #[expect(dead_code, reason = "held, not used")] Socket);

impl OwnPort {
    pub(crate) fn new() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.set_reuse_port(true).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        Self(socket.local_addr().unwrap().as_socket().unwrap(), socket)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0
    }
}

/// A configuration: one guarded route on a port of its own. `store` is the line that says which store.
pub(crate) fn yaml(listen: SocketAddr, store: &str, upstream: &ScriptedUpstream) -> String {
    // A listener shares its port only with others of several workers.
    format!(
        "listen: {listen}
workers: 2
admin: {{ listen: 127.0.0.1:0 }}
store: {store}
drain_timeout: 20s
upstreams:
  orders:
    servers: [ \"http://{address}\" ]
    connect_timeout: 10s
    response_timeout: 20s
routes:
  - name: create-order
    match: {{ methods: [POST], path: /orders }}
    upstream: orders
    idempotency:
      key: [ {{ header: Idempotency-Key }} ]
      scope: none
      in_doubt: hold
      lease: 2s
",
        address = upstream.address(),
    )
}
