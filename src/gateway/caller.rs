//! Who sends a request, found out once, before its body is read. What of it makes a scope is for `keys` to say.

use super::Gateway;
use super::problem::Problem;
use super::settings::Guard;
use crate::keys::Caller;
use crate::wire::Client;

impl Gateway {
    /// The caller, as far as the guard's scope asks for it.
    ///
    /// `trusted` is whether the peer's word counts.
    pub(super) fn caller(&self, guard: &Guard, client: &Client, trusted: bool) -> Result<Caller, Problem> {
        self.check_trust(guard, trusted)?;
        Ok(Caller { certificate: client.certificate.clone() })
    }

    /// Refuses a scope's word from a peer who cannot give it.
    fn check_trust(&self, guard: &Guard, trusted: bool) -> Result<(), Problem> {
        let also = guard.keys.also.as_ref().and_then(|also| also.scope.as_ref());
        if let Some(name) = guard.keys.scope.trusted_header().or_else(|| also?.trusted_header())
            && !trusted
            && !self.shared.settings.trusted_proxies.is_empty()
        {
            let detail =
                format!("The scope's header {name} is taken from trusted proxies only, and this peer is none.");
            return Err(Problem::ScopeMissing(detail));
        }
        Ok(())
    }
}
