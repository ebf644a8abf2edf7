//! What a gateway may do by itself while its store is away: only where it is the only one that uses the store.

use std::path::PathBuf;

use super::file::{File, Store};
use super::finding::Report;
use super::reader::Field;
use crate::{gateway, store};

/// Translates the settings; none where this gateway is not said to be the only one.
pub(super) fn compile(section: &Store, report: &mut Report) -> Option<store::journal::Settings> {
    if *section.sole_gateway.value()? {
        let path = section.journal.either(|path| path.value.0.as_str(), || "./oncegate-journal")?;
        let size = section.journal_size.either(|size| size.value.0, || 64 << 20)?;
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        return Some(store::journal::Settings { path: PathBuf::from(path), size });
    }
    let places = [section.journal.at().map(|at| &at.place), section.journal_size.at().map(|at| &at.place)];
    for place in places.into_iter().flatten() {
        report.fault(place, "belongs to `sole_gateway: true` only: remove it, or set that");
    }
    None
}

/// Two gateways that know nothing of each other would each let the same request through.
pub(super) fn check(file: &File, report: &mut Report) {
    let Some(alone) = file.store.value().and_then(|store| store.sole_gateway.at()) else { return };
    if alone.value && file.listen_shared.value() == Some(&true) {
        report.fault(&alone.place, "cannot be with `listen_shared: true`, which is for several gateways: choose one");
    }
    let is_cluster = file.store.value().is_some_and(|store| store.cluster.at().is_some());
    let message = match (alone.value, is_cluster) {
        (false, _) => {
            "needs `store: { sole_gateway: true }`: while the store is away, another gateway could let the same request \
             through"
        }
        (true, true) => {
            "cannot be with `store.cluster`: records may move between its nodes while they are listed, so that nobody can \
             say what was not seen; use `closed`, or `url` or `sentinel`"
        }
        (true, false) => return,
    };
    let routes = file.routes.value().into_iter().flatten().filter_map(Field::value);
    let guards = routes.filter_map(|route| route.idempotency.value());
    for at in guards.filter_map(|guard| guard.store_failure.at()) {
        if at.value == gateway::StoreFailure::OpenIfUnseen {
            report.fault(&at.place, message);
        }
    }
}
