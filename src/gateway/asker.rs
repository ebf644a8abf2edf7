//! The client on whose behalf a request goes to an upstream. What an attempt has of it beside the pipe for its answer: the
//! attempt may outlive it.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;

use super::Routed;
use super::entry::Entry;
use crate::upstream::Behalf;
use crate::upstream::headers::Added;
use crate::wire::Client;
use crate::wire::heads::Spelling;

/// Whoever asks for what a request does.
pub(super) struct Asker {
    client: Arc<Client>,
    /// Which of its connection's requests this is.
    turn: u64,
    spelling: Option<Spelling>,
    /// What the gateway says in the request besides what the client says.
    added: Added,
    /// Its line in the access log.
    entry: Option<Arc<Entry>>,
}

impl Asker {
    /// The client of the request that is present on its connection, to which this is added.
    pub(super) fn of(routed: &Routed<'_>, added: Added) -> Self {
        let (turn, spelling) = routed.client.exchange.present();
        Self { client: Arc::clone(routed.client), turn, spelling, added, entry: routed.entry.clone() }
    }
}

impl Behalf for Asker {
    fn spelling(&self) -> Option<&Spelling> {
        self.spelling.as_ref()
    }

    fn added(&self) -> Option<&Added> {
        Some(&self.added)
    }

    fn goes_to(&self, server: SocketAddr) {
        self.entry.iter().for_each(|entry| entry.goes_to(server));
    }

    fn hears(&self, interim: Bytes) {
        self.client.exchange.interim(self.turn, interim);
    }
}
