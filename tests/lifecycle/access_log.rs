//! The access log's file: taken away under load, full, changed by a reload, whole at the end.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::client::{Call, connect};
use crate::crowd::Crowd;
use crate::gateway::{Gateway, wait_until};
use crate::{ready_upstream, yaml};

const LOST: &str = "oncegate_access_log_dropped_total";

fn top(settings: &str) -> String {
    format!("workers: 2\naccess_log: {{ {settings} }}")
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The lines for clients' requests: each whole.
fn count<P: AsRef<Path>>(paths: &[P]) -> usize {
    let lines: Vec<String> =
        paths.iter().flat_map(|path| text(path.as_ref()).lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    for line in &lines {
        assert!(serde_json::from_str::<serde_json::Value>(line).is_ok_and(|line| line.is_object()), "{line}");
    }
    lines.len()
}

fn counted(gateway: &Gateway) -> usize {
    let page = gateway.get_admin("/metrics").text();
    let values = page.lines().filter(|line| line.starts_with("oncegate_requests_total{"));
    values.map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).sum()
}

#[test]
fn rotation_under_load_loses_no_line_and_doubles_none() {
    let upstream = ready_upstream();
    let mut gateway = Gateway::start(&yaml(&upstream, &top("path: '{dir}/log', flush: 5ms"), ""));
    let log = gateway.folder().join("log");
    let mut files: Vec<_> = (0..20).map(|number| log.with_extension(number.to_string())).collect();
    let crowd = Crowd::default();
    std::thread::scope(|scope| {
        crowd.enter(scope, gateway.address, [4, 1]);
        for (number, file) in files.iter().enumerate() {
            crowd.wait_for_answers(30);
            // The writer may be behind.
            wait_until("lines", || !text(&log).is_empty());
            std::fs::rename(&log, file).unwrap();
            gateway.signal(if number % 4 == 3 { "HUP" } else { "USR1" });
            wait_until("the name is a file again", || log.exists());
        }
        crowd.leave();
    });
    crowd.assert_served(&upstream);
    let requests = counted(&gateway);
    assert_eq!(gateway.metric(LOST), 0.0);
    gateway.signal("TERM");
    assert!(gateway.wait().success());
    assert!(files.iter().all(|file| !text(file).is_empty()));
    files.push(log);
    assert_eq!(count(&files), requests);
}

#[test]
fn a_file_that_is_cut_is_written_from_its_beginning() {
    let upstream = ready_upstream();
    let gateway = Gateway::start(&yaml(&upstream, &top("path: '{dir}/log', flush: 1ms"), ""));
    let log = gateway.folder().join("log");
    for _ in 0..3 {
        gateway.send(&Call::new("GET", "/plain"));
        wait_until("a line", || count(&[&log]) == 1);
        assert!(text(&log).starts_with('{'));
        std::fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(0).unwrap();
    }
}

#[test]
fn what_waits_is_written_when_the_gateway_stops() {
    let upstream = ready_upstream();
    let mut gateway = Gateway::start(&yaml(&upstream, &top("path: '{dir}/log', flush: 1m"), ""));
    let log = gateway.folder().join("log");
    (0..10).for_each(|_| drop(gateway.send(&Call::new("GET", "/plain"))));
    assert_eq!(text(&log), "");
    gateway.signal("TERM");
    assert!(gateway.wait().success());
    assert_eq!(count(&[log]), 10);
}

#[test]
fn a_pipe_that_nobody_reads_costs_lines_and_no_request() {
    let upstream = ready_upstream();
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let settings = format!("path: '{}', buffer: 1MiB, query: keep, flush: 1ms", pipe.display());
    let mut gateway = Gateway::start(&yaml(&upstream, &top(&settings), ""));
    let call = Call::new("GET", &format!("/plain?{}", "x".repeat(4000)));
    wait_until("lines are dropped", || {
        (0..50).for_each(|_| assert_eq!(gateway.send(&call).status, 200));
        gateway.metric(LOST) >= 50.0
    });
    gateway.signal("TERM");
    assert!(gateway.wait().success(), "a stop does not wait for ever either");
    assert!(gateway.log().contains("the access log was not written to its end"));
}

#[test]
fn a_reload_turns_it_on_elsewhere_and_off() {
    let upstream = ready_upstream();
    let gateway = Gateway::start(&yaml(&upstream, "workers: 2", ""));
    let reload = |top: &str| {
        let before = gateway.metric("oncegate_reloads_total{result=\"ok\"}");
        gateway.rewrite(&yaml(&upstream, top, ""));
        gateway.signal("HUP");
        gateway.wait_for_metric("oncegate_reloads_total{result=\"ok\"}", before + 1.0);
        gateway.send(&Call::new("GET", "/plain"));
    };
    let [one, two] = ["one", "two"].map(|name| gateway.folder().join(name));
    gateway.send(&Call::new("GET", "/plain"));
    reload(&top("path: '{dir}/one', flush: 1ms"));
    wait_until("the first line", || count(&[&one]) == 1);
    reload(&top("path: '{dir}/two', flush: 1ms, format: combined"));
    wait_until("a line elsewhere", || text(&two).lines().count() == 1);
    assert!(text(&two).starts_with("127.0.0.1 - - ["));
    reload("workers: 2");
    reload(&top("path: '{dir}/one', flush: 1ms"));
    wait_until("and back", || count(&[&one]) == 2);
    assert_eq!(text(&two).lines().count(), 1);
    gateway.rewrite(&yaml(&upstream, &top("path: '{dir}/no/such'"), ""));
    gateway.signal("HUP");
    gateway.wait_for_metric("oncegate_reloads_total{result=\"refused\"}", 1.0);
    gateway.send(&Call::new("GET", "/plain"));
    wait_until("the old one stays", || count(&[&one]) == 3);
    assert!(gateway.log().contains("`access_log.path`: "));
}

#[test]
fn standard_output_is_a_destination() {
    let upstream = ready_upstream();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.yaml");
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let top = format!("listen: {address}\n{}", top("path: stdout"));
    crate::gateway::write(&config, &yaml(&upstream, &top, ""));
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
    let command = command.args(["serve", "--config"]).arg(&config).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    wait_until("it listens", || connect(address).is_ok());
    assert_eq!(Call::new("GET", "/plain").send(address).status, 200);
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    let mut lines = String::new();
    child.stdout.take().unwrap().read_to_string(&mut lines).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(lines.lines().count() == 1 && lines.contains("\"verdict\":\"passed\""), "{lines}");
}

#[test]
fn a_file_that_cannot_be_is_refused_at_the_start() {
    let upstream = ready_upstream();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.yaml");
    crate::gateway::write(&config, &yaml(&upstream, &top("path: '{dir}/no/such'"), ""));
    let Err((ended, log)) = Gateway::try_run(&config) else { panic!("it started") };
    assert_eq!(ended.code(), Some(1));
    assert!(
        log.contains("`access_log.path`: ") && log.contains("/no/such") && log.contains("make its folder"),
        "{log}"
    );
    let checked =
        Command::new(env!("CARGO_BIN_EXE_oncegate")).args(["check", "--config"]).arg(&config).output().unwrap();
    let said = String::from_utf8(checked.stderr).unwrap();
    assert_eq!(checked.status.code(), Some(2));
    assert!(said.contains("`access_log.path`: ") && said.contains("/no/such"), "{said}");
}
