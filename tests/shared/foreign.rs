//! What stands under an operation's key is not a record of ours: it is neither run nor replayed, and it is counted.

use crate::client::Answer;
use crate::gateway::Gateway;
use crate::redis::RedisServer;
use crate::upstream::{Reply, ScriptedUpstream};
use crate::{key_of, order, refused, told, yaml};

const UNREADABLE: &str = r#"oncegate_requests_total{route="create-order",verdict="record_unreadable"}"#;

#[test]
fn an_operation_whose_record_cannot_be_read_is_refused_and_not_run() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], "done"));
    let redis = RedisServer::start();
    let gateway = Gateway::start(&yaml(&upstream, &redis.url(), "", "replay_cache: 0"));
    assert_eq!(gateway.send(&order("k")).status, 201);
    let key = key_of(&upstream.requests()[0].text("Oncegate-Operation"));
    let stored: Vec<u8> = redis.run(&[&b"GET"[..], &key]);
    assert!(gateway.send(&order("k")).is_replay());

    let newer = [&[stored[0] + 1], &stored[1..]].concat();
    let torn = stored[..stored.len() - 1].to_vec();
    for foreign in [b"not a record".to_vec(), Vec::new(), newer, torn] {
        redis.run::<()>(&[&b"SET"[..], &key, &foreign]);
        refuses(&gateway.send(&order("k")));
    }
    redis.run::<()>(&[&b"DEL"[..], &key]);
    redis.run::<()>(&[&b"RPUSH"[..], &key, b"a list"]);
    refuses(&gateway.send(&order("k")));
    assert_eq!(gateway.metric(UNREADABLE), 5.0);
    assert_eq!(upstream.requests().len(), 1);
    assert!(redis.run::<bool>(&[&b"EXISTS"[..], &key]), "what is not ours is left alone");

    redis.run::<()>(&[&b"DEL"[..], &key]);
    redis.run::<()>(&[&b"SET"[..], &key, &stored]);
    assert!(gateway.send(&order("k")).is_replay());
}

fn refuses(answer: &Answer) {
    assert_eq!(told(answer), refused(503, "record-unreadable"));
}
