//! Connections that are kept: how many, how long, and that one which the server has closed costs no request.

use std::sync::Arc;
use std::time::Duration;

use oncegate::upstream::{Failure, Outgoing, Settings, Upstream};

use super::closing::{Closing, Dice};
use super::support::{Gate, ScriptedUpstream};
use super::{body, created, fleet, order, ordered, settings, wait};

#[tokio::test]
async fn no_more_idle_connections_are_kept_than_the_settings_say() {
    for kept in [0, 1] {
        let gate = Gate::new();
        let held = gate.clone();
        let server = ScriptedUpstream::start(move |seen| created(seen).after(&held));
        let client = Arc::new(Upstream::new(Settings { idle_connections: kept, ..settings(&[server.address()]) }));
        let two = [(); 2].map(|()| {
            let client = Arc::clone(&client);
            tokio::spawn(async move { ordered(&client).await })
        });
        wait(&server, |server| server.wait_for_requests(2)).await;
        gate.open();
        for one in two {
            one.await.unwrap();
        }
        wait(&server, move |server| server.wait_for_closed(2 - kept)).await;
        ordered(&client).await;
        assert_eq!(server.connections(), 3 - kept);
    }
}

#[tokio::test]
async fn a_connection_that_is_too_old_is_not_used_again() {
    let server = ScriptedUpstream::start(created);
    let client =
        Upstream::new(Settings { connection_age: Duration::from_millis(300), ..settings(&[server.address()]) });
    ordered(&client).await;
    ordered(&client).await;
    // It is used all the time, and yet it grows old.
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        ordered(&client).await;
    }
    assert!(server.connections() >= 2, "one connection for ever");
    assert!(server.connections() < 6, "no connection is kept");
}

#[tokio::test]
async fn an_idle_connection_is_closed_when_its_time_is_over() {
    let server = ScriptedUpstream::start(created);
    let fleet = fleet(Settings { idle_timeout: Duration::from_millis(50), ..settings(&[server.address()]) });
    for worker in 0..2 {
        ordered(&Upstream::of(&fleet, worker)).await;
    }
    tokio::time::sleep(Duration::from_millis(60)).await;
    fleet.tidy();
    wait(&server, |server| server.wait_for_closed(2)).await;
}

#[tokio::test]
async fn a_connection_whose_time_is_not_over_stays() {
    let server = ScriptedUpstream::start(created);
    let fleet = fleet(settings(&[server.address()]));
    let client = Upstream::of(&fleet, 0);
    for _ in 0..3 {
        ordered(&client).await;
        fleet.tidy();
    }
    assert_eq!(server.connections(), 1);
}

/// What became of many requests.
#[derive(Debug, Default)]
struct Tally {
    answered: usize,
    /// Written to a connection that the server closed at that very moment. Nobody can know whether they ran.
    unknown: usize,
    not_sent: Vec<String>,
}

/// Keep-alive connections that end at any moment: nothing runs twice, nothing that was not sent is given up, and what is
/// left in doubt really was on its way.
#[tokio::test]
async fn two_thousand_posts_over_connections_that_close_at_any_moment_run_once() {
    const TASKS: u64 = 8;
    const EACH: u64 = 250;
    let server = Closing::start(7, "x-key");
    let client = Arc::new(Upstream::new(settings(&[server.address])));
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let client = Arc::clone(&client);
            let mut dice = Dice::new(task);
            tokio::spawn(async move {
                let mut ended = Vec::new();
                for number in 0..EACH {
                    let key = format!("{task}-{number}");
                    let mut order = order();
                    order.headers_mut().insert("x-key", key.parse().unwrap());
                    ended.push((key, post(&client, order).await));
                    tokio::time::sleep(Duration::from_millis(dice.roll(8))).await;
                }
                ended
            })
        })
        .collect();
    let mut tally = Tally::default();
    for task in tasks {
        for (key, ended) in task.await.unwrap() {
            let ran = server.executions(&key);
            match ended {
                Ok(()) => {
                    assert_eq!(ran, 1, "{key}");
                    tally.answered += 1;
                }
                Err(Failure::Unknown(_) | Failure::Late) => {
                    assert!(ran <= 1, "{key} ran {ran} times");
                    tally.unknown += 1;
                }
                Err(Failure::NotSent(why)) => tally.not_sent.push(format!("{key}: {why}, ran {ran}")),
            }
        }
    }
    let connections = server.connections();
    println!("{} answered, {} unknown, over {connections} connections", tally.answered, tally.unknown);
    assert!(tally.not_sent.is_empty(), "{:?}", tally.not_sent);
    assert!(tally.unknown <= 100, "{} of {} are in doubt", tally.unknown, TASKS * EACH);
    assert!(connections >= 200, "only {connections} connections: nothing was closed");
}

async fn post(client: &Upstream, order: http::Request<Outgoing>) -> Result<(), Failure> {
    let answer = client.send(order).await?;
    assert_eq!(body(answer).await.unwrap(), "made");
    Ok(())
}
