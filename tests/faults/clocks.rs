//! Wall clocks that are set while their processes run, by libfaketime; and the drills that do nothing else. The monotonic
//! clock runs on, as it does on a machine whose time is put right.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use oncegate::clock::Clock;

use crate::client::Call;
use crate::drill::Plan;
use crate::gateway::{Gateway, wait_until, write};
use crate::redis::{Environment, RedisServer};
use crate::scene::{Backing, Clocks};
use crate::short::{drill, seed};
use crate::storm::JUMP;
use crate::upstream::OwnPort;

/// The clock of one process.
pub(crate) struct FakeClock {
    file: PathBuf,
}

impl FakeClock {
    /// A clock that is right, and is told by this file.
    pub(crate) fn new(file: &Path) -> Self {
        let clock = Self { file: file.to_owned() };
        clock.set(0);
        clock
    }

    /// From now on it is so many seconds fast.
    pub(crate) fn set(&self, seconds: i64) {
        let fresh = self.file.with_extension("fresh");
        fs::write(&fresh, format!("{seconds:+}\n")).unwrap();
        fs::rename(fresh, &self.file).unwrap();
    }

    /// What a process must be started with to go by it.
    pub(crate) fn environment(&self) -> Environment {
        let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        vec![
            // The C library before all others: an allocator of its own that reads the clock, as that of Redis, would wait
            // for libfaketime, and that for the allocator.
            own("LD_PRELOAD", &format!("{} libc.so.6", library())),
            own("FAKETIME_TIMESTAMP_FILE", &self.file.display().to_string()),
            own("FAKETIME_NO_CACHE", "1"),
            own("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ]
    }
}

/// Where Debian puts it.
fn library() -> String {
    let folders = fs::read_dir("/usr/lib").unwrap().flatten().map(|entry| entry.path());
    let mut places = folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1"));
    let found = places.find(|place| place.exists());
    found.expect("these tests need libfaketime: tests/prepare brings it").display().to_string()
}

/// Otherwise the drills below show nothing.
#[test]
fn a_gateway_and_a_redis_believe_their_clocks() {
    let mut plan = jumps(Backing::Redis, 1, Clocks::OfGateways);
    let scene = plan.scene();
    let date = || {
        let answer = Call::new("GET", "/nowhere").send(scene.members[0].clients.address());
        let date = httpdate::parse_http_date(answer.header("date").unwrap()).unwrap();
        i64::try_from(date.duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
    };
    let wall = || i64::try_from(Clock::wall().0 / 1_000).unwrap();
    let is_about = |late: i64| (date() - wall() - late).abs() < 60;
    let clock = scene.members[0].clock.as_ref().unwrap();
    // Back before on: what writes dates keeps the last one until it is over.
    clock.set(-JUMP);
    wait_until("the gateway's date is early", || is_about(-JUMP));
    clock.set(JUMP);
    wait_until("the gateway's date is late", || is_about(JUMP));

    plan.clocks = Clocks::OfStore;
    let mut scene = plan.scene();
    let mut time = || -> u64 {
        let (seconds, _): (u64, u64) = scene.store.nodes()[0].run(&["TIME"]);
        seconds
    };
    let before = time();
    scene.store_clock.as_ref().unwrap().set(JUMP);
    assert!(time() >= before + 299);
}

fn jumps(backing: Backing, gateways: usize, clocks: Clocks) -> Plan {
    let mut plan = Plan::short(backing, gateways, seed());
    (plan.clocks, plan.clocks_alone, plan.most) = (clocks, true, Duration::from_secs(6));
    (plan.manner.failures, plan.manner.very_slow) = (0, 0);
    plan
}

/// Five minutes on, five minutes back, again and again: gateways go by the store's time, so that nothing happens.
#[test]
fn jumps_of_gateways_clocks_change_nothing() {
    let report = drill("gateways' clocks jump", &jumps(Backing::Redis, 2, Clocks::OfGateways));
    let seen = &report.figures;
    assert!(
        seen.doubts == seen.doubts_in_vain && seen.kept + seen.doubts == seen.operations && seen.kept > 100,
        "{seen:?}"
    );
}

/// What is under way when the store's clock jumps on may outlive its lease and be in doubt; nothing runs twice.
#[test]
fn jumps_of_redis_clock_run_nothing_twice() {
    let report = drill("the clock of Redis jumps", &jumps(Backing::Redis, 2, Clocks::OfStore));
    let seen = &report.figures;
    assert!(seen.kept > 100, "{seen:?}");
}

/// The embedded store's time never runs backwards, and follows the machine's.
#[test]
fn jumps_of_the_only_gateways_clock_run_nothing_twice() {
    let report = drill("the clock of an embedded store jumps", &jumps(Backing::Embedded, 1, Clocks::OfGateways));
    let seen = &report.figures;
    assert!(seen.kept > 100, "{seen:?}");
}

/// Two gateways whose clocks are five minutes off, in both directions, take each other's tokens of a minute: a request with
/// one gets as far as its upstream, which is not there.
#[test]
fn tokens_go_by_the_stores_time() {
    let (upstream, redis) = (OwnPort::new(), RedisServer::start());
    let folder = tempfile::tempdir().unwrap();
    let gateways = [-JUMP, JUMP].map(|ahead| {
        let config = folder.path().join(format!("{ahead}.yaml"));
        write(&config, &token_yaml(&redis.url(), &upstream.address().to_string()));
        let clock = FakeClock::new(&folder.path().join(format!("{ahead}.clock")));
        clock.set(ahead);
        let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
        command.args(["serve", "--config"]).arg(&config).envs(clock.environment());
        Gateway::try_command(command, &config).unwrap_or_else(|(ended, log)| panic!("{ended}: {log}"))
    });
    for [issuer, taker] in [[0, 1], [1, 0]].map(|pair| pair.map(|one: usize| &gateways[one])) {
        let issued = issuer.send(&Call::post("/idempotency-tokens"));
        let told: serde_json::Value = serde_json::from_slice(&issued.body).unwrap();
        let expires: jiff::Timestamp = told["expires_at"].as_str().unwrap().parse().unwrap();
        let left = expires.as_millisecond() / 1_000 - i64::try_from(Clock::wall().0 / 1_000).unwrap();
        assert!((30..=61).contains(&left), "{left} s by the store's time");
        let order = Call::post("/orders").header("Idempotency-Token", told["token"].as_str().unwrap()).body("x");
        let answer = taker.send(&order);
        assert_eq!((answer.status, answer.code().as_deref()), (502, Some("upstream-unreachable")), "{}", answer.text());
    }
}

fn token_yaml(redis: &str, upstream: &str) -> String {
    format!(
        "listen: 127.0.0.1:0
admin: {{ listen: 127.0.0.1:0 }}
store: {{ kind: redis, url: '{redis}' }}
tokens: {{ lifetime: 1m, secrets: [ 0123456789abcdef0123456789abcdef ] }}
upstreams: {{ orders: {{ servers: [ 'http://{upstream}' ] }} }}
routes:
  - name: orders
    match: {{ methods: [POST], path: /orders }}
    upstream: orders
    idempotency: {{ key: [ {{ token: {{}} }} ], scope: none }}
"
    )
}
