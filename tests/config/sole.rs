//! `store.sole_gateway` and what hangs on it: the journal, and `store_failure: open_if_unseen`.

use std::path::Path;

use oncegate::gateway::StoreFailure;

use super::{LEAST, config, errors, loaded};

const GUARD: &str = "      store_failure: open_if_unseen\n";

fn alone(more: &str) -> String {
    format!("{LEAST}{GUARD}store: {{ kind: redis, url: 'redis://db', sole_gateway: true{more} }}\n")
}

#[test]
fn the_only_gateway_may_go_on_without_its_store() {
    let settings = loaded(&alone("")).settings;
    let guard = settings.gateway.routes[0].guard.as_ref().unwrap();
    assert_eq!(guard.store_failure, StoreFailure::OpenIfUnseen);
    assert!(settings.arbiter.alone);
    let journal = settings.store.journal.as_ref().unwrap();
    assert_eq!((journal.path.as_path(), journal.size), (Path::new("./oncegate-journal"), 64 << 20));
    let shown = config::show(&settings);
    for line in ["sole_gateway: true", "journal: \"./oncegate-journal\"", "journal_size: 64MiB", "open_if_unseen"] {
        assert!(shown.contains(line), "{line} is not in\n{shown}");
    }
    let settings = loaded(&alone(", journal: /var/lib/j, journal_size: 1MiB")).settings;
    let journal = settings.store.journal.unwrap();
    assert_eq!((journal.path.as_path(), journal.size), (Path::new("/var/lib/j"), 1 << 20));
}

#[test]
fn any_other_gateway_may_not() {
    for store in ["", "store: { kind: redis, url: 'redis://db' }\n", "store: { sole_gateway: false }\n"] {
        let errors = errors(&format!("{LEAST}{GUARD}{store}"));
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains("store_failure") && errors[0].contains("sole_gateway: true"), "{errors:?}");
    }
    let errors = errors(&format!("{}listen_shared: true\n", alone("")));
    assert!(errors[0].contains("store.sole_gateway") && errors[0].contains("listen_shared"), "{errors:?}");
}

#[test]
fn a_cluster_cannot_say_what_was_not_seen() {
    let cluster = "store: { kind: redis, cluster: { nodes: ['db:6379'] }, sole_gateway: true }\n";
    let errors = errors(&format!("{LEAST}{GUARD}{cluster}"));
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("store_failure") && errors[0].contains("store.cluster"), "{errors:?}");
    loaded(&format!("{LEAST}{cluster}"));
}

#[test]
fn a_journal_belongs_to_the_only_gateway() {
    for field in ["journal: j", "journal_size: 1MiB"] {
        let errors = errors(&format!("{LEAST}store: {{ {field} }}\n"));
        assert!(errors[0].contains("sole_gateway: true"), "{errors:?}");
    }
}
