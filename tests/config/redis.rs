//! The store in Redis: which servers, how they let the gateway in, what replicas must have. What is then done is in
//! `tests/redis/` and `tests/stores/`.

use std::path::PathBuf;
use std::time::Duration;

use oncegate::config::show;
use oncegate::store::Kind;
use oncegate::store::redis::{Password, Protocol, Servers, Settings, Wait};

use super::{LEAST, errors, loaded, parse};

/// The least file with a store in Redis; further fields stand in line 10.
fn with(fields: &str) -> String {
    format!("{LEAST}store: {{ kind: redis, {fields} }}\n")
}

fn redis(text: &str) -> Settings {
    match loaded(text).settings.store.kind {
        Kind::Redis(redis) => *redis,
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_server_is_a_url_and_little_else() {
    let one = redis(&with("url: 'redis://me:s3cret@db/3'"));
    assert_eq!(one.servers.to_string(), "db:6379");
    assert_eq!((one.access.username.as_deref(), one.access.database), (Some("me"), 3));
    assert_eq!((one.connections, one.wait, one.access.protocol), (1, None, Protocol::Resp2));
    assert!(one.access.tls.is_none());
    let apart = redis(&with("url: 'rediss://db', username: me, password_file: /run/secrets/redis, protocol: resp3"));
    assert_eq!(apart.access.password, Some(Password::File(PathBuf::from("/run/secrets/redis"))));
    assert!(apart.access.tls.is_some() && apart.access.protocol == Protocol::Resp3);
}

#[test]
fn sentinels_and_a_cluster_are_lists_of_nodes() {
    let text = with(
        "sentinel: { master: mymaster, nodes: [ a, 'b:1', '[::1]:2' ], username: s, password: x, tls: {} }, \
         password: y, database: 2",
    );
    let settings = redis(&text);
    let Servers::Sentinel(sentinel) = &settings.servers else { panic!("{:?}", settings.servers) };
    let nodes: Vec<_> = sentinel.nodes.iter().map(ToString::to_string).collect();
    assert_eq!(nodes, ["a:26379", "b:1", "[::1]:2"]);
    assert_eq!((sentinel.master.as_str(), sentinel.access.username.as_deref()), ("mymaster", Some("s")));
    assert!(sentinel.access.tls.is_some() && settings.access.tls.is_none());
    assert_eq!((settings.access.database, settings.access.username), (2, None));
    let cluster = redis(&with("cluster: { nodes: [ a, 'b:1' ] }, tls: {}"));
    assert_eq!(cluster.servers.to_string(), "the cluster of a:6379, b:1");
    assert!(cluster.access.tls.is_some());
}

#[test]
fn claims_that_wait_have_connections_of_their_own() {
    let waiting = redis(&with("url: 'redis://db', wait_replicas: 2"));
    let wait = Wait { replicas: 2, timeout: Duration::from_millis(250) };
    assert_eq!((waiting.wait, waiting.connections), (Some(wait), 4));
    let text = with("url: 'redis://db', wait_replicas: 1, wait_timeout: 100ms, connections: 1");
    let narrow = loaded(&text);
    assert!(narrow.warnings.iter().any(|it| it.message.contains("hold up everything else")), "{:?}", narrow.warnings);
    assert_eq!(redis(&with("url: 'redis://db', wait_replicas: 0, connections: 7")).connections, 7);
}

#[test]
fn what_cannot_be_meant_is_refused_with_its_place() {
    let nodes = "nodes: [ a ]";
    for (fields, place, says) in [
        ("key_prefix: a", "10:16 store.kind", "needs one of `url`, `sentinel` and `cluster`"),
        ("url: 'http://db'", "10:28 store.url", "no address of a Redis"),
        ("url: 'redis://me:s3cret@db/x'", "10:28 store.url", "no address of a Redis"),
        ("url: 'redis://db', key_prefix: '{a}'", "10:54 store.key_prefix", "no prefix"),
        (&format!("url: 'redis://db', cluster: {{ {nodes} }}"), "10:51 store.cluster", "`cluster` stands beside `url`"),
        (
            &format!("cluster: {{ {nodes} }}, sentinel: {{ master: m, {nodes} }}"),
            "10:32 store.cluster",
            "`cluster` stands beside `sentinel`",
        ),
        ("sentinel: { nodes: [ a ] }", "10:33 store.sentinel", "`master` is missing"),
        ("sentinel: { master: m, nodes: [] }", "10:53 store.sentinel.nodes", "is empty"),
        ("cluster: { nodes: [ 'redis://a' ] }", "10:43 store.cluster.nodes[0]", "write `host:port`"),
        ("cluster: { nodes: [ 'a:0' ] }", "10:43 store.cluster.nodes[0]", "write `host:port`"),
        ("cluster: { nodes: [ a ] }, database: 1", "10:60 store.database", "has none but 0"),
        ("url: 'redis://db', database: 1", "10:52 store.database", "write it in `url`"),
        ("url: 'redis://me:x@db', password: y", "10:57 store.password", "is said in `url` too"),
        ("url: 'redis://db', username: me", "10:52 store.username", "`password` or `password_file` belongs to it"),
        ("url: 'redis://db', password: x, password_file: y", "10:52 store.password", "stands beside `password_file`"),
        ("url: 'redis://db', tls: {}", "10:47 store.tls", "needs a `rediss://` url"),
        ("url: 'rediss://db', tls: { ca: /no/file }", "10:54 store.tls.ca", "/no/file: cannot be read"),
        ("url: 'redis://db', wait_timeout: 1s", "10:56 store.wait_timeout", "set `wait_replicas`"),
        (
            "url: 'redis://db', wait_replicas: 1, wait_timeout: 1s",
            "10:74 store.wait_timeout",
            "`command_timeout` (500ms)",
        ),
        ("url: 'redis://db', wait_replicas: 17", "10:57 store.wait_replicas", "between 0 and 16"),
        ("url: 'redis://db', connections: 0", "10:55 store.connections", "between 1 and 64"),
        ("url: 'redis://db', protocol: resp4", "10:52 store.protocol", "did you mean"),
    ] {
        let found = errors(&with(fields));
        assert_eq!(found.len(), 1, "{fields}: {found:#?}");
        assert!(found[0].starts_with(place) && found[0].contains(says), "{fields}: {}", found[0]);
        assert!(!found[0].contains("s3cret"), "{}", found[0]);
    }
    for field in
        ["url: 'redis://db'", "cluster: { nodes: [ a ] }", "wait_replicas: 1", "password: x", "protocol: resp3"]
    {
        let found = errors(&format!("{LEAST}store: {{ {field} }}\n"));
        assert!(found[0].contains("belongs to `kind: redis` only"), "{field}: {found:?}");
    }
}

#[test]
fn what_is_set_is_shown_without_its_secrets_and_loads_again() {
    let sentinel = "sentinel: { master: m, nodes: [ a ], username: s, password: s3cret, tls: { server_name: x.y } }";
    for fields in [
        "url: 'redis://me:s3cret@db:1/2', connections: 2, protocol: resp3",
        "url: 'rediss://db', password: s3cret, tls: { server_name: redis.internal }",
        &format!("{sentinel}, password: s3cret, database: 3, tls: {{}}, wait_replicas: 1"),
        "cluster: { nodes: [ a, '[::1]:7' ] }, username: me, password_file: /run/secrets/redis, tls: {}",
    ] {
        let shown = show(&loaded(&with(fields)).settings);
        assert!(!shown.contains("s3cret"), "{shown}");
        let again = parse(&shown).unwrap_or_else(|errors| panic!("{errors}\n{shown}"));
        assert_eq!(show(&again.settings), shown);
    }
}
