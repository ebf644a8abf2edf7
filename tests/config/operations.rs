//! `operations`: where clients may ask, and which paths cannot be that.

use std::time::Duration;

use super::{LEAST, config, errors, loaded};

fn with(section: &str) -> String {
    format!("{LEAST}operations: {section}\n")
}

#[test]
fn clients_may_ask_nowhere_unless_the_file_says_so() {
    assert_eq!(loaded(LEAST).settings.gateway.operations, None);
    for (section, path, wait) in
        [("{}", "/_oncegate/operations", 10), ("{ path: /api/status, max_wait: 30s }", "/api/status", 30)]
    {
        let settings = loaded(&with(section)).settings;
        let operations = settings.gateway.operations.as_ref().unwrap();
        assert_eq!((operations.path.as_str(), operations.max_wait), (path, Duration::from_secs(wait)));
        let shown = config::show(&settings);
        assert_eq!(config::show(&loaded(&shown).settings), shown);
    }
}

#[test]
fn a_path_that_a_request_could_spell_in_two_ways_is_refused() {
    for path in ["orders", "/", "/a/", "/a//b", "/a/../b", "/a%2Fb", "/a?b", "'/{a}'", "/a;b"] {
        let found = errors(&with(&format!("{{ path: {path} }}")));
        assert!(
            found.len() == 1 && found[0].contains("operations.path") && found[0].contains("no plain path"),
            "{found:?}"
        );
    }
    assert!(errors(&with("{ max_wait: 1h }"))[0].contains("operations.max_wait"));
}
