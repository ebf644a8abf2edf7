//! The files that ship beside the binary: image, compose file, alerts, sample API. Checked by the tools that read
//! them in earnest; a tool that is missing fails the test (`tests/prepare` brings them).
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail where it stands")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use oncegate::config::parse;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A command of the tests' Python environment.
fn python_tool(name: &str) -> PathBuf {
    let venv = std::env::var_os("ONCEGATE_TEST_VENV").map_or_else(|| root().join("target/test-venv"), PathBuf::from);
    venv.join("bin").join(name)
}

fn output(tool: &Path, arguments: &[&str]) -> Output {
    Command::new(tool)
        .args(arguments)
        .current_dir(root())
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}; `tests/prepare` installs it", tool.display()))
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn succeeds(tool: &Path, arguments: &[&str]) {
    let output = output(tool, arguments);
    assert!(output.status.success(), "{} {arguments:?}\n{}", tool.display(), text(&output));
}

/// Writes a broken variant of a shipped file beside nothing that matters, for showing that a check can fail.
fn broken(name: &str, from: &str, to: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read_to_string(root().join(name)).unwrap();
    assert!(whole.contains(from), "{name} no longer says `{from}`");
    let path = folder.path().join(Path::new(name).file_name().unwrap());
    std::fs::write(&path, whole.replace(from, to)).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

fn fails(tool: &Path, arguments: &[&str], reason: &str) {
    let output = output(tool, arguments);
    assert!(!output.status.success(), "{} {arguments:?} passed", tool.display());
    assert!(text(&output).contains(reason), "{}", text(&output));
}

#[test]
fn prometheus_takes_its_configuration_and_the_rules() {
    let promtool = Path::new("promtool");
    succeeds(promtool, &["check", "config", "deploy/prometheus/prometheus.yml"]);
    succeeds(promtool, &["check", "rules", "deploy/prometheus/alerts.yml"]);
    let (_folder, alerts) = broken("deploy/prometheus/alerts.yml", "sum by (route)", "sum bye (route)");
    fails(promtool, &["check", "rules", &alerts], "parse error");
}

#[test]
fn each_alert_fires_and_rests_as_its_tests_say() {
    succeeds(Path::new("promtool"), &["test", "rules", "deploy/prometheus/alerts_test.yml"]);
    let alerts = std::fs::read_to_string(root().join("deploy/prometheus/alerts.yml")).unwrap();
    let tests = std::fs::read_to_string(root().join("deploy/prometheus/alerts_test.yml")).unwrap();
    let names: Vec<&str> = alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(names.len() >= 5, "{names:?}");
    for name in names {
        let mark = format!("alertname: {name}\n");
        let cases = tests.match_indices(&mark).map(|(at, _)| tests[at + mark.len()..].trim_start());
        let (resting, firing): (Vec<_>, Vec<_>) = cases.partition(|case| case.starts_with("exp_alerts: []"));
        assert!(!firing.is_empty(), "{name} is never shown firing");
        assert!(!resting.is_empty(), "{name} is never shown at rest");
    }
}

/// Every metric that an alert reads is one that the gateway writes.
#[test]
fn alerts_read_metrics_that_exist() {
    let metrics = oncegate::telemetry::Metrics::new().unwrap();
    let _handles = (metrics.route("route"), metrics.upstream("upstream"));
    let written = metrics.render();
    let alerts = std::fs::read_to_string(root().join("deploy/prometheus/alerts.yml")).unwrap();
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let read: Vec<&str> = alerts.split(|c| !is_name(c)).filter(|word| word.starts_with("oncegate_")).collect();
    assert!(read.len() >= 6, "{read:?}");
    for name in read {
        let is_written =
            |line: &str| line.strip_prefix("# TYPE ").is_some_and(|rest| rest.split(' ').next() == Some(name));
        assert!(written.lines().any(is_written), "{name} is not written");
    }
}

/// Every verdict that an alert asks for is one that requests are counted by.
#[test]
fn alerts_ask_for_verdicts_that_exist() {
    let alerts = std::fs::read_to_string(root().join("deploy/prometheus/alerts.yml")).unwrap();
    let asked = alerts.split("verdict").filter_map(|rest| rest.strip_prefix("=~\"").or(rest.strip_prefix("!~\"")));
    let asked: Vec<&str> =
        asked.filter_map(|rest| rest.split_once('"')).flat_map(|(list, _)| list.split('|')).collect();
    assert!(asked.len() >= 20, "{asked:?}");
    for name in asked {
        let is_one = |verdict: &oncegate::telemetry::Verdict| verdict.label() == name;
        assert!(oncegate::telemetry::Verdict::ALL.iter().any(is_one), "{name} is no verdict");
    }
}

/// The units, with the binary where it is.
#[test]
fn systemd_takes_the_units() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let put = |name: &str, from: &str, to: &str| {
        let whole = std::fs::read_to_string(root().join("deploy").join(name)).unwrap();
        assert!(whole.contains(from), "{name} no longer says `{from}`");
        std::fs::write(place(name), whole.replace(from, to)).unwrap();
    };
    let verify = || {
        let output =
            output(Path::new("systemd-analyze"), &["verify", &place("oncegate.service"), &place("oncegate.socket")]);
        text(&output).lines().filter(|line| line.contains("oncegate.")).map(str::to_owned).collect::<Vec<_>>()
    };
    put("oncegate.socket", "", "");
    put("oncegate.service", "/usr/local/bin/oncegate", env!("CARGO_BIN_EXE_oncegate"));
    assert_eq!(verify(), Vec::<String>::new());
    put("oncegate.service", "WatchdogSec=", "WatchdockSec=");
    assert!(verify().iter().any(|line| line.contains("WatchdockSec")));
}

#[test]
fn the_image_has_nothing_to_complain_about() {
    let hadolint = python_tool("hadolint");
    succeeds(&hadolint, &["Dockerfile"]);
    let (_folder, image) = broken("Dockerfile", "USER 10001", "USER root");
    fails(&hadolint, &[&image], "DL3002");
}

#[test]
fn the_compose_file_follows_its_schema() {
    let checker = python_tool("check-jsonschema");
    let schema = ["--builtin-schema", "vendor.compose-spec"];
    succeeds(&checker, &[schema[0], schema[1], "deploy/compose.yaml"]);
    let (_folder, compose) = broken("deploy/compose.yaml", "    depends_on:", "    depends_on_all:");
    fails(&checker, &[schema[0], schema[1], &compose], "depends_on_all");
}

/// The compose file's gateway starts with the settings beside it, and refuses to without a token.
#[test]
fn the_gateways_settings_load() {
    let name = "deploy/oncegate.yaml";
    let text = std::fs::read_to_string(root().join(name)).unwrap();
    let token = |name: &str| (name == "ONCEGATE_ADMIN_TOKEN").then(|| "secret".to_owned());
    let loaded = parse(name, &text, &token).map_err(|errors| errors.to_string()).unwrap();
    assert_eq!(loaded.settings.admin.token.as_deref(), Some("secret"));
    let without = parse(name, &text, &|_| None).map_err(|errors| errors.to_string());
    assert!(without.unwrap_err().contains("ONCEGATE_ADMIN_TOKEN"));
}

/// The sample API: a child process, ended when dropped.
struct SampleApi {
    process: Child,
    address: String,
}

impl SampleApi {
    fn start() -> Self {
        let mut process = Command::new(python_tool("python"))
            .args(["-u", "deploy/sample-api.py", "--port", "0"])
            .current_dir(root())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("python: {error}; `tests/prepare` installs it"));
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().unwrap().to_owned();
        Self { process, address }
    }

    /// The whole answer, head and body; empty when the connection was closed without one.
    fn ask(&self, method: &str, target: &str, body: &str) -> String {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let length = body.len();
        let head =
            format!("{method} {target} HTTP/1.1\r\nHost: sample\r\nConnection: close\r\nContent-Length: {length}");
        connection.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for SampleApi {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

#[test]
fn the_sample_api_books_an_order_for_every_request() {
    let api = SampleApi::start();
    let first = api.ask("POST", "/orders", r#"{"sku": "tea"}"#);
    assert!(first.starts_with("HTTP/1.1 201 ") && first.contains("Location: /orders/1\r\n"), "{first}");
    assert!(api.ask("POST", "/orders", r#"{"sku": "tea"}"#).starts_with("HTTP/1.1 201 "));
    assert_eq!(api.ask("POST", "/orders?cut=1", "{}"), "", "booked, but the answer is lost");
    assert!(api.ask("POST", "/orders?fail=503", "{}").starts_with("HTTP/1.1 503 "));
    assert!(api.ask("POST", "/orders", "no json").starts_with("HTTP/1.1 400 "));
    assert!(api.ask("GET", "/orders", "").contains(r#""count": 3,"#));
    // What the examples guard lies elsewhere, and may be a form.
    let form =
        api.ask("POST", "/checkout HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\nX:", "sku=tea");
    assert!(form.starts_with("HTTP/1.1 201 ") && form.contains(r#"{"sku": ["tea"]}"#), "{form}");
    assert!(api.ask("GET", "/orders/3", "").starts_with("HTTP/1.1 200 "));
    assert!(api.ask("GET", "/orders/5", "").starts_with("HTTP/1.1 404 "));
}
