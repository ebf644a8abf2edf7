//! One test for each file in `http2/`, and one more over TLS where that makes a difference. A file plays the clients and
//! the upstream. Its lines that begin with `#: ` are further top-level lines of the gateway's configuration, those with
//! `#| ` of the upstream's.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::gateway::Gateway;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance/http2")
}

fn configuration(script: &str, upstream: &str, tls: &str) -> String {
    let marked = |mark: &str, indent: &str| {
        let lines = script.lines().filter_map(|line| line.strip_prefix(mark));
        lines.fold(String::new(), |all, line| all + indent + line + "\n")
    };
    format!(
        "listen: 127.0.0.1:0
workers: 1
admin: {{ listen: 127.0.0.1:0 }}
store: {{ kind: memory }}
{tls}{top}upstreams:
  orders:
    servers: [ \"http://{upstream}\" ]
{behind}routes:
  - name: create-order
    match: {{ methods: [POST], path: /orders }}
    upstream: orders
    idempotency: {{ key: [ {{ header: Idempotency-Key }} ], scope: none, in_flight: wait, patience: 20s }}
  - name: strict-order
    match: {{ methods: [POST], path: /strict }}
    upstream: orders
    idempotency: {{ key: [ {{ header: Idempotency-Key }} ], scope: none, duplicate: reject }}
  - name: rest
    match: {{ path: \"/{{*rest}}\" }}
    upstream: orders
",
        top = marked("#: ", ""),
        behind = marked("#| ", "    "),
    )
}

/// A running file; it ends with the test.
struct Script {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Script {
    fn start(file: &Path) -> Self {
        let venv = std::env::var_os("ONCEGATE_TEST_VENV")
            .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target/test-venv"), PathBuf::from);
        let child = Command::new(venv.join("bin/python"))
            .arg("-B")
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.unwrap_or_else(|error| panic!("Python: {error}; `tests/prepare` installs it"));
        let says = BufReader::new(child.stdout.take().unwrap());
        Self { child, says }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Everything that it has yet to say, and whether all held. It ends by itself when it takes too long.
    fn finish(&mut self) -> (String, bool) {
        let mut report = String::new();
        self.says.read_to_string(&mut report).unwrap();
        (report, self.child.wait().unwrap().success())
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A certificate that is its own authority, as the configuration and the clients want it.
fn tls(folder: &Path) -> (String, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["api.test".to_owned()]).unwrap();
    let (certificate, key) = (folder.join("api.crt"), folder.join("api.key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let yaml =
        format!("tls:\n  certificates: [ {{ certificate: '{}', key: '{}' }} ]\n", certificate.display(), key.display());
    (yaml, certificate)
}

/// Runs a file; its report, if something in it did not hold.
fn run(file: &Path, encrypted: bool) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let (yaml, authority) = if encrypted { Some(tls(folder.path())) } else { None }.unzip();
    let mut script = Script::start(file);
    let line = script.line();
    let Some(upstream) = line.strip_prefix("upstream ") else {
        return Err(format!("it did not begin: {line}\n{}", script.finish().0));
    };
    let text = std::fs::read_to_string(file).unwrap();
    let gateway = Gateway::start(&configuration(&text, upstream, &yaml.unwrap_or_default()));
    let told = serde_json::json!({
        "gateway": gateway.address.to_string(), "pid": gateway.pid(), "authority": authority,
    });
    writeln!(script.child.stdin.as_mut().unwrap(), "{told}").unwrap();
    match script.finish() {
        (_, true) => Ok(()),
        (report, false) => Err(format!("{report}\n--- gateway's log\n{}", gateway.log())),
    }
}

fn passes(name: &str, encrypted: bool) {
    if let Err(report) = run(&folder().join(name).with_extension("py"), encrypted) {
        panic!("{name}:\n{report}");
    }
}

macro_rules! scripts {
    (plain: $($plain:ident),+; both: $($both:ident),+ $(,)?) => {
        $( #[test] fn $plain() { passes(stringify!($plain), false); } )+
        $( #[test] fn $both() { passes(stringify!($both), false); } )+

        mod over_tls {
            $( #[test] fn $both() { super::passes(stringify!($both), true); } )+
        }

        #[test]
        fn each_file_is_run() {
            let mut files: Vec<_> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
            files.retain(|file| file.extension().is_some_and(|extension| extension == "py"));
            files.sort();
            let mut run: Vec<_> = [$(stringify!($plain)),+, $(stringify!($both)),+]
                .map(|name| folder().join(name).with_extension("py"))
                .to_vec();
            run.sort();
            assert_eq!(files, run);
        }
    };
}

scripts! {
    plain: drain, floods, upstream_answers, upstream_requests;
    both: answers, bodies, connections, guard, heads,
}
