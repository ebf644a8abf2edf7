//! `fingerprint.decode` in the file: its defaults, its bounds, and what is refused.

use oncegate::config::show;
use oncegate::keys::{Coding, Decoding};

use super::{LEAST, guard, loaded, parse, refused_guard, with_guard};

fn decoding(lines: &str) -> Option<Decoding> {
    guard(&loaded(&with_guard(lines)).settings).keys.fingerprint.decode.clone()
}

#[test]
fn bodies_are_decoded_only_where_the_route_says_so() {
    assert_eq!(guard(&loaded(LEAST).settings).keys.fingerprint.decode, None);
    assert_eq!(decoding("fingerprint: {}"), None);
    let codings = vec![Coding::Gzip, Coding::Brotli, Coding::Zstd];
    assert_eq!(decoding("fingerprint: { decode: {} }"), Some(Decoding { codings, ratio: 100, size: 8 << 20 }));
}

#[test]
fn what_is_set_arrives_and_is_shown_so_that_it_loads_again() {
    let lines = "fingerprint: { decode: { codings: [deflate, br], ratio: 7, size: 64KiB } }";
    let codings = vec![Coding::Deflate, Coding::Brotli];
    assert_eq!(decoding(lines), Some(Decoding { codings, ratio: 7, size: 64 << 10 }));
    let settings = loaded(&with_guard(lines)).settings;
    assert_eq!(parse(&show(&settings)).unwrap().settings, settings);
}

#[test]
fn limits_have_bounds_and_codings_names() {
    let of = |what: &str| format!("fingerprint: {{ decode: {{ {what} }} }}");
    let place = |what: &str, column| format!("10:{column} routes[0].idempotency.fingerprint.decode.{what}");
    for (what, column, field, remedy) in [
        ("ratio: 0", 39, "ratio", "between 1 and 10000"),
        ("ratio: 10001", 39, "ratio", "between 1 and 10000"),
        ("size: 1B", 38, "size", "between 1KiB and 64MiB"),
        ("size: 65MiB", 38, "size", "between 1KiB and 64MiB"),
        ("codings: []", 41, "codings", "list codings such as"),
        ("codings: [lzma]", 42, "codings[0]", "`zstd`, `deflate`"),
    ] {
        refused_guard(&of(what), &place(field, column), remedy);
    }
}

#[test]
fn one_body_may_not_take_more_than_all_together() {
    let text = with_guard("fingerprint: { decode: { size: 2MiB } }") + "limits: { buffered_bodies: 1MiB }\n";
    let errors = parse(&text).unwrap_err().to_string();
    assert!(
        errors.contains("fingerprint.decode.size") && errors.contains("(`limits.buffered_bodies`, 1MiB)"),
        "{errors}"
    );
}
