//! Which routes can never be reached, because an earlier one takes all their requests. Warns only where that is certain.

use super::finding::{Place, Report};
use crate::gateway::{Case, PathParameters, Route};

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
        && earlier.path.covers(&later.path)
        // What `later` also takes, an earlier route that is stricter about spellings does not.
        && (earlier.case == later.case || later.case == Case::Sensitive)
        && (earlier.path_parameters == later.path_parameters || later.path_parameters == PathParameters::Keep)
}

/// An empty list means all.
fn includes<T: PartialEq>(wide: &[T], narrow: &[T]) -> bool {
    wide.is_empty() || (!narrow.is_empty() && narrow.iter().all(|item| wide.contains(item)))
}
