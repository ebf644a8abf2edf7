//! The status that a doubt is answered with.

use super::{LEAST, errors, guard, loaded, with_guard};

#[test]
fn a_doubt_is_answered_with_409_unless_the_route_says_otherwise() {
    assert_eq!(guard(&loaded(LEAST).settings).in_doubt_status.as_u16(), 409);
    let settings = loaded(&with_guard("in_doubt_status: 503")).settings;
    assert_eq!(guard(&settings).in_doubt_status.as_u16(), 503);
    assert!(oncegate::config::show(&settings).contains("in_doubt_status: 503"));
}

#[test]
fn no_doubt_is_answered_as_if_all_were_done() {
    for status in ["200", "302", "99", "600", "conflict"] {
        let errors = errors(&with_guard(&format!("in_doubt_status: {status}")));
        assert_eq!(errors.len(), 1, "{errors:#?}");
        assert!(
            errors[0].contains("idempotency.in_doubt_status") && errors[0].contains("a 4xx or 5xx status"),
            "{errors:#?}"
        );
    }
}
