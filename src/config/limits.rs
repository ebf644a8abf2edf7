//! What may be held at once, and how long a client may take: the section as written, and what it becomes.

use super::define::section;
use super::finding::Report;
use super::values::{Count, DAY, GIB, HOUR, KIB, MIB, Size, Span, size_text, span_text};
use crate::{gateway, server};

section! {
    /// What may be held at once, over all workers, and how long clients may take.
    Limits {
        /// Client connections.
        connections: Count<1, 1_000_000> = Default("10000"),
        /// Requests on their way to an upstream.
        in_flight: Count<1, 1_000_000> = Default("4096"),
        /// Duplicates that wait for a running attempt.
        waiters: Count<0, 1_000_000> = Default("10000"),
        /// Operations that this gateway has dispatched and remembers exactly, to notice that the store has lost them; about 300 bytes each, 0: none.
        dispatched: Count<0, 10_000_000> = Default("100000"),
        /// Outcomes that wait in memory for a store that is away; one more is given up, in doubt.
        outcomes_waiting: Count<1, 1_000_000> = Default("10000"),
        /// Bytes of buffered request and response bodies.
        buffered_bodies: Size<{ 64 * KIB }, { 256 * GIB }> = Default("256MiB"),
        /// The longest request target; over it 414.
        target: Size<256, { 64 * KIB }> = Default("8KiB"),
        /// The longest head of a request; over it 431.
        header_bytes: Size<{ 8 * KIB }, MIB> = Default("64KiB"),
        /// The most header fields of a request; over it 431.
        headers: Count<10, 10_000> = Default("100"),
        /// How long a request's head may take, from its first byte to its end.
        header_timeout: Span<100, HOUR> = Default("30s"),
        /// How long a connection may rest between two requests, or before the first.
        keep_alive_timeout: Span<100, DAY> = Default("75s"),
        /// How old a connection may be and still take a further request.
        connection_age: Span<100, { 365 * DAY }> = Default("1h"),
        /// How long a client may be silent within a request's body.
        body_idle_timeout: Span<100, HOUR> = Default("30s"),
        /// How long a guarded request's body may take in all.
        body_timeout: Span<100, HOUR> = Default("30s"),
        /// How long the body of a request on a plain route may take in all.
        upload_timeout: Span<100, { 7 * DAY }> = Default("1h"),
        /// How long a client may take nothing of its answer; over HTTP/2, of the answer's next 16 KiB.
        send_timeout: Span<100, HOUR> = Default("60s"),
        /// How long a WebSocket may be silent in both directions.
        websocket_idle_timeout: Span<100, DAY> = Default("5m"),
    }
    later {}
}

/// What the section says to those who keep it.
#[derive(Clone, Copy)]
pub(super) struct Compiled {
    pub(super) server: server::Limits,
    pub(super) gateway: gateway::Limits,
    pub(super) waiters: usize,
    pub(super) dispatched: usize,
    pub(super) outcomes_waiting: usize,
}

/// Translates the section.
pub(super) fn compile(section: &Limits, report: &mut Report) -> Option<Compiled> {
    contradictions(section, report);
    Some(Compiled {
        server: server::Limits {
            connections: section.connections.value()?.0,
            target: section.target.value()?.0,
            header_bytes: section.header_bytes.value()?.0,
            headers: section.headers.value()?.0,
            header_timeout: section.header_timeout.value()?.0,
            keep_alive_timeout: section.keep_alive_timeout.value()?.0,
            body_idle_timeout: section.body_idle_timeout.value()?.0,
            send_timeout: section.send_timeout.value()?.0,
            connection_age: section.connection_age.value()?.0,
        },
        gateway: gateway::Limits {
            in_flight: section.in_flight.value()?.0,
            buffered_bodies: section.buffered_bodies.value()?.0,
            body_timeout: section.body_timeout.value()?.0,
            upload_timeout: section.upload_timeout.value()?.0,
            websocket_idle_timeout: section.websocket_idle_timeout.value()?.0,
        },
        waiters: section.waiters.value()?.0,
        dispatched: section.dispatched.value()?.0,
        outcomes_waiting: section.outcomes_waiting.value()?.0,
    })
}

/// Limits that can never be reached, because another one is reached first.
fn contradictions(section: &Limits, report: &mut Report) {
    if let (Some(target), Some(head)) = (section.target.at(), section.header_bytes.at())
        && target.value.0 >= head.value.0
    {
        let bytes = u64::try_from(head.value.0).unwrap_or(u64::MAX);
        let place = if target.stated { &target.place } else { &head.place };
        report.fault(
            place,
            format!("`target` must be below `header_bytes` ({}), of which it is a part", size_text(bytes)),
        );
    }
    if let (Some(idle), Some(body), Some(upload)) =
        (section.body_idle_timeout.at(), section.body_timeout.value(), section.upload_timeout.value())
        && idle.stated
        && idle.value.0 > body.0.max(upload.0)
    {
        let longest = span_text(body.0.max(upload.0));
        let message = format!("is above `body_timeout` and `upload_timeout` ({longest}): it would never pass");
        report.fault(&idle.place, message);
    }
}
