//! One test for each file in `http1/`. A file finds its gateway at `${gateway}`, and plays the upstream at `${upstream}`.
//! Lines that begin with `#: ` are further top-level lines of the gateway's configuration, with `#|` of the upstream's.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::gateway::Gateway;

/// How long one file may take, in seconds.
const PATIENCE: &str = "40";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/http1")
}

/// An address that nobody listens on, for a server that a file starts.
fn free_address() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

fn configuration(script: &str, upstream: SocketAddr) -> String {
    let marked = |mark: &str, indent: &str| {
        let lines = script.lines().filter_map(|line| line.strip_prefix(mark));
        lines.fold(String::new(), |all, line| all + indent + line + "\n")
    };
    format!(
        "listen: 127.0.0.1:0
workers: 1
admin: {{ listen: 127.0.0.1:0 }}
store: {{ kind: memory }}
{top}upstreams:
  orders:
    servers: [ \"http://{upstream}\" ]
{behind}routes:
  - name: create-order
    match: {{ methods: [POST, PUT], path: /orders }}
    upstream: orders
    idempotency: {{ key: [ {{ header: Idempotency-Key }} ], scope: none }}
  - name: rest
    match: {{ path: \"/{{*rest}}\" }}
    upstream: orders
",
        top = marked("#: ", ""),
        behind = marked("#| ", "    "),
    )
}

/// Runs a script; how it failed, if it did.
fn run(script: &Path) -> Result<(), String> {
    let upstream = free_address();
    let gateway = Gateway::start(&configuration(&std::fs::read_to_string(script).unwrap(), upstream));
    let output = Command::new("varnishtest")
        .args(["-t", PATIENCE])
        .args(["-D", &format!("gateway={}", gateway.address), "-D", &format!("upstream={upstream}")])
        .arg(script)
        .output()
        .map_err(|error| format!("varnishtest: {error}; `tests/prepare` installs it"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)))
}

fn passes(name: &str) {
    if let Err(log) = run(&folder().join(name).with_extension("vtc")) {
        panic!("{name}:\n{log}");
    }
}

macro_rules! scripts {
    ($($name:ident),+ $(,)?) => {
        $( #[test] fn $name() { passes(stringify!($name)); } )+

        #[test]
        fn each_file_is_run() {
            let mut files: Vec<_> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
            files.sort();
            let mut run: Vec<_> = [$(stringify!($name)),+].map(|name| folder().join(name).with_extension("vtc")).to_vec();
            run.sort();
            assert_eq!(files, run);
        }
    };
}

scripts! {
    bodies, chunks, framing, guard, headers, host, interim, methods, pipelines, targets, upgrades, upstream_chunks,
    upstream_framing,
}

#[test]
fn a_file_that_does_not_hold_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("wrong.vtc");
    let text = "varnishtest \"wrong\"\nclient c1 -connect ${gateway} {\n\ttxreq -url /nowhere\n\trxresp\n\texpect resp.status == 200\n} -run\n";
    std::fs::write(&script, text).unwrap();
    assert!(run(&script).unwrap_err().contains("resp.status"));
}
