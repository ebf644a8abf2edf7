//! Names of header fields that settings speak of: which of them cannot be meant.

use http::HeaderName;

use super::finding::{Place, Report};
use super::reader::Field;
use crate::upstream::headers;

/// Headers of the connection, and those that this gateway sets itself, name nothing of the client's.
pub(super) fn checked(name: &HeaderName, place: &Place, report: &mut Report) -> Option<HeaderName> {
    if headers::is_reserved(name) {
        report.fault(place, format!("`{name}` cannot be used here: it belongs to the connection or to this gateway"));
        return None;
    }
    Some(name.clone())
}

/// The same for a list.
pub(super) fn all_checked(list: &[Field<HeaderName>], report: &mut Report) -> Option<Vec<HeaderName>> {
    let names: Vec<_> =
        list.iter().map(|field| field.at().and_then(|at| checked(&at.value, &at.place, report))).collect();
    names.into_iter().collect()
}

/// A retry may come another way: what tells the way is no part of a request's identity.
pub(super) fn forwarding(list: &[Field<HeaderName>], report: &mut Report) {
    for at in list.iter().filter_map(Field::at).filter(|at| headers::is_forwarding(&at.value)) {
        let message = format!("`{}` cannot be used here: it says which way a request came, not what it asks", at.value);
        report.fault(&at.place, message);
    }
}
