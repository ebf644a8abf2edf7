//! `in_doubt: probe` in the file: what it asks, when, and what is refused.

use std::time::Duration;

use oncegate::config::show;
use oncegate::machine::InDoubt;

use super::{LEAST, guard, loaded, parse, refused, refused_guard, warnings, with_guard};

/// A guard that asks; `more` goes into its `probe`.
fn asking(get: &str, more: &str) -> String {
    with_guard(&format!("in_doubt: probe\nprobe: {{ get: \"{get}\"{more} }}"))
}

#[test]
fn a_probe_gets_the_documented_defaults() {
    let settings = loaded(&asking("/orders?ref={key}&of={scope}", "")).settings;
    let guard = guard(&settings);
    assert_eq!(guard.policy.in_doubt, InDoubt::Probe { absent_after: Duration::from_mins(1) });
    let probing = guard.probing.as_ref().unwrap();
    assert_eq!(probing.schedule, [1, 5, 30, 300].map(Duration::from_secs));
    assert_eq!((probing.interval, probing.timeout), (Duration::from_secs(1), Duration::from_secs(5)));
    let template = guard.keys.probe.as_ref().unwrap();
    assert_eq!(template.target.to_string(), "/orders?ref={key}&of={scope}");
    assert_eq!((template.headers.len(), template.size_limit), (0, 4096));
}

#[test]
fn what_is_set_arrives_and_is_shown_so_that_it_loads_again() {
    let more = ", headers: { Authorization: \"{header:Authorization}\", X-By: \"gate way\" }, absent_after: 2m, \
                schedule: [10ms, 1h], interval: 7s, timeout: 250ms, size_limit: 1KiB";
    let settings = loaded(&asking("/orders/{path:id}/{json:/order/no}", more).replace("/orders }", "'/orders/{id}' }"));
    let settings = settings.settings;
    assert_eq!(guard(&settings).policy.in_doubt, InDoubt::Probe { absent_after: Duration::from_mins(2) });
    let shown = show(&settings);
    for line in [
        "in_doubt: probe",
        r#"get: "/orders/{path:id}/{json:/order/no}""#,
        r#"headers: { "authorization": "{header:Authorization}", "x-by": "gate way" }"#,
        "absent_after: 2m",
        r#"schedule: ["10ms", "1h"]"#,
        "interval: 7s",
        "timeout: 250ms",
        "size_limit: 1KiB",
    ] {
        assert!(shown.lines().any(|found| found.trim() == line), "{line} is not in\n{shown}");
    }
    assert_eq!(parse(&shown).unwrap().settings, settings);
}

#[test]
fn the_two_settings_belong_together() {
    let place = "10:17 routes[0].idempotency.in_doubt";
    refused_guard("in_doubt: probe", place, "write `probe: { get: ");
    for word in ["hold", "retry"] {
        let lines = format!("in_doubt: {word}\nprobe: {{ get: /orders }}");
        refused_guard(&lines, "11:14 routes[0].idempotency.probe", "belongs to `in_doubt: probe`");
    }
    let missing = "in_doubt: probe\nprobe: { absent_after: 1m }";
    refused_guard(missing, "11:14 routes[0].idempotency.probe", "`get` is missing");
}

#[test]
fn what_cannot_be_filled_in_is_refused_with_its_place() {
    let get = "11:21 routes[0].idempotency.probe.get";
    for (text, says) in [
        ("orders", "begins with one `/`"),
        ("/orders?ref={id}", "write {key}, {scope}"),
        ("/orders/{path:id}", "no parameter `{id}`"),
        ("/orders/{key", "a brace too many"),
        ("/orders/../{key}", "dot segments"),
    ] {
        refused(&asking(text, ""), get, says);
    }
    for name in ["X-Forwarded-For", "Oncegate-Operation", "TE"] {
        let text = asking(&format!("/orders?of={{scope}}&a={{header:{name}}}"), "");
        refused(&text, "11:14 routes[0].idempotency.probe", "did not get this field");
    }
    let several =
        asking("/orders?ref={key}", "").replace("header: Idempotency-Key", "all: [{ json: /a }, { json: /b }]");
    refused(&several, get, "use {operation}");
    let hashed = asking("/orders?of={scope}", "").replace("trusted_header: X-Customer-Id", "authorization: hash");
    refused(&hashed, get, "{header:Authorization}");
    for (name, value, says) in [
        ("Connection", "x", "belongs to the connection"),
        ("Host", "x", "belongs to the connection"),
        ("Oncegate-Attempt", "1", "belongs to the connection"),
        ("X-A", "{nobody}", "is no placeholder"),
        ("X-A", "\\r\\nX-B: 1", "is no field value"),
    ] {
        let text = asking("/orders", &format!(", headers: {{ {name}: \"{value}\" }}"));
        let found = parse(&text).unwrap_err().to_string();
        assert!(found.lines().count() == 1 && found.contains(says), "{name}: {found}");
        assert!(found.contains("routes[0].idempotency.probe.headers"), "{found}");
    }
}

#[test]
fn times_have_their_order() {
    let schedule = "11:42 routes[0].idempotency.probe.schedule";
    refused(&asking("/orders", ", schedule: [1s, 1s]"), schedule, "does not grow");
    refused(&asking("/orders", ", schedule: [5s, 1s]"), schedule, "does not grow");
    let many: Vec<String> = (1..=17).map(|second| format!("{second}s")).collect();
    refused(&asking("/orders", &format!(", schedule: [{}]", many.join(", "))), schedule, "16 at most");
    assert!(parse(&asking("/orders?of={scope}", ", schedule: []")).is_ok());
    refused(
        &asking("/orders", ", absent_after: 72h"),
        "11:46 routes[0].idempotency.probe.absent_after",
        "forgotten first",
    );
    for (bad, says) in
        [("timeout: 1h", "out of bounds"), ("size_limit: 1MiB", "out of bounds"), ("tries: 3", "unknown field")]
    {
        let found = parse(&asking("/orders", &format!(", {bad}"))).unwrap_err().to_string();
        assert!(found.contains(says), "{bad}: {found}");
    }
}

#[test]
fn a_question_that_does_not_say_who_asks_is_warned_of() {
    let warned = |text: &str| warnings(text).iter().any(|warning| warning.contains("does not say who asks"));
    assert!(warned(&asking("/orders?ref={key}", "")));
    for fine in [
        asking("/orders?ref={key}&of={scope}", ""),
        asking("/orders?ref={operation}", ""),
        asking("/orders?ref={key}", ", headers: { X-Customer-Id: \"{header:X-Customer-Id}\" }"),
        asking("/orders?ref={key}", ", headers: { Authorization: \"{header:Authorization}\" }"),
        asking("/orders?ref={key}", "").replace("{ trusted_header: X-Customer-Id }", "none"),
    ] {
        assert!(!warned(&fine), "{fine}");
    }
}

#[test]
fn routes_that_share_their_operations_ask_one_upstream() {
    let second = "  - name: other\n    match: { methods: [PUT], path: /orders }\n    upstream: others\n    idempotency:\n      \
                  namespace: create-order\n      key: [{ header: A }]\n      scope: none\n      in_doubt: probe\n      \
                  probe: { get: /orders }\n";
    let text = asking("/orders?of={scope}", "") + second;
    let text = text.replace("routes:", "  others: { servers: [\"http://127.0.0.1:9002\"] }\nroutes:");
    refused(&text, "15:15 routes[1].upstream", "could not tell which one to ask");
    assert!(parse(&text.replace("upstream: others", "upstream: orders")).is_ok());
    assert!(parse(&text.replace("namespace: create-order", "namespace: own")).is_ok());
    assert!(LEAST.contains("create-order"));
}
