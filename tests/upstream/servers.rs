//! Several servers: who gets a request, who is left out and comes back, and that none gets what another may have got.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use oncegate::upstream::{Balance, Census, Ejection, Failure, Fleet, Reason, Settings, Upstream};

use super::support::{DeadPort, Gate, Reply, ScriptedUpstream};
use super::{body, client, created, fleet, not_sent, order, ordered, settings, unknown, wait};

/// Long enough for a test to see that nothing comes back before it.
const LONG: Duration = Duration::from_hours(1);

fn settings_of(servers: &[&ScriptedUpstream], failures: usize) -> Settings {
    let addresses: Vec<_> = servers.iter().map(|server| server.address()).collect();
    Settings { ejection: Ejection { failures, lasts: LONG }, ..settings(&addresses) }
}

fn seen<const N: usize>(servers: [&ScriptedUpstream; N]) -> [usize; N] {
    servers.map(|server| server.requests().len())
}

fn healthy_and_ejected(fleet: &Fleet) -> (usize, usize) {
    let Census { healthy, ejected, unhealthy: 0 } = fleet.census() else { panic!("{:?}", fleet.census()) };
    (healthy, ejected)
}

/// An order that is sent meanwhile.
fn sent(upstream: &Arc<Upstream>) -> tokio::task::JoinHandle<bytes::Bytes> {
    let upstream = Arc::clone(upstream);
    tokio::spawn(async move { ordered(&upstream).await })
}

#[tokio::test]
async fn servers_take_turns() {
    let servers = [ScriptedUpstream::start(created), ScriptedUpstream::start(created)];
    let client = client(&[&servers[0], &servers[1]]);
    for _ in 0..6 {
        ordered(&client).await;
    }
    assert_eq!(servers.each_ref().map(|server| server.requests().len()), [3, 3]);
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_passed_over() {
    let (dead, alive) = (DeadPort::refusing(), ScriptedUpstream::start(created));
    let client = Upstream::new(settings(&[dead.address(), alive.address()]));
    for _ in 0..4 {
        assert_eq!(ordered(&client).await, "made");
    }
    assert_eq!(alive.executions("X-Key", "k"), 4);
}

#[tokio::test]
async fn when_no_server_can_be_reached_nothing_was_sent() {
    let (one, two) = (DeadPort::refusing(), DeadPort::refusing());
    assert_eq!(not_sent(&Upstream::new(settings(&[one.address(), two.address()]))).await, Reason::Connect);
}

#[tokio::test]
async fn a_request_that_may_have_been_sent_goes_to_no_other_server() {
    let servers = [ScriptedUpstream::start(|_| Reply::reset()), ScriptedUpstream::start(|_| Reply::close())];
    let client = client(&[&servers[0], &servers[1]]);
    unknown(&client).await;
    assert_eq!(servers.each_ref().map(|server| server.requests().len()), [1, 0]);
    unknown(&client).await;
    assert_eq!(servers.each_ref().map(|server| server.requests().len()), [1, 1]);
}

#[tokio::test]
async fn the_server_with_the_fewest_requests_over_all_workers_gets_the_next() {
    let gate = Gate::new();
    let held = gate.clone();
    let slow = ScriptedUpstream::start(move |seen| created(seen).after(&held));
    let quick = ScriptedUpstream::start(created);
    let fleet = fleet(Settings { balance: Balance::LeastRequests, ..settings_of(&[&slow, &quick], 3) });
    let workers = [0, 1].map(|worker| Arc::new(Upstream::of(&fleet, worker)));
    let waiting = sent(&workers[0]);
    wait(&slow, |slow| slow.wait_for_requests(1)).await;
    for worker in [&workers[0], &workers[1], &workers[1]] {
        ordered(worker).await;
    }
    assert_eq!(seen([&slow, &quick]), [1, 3]);
    gate.open();
    waiting.await.unwrap();
    for _ in 0..4 {
        ordered(&workers[0]).await;
    }
    assert_eq!(seen([&slow, &quick]), [3, 5], "equals take turns");
}

#[tokio::test]
async fn a_server_that_breaks_off_is_left_out() {
    let (bad, good) = (ScriptedUpstream::start(|_| Reply::reset()), ScriptedUpstream::start(created));
    let fleet = fleet(settings_of(&[&bad, &good], 2));
    let workers = [0, 1].map(|worker| Upstream::of(&fleet, worker));
    for turn in 0..4 {
        assert_eq!(workers[turn % 2].send(order()).await.is_err(), turn % 2 == 0);
    }
    assert_eq!((healthy_and_ejected(&fleet), fleet.take_ejections(), fleet.take_ejections()), ((1, 1), 1, 0));
    for turn in 0..6 {
        ordered(&workers[turn % 2]).await;
    }
    assert_eq!(seen([&bad, &good]), [2, 8]);
}

#[tokio::test]
async fn an_answer_that_breaks_off_counts_as_a_failure() {
    let bad = ScriptedUpstream::start(|_| Reply::cut_short(200, &[], 10, "12345"));
    let good = ScriptedUpstream::start(created);
    let fleet = fleet(settings_of(&[&bad, &good], 2));
    let client = Upstream::of(&fleet, 0);
    for turn in 0..8 {
        let answer = body(client.send(order()).await.unwrap()).await;
        assert_eq!(answer.is_err(), turn < 4 && turn % 2 == 0, "{turn}");
    }
    assert_eq!(seen([&bad, &good]), [2, 6]);
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_asked_no_more() {
    let (dead, alive) = (DeadPort::refusing(), ScriptedUpstream::start(created));
    let settings =
        Settings { ejection: Ejection { failures: 3, lasts: LONG }, ..settings(&[dead.address(), alive.address()]) };
    let fleet = fleet(settings);
    let client = Upstream::of(&fleet, 0);
    for number in 1..=10 {
        ordered(&client).await;
        // The first of two takes every other turn.
        assert_eq!(healthy_and_ejected(&fleet), if number < 5 { (2, 0) } else { (1, 1) }, "{number}");
    }
}

#[tokio::test]
async fn a_request_that_waited_for_its_answer_in_vain_counts_and_one_that_was_given_up_does_not() {
    for (patience, expected) in [(Duration::from_millis(20), (1, 1)), (LONG, (2, 0))] {
        let (silent, good) = (ScriptedUpstream::start(|_| Reply::silence()), ScriptedUpstream::start(created));
        let fleet = fleet(Settings { response_timeout: patience, ..settings_of(&[&silent, &good], 1) });
        let client = Upstream::of(&fleet, 0);
        let answer = tokio::time::timeout(Duration::from_millis(50), client.send(order())).await;
        assert!(answer.is_err(), "it answered");
        assert_eq!(healthy_and_ejected(&fleet), expected);
    }
}

#[tokio::test]
async fn an_ejected_server_is_tried_when_no_other_can_be_reached() {
    let (dead, back) = (
        DeadPort::refusing(),
        ScriptedUpstream::start(|seen| match seen.connection {
            1 => Reply::reset(),
            _ => created(seen),
        }),
    );
    let rule = Ejection { failures: 1, lasts: LONG };
    let fleet = fleet(Settings { ejection: rule, ..settings(&[back.address(), dead.address()]) });
    let client = Upstream::of(&fleet, 0);
    unknown(&client).await;
    assert_eq!(healthy_and_ejected(&fleet), (1, 1));
    // The other one is never ejected, since it is the last; the answer brings the first one back.
    assert_eq!(ordered(&client).await, "made");
    assert_eq!(healthy_and_ejected(&fleet), (2, 0));
    assert_eq!(seen([&back]), [2]);
}

#[tokio::test]
async fn the_last_server_is_not_left_out() {
    let servers = [(); 2].map(|()| ScriptedUpstream::start(|_| Reply::reset()));
    let fleet = fleet(settings_of(&[&servers[0], &servers[1]], 1));
    let client = Upstream::of(&fleet, 0);
    for _ in 0..5 {
        unknown(&client).await;
    }
    assert_eq!(healthy_and_ejected(&fleet), (1, 1));
    assert_eq!(seen([&servers[0], &servers[1]]), [1, 4]);
}

#[tokio::test]
async fn an_ejected_server_comes_back_by_one_request_at_a_time() {
    let gate = Gate::new();
    let held = gate.clone();
    let numbers = AtomicUsize::new(0);
    let shaky = ScriptedUpstream::start(move |seen| match numbers.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::reset(),
        1 => created(seen).after(&held),
        _ => created(seen),
    });
    let good = ScriptedUpstream::start(created);
    let rule = Ejection { failures: 1, lasts: Duration::from_millis(100) };
    let fleet = fleet(Settings { ejection: rule, ..settings_of(&[&shaky, &good], 1) });
    let client = Arc::new(Upstream::of(&fleet, 0));
    unknown(&client).await;
    while healthy_and_ejected(&fleet) != (2, 0) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // One of two goes to the server that was left out, and stays there; until it is back, it gets no other.
    let sent: Vec<_> = (0..6).map(|_| sent(&client)).collect();
    wait(&good, |good| good.wait_for_requests(5)).await;
    wait(&shaky, |shaky| shaky.wait_for_requests(2)).await;
    assert_eq!((seen([&shaky, &good]), healthy_and_ejected(&fleet)), ([2, 5], (1, 1)));
    gate.open();
    for sent in sent {
        assert_eq!(sent.await.unwrap(), "made");
    }
    assert_eq!(healthy_and_ejected(&fleet), (2, 0));
    for _ in 0..4 {
        ordered(&client).await;
    }
    assert_eq!(seen([&shaky, &good]), [4, 7]);
}

#[tokio::test]
async fn a_connection_that_is_in_use_is_waited_for_and_not_for_long() {
    for (patience, expected) in [(Duration::from_millis(300), Err(Reason::Full)), (Duration::from_secs(20), Ok("made"))]
    {
        let gate = Gate::new();
        let held = gate.clone();
        let server = ScriptedUpstream::start(move |seen| created(seen).after(&held));
        let settings = Settings { max_connections: 1, connect_timeout: patience, ..settings_of(&[&server], 3) };
        let fleet = fleet(settings);
        let workers = [0, 1].map(|worker| Arc::new(Upstream::of(&fleet, worker)));
        let first = sent(&workers[0]);
        wait(&server, |server| server.wait_for_requests(1)).await;
        let second = {
            let worker = Arc::clone(&workers[1]);
            tokio::spawn(async move { worker.send(order()).await })
        };
        if expected.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_eq!(seen([&server]), [1]);
            gate.open();
        }
        match (second.await.unwrap(), expected) {
            (Ok(answer), Ok(expected)) => assert_eq!(body(answer).await.unwrap(), expected),
            (Err(Failure::NotSent(why)), Err(expected)) => assert_eq!(why.reason, expected),
            other => panic!("{other:?}"),
        }
        gate.open();
        assert_eq!(first.await.unwrap(), "made");
        // Whatever became of the others, the connection is free again.
        assert_eq!(ordered(&workers[0]).await, "made");
    }
}

#[tokio::test]
async fn a_connection_is_in_use_until_its_answer_has_ended() {
    let gate = Gate::new();
    let held = gate.clone();
    let server = ScriptedUpstream::start(move |_| Reply::sized(201, &[], 4, "ma").then_wait(&held).then_send("de"));
    let settings =
        Settings { max_connections: 1, connect_timeout: Duration::from_millis(300), ..settings_of(&[&server], 3) };
    let client = Upstream::new(settings);
    let open = client.send(order()).await.unwrap();
    assert_eq!(not_sent(&client).await, Reason::Full);
    gate.open();
    assert_eq!(body(open).await.unwrap(), "made");
    drop(client.send(order()).await.unwrap());
    ordered(&client).await;
}
