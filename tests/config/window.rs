//! `window` and `forwarded_key`: what they make of a guard, and what cannot go together.

use oncegate::gateway::ForwardedKey;
use oncegate::machine::Window;

use super::{config, errors, guard, loaded, warnings, with_guard};

#[test]
fn a_stated_window_gives_each_window_a_key_of_its_own() {
    for (lines, window, key) in [
        ("", Window::Fixed, ForwardedKey::Operation),
        ("window: fixed", Window::Fixed, ForwardedKey::Window),
        ("window: sliding", Window::Sliding, ForwardedKey::Window),
        ("window: sliding\nforwarded_key: operation", Window::Sliding, ForwardedKey::Operation),
        ("forwarded_key: window", Window::Fixed, ForwardedKey::Window),
        ("window: fixed\nin_doubt: retry", Window::Fixed, ForwardedKey::Operation),
    ] {
        let settings = loaded(&with_guard(lines)).settings;
        let guard = guard(&settings);
        assert_eq!((guard.policy.window, guard.forwarded_key), (window, key), "{lines}");
        let shown = config::show(&settings);
        assert_eq!(config::show(&loaded(&shown).settings), shown);
        assert_eq!(loaded(&shown).settings.gateway, settings.gateway, "{lines}");
    }
}

#[test]
fn what_cannot_go_together_is_refused_or_warned_of() {
    for (lines, place, says) in [
        ("forwarded_key: window\nin_doubt: retry", "forwarded_key", "cannot go with `in_doubt: retry`"),
        ("window: rolling", "window", "`fixed`, `sliding`"),
    ] {
        let found = errors(&with_guard(lines));
        assert!(found.len() == 1 && found[0].contains(&format!("idempotency.{place} ")), "{found:?}");
        assert!(found[0].contains(says), "{found:?}");
    }
    let probe = "in_doubt: probe\nprobe: { get: \"/orders?ref={key}\" }";
    let about_windows = |lines: &str| warnings(&with_guard(lines)).iter().any(|warning| warning.contains("window"));
    assert!(about_windows(&format!("window: sliding\n{probe}")));
    assert!(about_windows("window: sliding\nin_doubt: retry"));
    assert!(!about_windows("window: sliding\nin_doubt: retry\nforwarded_key: operation"));
    assert!(!about_windows("window: sliding") && !about_windows(probe));
}
