//! Memory, connections and descriptors stay bounded: endless bodies, 10,000 waiters, a store that is dead.
//! Sizes are of a debug build; what counts is that they do not grow with what is thrown at the gateway.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use oncegate::clock::Clock;

use crate::client::{Answer, Call, connect, read_answer};
use crate::gateway::{Gateway, wait_until};
use crate::redis::RedisServer;
use crate::upstream::{Gate, Reply, ScriptedUpstream};
use crate::{COMMAND_TIMEOUT, order, refused, store, told, yaml};

const MIB: u64 = 1 << 20;

/// How many connections a crowd has: each costs two descriptors on this machine, one here and one in the gateway.
fn crowd() -> usize {
    let most = rlimit::increase_nofile_limit(u64::MAX).unwrap();
    usize::try_from(most.saturating_sub(2_000)).unwrap().min(10_000)
}

/// Held by the test whose crowd is there: two crowds are more than one process may open.
static CROWD: Mutex<()> = Mutex::new(());

/// What the gateway holds in memory.
fn resident(gateway: &Gateway) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
}

fn descriptors(gateway: &Gateway) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", gateway.pid())).unwrap().count()
}

fn ask(gateway: &Gateway, call: &Call) -> TcpStream {
    let mut stream = connect(gateway.address).unwrap();
    stream.write_all(&call.bytes()).unwrap();
    stream
}

fn answer(mut stream: TcpStream) -> Answer {
    read_answer(&mut stream).unwrap()
}

/// Two generations of 300 MB, of which no page counts before it is used.
#[test]
fn a_large_filter_is_resident_as_it_fills() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "done"));
    let redis = RedisServer::start();
    let gateway = Gateway::start(&yaml(&upstream, &redis.url(), "", "filter: { capacity: 100000000 }"));
    assert_eq!(gateway.send(&order("k")).status, 201);
    let resident = resident(&gateway);
    assert!(resident < 150 * MIB, "{} MiB", resident / MIB);
}

#[test]
fn ten_thousand_waiters_cost_little_each_and_all_get_the_answer() {
    let _crowd = CROWD.lock().unwrap_or_else(PoisonError::into_inner);
    let gate = Gate::new();
    let hold = gate.clone();
    let upstream = ScriptedUpstream::start(move |_| Reply::whole(201, &[], "done").after(&hold));
    let redis = RedisServer::start();
    let top = format!(
        "limits: {{ connections: 20000, waiters: 20000 }}\nstore: {}",
        store(&redis.url(), Duration::from_secs(20))
    );
    let gateway = Gateway::start(&yaml(&upstream, &redis.url(), "in_flight: wait\npatience: 60s", &top));
    let first = ask(&gateway, &order("k"));
    upstream.wait_for_requests(1);
    let before = resident(&gateway);
    let waiters: Vec<_> = (0..crowd()).map(|_| ask(&gateway, &order("k"))).collect();
    let count = waiters.len();
    let asked = f64::from(u32::try_from(count).unwrap()) + 1.0;
    gateway.wait_for_metric(r#"oncegate_filter_checks_total{answer="new"}"#, asked);
    let each = (resident(&gateway) - before) / count as u64;
    gate.open();
    assert_eq!(answer(first).status, 201);
    assert!(waiters.into_iter().map(answer).all(|answer| answer.is_replay()));
    println!("{each} bytes a waiter");
    assert!(each < 80 * 1_024, "{each} bytes for each of {count} waiters");
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_dead_store_costs_no_more_than_its_clients_and_heals() {
    let _crowd = CROWD.lock().unwrap_or_else(PoisonError::into_inner);
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "done"));
    let redis = RedisServer::start();
    let top = format!(
        "limits: {{ connections: 20000 }}\nlog: {{ level: \"error,oncegate::app=info\" }}\nstore: {}",
        store(&redis.url(), COMMAND_TIMEOUT)
    );
    let gateway = Gateway::start(&yaml(&upstream, &redis.url(), "lease: 60s", &top));
    let other = Gateway::start(&yaml(&upstream, &redis.url(), "lease: 60s", ""));
    assert_eq!(gateway.send(&order("k")).status, 201);
    redis.pause();
    let (count, before, files) = (crowd(), resident(&gateway), descriptors(&gateway));
    let mut most = 0;
    for turn in 0..2 {
        let clients: Vec<_> = (0..count).map(|number| ask(&gateway, &order(&format!("k-{turn}-{number}")))).collect();
        most = most.max(resident(&gateway));
        for client in clients {
            assert_eq!(told(&answer(client)), refused(503, "store-unavailable"));
        }
    }
    most = most.max(resident(&gateway)) - before;
    println!("{} MiB for {count} clients of a dead store", most / MIB);
    assert!(most < 80 * 1_024 * count as u64, "{} MiB for {count} clients", most / MIB);
    wait_until("only the store's connections are left", || descriptors(&gateway) < files + 60);
    redis.resume();
    let start = Clock::instant();
    // Asked elsewhere, where nobody knows whose claims they were that got stuck. None waits for the others' sake.
    for number in (0..count).step_by(count / 50) {
        let key = format!("k-0-{number}");
        wait_until("the key is free", || other.send(&order(&key)).status == 201);
        assert_eq!(upstream.executions("Idempotency-Key", &key), 1);
    }
    println!("all free after {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(20), "free after {:?}", start.elapsed());
}

#[test]
fn endless_uploads_share_a_budget() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "done"));
    let redis = RedisServer::start();
    let gateway = Gateway::start(&yaml(
        &upstream,
        &redis.url(),
        "request_body_limit: 4MiB",
        "limits: { buffered_bodies: 16MiB }",
    ));
    let before = resident(&gateway);
    let most = std::thread::scope(|scope| {
        let uploads: Vec<_> = (0..50)
            .map(|number| {
                scope.spawn({
                    let gateway = &gateway;
                    move || upload(gateway.address, number)
                })
            })
            .collect();
        let mut most = 0;
        while !uploads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            most = most.max(resident(&gateway));
            std::thread::sleep(Duration::from_millis(5));
        }
        for upload in uploads {
            upload.join().unwrap();
        }
        most
    });
    assert!(most.saturating_sub(before) < 160 * MIB, "{} MiB", (most - before) / MIB);
    assert_eq!(gateway.send(&order("k")).status, 201);
    assert_eq!(upstream.requests().len(), 1);
}

/// Writes without an end until the gateway has had enough.
fn upload(gateway: SocketAddr, number: usize) {
    let mut stream = connect(gateway).unwrap();
    let head = format!(
        "POST /orders HTTP/1.1\r\nHost: a\r\nIdempotency-Key: e-{number}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = [b"4000\r\n".as_slice(), &[b'x'; 0x4000], b"\r\n"].concat();
    let written = (0..10_000).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    assert!(written < 10_000, "the gateway reads on without an end");
}

#[test]
fn endless_answers_pass_through() {
    let poured = Arc::new(AtomicU64::new(0));
    let (endless, stop) = endless_upstream(&poured);
    let nobody = ScriptedUpstream::start(|_| Reply::close());
    let redis = RedisServer::start();
    let text = yaml(&nobody, &redis.url(), "response_body_limit: 64KiB", "")
        .replace(&nobody.address().to_string(), &endless.to_string())
        .replace("response_timeout: 20s", "response_timeout: 300ms");
    let gateway = Gateway::start(&text);
    let before = resident(&gateway);
    // Clients that ask and do not read: the gateway lets them go and reads on, to know how it ends.
    let clients: Vec<_> = (0..20).map(|number| ask(&gateway, &order(&format!("k-{number}")))).collect();
    let mut most = 0;
    wait_until("1 GiB has passed", || {
        most = most.max(resident(&gateway));
        poured.load(Ordering::Relaxed) > 1_024 * MIB
    });
    stop.store(true, Ordering::Relaxed);
    drop(clients);
    assert!(most.saturating_sub(before) < 64 * MIB, "{} MiB", (most - before) / MIB);
}

/// An upstream whose answers never end, and the sign that ends them all the same.
fn endless_upstream(poured: &Arc<AtomicU64>) -> (SocketAddr, Arc<AtomicBool>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (poured, stopped) = (Arc::clone(poured), Arc::clone(&stop));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (poured, stopped) = (Arc::clone(&poured), Arc::clone(&stopped));
            std::thread::spawn(move || pour(stream, &poured, &stopped));
        }
    });
    (address, stop)
}

fn pour(mut stream: TcpStream, poured: &AtomicU64, stop: &AtomicBool) {
    let mut request = [0; 4_096];
    match stream.read(&mut request) {
        Ok(1..) => {}
        Ok(0) => return,
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    let head = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = [b"10000\r\n".as_slice(), &vec![b'x'; 0x10000], b"\r\n"].concat();
    let mut open = stream.write_all(head).is_ok();
    while open && !stop.load(Ordering::Relaxed) {
        open = stream.write_all(&chunk).is_ok();
        poured.fetch_add(0x10000, Ordering::Relaxed);
    }
}
