//! Which routes can never be reached, because an earlier one takes all their requests. Warns only where that is certain.

use super::finding::{Place, Report};
use crate::gateway::Route;

/// Warns about routes behind an earlier one.
pub(super) fn warn(routes: &[(&Route, &Place)], report: &mut Report) {
    for (number, (later, place)) in routes.iter().enumerate() {
        if let Some((earlier, _)) = routes[..number].iter().find(|(earlier, _)| covers(earlier, later)) {
            let message =
                format!("route `{}` is never reached: `{}` before it takes all its requests", later.name, earlier.name);
            report.warn(place, message);
        }
    }
}

fn covers(earlier: &Route, later: &Route) -> bool {
    includes(&earlier.methods, &later.methods)
        && includes(&earlier.hosts, &later.hosts)
        && covers_path(&earlier.path, &later.path)
}

/// An empty list means all.
fn includes<T: PartialEq>(wide: &[T], narrow: &[T]) -> bool {
    wide.is_empty() || (!narrow.is_empty() && narrow.iter().all(|item| wide.contains(item)))
}

fn covers_path(wide: &str, narrow: &str) -> bool {
    let mut narrow = narrow.split('/').skip(1);
    for segment in wide.split('/').skip(1) {
        let Some(other) = narrow.next() else { return false };
        match kind(segment) {
            // The rest is at least one character.
            Segment::Rest => return !other.is_empty(),
            Segment::Any if kind(other) == Segment::Rest || other.is_empty() => return false,
            Segment::Any => {}
            Segment::Fixed => {
                if segment != other {
                    return false;
                }
            }
        }
    }
    narrow.next().is_none()
}

#[derive(PartialEq, Eq)]
enum Segment {
    Fixed,
    Any,
    Rest,
}

fn kind(segment: &str) -> Segment {
    if segment.starts_with("{*") {
        Segment::Rest
    } else if segment.starts_with('{') && !segment.starts_with("{{") {
        Segment::Any
    } else {
        Segment::Fixed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_cover_others_only_for_certain() {
        for (wide, narrow, expected) in [
            ("/orders", "/orders", true),
            ("/orders/{id}", "/orders/{no}", true),
            ("/orders/{id}", "/orders/7", true),
            ("/orders/7", "/orders/{id}", false),
            ("/{*rest}", "/orders/{id}/items", true),
            ("/{*rest}", "/", false),
            ("/v1/{*rest}", "/v1", false),
            ("/v1/{*rest}", "/v1/{*all}", true),
            ("/v1/{id}", "/v1/{*all}", false),
            ("/v1/{id}", "/v1/a/b", false),
            ("/", "/", true),
            ("/{id}", "/", false),
            ("/{{id}}", "/{id}", false),
        ] {
            assert_eq!(covers_path(wide, narrow), expected, "{wide} {narrow}");
        }
    }
}
