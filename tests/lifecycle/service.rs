//! Under a service manager: what it is told, and the sockets that it hands over.

use std::io::Read;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

use crate::client::{Call, PATIENCE, connect};
use crate::gateway::{self, Gateway, wait_until};
use crate::redis::RedisServer;
use crate::upstream::ScriptedUpstream;
use crate::{ready_upstream, yaml};

/// A manager's end of the line.
struct Manager {
    socket: UnixDatagram,
    folder: tempfile::TempDir,
    heard: Vec<String>,
}

impl Manager {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, folder, heard: Vec::new() }
    }

    fn start(&self, text: &str, variables: &[(&str, &str)]) -> Gateway {
        let config = self.folder.path().join("oncegate.yaml");
        gateway::write(&config, text);
        let mut command = serve(&config);
        command.env("NOTIFY_SOCKET", self.folder.path().join("notify")).envs(variables.iter().copied());
        Gateway::try_command(command, &config).unwrap_or_else(|(_, log)| panic!("{log}"))
    }

    /// The next message that has this line.
    fn hear(&mut self, line: &str) -> String {
        let mut buffer = [0; 4096];
        loop {
            let length =
                self.socket.recv(&mut buffer).unwrap_or_else(|error| panic!("no {line}: {error} {:?}", self.heard));
            let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
            self.heard.push(message.clone());
            if message.lines().any(|own| own == line) {
                return message;
            }
        }
    }

    fn has_heard(&self, line: &str) -> bool {
        self.heard.iter().any(|message| message.lines().any(|own| own == line))
    }
}

fn serve(config: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oncegate"));
    command.args(["serve", "--config"]).arg(config);
    command
}

#[test]
fn a_manager_is_told_of_readiness_reloads_and_the_end() {
    let upstream = ready_upstream();
    let mut manager = Manager::new();
    let gateway = manager.start(&yaml(&upstream, "", ""), &[]);
    manager.hear("READY=1");
    gateway.signal("HUP");
    let message = manager.hear("RELOADING=1");
    let stamp: u64 = message.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")).unwrap().parse().unwrap();
    assert!(stamp > 0);
    assert!(manager.hear("READY=1").contains("STATUS=Serving."));
    gateway.rewrite("routes: none");
    gateway.signal("HUP");
    manager.hear("RELOADING=1");
    assert!(manager.hear("READY=1").contains("refused"));
    gateway.signal("TERM");
    manager.hear("STOPPING=1");
}

#[test]
fn a_gateway_is_ready_when_its_store_is() {
    let upstream = ready_upstream();
    let mut redis = RedisServer::start();
    let store = format!("store: {{ kind: redis, url: '{}' }}", redis.url());
    redis.kill();
    let mut manager = Manager::new();
    let _gateway = manager.start(&yaml(&upstream, &store, ""), &[]);
    let mut buffer = [0; 4096];
    let length = manager.socket.recv(&mut buffer).unwrap();
    assert!(String::from_utf8_lossy(&buffer[..length]).starts_with("STATUS=Waiting for the store"));
    redis.restart();
    manager.hear("READY=1");

    redis.kill();
    let mut manager = Manager::new();
    let _gateway =
        manager.start(&yaml(&upstream, &format!("{store}\nadmin: {{ listen: 127.0.0.1:0, ready: process }}"), ""), &[]);
    manager.hear("READY=1");
    assert_eq!(manager.heard.len(), 1);
}

#[test]
fn a_watchdog_hears_of_workers_that_move_on() {
    let upstream = ready_upstream();
    let mut manager = Manager::new();
    let gateway = manager.start(&yaml(&upstream, "", ""), &[("WATCHDOG_USEC", "400000")]);
    for _ in 0..3 {
        manager.hear("WATCHDOG=1");
    }
    assert!(manager.has_heard("READY=1"));
    gateway.signal("STOP");
    manager.socket.set_read_timeout(Some(std::time::Duration::from_millis(50))).unwrap();
    wait_until("it falls silent", || manager.socket.recv(&mut [0; 4096]).is_err());
    gateway.signal("CONT");
    manager.socket.set_read_timeout(Some(PATIENCE)).unwrap();
    manager.hear("WATCHDOG=1");
}

/// Starts the gateway as systemd does: with the sockets from descriptor 3 on, in a process that is told its own number.
fn activated(config: &Path, sockets: &[&TcpListener], names: &str) -> Gateway {
    let to = |(place, socket): (usize, &&TcpListener)| format!("{}<&{}", 20 + place, socket.as_raw_fd());
    let first: Vec<_> = sockets.iter().enumerate().map(to).collect();
    let then: Vec<_> =
        (0..sockets.len()).map(|place| format!("{}<&{} {}<&-", 3 + place, 20 + place, 20 + place)).collect();
    let script =
        format!("exec {}; exec {}; LISTEN_PID=$$ exec \"$0\" serve --config \"$1\"", first.join(" "), then.join(" "));
    for socket in sockets {
        // Theirs are handed on; every other descriptor of this process is not.
        socket2::SockRef::from(*socket).set_cloexec(false).unwrap();
    }
    let mut command = Command::new("bash");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_oncegate")]).arg(config);
    command.env("LISTEN_FDS", sockets.len().to_string()).env("LISTEN_FDNAMES", names);
    Gateway::try_command(command, config).unwrap_or_else(|(_, log)| panic!("{log}"))
}

fn activated_config(folder: &Path, upstream: &ScriptedUpstream) -> std::path::PathBuf {
    let config = folder.join("oncegate.yaml");
    // These addresses are not this process's to listen on, and need not be.
    gateway::write(&config, &yaml(upstream, "listen: 192.0.2.1:80\nadmin: { listen: 127.0.0.1:1 }\nworkers: 2", ""));
    config
}

#[test]
fn sockets_of_the_manager_are_served_and_outlive_the_gateway() {
    let upstream = ready_upstream();
    let folder = tempfile::tempdir().unwrap();
    let config = activated_config(folder.path(), &upstream);
    let [http, admin] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let mut gateway = activated(&config, &[&admin, &http], "admin:http");
    assert_eq!((gateway.address, gateway.admin), (http.local_addr().unwrap(), admin.local_addr().unwrap()));
    assert_eq!(gateway.get_admin("/readyz").status, 200);
    let call = Call::post("/orders").key("k").body("x");
    assert_eq!(gateway.send(&call).status, 201);
    gateway.signal("TERM");
    assert_eq!(gateway.wait().code(), Some(0));
    // Nobody serves, and nobody is refused: this one waits in the socket for the next gateway.
    let mut waiting = connect(gateway.address).unwrap();
    std::io::Write::write_all(&mut waiting, &call.bytes()).unwrap();
    let _next = activated(&config, &[&http, &admin], "oncegate.socket:admin");
    assert!(crate::client::read_answer(&mut waiting).unwrap().is_replay());
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_connection_of_the_manager_is_ended_like_any_other() {
    let upstream = ready_upstream();
    let folder = tempfile::tempdir().unwrap();
    let config = activated_config(folder.path(), &upstream);
    let [http, admin] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let mut gateway = activated(&config, &[&http, &admin], "http:admin");
    let mut idle: TcpStream = connect(gateway.address).unwrap();
    wait_until("it is served", || gateway.send(&Call::new("GET", "/plain")).status == 200);
    gateway.signal("TERM");
    assert_eq!(idle.read(&mut [0; 1]).unwrap(), 0);
    idle.shutdown(Shutdown::Both).unwrap();
    assert_eq!(gateway.wait().code(), Some(0));
}
