//! Stripe on this machine: `localstripe`, a fake of its API that ignores Idempotency-Key, and its official client.
//! Both are Python programs of the tests' environment. It never skips: no environment, no pass.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde::Deserialize;
use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

use crate::client::{Call, PATIENCE};
use crate::gateway::wait_until;

/// Whose customers are counted.
const API_KEY: &str = "sk_test_oncegate";

/// The fake API on a port of its own, empty at each start.
pub(crate) struct LocalStripe {
    pub(crate) address: SocketAddr,
    /// Bound and never listening: while the API is down, connections are refused and nobody else gets the port.
    _port: Socket,
    folder: TempDir,
    child: Child,
}

impl LocalStripe {
    pub(crate) fn start() -> Self {
        let port = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        // Lets the server listen on the port beside us.
        port.set_reuse_address(true).expect("a socket option");
        port.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a free port");
        let address = port.local_addr().ok().and_then(|address| address.as_socket()).expect("a bound socket");
        let folder = tempfile::tempdir().expect("a folder");
        let child = launch(address, folder.path());
        Self { address, _port: port, folder, child }
    }

    /// The process is gone when this returns: connections are refused.
    pub(crate) fn kill(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again on the same port, without what it knew.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.child = launch(self.address, self.folder.path());
    }

    /// The ids of all customers that there are, asked for without a gateway.
    pub(crate) fn customers(&self) -> Vec<String> {
        let list = Call::new("GET", "/v1/customers?limit=100").header("Authorization", format!("Bearer {API_KEY}"));
        let page: serde_json::Value = serde_json::from_slice(&list.send(self.address).body).expect("a list");
        let customers = page["data"].as_array().unwrap_or_else(|| panic!("no list: {page}"));
        customers.iter().map(|customer| customer["id"].as_str().expect("an id").to_owned()).collect()
    }
}

impl Drop for LocalStripe {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- localstripe's log\n{}", log(self.folder.path()));
        }
    }
}

fn launch(address: SocketAddr, folder: &Path) -> Child {
    let mut child = python("local_stripe.py")
        .arg(address.port().to_string())
        .stdout(Stdio::null())
        .stderr(File::create(log_file(folder)).expect("a log file"))
        .spawn()
        .unwrap_or_else(|error| panic!("no Python for the tests: {error}; `tests/prepare` makes it"));
    // Nobody else can be on this port.
    wait_until("localstripe accepts connections", || {
        let ended = child.try_wait().expect("the child's state");
        assert!(ended.is_none(), "localstripe does not start ({ended:?}):\n{}", log(folder));
        TcpStream::connect_timeout(&address, PATIENCE).is_ok()
    });
    child
}

fn log_file(folder: &Path) -> PathBuf {
    folder.join("localstripe.log")
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(log_file(folder)).unwrap_or_else(|error| error.to_string())
}

/// A script of this folder, run by the tests' own Python.
pub(crate) fn python(script: &str) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let venv = std::env::var_os("ONCEGATE_TEST_VENV").map_or_else(|| root.join("target/test-venv"), PathBuf::from);
    let python = venv.join("bin/python");
    assert!(python.exists(), "no Python environment at {}; `tests/prepare` makes it", venv.display());
    let mut command = Command::new(python);
    // A proxy that the machine uses for the world must not stand between the client and the gateway.
    command.arg(root.join("tests/clients").join(script)).env("NO_PROXY", "*").env("no_proxy", "*").stdin(Stdio::null());
    command
}

/// One call of `customers.create` by the official client, in a process of its own.
#[derive(Debug, Clone)]
pub(crate) struct Create(Vec<String>);

impl Create {
    /// Through this server. The client's choices: a key that it makes up, four retries.
    pub(crate) fn through(server: SocketAddr) -> Self {
        Self(vec![format!("http://{server}")]).option("--api-key", API_KEY)
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.option("--key", key)
    }

    pub(crate) fn api_key(self, api_key: &str) -> Self {
        self.option("--api-key", api_key)
    }

    pub(crate) fn email(self, email: &str) -> Self {
        self.option("--email", email)
    }

    pub(crate) fn retries(self, retries: u8) -> Self {
        self.option("--retries", &retries.to_string())
    }

    fn option(mut self, name: &str, value: &str) -> Self {
        self.0.extend([name.to_owned(), value.to_owned()]);
        self
    }

    /// Runs the client until it has its customer or gives up.
    pub(crate) fn run(&self) -> Report {
        let output = python("stripe_client.py").args(&self.0).output().expect("a Python that starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the client failed otherwise than by an error of Stripe's:\n{errors}");
        let report: Report = serde_json::from_slice(&output.stdout).expect("a report");
        assert!(!report.keys.is_empty() && report.keys.iter().all(|key| *key == report.keys[0]), "{report:?}");
        report
    }
}

/// What came of it.
#[derive(Debug, Deserialize)]
pub(crate) struct Report {
    /// The customer's id, when there is one.
    pub(crate) id: Option<String>,
    /// `Idempotent-Replayed` of the customer's response.
    pub(crate) replayed: Option<String>,
    /// What was raised instead: class, status, code.
    pub(crate) error: Option<String>,
    /// The Idempotency-Key of each request. They are all the same: [`Create::run`] has seen to it.
    pub(crate) keys: Vec<String>,
    /// Each answer: status, code and outcome of the gateway's own, `replayed`; or `no answer`.
    pub(crate) answers: Vec<String>,
}

impl Report {
    /// The id of the customer that must be there.
    pub(crate) fn customer(&self) -> &str {
        self.id.as_deref().unwrap_or_else(|| panic!("no customer: {self:?}"))
    }
}
