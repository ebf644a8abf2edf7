//! The header fields that decide on a request, and what must not become of them between gateway and upstream. What they say
//! is not looked at.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName};

use super::{ClientPrints, Refusal, Settings, header, scope, source};
use crate::upstream::headers::Kinds;

/// The fields of a route that gateway and upstream must read alike: else the upstream would see another key or scope.
#[derive(Debug, Clone)]
pub(super) struct Names {
    /// Those of keys and scopes.
    keys: Vec<HeaderName>,
    /// Those that tell equal requests and callers from others.
    identity: Vec<HeaderName>,
    /// Whether the name of a key or scope has an underscore itself: then one that is spelt in another way may have none.
    underscored: bool,
}

impl Names {
    pub(super) fn of(settings: &Settings) -> Self {
        let second = settings.also.iter().flat_map(|also| &also.scope).flat_map(scope::header_names);
        let scopes = scope::header_names(&settings.scope).chain(second);
        let sources = settings.all_sources().flat_map(source::header_names).cloned();
        let prints = settings.fingerprint.client.iter().flat_map(ClientPrints::headers);
        let identity = [&CONTENT_TYPE, &CONTENT_ENCODING].into_iter().chain(&settings.fingerprint.headers);
        let identity = identity.chain(&settings.require_same).chain(prints).cloned();
        Self::new(sources.chain(scopes).collect(), identity.collect())
    }

    fn new(keys: Vec<HeaderName>, identity: Vec<HeaderName>) -> Self {
        let underscored = keys.iter().any(|name| name.as_str().contains('_'));
        Self { keys, identity, underscored }
    }

    /// Refuses a request in which one of them is spelt in two ways, or would not reach the upstream. Its fields are of
    /// these kinds.
    pub(super) fn check(&self, headers: &HeaderMap, kinds: Kinds) -> Result<(), Refusal> {
        if !self.underscored && !kinds.any(Kinds::CONNECTION.and(Kinds::UNDERSCORE)) {
            return Ok(());
        }
        let hop_by_hop = |name: &HeaderName| header::is_hop_by_hop(headers, name);
        for name in &self.keys {
            if header::has_twin(headers, name) {
                return Err(Refusal::KeyInvalid(format!("The header {name} is also there in another spelling.")));
            }
            if hop_by_hop(name) {
                return Err(Refusal::KeyInvalid(format!("The header {name} is named in Connection.")));
            }
        }
        match self.identity.iter().find(|name| hop_by_hop(name)) {
            Some(name) => Err(Refusal::Unreliable(format!("The header {name} is named in Connection."))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_spelling_is_refused_whichever_of_the_two_has_the_underscore() {
        for (own, other) in [("x-key", "x_key"), ("x_key", "x-key")] {
            let names = Names::new(vec![own.parse().unwrap()], Vec::new());
            let check = |sent: &[&str]| {
                let headers = sent.iter().map(|name| (name.parse().unwrap(), "1".parse().unwrap())).collect();
                names.check(&headers, Kinds::of(&headers)).is_ok()
            };
            assert!(check(&[own]) && check(&["x-other"]), "{own}");
            assert!(!check(&[other]) && !check(&[own, other]), "{own}");
        }
    }
}
