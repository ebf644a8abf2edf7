//! What routes have in common is warned of once, with their names.

use super::{LEAST, warnings};

#[test]
fn what_several_routes_are_warned_of_is_told_once_with_their_names() {
    let first = LEAST.replace("{ trusted_header: X-Customer-Id }", "none");
    let another = |name: &str, scope: &str| {
        format!(
            "  - name: {name}\n    match: {{ methods: [POST], path: /{name} }}\n    upstream: orders\n    \
             idempotency: {{ key: [{{ header: K }}], scope: {scope} }}\n"
        )
    };
    let all =
        warnings(&(first.clone() + &another("b", "{ cookie: sid }") + &another("c", "none") + &another("d", "none")));
    assert_eq!(all.len(), 2, "{all:#?}");
    assert!(
        all[0].contains("routes[0].idempotency.scope: all callers share")
            && all[0].ends_with("(routes create-order, c, d)")
    );
    assert!(all[1].contains("routes[1].idempotency.scope: a cookie") && !all[1].contains("(routes"), "{all:#?}");
    let alone = warnings(&first);
    assert!(alone.len() == 1 && !alone[0].contains("(routes"), "{alone:#?}");
}

#[test]
fn a_header_that_whoever_connects_may_set_is_warned_of() {
    let told = |listen: &str, more: &str| {
        let text = format!("{LEAST}listen: '{listen}'\n{more}");
        warnings(&text).iter().any(|it| it.contains("routes[0].idempotency.scope: is taken from whoever connects"))
    };
    assert!(told("0.0.0.0:80", "") && told("[::]:80", "trusted_proxies: []\n"));
    assert!(!told("127.0.0.1:80", "") && !told("0.0.0.0:80", "trusted_proxies: [10.0.0.0/8]\n"));
}
