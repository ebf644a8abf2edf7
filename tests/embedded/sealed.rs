//! Encrypted answers in the file: nothing of them shows, and only the key brings them back.

use crate::upstream::{Reply, ScriptedUpstream};
use crate::{Home, order, refused, started, stop, told};

const SECRET: &str = "a-body-that-nobody-may-read";

fn shows(home: &Home) -> bool {
    let file = std::fs::read(home.path("store/records.redb")).unwrap();
    file.windows(SECRET.len()).any(|part| part == SECRET.as_bytes())
}

#[test]
fn the_file_shows_nothing_and_opens_with_its_key_alone() {
    let upstream = ScriptedUpstream::start(|_| Reply::whole(201, &[], SECRET));
    let home = Home::new(&upstream);
    let store = |keys: &str| home.config_with(&format!("path: '{}'{keys}", home.path("store").display()), "");
    let key =
        |letter: &str| format!(", encryption: {{ keys: [ {{ id: {letter}, secret: '{}' }} ] }}", letter.repeat(64));
    let gateway = started(&store(&key("a")));
    assert_eq!(gateway.send(&order("k")).status, 201);
    assert!(gateway.send(&order("k")).is_replay());
    stop(gateway);
    assert!(!shows(&home));

    for keys in [String::new(), key("b")] {
        let gateway = started(&store(&keys));
        assert_eq!(told(&gateway.send(&order("k"))), refused(503, "record-unreadable"));
        // What is new works.
        assert_eq!(gateway.send(&order(&format!("new {}", keys.len()).replace(' ', "-"))).status, 201);
        stop(gateway);
    }
    assert!(shows(&home), "one of the last gateways encrypted nothing: this test can tell");

    let gateway = started(&store(&key("a")));
    let again = gateway.send(&order("k"));
    assert!(again.is_replay() && again.text() == SECRET);
    assert_eq!(upstream.executions("Idempotency-Key", "k"), 1);
}
