//! A worker's way to the records: one server, the primary that sentinels name, or the primaries of a cluster. It knows
//! where to send and nothing of what.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use redis::{Value, from_redis_value};

use super::StoreError;
use super::cluster::Cluster;
use super::deadline::Deadline;
use super::line::command;
use super::link::{Link, Place, Sent};
use super::position::Turn;
use super::request::{Answer, Request};
use super::sentinel::Sentinels;
use super::server::Report;
use super::settings::{Node, Servers};
use super::terms::Terms;

/// How often it is looked whether the primaries are still the primaries, where nobody says so.
const LOOK: Duration = Duration::from_secs(2);

pub(super) enum Lines {
    One(Arc<Link>),
    Named(Arc<Link>, Arc<Sentinels>),
    Cluster(Cluster),
}

impl Lines {
    pub(super) fn new(terms: &Arc<Terms>) -> Self {
        let link = |place, sets_clock| Arc::new(Link::new(Arc::clone(terms), place, sets_clock));
        match &terms.settings.servers {
            Servers::One(node) => Self::One(link(Place::Fixed(node.clone()), true)),
            Servers::Sentinel(sentinel) => {
                let sentinels = Sentinels::new((**sentinel).clone());
                Self::Named(link(Place::Named(Arc::clone(&sentinels)), true), sentinels)
            }
            Servers::Cluster(seeds) => Self::Cluster(Cluster::new(Arc::clone(terms), seeds.clone())),
        }
    }

    /// The same over connections of its own.
    pub(super) fn sibling(&self) -> Self {
        match self {
            Self::One(link) => Self::One(Arc::new(link.sibling())),
            Self::Named(link, sentinels) => Self::Named(Arc::new(link.sibling()), Arc::clone(sentinels)),
            Self::Cluster(cluster) => Self::Cluster(cluster.sibling()),
        }
    }

    /// Sends a command at once, where there is one server and a connection to it.
    pub(super) fn start(&self, write: impl FnOnce(&mut Vec<u8>), deadline: Deadline) -> Option<Sent<'_>> {
        match self {
            Self::One(link) | Self::Named(link, _) => link.start(write, deadline),
            Self::Cluster(_) => None,
        }
    }

    /// Sends a request about `key` to the server that keeps it.
    pub(super) async fn send(
        &self,
        key: &[u8],
        request: Request<'_>,
        deadline: Deadline,
    ) -> Result<Answer, StoreError> {
        match self {
            Self::One(link) | Self::Named(link, _) => link.send(request, deadline).await,
            // Its long way is kept apart, so that calls of a single server stay small.
            Self::Cluster(cluster) => Box::pin(cluster.send(key, request, deadline)).await,
        }
    }

    /// The server whose time is the store's.
    pub(super) async fn timekeeper(&self, deadline: Deadline) -> Result<Arc<Link>, StoreError> {
        match self {
            Self::One(link) | Self::Named(link, _) => Ok(Arc::clone(link)),
            Self::Cluster(cluster) => cluster.timekeeper(deadline).await,
        }
    }

    /// The primary whose turn it is in a pass that has come to `from`; none at the end.
    pub(super) async fn turn(&self, from: u16, deadline: Deadline) -> Result<Option<Turn>, StoreError> {
        match self {
            Self::One(link) | Self::Named(link, _) => Ok(Some(Turn { at: 0, link: Arc::clone(link), next: None })),
            Self::Cluster(cluster) => cluster.turn(from, deadline).await,
        }
    }

    /// What each primary says of itself.
    pub(super) async fn reports(&self, deadline: Deadline) -> Result<Vec<(Node, Report)>, StoreError> {
        match self {
            Self::One(link) | Self::Named(link, _) => Ok(vec![link.report(deadline).await?]),
            Self::Cluster(cluster) => {
                let links = cluster.primaries(deadline).await?;
                try_join_all(links.iter().map(|link| link.report(deadline))).await
            }
        }
    }

    /// Waits until it is time to look, or a switch is told, and leaves what is no primary any more; one step of a
    /// background task. A single server has no others: there is nothing to look for.
    ///
    /// # Errors
    /// When nobody answers who could know.
    pub(super) async fn watch(&self, timeout: Duration) -> Result<(), StoreError> {
        match self {
            Self::One(_) => std::future::pending().await,
            Self::Named(link, sentinels) => {
                sentinels.watch(LOOK).await?;
                let answer = link.send(Request::plain(&command(&[b"ROLE"])), Deadline::within(timeout)).await?;
                // One that was told to follow another one stays reachable, and would refuse every write.
                if role(answer.reply).is_some_and(|role| role != "master") {
                    sentinels.leave();
                }
                Ok(())
            }
            Self::Cluster(cluster) => cluster.watch(LOOK).await,
        }
    }
}

/// The first word of the reply to `ROLE`; none where it may not be asked.
fn role(reply: Value) -> Option<String> {
    from_redis_value(from_redis_value::<Vec<Value>>(reply).ok()?.into_iter().next()?).ok()
}
