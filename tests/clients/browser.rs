//! A browser repeats a POST by itself, without asking and without a trace on the page, when a connection that it
//! reuses dies before an answer came. This is Chromium at a shop that books every order that it reads.

use std::fs::File;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use oncegate::clock::Clock;
use tempfile::TempDir;

use crate::client::PATIENCE;
use crate::cut::Cut;
use crate::gateway::Gateway;
use crate::upstream::{Recorded, Reply, ScriptedUpstream};

/// A browser takes its time to start on a machine that is busy.
const START: Duration = Duration::from_mins(1);

/// Sends the order with a key that the page has.
const BY_SCRIPT: &str = "const order = await fetch('/orders', { method: 'POST',
    headers: { 'Content-Type': 'application/json', 'Idempotency-Key': 'order-4711' }, body: '{\"sku\":\"tea\"}' });
document.write(await order.text());";

/// Sends a form as it always was, without any key.
const BY_FORM: &str = "document.body.innerHTML = '<form method=post action=/orders><input name=sku value=tea></form>';
document.forms[0].submit();";

/// The shop. Each page tells it what the customer sees.
fn shop(order: &'static str) -> ScriptedUpstream {
    let booked = AtomicUsize::new(0);
    ScriptedUpstream::start(move |request| {
        let number = || booked.fetch_add(1, Ordering::SeqCst) + 1;
        let page = match (request.method().as_str(), request.target().as_str()) {
            ("POST", "/orders") => format!(
                "<b>order-{}</b><script>fetch('/seen/' + document.querySelector('b').innerText)</script>",
                number()
            ),
            // The answer to `warm` is read before the order goes out: then a connection lies there to be reused.
            (_, "/shop") => format!(
                "<link rel=icon href='data:,'><body><script type=module>await (await fetch('/warm')).text();\n{order}</script>"
            ),
            _ => String::from("ok"),
        };
        Reply::whole(200, &[("Content-Type", "text/html"), ("Set-Cookie", "sid=42")], page)
    })
}

fn gateway(shop: &ScriptedUpstream, key: &str) -> Gateway {
    Gateway::start(&format!(
        "listen: 127.0.0.1:0
admin: {{ listen: 127.0.0.1:0 }}
store: {{ kind: memory }}
upstreams:
  shop: {{ servers: [ \"http://{}\" ] }}
routes:
  - name: order
    match: {{ methods: [POST], path: /orders }}
    upstream: shop
    idempotency:
      key: [ {key} ]
      scope: {{ cookie: sid }}
      retention: 10m
  - name: rest
    match: {{ path: \"/{{*rest}}\" }}
    upstream: shop
",
        shop.address()
    ))
}

/// Chromium without a window, with a profile and a process group of its own.
struct Browser {
    child: Child,
    folder: TempDir,
}

impl Browser {
    fn open(server: SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let profile = folder.path().join("profile");
        let child = Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server"])
            .args(["--disable-quic", "--no-first-run", "--disable-sync", "--disable-component-update"])
            .args(["--disable-background-networking", "--password-store=basic"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("http://{server}/shop"))
            .env("HOME", folder.path())
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_CACHE_HOME")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(folder.path().join("log")).unwrap())
            .spawn()
            .unwrap_or_else(|error| panic!("no Chromium: {error}; `tests/prepare` installs it"));
        Self { child, folder }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the browser's log\n{}", std::fs::read_to_string(self.folder.path().join("log")).unwrap());
        }
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.child.id())]).status();
        let _ = self.child.wait();
        // Its other processes may still be writing into the folder.
        let deadline = Clock::instant() + PATIENCE;
        while std::fs::remove_dir_all(self.folder.path()).is_err_and(|error| error.kind() != ErrorKind::NotFound)
            && Clock::instant() < deadline
        {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Opens the shop behind a connection that dies with the first order, and gives what the page shows in the end.
fn order_through(cut: &Cut, shop: &ScriptedUpstream) -> String {
    let _browser = Browser::open(cut.address());
    let deadline = Clock::instant() + START;
    let seen = |request: &Recorded| Some(request.target().strip_prefix("/seen/")?.to_owned());
    loop {
        if let Some(order) = shop.requests().iter().find_map(seen) {
            return order;
        }
        assert!(
            Clock::instant() < deadline,
            "no order on the page; what the browser sent: {:?}",
            lines(&cut.requests())
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn lines(requests: &[Recorded]) -> Vec<String> {
    requests.iter().map(|request| format!("{} {}", request.method(), request.target())).collect()
}

fn orders(requests: &[Recorded]) -> Vec<Recorded> {
    requests.iter().filter(|request| request.method() == "POST").cloned().collect()
}

/// The browser sent its order twice: the same, first on a connection that it had used before.
fn assert_repeated(cut: &Cut) {
    let sent = orders(&cut.requests());
    assert_eq!(sent.len(), 2, "{:?}", lines(&sent));
    assert!(sent[0].number > 1 && sent[1].connection != sent[0].connection);
    assert_eq!(sent[0].raw, sent[1].raw);
}

fn orders_twice(order: &'static str) {
    let shop = shop(order);
    let cut = Cut::before(shop.address());
    assert_eq!(order_through(&cut, &shop), "order-2");
    assert_repeated(&cut);
    assert_eq!(orders(&shop.requests()).len(), 2);
}

fn orders_once(order: &'static str, key: &str) {
    let shop = shop(order);
    let gateway = gateway(&shop, key);
    let cut = Cut::before(gateway.address);
    assert_eq!(order_through(&cut, &shop), "order-1");
    assert_repeated(&cut);
    assert_eq!(orders(&shop.requests()).len(), 1);
}

#[test]
fn a_script_without_the_gateway_orders_twice() {
    orders_twice(BY_SCRIPT);
}

#[test]
fn a_script_with_a_key_orders_once() {
    orders_once(BY_SCRIPT, "{ header: Idempotency-Key }");
}

#[test]
fn a_form_without_the_gateway_orders_twice() {
    orders_twice(BY_FORM);
}

#[test]
fn a_form_without_a_key_orders_once_by_its_content() {
    orders_once(BY_FORM, "{ fingerprint: {} }");
}
