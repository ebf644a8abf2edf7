//! slowhttptest in its three modes: slow heads, slow bodies, slow reading. Each kind is shed in its time, and a client
//! like others is served meanwhile. What slowhttptest's own table says is what counts.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use oncegate::clock::Clock;

use super::client::Call;
use super::gateway::Gateway;
use super::upstream::{Reply, ScriptedUpstream};

/// How many slow clients there are.
const SLOW: u32 = 200;
/// How many of them may be left at the end: 5 %.
const LEFT: u32 = SLOW / 20;
/// How long they try, in seconds: their connecting, the longest limit below, and time enough for a busy machine.
const TRIAL: &str = "20";
/// What a probe may take.
const PROBE: Duration = Duration::from_millis(100);

const LIMITS: &str =
    "{ header_timeout: 1s, body_idle_timeout: 1s, body_timeout: 2s, upload_timeout: 2s, send_timeout: 1s }";
/// A limit never reached in a trial: nobody is shed by it.
const PATIENT: &str = "{ header_timeout: 1h }";

fn gateway(upstream: &ScriptedUpstream, limits: &str) -> Gateway {
    Gateway::start(&format!(
        "listen: 127.0.0.1:0
admin: {{ listen: 127.0.0.1:0 }}
store: {{ kind: memory }}
limits: {limits}
upstreams:
  # Slow uploads are as many connections here, which are taken as fast as threads start.
  orders: {{ servers: [ \"http://{address}\" ], connect_timeout: 20s }}
routes:
  - name: create-order
    match: {{ methods: [POST], path: /orders }}
    upstream: orders
    idempotency: {{ key: [ {{ query: id }} ], scope: none }}
  - name: rest
    match: {{ path: \"/{{*rest}}\" }}
    upstream: orders
",
        address = upstream.address(),
    ))
}

fn upstream() -> ScriptedUpstream {
    let download = Reply::whole(200, &[], vec![b'x'; 1 << 20]);
    ScriptedUpstream::start(move |request| match request.target().as_str() {
        "/download" => download.clone(),
        _ => Reply::whole(200, &[], "ok"),
    })
}

/// A running slowhttptest.
struct Trial {
    child: Child,
    folder: tempfile::TempDir,
}

impl Trial {
    fn start(mode: &[&str], url: &str, seconds: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let count = SLOW.to_string();
        let child = Command::new("slowhttptest")
            .args(mode)
            .args(["-u", url, "-c", &count, "-r", &count, "-l", seconds, "-g", "-v", "1", "-o", "slow"])
            .current_dir(folder.path())
            .stdout(File::create(folder.path().join("said")).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("slowhttptest: {error}; `tests/prepare` installs it"));
        Self { child, folder }
    }

    /// Probes until it has ended; how many connections were not closed then.
    fn left(&mut self, mut probe: impl FnMut()) -> u32 {
        while self.child.try_wait().unwrap().is_none() {
            probe();
            std::thread::sleep(Duration::from_millis(20));
        }
        let said = std::fs::read_to_string(self.folder.path().join("said")).unwrap();
        if said.contains("No open connections left") {
            return 0;
        }
        assert!(said.contains("Hit test time limit"), "{said}");
        // A line for each second: `Seconds,Closed,Pending,Connected,Service Available`.
        let table = std::fs::read_to_string(self.folder.path().join("slow.csv")).unwrap();
        let last: Vec<u32> = table.lines().last().unwrap().split(',').map(|cell| cell.parse().unwrap()).collect();
        last[2] + last[3]
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn url(gateway: &Gateway, path: &str) -> String {
    format!("http://{}{path}", gateway.address)
}

/// How long an answer took, again and again.
#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    fn probe(&mut self, gateway: &Gateway) {
        let started = Clock::instant();
        assert_eq!(gateway.send(&Call::new("GET", "/probe")).status, 200);
        self.0.push(started.elapsed());
    }

    /// What so many per cent of them stayed below.
    fn percentile(&mut self, per_cent: usize) -> Duration {
        self.0.sort();
        self.0[(self.0.len() * per_cent / 100).min(self.0.len() - 1)]
    }
}

/// What a busy machine adds to a probe, it adds on a gateway without slow clients, too: one is probed in turn with the
/// other. It adds more where there is more to do: most probes may take some times as much as there, and those that fall into
/// the time when all of the crowd connects at once some times that; half of all stay below the limit anyhow. A stall of
/// the machine fails nothing, one of the gateway does.
fn is_shed(mode: &[&str], path: &str, limits: &[&str]) {
    let upstream = upstream();
    let (tried, calm) = (gateway(&upstream, LIMITS), gateway(&upstream, LIMITS));
    let (mut beside, mut alone) = (Times::default(), Times::default());
    let left = Trial::start(mode, &url(&tried, path), TRIAL).left(|| {
        beside.probe(&tried);
        alone.probe(&calm);
    });
    assert!(left <= LEFT, "{left} of {SLOW} are left");
    let shed: f64 =
        limits.iter().map(|kind| tried.metric(&format!("oncegate_timeouts_total{{kind=\"{kind}\"}}"))).sum();
    assert!(shed >= f64::from(SLOW - LEFT), "only {shed} met the limit");
    let (median, most, calm) = (beside.percentile(50), beside.percentile(75), alone.percentile(95));
    assert!(median < PROBE, "half of the probes took {median:?} or more");
    let limit = PROBE + 8 * calm;
    assert!(most < limit, "a quarter of the probes took {most:?} or more, and {calm:?} elsewhere");
    let worst = beside.percentile(95);
    assert!(worst < 4 * limit, "5 % of the probes took {worst:?} or more, and {calm:?} elsewhere");
}

#[test]
fn slow_heads_are_shed() {
    is_shed(&["-H", "-i", "1"], "/probe", &["header"]);
}

#[test]
fn slow_bodies_are_shed() {
    is_shed(&["-B", "-i", "1"], "/plain", &["body_idle", "body_total"]);
}

#[test]
fn slow_bodies_of_guarded_requests_are_shed() {
    is_shed(&["-B", "-i", "1"], "/orders?id=1", &["body_idle", "body_total"]);
}

/// A reader finds its connection reset when it has read what had come before.
#[test]
fn slow_readers_are_shed() {
    is_shed(&["-X", "-w", "100", "-y", "200", "-n", "1", "-z", "512"], "/download", &["client_write"]);
}

#[test]
fn a_gateway_that_sheds_nobody_is_noticed() {
    let upstream = upstream();
    let gateway = gateway(&upstream, PATIENT);
    let left = Trial::start(&["-H", "-i", "1"], &url(&gateway, "/probe"), "4").left(|| {});
    assert!(left > LEFT, "{left} are left");
}
