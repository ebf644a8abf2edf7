//! The primary that sentinels name: killed, demoted while it can be reached, and asked for behind passwords.

use oncegate::clock::Clock;

use crate::redis_server::{RedisServer, Sentinels, until};
use crate::{BACK, created, gateway, in_time, order, runs_within};

fn store(redis: &Sentinels, more: &str) -> String {
    format!("sentinel: {{ master: mymaster, nodes: {} }}{more}", redis.nodes())
}

#[test]
fn a_killed_primary_is_left_for_its_successor() {
    let upstream = created();
    let mut redis = Sentinels::start(2);
    let gateway = gateway(&upstream, &store(&redis, ", wait_replicas: 1"), "");
    let before: Vec<_> = (0..20).map(|turn| format!("k-before-{turn}")).collect();
    for key in &before {
        assert_eq!(in_time(&gateway, key).status, 201);
    }
    let killed = Clock::instant();
    redis.servers[0].kill();
    let mut turn = 0;
    // Until there is another one, every request is refused in time.
    while redis.primary().is_none_or(|primary| primary == 0) {
        turn += 1;
        let answer = in_time(&gateway, &format!("k-meanwhile-{turn}"));
        assert!(matches!(answer.status, 201 | 503), "{answer:?}");
    }
    redis.await_successor(0);
    let chosen = killed.elapsed();
    runs_within(BACK, &gateway, &upstream, "k");
    println!("a successor after {chosen:?}, service after {:?}", killed.elapsed());
    for key in &before {
        assert!(in_time(&gateway, key).is_replay());
        assert_eq!(upstream.executions("Idempotency-Key", key), 1);
    }
    for turn in 1..=turn {
        runs_within(BACK, &gateway, &upstream, &format!("k-meanwhile-{turn}"));
    }
}

/// How many clients are connected that are neither replicas nor sentinels.
fn clients(redis: &RedisServer) -> usize {
    // Sentinels cut the connections of a primary that they demote, this one's too.
    let list: String = redis.try_run(&["CLIENT", "LIST", "TYPE", "normal"]).unwrap_or_else(|_| "cut".to_owned());
    list.lines()
        .filter(|client| !client.contains("cmd=client"))
        .filter(|client| !client.contains("name=sentinel"))
        .count()
}

#[test]
fn a_demoted_primary_that_can_be_reached_is_left_by_all_connections() {
    let upstream = created();
    let redis = Sentinels::start(1);
    let gateway = gateway(&upstream, &store(&redis, ""), "");
    runs_within(BACK, &gateway, &upstream, "k-before");
    assert!(clients(&redis.servers[0]) > 0);
    redis.watchers[1].run::<()>(&["SENTINEL", "FAILOVER", "mymaster"]);
    let successor = redis.await_successor(0);
    runs_within(BACK, &gateway, &upstream, "k");
    assert!(in_time(&gateway, "k-before").is_replay());
    until("the old primary is left", || {
        // Nobody asks anything here but the gateway itself.
        clients(&redis.servers[0]) == 0 && clients(&redis.servers[successor]) > 0
    });
}

/// A failover is through when the other replicas follow. Until then its leader describes the old primary as it was, and
/// that may still be there: what is written to it is lost.
#[test]
fn a_successor_is_known_before_the_failover_is_through() {
    let upstream = created();
    let redis = Sentinels::start_with(2, &[], &["sentinel failover-timeout mymaster 60000"]);
    for replica in &redis.servers[1..] {
        // Whoever is not promoted cannot follow the one who is.
        replica.run::<()>(&["CONFIG", "SET", "masterauth", "wrong"]);
    }
    let leader = &redis.watchers[1];
    leader.run::<()>(&["SENTINEL", "FAILOVER", "mymaster"]);
    let successor = redis.await_successor(0);
    let store = format!("sentinel: {{ master: mymaster, nodes: [\"{}\"] }}", leader.address());
    let gateway = gateway(&upstream, &store, "");
    assert_eq!(in_time(&gateway, "k").status, 201);
    assert!(redis.servers[successor].run::<u64>(&["DBSIZE"]) > 0, "written to the one that was replaced");
    let state: Vec<String> = leader.run(&["SENTINEL", "MASTER", "mymaster"]);
    assert!(state.iter().any(|flags| flags.contains("failover_in_progress")), "{state:?}");
}

/// The sentinels have their passwords, the servers another, and the gateway may do what the manual says and no more.
#[test]
fn passwords_of_sentinels_and_servers_are_two() {
    let upstream = created();
    let may = "~og:* +get +set +del +getrange +eval +evalsha +scan +time +info +select +wait +role +config|get";
    let user: Vec<_> = ["--user", "og", "on", ">s3cret"].into_iter().chain(may.split(' ')).collect();
    let redis = Sentinels::start_with(1, &user, &["user watcher on >w4tch +@all"]);
    let access = "username: og, password: s3cret, wait_replicas: 1, protocol: resp3";
    let sentinel = format!(
        "sentinel: {{ master: mymaster, nodes: {}, username: watcher, password: w4tch }}, {access}",
        redis.nodes()
    );
    let gateway = gateway(&upstream, &sentinel, "");
    runs_within(BACK, &gateway, &upstream, "k");
    assert_eq!(gateway.get_admin("/readyz").status, 200);
    assert_eq!(redis.servers[0].info("errorstat_NOPERM"), "", "nothing else is asked for");
    assert!(!gateway.log().contains("s3cret") && !gateway.log().contains("w4tch"));
    assert_eq!(gateway.send(&order("k-2")).status, 201);
}

/// Two of three sentinels are enough, and one that stands still holds up nobody.
#[test]
fn a_sentinel_that_sleeps_is_not_waited_for() {
    let upstream = created();
    let redis = Sentinels::start(0);
    redis.watchers[0].pause();
    let gateway = gateway(&upstream, &store(&redis, ""), "");
    runs_within(BACK, &gateway, &upstream, "k");
    redis.watchers[0].resume();
}
