//! Health checks: what is asked, what counts as a good answer, and what the answers do to requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use http::HeaderValue;
use http::uri::PathAndQuery;
use oncegate::upstream::{Census, Checked, Fleet, HealthCheck, Reason, Settings, Upstream};

use super::support::{DeadPort, Recorded, Reply, ScriptedUpstream};
use super::{created, fleet, not_sent, ordered, settings};

fn check() -> HealthCheck {
    HealthCheck {
        path: PathAndQuery::from_static("/healthz?deep"),
        host: None,
        interval: Duration::from_secs(1),
        timeout: Duration::from_secs(10),
        healthy_after: 2,
        unhealthy_after: 3,
        status: 200..=399,
    }
}

/// A server whose health has a status that can be set.
fn server(status: &Arc<AtomicU16>) -> ScriptedUpstream {
    let status = Arc::clone(status);
    ScriptedUpstream::start(move |seen| match seen.target().as_str() {
        "/healthz?deep" => Reply::whole(status.load(Ordering::SeqCst), &[], "how it is"),
        _ => created(seen),
    })
}

fn orders(server: &ScriptedUpstream) -> usize {
    server.requests().iter().filter(|seen| seen.method() == "POST").count()
}

async fn rounds(fleet: &Fleet, count: usize) -> Checked {
    let mut last = Checked::default();
    for _ in 0..count {
        last = fleet.check().await;
    }
    last
}

#[tokio::test]
async fn an_unhealthy_server_gets_no_requests_until_it_is_well_again() {
    let status = [Arc::new(AtomicU16::new(200)), Arc::new(AtomicU16::new(200))];
    let servers = status.each_ref().map(server);
    let addresses = servers.each_ref().map(ScriptedUpstream::address);
    let fleet = fleet(Settings { health: Some(check()), ..settings(&addresses) });
    let client = Upstream::of(&fleet, 0);
    let send = async |count| {
        for _ in 0..count {
            ordered(&client).await;
        }
        servers.each_ref().map(orders)
    };
    assert_eq!((rounds(&fleet, 3).await, send(4).await), (Checked { passed: 2, failed: 0 }, [2, 2]));
    status[0].store(503, Ordering::SeqCst);
    assert_eq!((rounds(&fleet, 2).await, send(4).await), (Checked { passed: 1, failed: 1 }, [4, 4]));
    rounds(&fleet, 1).await;
    assert_eq!(fleet.census(), Census { healthy: 1, ejected: 0, unhealthy: 1 });
    assert_eq!(send(4).await, [4, 8]);
    status[1].store(404, Ordering::SeqCst);
    rounds(&fleet, 3).await;
    assert_eq!((not_sent(&client).await, servers.each_ref().map(orders)), (Reason::NoServer, [4, 8]));
    status[0].store(302, Ordering::SeqCst);
    rounds(&fleet, 1).await;
    assert_eq!(not_sent(&client).await, Reason::NoServer);
    rounds(&fleet, 1).await;
    assert_eq!(send(2).await, [6, 8]);
}

#[tokio::test]
async fn the_question_is_a_get_on_a_connection_of_its_own() {
    let server = ScriptedUpstream::start(created);
    for host in [None, Some(HeaderValue::from_static("api.example"))] {
        let expected = host.as_ref().map_or(server.address().to_string(), |host| host.to_str().unwrap().to_owned());
        let health = Some(HealthCheck { host, ..check() });
        let fleet = fleet(Settings { health, ..settings(&[server.address()]) });
        assert_eq!(rounds(&fleet, 2).await, Checked { passed: 1, failed: 0 });
        let asked = server.requests().pop().unwrap();
        assert_eq!((asked.line.as_slice(), asked.number), (b"GET /healthz?deep HTTP/1.1".as_slice(), 1));
        assert_eq!((asked.text("Host"), asked.text("User-Agent").as_str()), (expected, "oncegate"));
        assert_eq!(asked.header("Content-Length"), None);
    }
}

type Script = fn(&Recorded) -> Reply;

#[tokio::test]
async fn only_a_good_status_in_time_is_a_good_answer() {
    let strict = HealthCheck { status: 204..=204, timeout: Duration::from_millis(50), ..check() };
    let scripts: [(Script, usize); 5] = [
        (|_| Reply::raw("HTTP/1.1 204 No Content\r\n\r\n"), 1),
        (created, 0),
        (|_| Reply::silence(), 0),
        (|_| Reply::close(), 0),
        (|_| Reply::raw("HTTP/1.1 204 No").then_hang(), 0),
    ];
    for (case, (script, passed)) in scripts.into_iter().enumerate() {
        let server = ScriptedUpstream::start(script);
        let patient = Duration::from_secs(if passed == 1 { 10 } else { 0 }) + strict.timeout;
        let health = HealthCheck { timeout: patient, ..strict.clone() };
        let fleet = fleet(Settings { health: Some(health), ..settings(&[server.address()]) });
        assert_eq!(fleet.check().await, Checked { passed, failed: 1 - passed }, "case {case}");
    }
    for port in [DeadPort::refusing(), DeadPort::silent()] {
        let fleet = fleet(Settings { health: Some(strict.clone()), ..settings(&[port.address()]) });
        assert_eq!(fleet.check().await, Checked { passed: 0, failed: 1 });
    }
}

#[tokio::test]
async fn without_the_setting_nobody_is_asked() {
    let server = ScriptedUpstream::start(created);
    assert_eq!(fleet(settings(&[server.address()])).check().await, Checked::default());
    assert_eq!(server.connections(), 0);
}
