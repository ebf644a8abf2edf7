//! Clients that go on asking, over connections that are kept or over one for each request, and note everything that is
//! not as it should be.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Scope;

use crate::client::{Answer, connect, read_answer};
use crate::gateway::wait_until;
use crate::upstream::ScriptedUpstream;

/// What all clients share.
#[derive(Default)]
pub(crate) struct Crowd {
    home: AtomicBool,
    answers: AtomicUsize,
    orders: AtomicUsize,
    kept_connections: AtomicUsize,
    faults: Mutex<Vec<String>>,
}

struct Client<'a> {
    crowd: &'a Crowd,
    to: SocketAddr,
    keeps: bool,
    stream: Option<TcpStream>,
}

impl Crowd {
    /// Lets so many clients in that keep their connections, and so many that make one for each request.
    pub(crate) fn enter<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        to: SocketAddr,
        [keeping, single]: [usize; 2],
    ) {
        for number in 0..keeping + single {
            let client = Client { crowd: self, to, keeps: number < keeping, stream: None };
            scope.spawn(move || client.go_on(number));
        }
    }

    /// Sends everybody home.
    pub(crate) fn leave(&self) {
        self.home.store(true, Ordering::SeqCst);
    }

    /// Waits until so many more answers have come, or something went wrong.
    pub(crate) fn wait_for_answers(&self, more: usize) {
        let enough = self.answers.load(Ordering::SeqCst) + more;
        wait_until("the crowd goes on", || self.answers.load(Ordering::SeqCst) >= enough || !self.faults().is_empty());
    }

    /// How many connections were made by those that keep theirs.
    pub(crate) fn kept_connections(&self) -> usize {
        self.kept_connections.load(Ordering::SeqCst)
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        self.faults.lock().unwrap().clone()
    }

    /// No request failed, and each order ran once.
    pub(crate) fn assert_served(&self, upstream: &ScriptedUpstream) {
        assert_eq!(self.faults(), Vec::<String>::new());
        let mut keys: Vec<_> =
            upstream.requests().iter().filter_map(|request| request.header("Idempotency-Key")).collect();
        let ran = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!((ran, keys.len()), (self.orders.load(Ordering::SeqCst), ran), "orders ran twice, or never");
    }
}

impl Client<'_> {
    /// An order, the same again, something plain, until it is time to go or something failed.
    fn go_on(mut self, number: usize) {
        for round in 0.. {
            let key = format!("Idempotency-Key: c{number}-{round}\r\n");
            let whole = self.ask("POST /orders", &key, 201, false)
                && self.ask("POST /orders", &key, 201, true)
                && self.ask("GET /plain", "", 200, false);
            self.crowd.orders.fetch_add(1, Ordering::SeqCst);
            if !whole || self.crowd.home.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    /// Whether the answer was this one.
    fn ask(&mut self, what: &str, field: &str, status: u16, replayed: bool) -> bool {
        let fault = match self.exchange(what, field) {
            Ok(answer) if (answer.status, answer.is_replay()) == (status, replayed) => {
                self.crowd.answers.fetch_add(1, Ordering::SeqCst);
                return true;
            }
            Ok(answer) => format!("{what} {field}: {} {:?} {}", answer.status, answer.headers, answer.text()),
            Err(error) => format!("{what} {field}: {error}"),
        };
        self.crowd.faults.lock().unwrap().push(fault);
        false
    }

    fn exchange(&mut self, what: &str, field: &str) -> std::io::Result<Answer> {
        let mut stream = if let Some(kept) = self.stream.take() {
            kept
        } else {
            self.crowd.kept_connections.fetch_add(usize::from(self.keeps), Ordering::SeqCst);
            connect(self.to)?
        };
        let end = if self.keeps { "" } else { "Connection: close\r\n" };
        let request = format!("{what} HTTP/1.1\r\nHost: api.test\r\n{field}{end}Content-Length: 1\r\n\r\nx");
        stream.write_all(request.as_bytes())?;
        let answer = read_answer(&mut stream)?;
        // As HTTP clients do: a connection whose end was said is not used again.
        self.stream = (answer.header("connection") != Some("close")).then_some(stream);
        Ok(answer)
    }
}
