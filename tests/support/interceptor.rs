//! A proxy in front of a Redis that understands what passes: it takes out the writes that a test names, as if the gateway
//! had died before they were sent. It answers nothing itself; a test may have what was taken out arrive late.

#![allow(dead_code, reason = "each test crate uses its own part of it")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::io::{Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use oncegate::keys::namespace_tag;
use oncegate::machine::{NamespaceTag, OperationId, Record};
use oncegate::store::codec::Codec;

/// What a command writes.
pub(crate) struct Write {
    pub(crate) id: OperationId,
    /// The namespace of the operation, as its claim said it.
    pub(crate) namespace: Option<NamespaceTag>,
    /// What is written; none: the record is removed.
    pub(crate) record: Option<Record>,
}

impl Write {
    pub(crate) fn is_in(&self, namespace: &str) -> bool {
        self.namespace == Some(namespace_tag(namespace))
    }
}

type Rule = dyn Fn(&Write) -> bool + Send;

#[derive(Default)]
struct Shared {
    rule: Mutex<Option<Box<Rule>>>,
    /// The commands that were taken out.
    held: Mutex<Vec<Vec<u8>>>,
    claimed: Mutex<Vec<(OperationId, NamespaceTag)>>,
    stopped: AtomicBool,
}

/// The proxy. It takes no further connections once it is dropped.
pub(crate) struct Interceptor {
    address: SocketAddr,
    server: u16,
    shared: Arc<Shared>,
}

impl Interceptor {
    /// A proxy in front of 127.0.0.1:`server`.
    pub(crate) fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, shared) = (listener.local_addr().unwrap(), Arc::new(Shared::default()));
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if accepting.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                connect(client, server, &accepting);
            }
        });
        Self { address, server, shared }
    }

    /// The URL of the Redis behind it.
    pub(crate) fn url(&self) -> String {
        format!("redis://{}/0", self.address)
    }

    /// From now on takes out what this says. A connection that has lost a command carries no replies any more.
    pub(crate) fn hold(&self, rule: impl Fn(&Write) -> bool + Send + 'static) {
        *self.shared.rule.lock().unwrap() = Some(Box::new(rule));
    }

    /// Takes out nothing more.
    pub(crate) fn hold_no_more(&self) {
        *self.shared.rule.lock().unwrap() = None;
    }

    /// Whether anything was taken out.
    pub(crate) fn holds(&self) -> bool {
        !self.shared.held.lock().unwrap().is_empty()
    }

    /// The operation of this namespace that was claimed last.
    pub(crate) fn last_claimed(&self, namespace: &str) -> OperationId {
        let claimed = self.shared.claimed.lock().unwrap();
        let tag = namespace_tag(namespace);
        claimed.iter().rev().find(|(_, found)| *found == tag).expect("a claim").0
    }

    /// What was taken out arrives now. Gives the server's replies.
    pub(crate) fn deliver(&self) -> String {
        let mut server = TcpStream::connect(("127.0.0.1", self.server)).unwrap();
        let held = std::mem::take(&mut *self.shared.held.lock().unwrap());
        server.write_all(&held.concat()).unwrap();
        server.write_all(b"*1\r\n$4\r\nQUIT\r\n").unwrap();
        let mut replies = Vec::new();
        server.read_to_end(&mut replies).unwrap();
        String::from_utf8_lossy(&replies).trim_end_matches("+OK\r\n").to_owned()
    }
}

impl Drop for Interceptor {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        // Wakes the accepting thread.
        drop(TcpStream::connect(self.address));
    }
}

/// Carries both ways, each in a thread of its own, until either side is gone.
fn connect(client: TcpStream, server: TcpStream, shared: &Arc<Shared>) {
    let (shared, silent) = (Arc::clone(shared), Arc::new(AtomicBool::new(false)));
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut from_server, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let muted = Arc::clone(&silent);
    thread::spawn(move || {
        let mut buffer = [0; 16 << 10];
        while let Ok(length @ 1..) = from_server.read(&mut buffer) {
            if !muted.load(Ordering::SeqCst) && to_client.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        let _ = (from_server.shutdown(Shutdown::Both), to_client.shutdown(Shutdown::Both));
    });
    thread::spawn(move || {
        carry(&client, &server, &shared, &silent);
        let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
    });
}

fn carry(mut client: &TcpStream, mut server: &TcpStream, shared: &Shared, silent: &AtomicBool) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 16 << 10]);
    while let Ok(length @ 1..) = client.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..length]);
        while let Some((words, end)) = command(&bytes) {
            let rest = bytes.split_off(end);
            let command = std::mem::replace(&mut bytes, rest);
            if shared.takes_out(&words) {
                silent.store(true, Ordering::SeqCst);
                shared.held.lock().unwrap().push(command);
            } else if server.write_all(&command).is_err() {
                return;
            }
        }
    }
}

impl Shared {
    fn takes_out(&self, words: &[Vec<u8>]) -> bool {
        let Some(write) = self.understood(words) else { return false };
        self.rule.lock().unwrap().as_ref().is_some_and(|rule| rule(&write))
    }

    /// None when the command writes no record.
    fn understood(&self, words: &[Vec<u8>]) -> Option<Write> {
        let (key, value) = match &words.first()?[..] {
            b"SET" => (words.get(1)?, words.get(2)),
            b"EVAL" | b"EVALSHA" => (words.get(3)?, words.get(5)),
            _ => return None,
        };
        let id = OperationId(key.strip_prefix(b"og:")?.try_into().ok()?);
        let record = value.map(|value| Codec::default().decode(&id, value).unwrap());
        let mut claimed = self.claimed.lock().unwrap();
        if let (b"SET", Some(record)) = (&words[0][..], &record) {
            claimed.push((id, record.namespace));
        }
        let namespace = claimed.iter().find(|(known, _)| *known == id).map(|(_, namespace)| *namespace);
        Some(Write { id, namespace, record })
    }
}

/// The words of the first command, and where it ends; none while it is not whole.
fn command(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let mut at = 0;
    let count = number(bytes, &mut at, b'*')?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let length = number(bytes, &mut at, b'$')?;
        words.push(bytes.get(at..at + length)?.to_vec());
        at += length + 2;
    }
    (at <= bytes.len()).then_some((words, at))
}

/// A line of this mark and a number.
fn number(bytes: &[u8], at: &mut usize, mark: u8) -> Option<usize> {
    let line = bytes.get(*at..)?;
    let end = line.windows(2).position(|two| two == b"\r\n")?;
    assert_eq!(line[0], mark, "no command: {:?}", String::from_utf8_lossy(line));
    *at += end + 2;
    Some(std::str::from_utf8(&line[1..end]).unwrap().parse().unwrap())
}
