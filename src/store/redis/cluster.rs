//! The primaries of a Redis Cluster: which one a key belongs to, where a call is sent on, and what each worker has to
//! reach them. Single keys only; it knows nothing of records.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use redis::{Value, from_redis_value, pipe};

use super::StoreError;
use super::deadline::Deadline;
use super::dial;
use super::faults::{Redirect, is_down, redirect, translate, unavailable};
use super::link::{Link, Place, lock};
use super::newest::newest;
use super::position::Turn;
use super::request::{Answer, Request};
use super::settings::{Node, listed};
use super::slots::{Shares, slot};
use super::terms::Terms;
use crate::clock::Clock;

/// How often a call is sent on before it is given up.
const REDIRECTIONS: usize = 5;

/// How long a call rests when a node says "in a moment".
const MOMENT: Duration = Duration::from_millis(10);

/// How long what the nodes said is good for those who ask at the same time.
const FRESH: Duration = Duration::from_millis(100);

/// How many nodes are asked at once for the shares.
const ASKED: usize = 16;

/// One worker's ways to the nodes.
pub(super) struct Cluster {
    shape: Arc<Shape>,
    links: Mutex<HashMap<Node, Arc<Link>>>,
}

/// What all workers know of the cluster.
struct Shape {
    terms: Arc<Terms>,
    seeds: Vec<Node>,
    known: ArcSwapOption<Known>,
    asking: tokio::sync::Mutex<()>,
}

struct Known {
    shares: Shares,
    at: Instant,
}

impl Cluster {
    pub(super) fn new(terms: Arc<Terms>, seeds: Vec<Node>) -> Self {
        let shape = Shape { terms, seeds, known: ArcSwapOption::empty(), asking: tokio::sync::Mutex::default() };
        Self { shape: Arc::new(shape), links: Mutex::default() }
    }

    /// Ways of another worker's own.
    pub(super) fn sibling(&self) -> Self {
        Self { shape: Arc::clone(&self.shape), links: Mutex::default() }
    }

    /// Sends a request about `key` to the node that it belongs to, wherever that is by now.
    pub(super) async fn send(
        &self,
        key: &[u8],
        mut request: Request<'_>,
        deadline: Deadline,
    ) -> Result<Answer, StoreError> {
        let slot = slot(key);
        let mut node = self.owner(slot, deadline).await?;
        for _ in 0..REDIRECTIONS {
            let answer = match self.link(&node).send(request, deadline).await {
                Ok(answer) => answer,
                Err(error) => {
                    // Another node may have taken its place.
                    node = self.successor(slot, &node, deadline).await.ok_or(error)?;
                    request.asking = false;
                    continue;
                }
            };
            match redirect(&answer.reply, &node) {
                Some(Redirect::Moved(next)) => {
                    self.shape.ask_soon();
                    (node, request.asking) = (next, false);
                }
                Some(Redirect::Ask(next)) => (node, request.asking) = (next, true),
                Some(Redirect::TryAgain) => deadline.hold(tokio::time::sleep(MOMENT)).await?,
                None => {
                    if is_down(&answer.reply) {
                        self.shape.ask_soon();
                    }
                    return Ok(answer);
                }
            }
        }
        Err(unavailable(format!("sent on from node to node more than {REDIRECTIONS} times")))
    }

    /// The node whose time is the store's: clocks of several nodes would disagree.
    pub(super) async fn timekeeper(&self, deadline: Deadline) -> Result<Arc<Link>, StoreError> {
        self.owner(0, deadline).await.map(|node| self.link(&node))
    }

    /// The primary whose turn it is in a pass that has come to `from`; none at the end. A primary is known by the slot
    /// that its share begins with.
    pub(super) async fn turn(&self, from: u16, deadline: Deadline) -> Result<Option<Turn>, StoreError> {
        let known = self.shape.known(deadline).await?;
        let mut rest = known.shares.turns().into_iter().filter(|(first, _)| *first >= from);
        let turn = rest.next().map(|(at, node)| (at, self.link(node)));
        Ok(turn.map(|(at, link)| Turn { at, link, next: rest.next().map(|(next, _)| next) }))
    }

    /// A way to each primary.
    pub(super) async fn primaries(&self, deadline: Deadline) -> Result<Vec<Arc<Link>>, StoreError> {
        let known = self.shape.known(deadline).await?;
        Ok(known.shares.turns().into_iter().map(|(_, node)| self.link(node)).collect())
    }

    /// Asks the nodes for their shares, after a rest; one step of a background task.
    pub(super) async fn watch(&self, rest: Duration) -> Result<(), StoreError> {
        tokio::time::sleep(rest).await;
        self.shape.ask().await.map(|_| ())
    }

    async fn owner(&self, slot: u16, deadline: Deadline) -> Result<Node, StoreError> {
        let known = self.shape.known(deadline).await?;
        let owner = known.shares.owner(slot).cloned();
        owner.ok_or_else(|| {
            self.shape.ask_soon();
            unavailable(format!("no node of the cluster has slot {slot}"))
        })
    }

    /// Who has the slot now, if it is another node than `lost`. When there is no time left to ask, the next call will
    /// know.
    async fn successor(&self, slot: u16, lost: &Node, deadline: Deadline) -> Option<Node> {
        let Ok(known) = deadline.hold(self.shape.ask()).await else {
            self.shape.ask_soon();
            return None;
        };
        known.ok()?.shares.owner(slot).filter(|owner| *owner != lost).cloned()
    }

    fn link(&self, node: &Node) -> Arc<Link> {
        let mut links = lock(&self.links);
        if let Some(link) = links.get(node) {
            return Arc::clone(link);
        }
        // A time to let go of those that have no share any more.
        if let Some(known) = &*self.shape.known.load() {
            links.retain(|node, _| known.shares.has(node));
        }
        let link = Arc::new(Link::new(Arc::clone(&self.shape.terms), Place::Fixed(node.clone()), false));
        links.insert(node.clone(), Arc::clone(&link));
        link
    }
}

impl Shape {
    /// The shares as the nodes told them last.
    async fn known(&self, deadline: Deadline) -> Result<Arc<Known>, StoreError> {
        match self.known.load_full() {
            Some(known) => Ok(known),
            None => deadline.hold(self.ask()).await?,
        }
    }

    /// Asks without being waited for.
    fn ask_soon(self: &Arc<Self>) {
        if self.asking.try_lock().is_ok() {
            let shape = Arc::clone(self);
            tokio::spawn(async move { shape.ask().await.map(|_| ()) });
        }
    }

    /// Asks the nodes for their shares, unless somebody has just done so.
    async fn ask(&self) -> Result<Arc<Known>, StoreError> {
        let _turn = self.asking.lock().await;
        let known = self.known.load_full();
        if let Some(known) = known.as_ref().filter(|known| known.at.elapsed() < FRESH) {
            return Ok(Arc::clone(known));
        }
        let nodes = known.iter().flat_map(|known| known.shares.nodes()).chain(&self.seeds);
        let nodes: BTreeSet<&Node> = nodes.take(ASKED).collect();
        let whom = format!("nodes of the cluster {}", listed(&self.seeds));
        let shares = newest(whom, nodes.into_iter().map(|node| self.ask_one(node))).await?;
        if let Some(before) = known.filter(|before| before.shares != shares) {
            tracing::warn!(before = %before.shares, now = %shares, "the cluster's slots or primaries have changed");
        }
        let known = Arc::new(Known { shares, at: Clock::instant() });
        self.known.store(Some(Arc::clone(&known)));
        Ok(known)
    }

    /// What one says. A node that serves counts more than one that is cut off, and then the later epoch.
    async fn ask_one(&self, node: &Node) -> Result<((bool, u64), Shares), StoreError> {
        let connection = dial::connect(node, &self.terms.settings.access).await?;
        let mut questions = pipe();
        questions.cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("SLOTS");
        let told: Result<(String, Value), _> = questions.query_async(&mut connection.line.clone()).await;
        let (info, slots) = told.map_err(|error| translate(&error))?;
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let epoch = field("cluster_current_epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
        let slots: Vec<Vec<Value>> = from_redis_value(slots).map_err(|error| unavailable(error.to_string()))?;
        Ok(((field("cluster_state") == Some("ok"), epoch), Shares::read(slots, node)?))
    }
}
