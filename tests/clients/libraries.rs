//! Official libraries of payment APIs, as they come from their registries: what each sends, and what it repeats.
//! `payments.py` and `payments.js` run them; `tests/prepare` installs them. It never skips: no library, no pass.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::authority::Authority;
use crate::stripe::python;
use crate::upstream::Recorded;

pub(crate) enum Language {
    Python,
    Node,
}

/// Where the library puts its key.
pub(crate) enum Key {
    Header(&'static str),
    /// The name of a member at the top of a JSON body.
    Body(&'static str),
}

pub(crate) struct Library {
    pub(crate) name: &'static str,
    pub(crate) language: Language,
    pub(crate) key: Key,
    /// The `scope` of a route for its API: whose key it is.
    pub(crate) scope: &'static str,
    /// The API's answer; `ID` stands for the payment's id.
    pub(crate) answer: &'static str,
    /// The statuses of 409, 500 and 502 (from the gateway) that end a call. Everything else is repeated.
    pub(crate) takes: &'static [u16],
    /// It raises the gateway's own refusals. If not, it hands them out as if they were payments, only without an id.
    pub(crate) raises: bool,
    /// It speaks TLS and nothing else.
    pub(crate) tls: bool,
}

const BEARER: Library = Library {
    name: "",
    language: Language::Python,
    key: Key::Header("Idempotency-Key"),
    scope: "{ authorization: hash }",
    answer: r#"{"id":"ID"}"#,
    takes: &[],
    raises: true,
    tls: false,
};

pub(crate) const STRIPE: Library = Library { name: "stripe", ..BEARER };
/// It looks for a member `error` in the body, and not at the status.
pub(crate) const STRIPE_NODE: Library = Library { name: "stripe", language: Language::Node, raises: false, ..BEARER };
pub(crate) const MODERN_TREASURY: Library = Library { name: "modern_treasury", ..BEARER };
pub(crate) const SVIX: Library = Library {
    name: "svix",
    answer: r#"{"id":"ID","eventType":"order.paid","payload":{},"timestamp":"2026-01-01T00:00:00Z"}"#,
    takes: &[409],
    ..BEARER
};
pub(crate) const MERCADOPAGO: Library = Library {
    name: "mercadopago",
    language: Language::Node,
    key: Key::Header("X-Idempotency-Key"),
    takes: &[409],
    ..BEARER
};
/// Any error in JSON ends its call; a page in HTML, as many an API sends with a 500, is repeated.
pub(crate) const GOCARDLESS: Library =
    Library { name: "gocardless_pro", answer: r#"{"payments":{"id":"ID"}}"#, takes: &[409, 502], ..BEARER };
pub(crate) const SQUARE: Library =
    Library { name: "square", key: Key::Body("idempotency_key"), answer: r#"{"payment":{"id":"ID"}}"#, ..BEARER };
pub(crate) const ADYEN: Library = Library {
    name: "adyen",
    language: Language::Node,
    scope: "{ header: X-API-Key }",
    answer: r#"{"pspReference":"ID","resultCode":"Authorised"}"#,
    tls: true,
    ..BEARER
};
pub(crate) const CHECKOUT: Library =
    Library { name: "checkout_sdk", key: Key::Header("Cko-Idempotency-Key"), ..BEARER };

/// Calls that one client makes one after the other.
#[derive(Debug, Serialize)]
pub(crate) struct Job {
    /// Where the API is.
    pub(crate) base: String,
    /// How many seconds the client waits.
    pub(crate) timeout: f32,
    /// None: the library makes one up, or its caller does.
    pub(crate) key: Option<&'static str>,
    pub(crate) calls: usize,
}

/// What came of one call.
#[derive(Debug, Deserialize)]
pub(crate) struct Outcome {
    /// The payment's id, when the caller got one.
    pub(crate) id: Option<String>,
    /// What was raised.
    pub(crate) error: Option<String>,
}

impl Library {
    /// The key that it sent.
    pub(crate) fn key_of(&self, request: &Recorded) -> String {
        match self.key {
            Key::Header(name) => request.text(name),
            Key::Body(name) => {
                let body: serde_json::Value = serde_json::from_slice(&request.body).expect("JSON");
                body[name].as_str().expect("a key").to_owned()
            }
        }
    }

    /// The `key` of a route for its API.
    pub(crate) fn key_setting(&self) -> String {
        match self.key {
            Key::Header(name) => format!("{{ header: {name} }}"),
            Key::Body(name) => format!("{{ json: /{name} }}"),
        }
    }

    /// Runs all jobs side by side in one process, which trusts this authority.
    pub(crate) fn run(&self, jobs: &[Job], authority: &Authority) -> Vec<Vec<Outcome>> {
        let mut command = match self.language {
            Language::Python => python("payments.py"),
            Language::Node => node("payments.js"),
        };
        command.arg(self.name).env("NODE_EXTRA_CA_CERTS", authority.file());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let input = serde_json::to_vec(jobs).unwrap();
        child.stdin.take().unwrap().write_all(&input).unwrap();
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} cannot run:\n{errors}", self.name);
        let outcomes: Vec<Vec<Outcome>> = serde_json::from_slice(&output.stdout).expect("outcomes");
        assert_eq!(outcomes.len(), jobs.len());
        outcomes
    }
}

/// Where the tests' own Node packages are.
pub(crate) fn packages() -> PathBuf {
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/test-node/node_modules");
    assert!(packages.exists(), "no Node packages at {}; `tests/prepare` installs them", packages.display());
    packages
}

/// A script of this folder, run with them.
fn node(script: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(script)).env("NODE_PATH", packages());
    command
}
