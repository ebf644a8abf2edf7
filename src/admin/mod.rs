//! The operators' door.

use std::net::SocketAddr;

/// What the operators' door is told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where it listens; none: no door.
    pub listen: Option<SocketAddr>,
    /// The bearer token that `/api` demands; without one, `/api` answers on loopback only.
    pub token: Option<String>,
    /// What `/readyz` asks.
    pub ready: Ready,
}

/// What `/readyz` asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// Whether the store can take a reservation.
    Store,
    /// Only whether this process serves.
    Process,
}
