//! Which server the sentinels call the primary: asked of all of them, heard when it changes. It carries no record.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use redis::aio::PubSub;
use redis::pipe;
use tokio::sync::Mutex;

use super::StoreError;
use super::dial;
use super::faults::{translate, unavailable};
use super::newest::{PATIENCE, newest};
use super::settings::{Node, Sentinel, listed};
use crate::clock::Clock;

/// How long an answer is good for those who ask at the same time: every worker loses the primary at once.
const FRESH: Duration = Duration::from_millis(50);

/// Where a sentinel says that another server has become the primary.
const CHANNEL: &str = "+switch-master";

pub(super) struct Sentinels {
    settings: Sentinel,
    told: Mutex<Option<Told>>,
    heard: Mutex<Option<PubSub>>,
    /// How often the primary has changed, or been found to be none: connections made before are left.
    switches: AtomicU64,
}

/// What the sentinels said last.
struct Told {
    primary: Node,
    at: Instant,
}

impl Sentinels {
    pub(super) fn new(settings: Sentinel) -> Arc<Self> {
        Arc::new(Self { settings, told: Mutex::default(), heard: Mutex::default(), switches: AtomicU64::new(0) })
    }

    pub(super) fn switches(&self) -> u64 {
        self.switches.load(Ordering::Relaxed)
    }

    /// The server that is no primary any more is left by all connections, and the sentinels are asked again.
    pub(super) fn leave(&self) {
        self.switches.fetch_add(1, Ordering::Relaxed);
    }

    /// The primary, and how many switches led to it.
    pub(super) async fn primary(&self) -> Result<(u64, Node), StoreError> {
        let mut told = self.told.lock().await;
        if let Some(told) = told.as_ref().filter(|told| told.at.elapsed() < FRESH) {
            return Ok((self.switches(), told.primary.clone()));
        }
        let primary = self.ask().await?;
        if let Some(before) = told.as_ref().filter(|before| before.primary != primary) {
            tracing::warn!(before = %before.primary, now = %primary, "the sentinels name another primary");
            self.leave();
        }
        *told = Some(Told { primary: primary.clone(), at: Clock::instant() });
        Ok((self.switches(), primary))
    }

    /// Waits until a sentinel tells of a switch, for `rest` at most, and asks them all; one step of a background task.
    ///
    /// # Errors
    /// When no sentinel answers.
    pub(super) async fn watch(&self, rest: Duration) -> Result<(), StoreError> {
        let rested = tokio::time::sleep(rest);
        tokio::pin!(rested);
        let mut heard = self.heard.lock().await;
        tokio::select! {
            () = &mut rested => {}
            still = self.hear(&mut heard) => if !still {
                // No sentinel to listen to, or no longer: asking now and then has to do.
                *heard = None;
                rested.await;
            },
        }
        self.primary().await.map(|_| ())
    }

    /// Waits until a sentinel tells of a switch. False when there is none to listen to.
    async fn hear(&self, heard: &mut Option<PubSub>) -> bool {
        if heard.is_none() {
            *heard = self.subscribe().await;
        }
        match heard {
            Some(ear) => ear.on_message().next().await.is_some(),
            None => false,
        }
    }

    async fn subscribe(&self) -> Option<PubSub> {
        for node in &self.settings.nodes {
            let opened = tokio::time::timeout(PATIENCE, async {
                let mut ear = dial::listen(node, &self.settings.access).await?;
                ear.subscribe(CHANNEL).await.map_err(|error| translate(&error))?;
                Ok::<_, StoreError>(ear)
            });
            match opened.await {
                Ok(Ok(ear)) => return Some(ear),
                Ok(Err(error)) => tracing::debug!(address = %node, %error, "sentinel not heard"),
                Err(_) => tracing::debug!(address = %node, "sentinel not heard in time"),
            }
        }
        None
    }

    /// Asks all of them, and takes the word of the one that knows of the latest change.
    async fn ask(&self) -> Result<Node, StoreError> {
        let whom = format!("sentinels {} of {}", listed(&self.settings.nodes), self.settings.master);
        newest(whom, self.settings.nodes.iter().map(|node| self.ask_one(node))).await
    }

    /// What one says, and how new it is.
    ///
    /// While a failover is led to its end, the leader calls the new epoch and still describes the old primary; only the
    /// question for the address names the successor. The epoch is asked for first: an address is never older than it.
    async fn ask_one(&self, node: &Node) -> Result<(u64, Node), StoreError> {
        let connection = dial::connect(node, &self.settings.access).await?;
        let mut questions = pipe();
        questions.cmd("SENTINEL").arg("MASTER").arg(&self.settings.master);
        questions.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&self.settings.master);
        let (told, address): (HashMap<String, String>, Option<(String, u16)>) =
            questions.query_async(&mut connection.line.clone()).await.map_err(|error| translate(&error))?;
        let (host, port) = address.ok_or_else(|| unavailable("a sentinel names no server"))?;
        let epoch = told.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
        Ok((epoch, Node { host, port }))
    }
}
