//! The sample order API: as naive as APIs are. Every POST is a new order.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header::LOCATION};
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Json, Router};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::admin;
use crate::server::{self, Connections, Doorway, Limits};
use crate::telemetry::Metrics;
use crate::wire::{Client, Closing};

type Orders = Arc<Mutex<Vec<Value>>>;

/// How long a client may take with anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// The running API.
pub(super) struct Api {
    address: SocketAddr,
    orders: Orders,
}

impl Api {
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many orders it has taken: the truth that the story is checked against.
    pub(super) fn count(&self) -> usize {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// Starts it on a free port of the loopback.
pub(super) fn start() -> io::Result<Api> {
    let orders = Orders::default();
    let router = Router::new().route("/orders", post(create).get(list)).with_state(Arc::clone(&orders));
    let mut listeners = server::bind(([127, 0, 0, 1], 0).into(), 1, false)?;
    let listener = listeners.pop().ok_or(io::ErrorKind::AddrNotAvailable)?;
    let address = listener.local_addr()?;
    let doorway = Arc::new(Doorway {
        front: Arc::default(),
        connections: Connections::default(),
        limits: limits(),
        turned_away: Bytes::new(),
        too_slow: Bytes::new(),
        preserve_header_case: true,
        metrics: Arc::new(Metrics::new().map_err(io::Error::other)?),
        linger: Duration::ZERO,
        closing: Closing::default(),
    });
    let doorway = move || Arc::clone(&doorway);
    let handle = move |request, client: Arc<Client>| admin::handle(router.clone(), request, client.peer, PATIENCE);
    tokio::spawn(server::serve(listener, doorway, handle));
    Ok(Api { address, orders })
}

/// Room enough for a demo.
fn limits() -> Limits {
    let while_it_lasts = Duration::from_hours(1);
    Limits {
        connections: 1024,
        target: 8 * 1024,
        header_bytes: 64 * 1024,
        headers: 100,
        header_timeout: PATIENCE,
        keep_alive_timeout: while_it_lasts,
        body_idle_timeout: PATIENCE,
        send_timeout: PATIENCE,
        connection_age: while_it_lasts,
    }
}

/// Takes an order. `delay_ms` in it makes the answer slow, after the order was taken.
async fn create(State(orders): State<Orders>, Json(order): Json<Value>) -> impl IntoResponse {
    let number = {
        let mut orders = orders.lock().unwrap_or_else(PoisonError::into_inner);
        let number = orders.len() + 1;
        orders.push(json!({"number": number, "item": order["item"]}));
        number
    };
    if let Some(delay) = order["delay_ms"].as_u64() {
        tokio::time::sleep(Duration::from_millis(delay.min(60_000))).await;
    }
    (
        StatusCode::CREATED,
        [(LOCATION, format!("/orders/{number}"))],
        Json(json!({"number": number, "item": order["item"]})),
    )
}

async fn list(State(orders): State<Orders>) -> Json<Value> {
    Json(json!(*orders.lock().unwrap_or_else(PoisonError::into_inner)))
}
