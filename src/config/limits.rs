//! What may be held at once, and how long a client may take: the section as written, and what it becomes.

use super::define::section;
use super::values::{Count, DAY, GIB, HOUR, KIB, Size, Span};
use crate::gateway;

section! {
    /// What may be held at once, over all workers.
    Limits {
        /// Client connections.
        connections: Count<1, 1_000_000> = Default("10000"),
        /// Requests on their way to an upstream.
        in_flight: Count<1, 1_000_000> = Default("4096"),
        /// Duplicates that wait for a running attempt.
        waiters: Count<0, 1_000_000> = Default("10000"),
        /// Bytes of buffered request and response bodies.
        buffered_bodies: Size<{ 64 * KIB }, { 256 * GIB }> = Default("256MiB"),
        /// How long a request's head may take; also the idle limit of a kept-alive connection.
        header_timeout: Span<100, HOUR> = Default("30s"),
        /// How long a guarded request's body may take.
        body_timeout: Span<100, HOUR> = Default("30s"),
        /// How long a WebSocket may be silent in both directions.
        websocket_idle_timeout: Span<100, DAY> = Default("5m"),
    }
    later {}
}

/// Translates the section.
pub(super) fn compile(section: &Limits) -> Option<gateway::Limits> {
    Some(gateway::Limits {
        connections: section.connections.value()?.0,
        in_flight: section.in_flight.value()?.0,
        waiters: section.waiters.value()?.0,
        buffered_bodies: section.buffered_bodies.value()?.0,
        header_timeout: section.header_timeout.value()?.0,
        body_timeout: section.body_timeout.value()?.0,
        websocket_idle_timeout: section.websocket_idle_timeout.value()?.0,
    })
}
