//! HTTP/2 to one server: requests share connections, as many on each as the server allows. A new connection is made by
//! one for all who wait. What a request looks like on the wire is in `exchange`.

mod body;
mod connection;
mod exchange;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use http::{Request, Response};
use tokio_util::task::TaskTracker;

pub(super) use body::Body;
use connection::{Connection, Slot};

use super::headers::Added;
use super::outcome::Tried;
use super::way::Way;
use super::{Incoming, NotSent, Outgoing, Reason, Settings};
use crate::clock::Clock;

/// How often a request that a server turned down unprocessed goes to a connection of that server.
const TRIES: usize = 2;

/// One server's shared connections. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Connections {
    way: Arc<Way>,
    idle_timeout: Duration,
    connection_age: Duration,
    /// What goes on when its request is answered.
    tasks: TaskTracker,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Oldest first: the younger ones fall idle when there is less to do.
    open: Vec<Connection>,
    /// The connection that is being made.
    dial: Option<Dial>,
}

type Dial = Shared<BoxFuture<'static, Result<Connection, NotSent>>>;

impl Connections {
    pub(super) fn new(way: Arc<Way>, settings: &Settings, tasks: &TaskTracker) -> Self {
        let (idle_timeout, connection_age) = (settings.idle_timeout, settings.connection_age);
        Self { way, idle_timeout, connection_age, tasks: tasks.clone(), state: Arc::default() }
    }

    /// Lets go of the connections that will not be used again; what is under way on them ends as it will.
    pub(super) fn tidy(&self) {
        self.state().tidy(self.idle_timeout, self.connection_age);
    }

    /// Lets go of all.
    pub(super) fn retire(&self) {
        self.state().open.clear();
    }

    /// Sends one request. It goes to a second connection only with proof that the server did not process it.
    pub(super) async fn send(
        &self,
        request: &mut Request<Outgoing>,
        added: Option<&Added>,
    ) -> Result<Response<Incoming>, Tried> {
        let mut why = None;
        for _ in 0..TRIES {
            let (connection, slot) = self.connection().await.map_err(Tried::Returned)?;
            match exchange::exchange(&connection, slot, self.way.scheme(), request, added, &self.tasks).await {
                Err(Tried::Returned(reason)) => {
                    // Whatever keeps it from taking this request keeps it from the next.
                    self.state().open.retain(|open| !open.is(&connection));
                    why = Some(reason);
                }
                done => return done,
            }
        }
        Err(Tried::Returned(why.unwrap_or_else(|| self.way.not_sent(Reason::Refused, "not tried"))))
    }

    /// A connection with room for a request, and that room.
    async fn connection(&self) -> Result<(Connection, Slot), NotSent> {
        loop {
            let dial = {
                let mut state = self.state();
                if let Some(ready) = state.take(self.idle_timeout, self.connection_age) {
                    return Ok(ready);
                }
                state.dial.get_or_insert_with(|| self.dial()).clone()
            };
            // Others may have filled it before this one's turn; then there is another one to wait for.
            if !dial.await?.is_open() {
                return Err(self.way.not_sent(Reason::Closed, "the server closed a new connection at once"));
            }
        }
    }

    /// Makes a connection, whoever still waits for it.
    fn dial(&self) -> Dial {
        let this = self.clone();
        let made = tokio::spawn(async move {
            let made = this.way.connect(Connection::begin).await;
            let mut state = this.state();
            state.dial = None;
            if let Ok(connection) = &made {
                state.open.push(connection.clone());
            }
            made
        });
        let way = Arc::clone(&self.way);
        let ended = move |error| Err(way.not_sent(Reason::Connect, error));
        made.map(|made| made.unwrap_or_else(ended)).boxed().shared()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tidy(&mut self, idle_timeout: Duration, age: Duration) {
        let now = Clock::instant();
        self.open.retain(|connection| connection.is_open() && connection.is_fresh(now, idle_timeout, age));
    }

    fn take(&mut self, idle_timeout: Duration, age: Duration) -> Option<(Connection, Slot)> {
        self.tidy(idle_timeout, age);
        self.open.iter().find_map(|connection| Some((connection.clone(), connection.slot()?)))
    }
}
