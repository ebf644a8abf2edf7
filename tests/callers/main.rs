//! Callers as routes know them: by token, by a part of the path, by certificate; with the real binary, and issuers of
//! the tests' own.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]
#![expect(clippy::float_cmp, reason = "counters are whole numbers")]

#[path = "../front/authority.rs"]
#[allow(dead_code, reason = "made for more than these tests")]
mod authority;
#[path = "../support/client.rs"]
mod client;
#[path = "../support/gateway.rs"]
mod gateway;
#[path = "../support/issuer.rs"]
mod issuer;
#[path = "../support/upstream.rs"]
mod upstream;

mod explain;
mod keys;
mod paths;
mod proxies;
mod tokens;

use std::sync::{Arc, Mutex};

use client::{Answer, Call};
use gateway::Gateway;
use issuer::Signer;
use oncegate::clock::Clock;
use serde_json::{Value, json};
use upstream::{Reply, ScriptedUpstream};

/// A configuration with one guarded route, keyed by Idempotency-Key. `top` holds further top-level lines.
fn yaml(upstream: &ScriptedUpstream, path: &str, scope: &str, top: &str) -> String {
    format!(
        "listen: 127.0.0.1:0
admin: {{ listen: 127.0.0.1:0 }}
store: {{ kind: memory }}
operations: {{}}
{top}
upstreams:
  orders: {{ servers: [ \"http://{address}\" ] }}
routes:
  - name: create-order
    match: {{ methods: [POST], path: '{path}' }}
    upstream: orders
    idempotency:
      key: [ {{ header: Idempotency-Key }} ]
      scope: {scope}
",
        address = upstream.address(),
    )
}

/// A gateway whose callers are the subjects of tokens, proven as `jwt` says; `{dir}` in it stands for its folder, where
/// `keys.json` holds `listed`.
fn by_subject(upstream: &ScriptedUpstream, jwt: &str, listed: &str) -> Gateway {
    let folder = tempfile::tempdir().unwrap().keep();
    std::fs::write(folder.join("keys.json"), listed).unwrap();
    let jwt = jwt.replace("{dir}", &folder.display().to_string());
    let gateway = Gateway::start(&yaml(upstream, "/orders", "{ jwt_claim: sub }", &format!("jwt: {jwt}")));
    // They were read; that they cannot be read again changes nothing.
    std::fs::remove_dir_all(folder).unwrap();
    gateway
}

/// An upstream that books every request.
fn books() -> ScriptedUpstream {
    ScriptedUpstream::start(|_| Reply::whole(201, &[], "booked"))
}

/// An address that a test's issuer lists its keys at.
struct Listing {
    server: ScriptedUpstream,
    script: Arc<Mutex<Script>>,
}

type Script = Box<dyn FnMut() -> Reply + Send>;

impl Listing {
    fn new(script: impl FnMut() -> Reply + Send + 'static) -> Self {
        let script: Arc<Mutex<Script>> = Arc::new(Mutex::new(Box::new(script)));
        let run = Arc::clone(&script);
        Self { server: ScriptedUpstream::start(move |_| (run.lock().unwrap())()), script }
    }

    fn of(text: impl Into<String>) -> Self {
        let text = text.into();
        Self::new(move || Reply::whole(200, &[], &text))
    }

    fn answers(&self, script: impl FnMut() -> Reply + Send + 'static) {
        *self.script.lock().unwrap() = Box::new(script);
    }

    fn url(&self) -> String {
        format!("http://{}/.well-known/jwks.json?v=1", self.server.address())
    }

    fn readings(&self) -> usize {
        self.server.requests().len()
    }
}

/// Claims of a subject that hold now.
fn claims(subject: &str) -> Value {
    json!({ "sub": subject, "iss": "https://id.example", "exp": now() + 600, "iat": now(), "jti": "1" })
}

/// Seconds since 1970.
fn now() -> u64 {
    Clock::wall().0 / 1_000
}

fn order(key: &str) -> Call {
    Call::post("/orders").key(key).json("{\"sku\":7}")
}

fn bearer(key: &str, token: &str) -> Call {
    order(key).header("Authorization", format!("Bearer {token}"))
}

/// Asserts that a token is refused as the contract says, and that nothing of it is told to anybody.
fn assert_invalid(answer: &Answer, says: &str) {
    assert_eq!((answer.status, answer.code().as_deref()), (401, Some("scope-invalid")), "{}", answer.text());
    assert_eq!(answer.header("www-authenticate"), Some("Bearer error=\"invalid_token\""));
    assert!(answer.text().contains(says), "{} does not say {says}", answer.text());
}

fn assert_missing(answer: &Answer, says: &str) {
    assert_eq!((answer.status, answer.code().as_deref()), (400, Some("scope-missing")), "{}", answer.text());
    assert!(answer.text().contains(says), "{} does not say {says}", answer.text());
}

fn ec(name: &str) -> Signer {
    Signer::new(name, "ES256")
}
