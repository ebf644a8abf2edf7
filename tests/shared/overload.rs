//! A request that finds no slot has claimed its key already: the key is free again, also when its client leaves.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::client::{connect, leave, read_answer};
use crate::gateway::{Gateway, wait_until};
use crate::redis::RedisServer;
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::{order, refused, store, told, yaml};

/// Holds scripts back on their way to Redis, and with them all settling, until it is told to let them through.
#[derive(Default)]
struct Barrier {
    held: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Barrier {
    fn pass(&self) {
        let mut held = self.held.lock().unwrap();
        held.0 += 1;
        drop(self.changed.wait_while(held, |(_, open)| !*open).unwrap());
    }

    fn holds(&self) -> usize {
        self.held.lock().unwrap().0
    }

    fn open(&self) {
        self.held.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

/// A way to Redis with that barrier in it; its URL.
fn way_to(redis: &RedisServer, barrier: &Arc<Barrier>) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (port, url) = (redis.port(), format!("redis://{}/0", listener.local_addr().unwrap()));
    let barrier = Arc::clone(barrier);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            let (back, forth) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            let barrier = Arc::clone(&barrier);
            let look = move |bytes: &[u8]| {
                if bytes.windows(4).any(|word| word == b"EVAL") {
                    barrier.pass();
                }
            };
            std::thread::spawn(move || carry(client, server, look));
            std::thread::spawn(move || carry(back, forth, |_| {}));
        }
    });
    url
}

fn carry(mut from: TcpStream, mut to: TcpStream, look: impl Fn(&[u8])) {
    let mut bytes = [0; 16 << 10];
    while let Ok(length @ 1..) = from.read(&mut bytes) {
        look(&bytes[..length]);
        if to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    // The other side sees the end too.
    let _ = to.shutdown(Shutdown::Both);
}

#[test]
fn a_client_that_leaves_while_its_key_is_freed_leaves_no_doubt() {
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "done").after(&hold));
    let (redis, barrier) = (RedisServer::start(), Arc::new(Barrier::default()));
    let url = way_to(&redis, &barrier);
    let top = format!("limits: {{ in_flight: 1 }}\nstore: {}", store(&url, Duration::from_secs(20)));
    let gateway = Gateway::start(&yaml(&upstream, &url, "lease: 60s", &top));
    let mut first = connect(gateway.address).unwrap();
    first.write_all(&order("k-1").bytes()).unwrap();
    upstream.wait_for_requests(1);
    let mut second = connect(gateway.address).unwrap();
    second.write_all(&order("k-2").bytes()).unwrap();
    wait_until("the second one's removal is on its way", || barrier.holds() == 1);
    leave(second);
    gateway.wait_for_metric(r#"oncegate_clients_gone_total{route="create-order"}"#, 1.0);
    barrier.open();
    gate.open();
    assert_eq!(read_answer(&mut first).unwrap().status, 201);
    wait_until("the key is free", || {
        let answer = gateway.send(&order("k-2"));
        assert_ne!(told(&answer), refused(409, "outcome-unknown"));
        answer.status == 201
    });
    assert_eq!(upstream.executions("Idempotency-Key", "k-2"), 1);
}
