//! Two gateways over one Redis behind one address: they take over from each other, and nobody notices.

use std::net::SocketAddr;

use socket2::{Domain, Socket, Type};

use crate::crowd::Crowd;
use crate::gateway::{self, Gateway};
use crate::redis::RedisServer;
use crate::{ready_upstream, yaml};

/// A port for this test alone: bound here without listening, shared with the gateways.
fn own_port() -> (SocketAddr, Socket) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.set_reuse_port(true).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    (socket.local_addr().unwrap().as_socket().unwrap(), socket)
}

#[test]
fn a_rolling_restart_under_load_fails_no_request() {
    let redis = RedisServer::start();
    let upstream = ready_upstream();
    let (address, _port) = own_port();
    let store = format!("store: {{ kind: redis, url: '{}', command_timeout: 5s }}", redis.url());
    let text = yaml(&upstream, &format!("listen: {address}\nlisten_shared: true\nworkers: 2\n{store}"), "");
    let crowd = Crowd::default();
    let mut old = Gateway::start(&text);
    std::thread::scope(|scope| {
        crowd.enter(scope, address, [4, 4]);
        for _ in 0..4 {
            crowd.wait_for_answers(100);
            let new = Gateway::start(&text);
            crowd.wait_for_answers(100);
            old.signal("TERM");
            assert_eq!(old.wait().code(), Some(0), "{}", old.log());
            old = new;
        }
        crowd.wait_for_answers(100);
        crowd.leave();
    });
    crowd.assert_served(&upstream);
    assert!(crowd.kept_connections() > 4, "nobody was sent to another gateway");
}

#[test]
fn an_address_is_shared_by_those_who_say_so_alone() {
    let redis = RedisServer::start();
    let upstream = ready_upstream();
    let store = format!("store: {{ kind: redis, url: '{}' }}", redis.url());
    let first = Gateway::start(&yaml(&upstream, &format!("listen_shared: true\n{store}"), ""));
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("oncegate.yaml");
    gateway::write(&config, &yaml(&upstream, &format!("listen: {}\n{store}", first.address), ""));
    let Err((ended, log)) = Gateway::try_run(&config) else { panic!("it listens") };
    assert_eq!(ended.code(), Some(1));
    assert!(log.contains(&format!("cannot listen on {} (`listen`)", first.address)), "{log}");
    gateway::write(&config, &yaml(&upstream, "listen_shared: true", ""));
    let Err((ended, log)) = Gateway::try_run(&config) else { panic!("it loads") };
    assert_eq!(ended.code(), Some(2));
    assert!(log.contains("listen_shared: needs `store: { kind: redis }`"), "{log}");
}

#[test]
fn an_embedded_store_belongs_to_one_gateway() {
    let upstream = ready_upstream();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("oncegate.yaml");
    gateway::write(&config, &yaml(&upstream, "", ""));
    let _first = Gateway::try_run(&config).unwrap_or_else(|(_, log)| panic!("{log}"));
    let Err((ended, log)) = Gateway::try_run(&config) else { panic!("two gateways on one file") };
    assert_eq!(ended.code(), Some(1));
    let store = folder.path().join("store").display().to_string();
    assert!(log.contains(&store) && log.contains("in use by another process"), "{log}");
    assert!(log.contains("`store.path`") && log.contains("kind: redis"), "no remedy: {log}");
}
