//! Who sends a request, found out once, before its body is read. What of it makes a scope is for `keys` to say.

use http::HeaderMap;

use super::Gateway;
use super::problem::Problem;
use super::settings::Guard;
use crate::jwt::Verifier;
use crate::keys::{Caller, Scope, query};
use crate::wire::Client;

impl Gateway {
    /// The caller, as far as the guard's scope asks for it.
    ///
    /// `trusted` is whether the peer's word counts; `parameters` are those of the route's path that the scope asks for.
    pub(super) async fn caller(
        &self,
        guard: &Guard,
        headers: &HeaderMap,
        client: &Client,
        trusted: bool,
        parameters: Vec<(String, String)>,
    ) -> Result<Caller, Problem> {
        let scope = &guard.keys.scope;
        self.check_trust(scope, trusted)?;
        if let Some(own) = guard.keys.also.as_ref().and_then(|also| also.scope.as_ref()) {
            self.check_trust(own, trusted)?;
        }
        let claims = match (scope.carrier(), &self.shared.jwt) {
            (Some(carrier), Some(verifier)) => {
                let token = carrier.token(headers)?;
                // Of its own size: few requests come to it, and all would have room for it.
                Some(Box::pin(verifier.believe(&token, self.arbiter.shared().clock.now())).await?)
            }
            _ => None,
        };
        Ok(Caller { certificate: client.certificate.clone(), claims, parameters })
    }

    /// Refuses a scope's word from a peer who cannot give it.
    fn check_trust(&self, scope: &Scope, trusted: bool) -> Result<(), Problem> {
        if trusted || self.shared.settings.trusted_proxies.is_empty() {
            return Ok(());
        }
        let credulous = self.shared.jwt.as_ref().is_some_and(Verifier::is_credulous);
        let what = match (scope.trusted_header(), scope.carrier().filter(|_| credulous)) {
            (Some(name), _) => format!("The scope's header {name}"),
            (None, Some(carrier)) => format!("The scope's token ({carrier})"),
            (None, None) => return Ok(()),
        };
        Err(Problem::ScopeMissing(format!("{what} is taken from trusted proxies only, and this peer is none.")))
    }
}

/// The parameters of a route's path that its scope asks for, where a query names them instead.
pub(super) fn parameters_in(query: &str, scope: &Scope) -> Vec<(String, String)> {
    let named = |name: &str| Some((name.to_owned(), query::value(query, name).ok()??));
    scope.path_parameters().filter_map(named).collect()
}
