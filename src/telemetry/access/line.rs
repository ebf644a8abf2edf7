//! One line of the access log: what it says, and how that is laid out. Where it goes is not known here.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::ink::{Ink, MOST, WIDEST};
use crate::telemetry::Verdict;

/// What a line says of a request and its answer.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// When its head was there, in milliseconds since 1970.
    pub at: u64,
    /// Who sent it, as far as the hops before are believed.
    pub client: IpAddr,
    /// Who is at the other end of the connection itself.
    pub peer: IpAddr,
    /// None: its head was refused before it was understood.
    pub method: Option<&'a str>,
    /// The target's path.
    pub path: Option<&'a str>,
    /// The target's query.
    pub query: Option<&'a str>,
    /// The protocol's version, as `HTTP/1.1`.
    pub protocol: &'static str,
    /// The answer's status.
    pub status: u16,
    /// Bytes of the answer's body that were handed to the connection.
    pub bytes: u64,
    /// Until the answer's body came to its end.
    pub took: Duration,
    /// The route; empty: none matched.
    pub route: &'a str,
    /// The last server that it was to go to.
    pub upstream: Option<SocketAddr>,
    /// What became of it.
    pub verdict: Verdict,
    /// The beginning of the operation's hash.
    pub operation: Option<[u8; 6]>,
    /// Its `X-Request-Id`.
    pub request_id: Option<&'a [u8]>,
    /// Its trace.
    pub trace_id: Option<&'a [u8]>,
    /// Its `User-Agent`.
    pub user_agent: Option<&'a [u8]>,
}

/// What all of a line but the values of clients takes at most: names, numbers, addresses; and room to spare.
const FIXED: usize = 768;

impl Line<'_> {
    /// The most bytes that it can take.
    pub(super) fn most(&self) -> usize {
        let text = |value: Option<&str>| value.map_or(0, str::len);
        let bytes = |value: Option<&[u8]>| value.map_or(0, <[u8]>::len);
        let texts = text(self.method) + text(self.path) + text(self.query) + self.route.len();
        let values = bytes(self.request_id) + bytes(self.trace_id) + bytes(self.user_agent);
        // Seven values, none of which is shown beyond its bound.
        FIXED + WIDEST * (texts + values).min(7 * MOST)
    }

    /// Adds it as one JSON object.
    pub(super) fn json(&self, ink: &mut Ink<'_>, stamp: &mut Stamp, query: bool) {
        ink.fixed(b"{\"time\":\"");
        stamp.rfc3339(ink, self.at);
        ink.fixed(b"\",\"client\":\"");
        ink.address(self.client);
        ink.fixed(b"\",\"peer\":\"");
        ink.address(self.peer);
        ink.fixed(b"\",\"method\":");
        quoted(ink, self.method.map(str::as_bytes));
        ink.fixed(b",\"target\":");
        match self.path {
            None => ink.fixed(b"null"),
            Some(path) => {
                ink.fixed(b"\"");
                self.target(ink, path, query, Ink::json);
                ink.fixed(b"\"");
            }
        }
        ink.fixed(b",\"protocol\":\"");
        ink.bytes(self.protocol.as_bytes());
        ink.fixed(b"\",\"status\":");
        ink.padded::<3>(self.status.into());
        ink.fixed(b",\"bytes\":");
        ink.number(self.bytes);
        ink.fixed(b",\"duration\":");
        self.seconds(ink);
        ink.fixed(b",\"route\":");
        quoted(ink, Some(self.route.as_bytes()).filter(|route| !route.is_empty()));
        ink.fixed(b",\"upstream\":");
        optional(ink, self.upstream, b"\"", b"null", Ink::server);
        ink.fixed(b",\"verdict\":\"");
        ink.bytes(self.verdict.label().as_bytes());
        ink.fixed(b"\",\"operation\":");
        optional(ink, self.operation, b"\"", b"null", Ink::hex);
        ink.fixed(b",\"request_id\":");
        quoted(ink, self.request_id);
        ink.fixed(b",\"trace_id\":");
        quoted(ink, self.trace_id);
        ink.fixed(b",\"user_agent\":");
        quoted(ink, self.user_agent);
        ink.fixed(b"}\n");
    }

    /// Adds it as other servers' combined format: who, when, what, status, bytes, no referrer, user agent. Behind that:
    /// duration, route, upstream, verdict, operation, request id, trace id, direct peer.
    pub(super) fn combined(&self, ink: &mut Ink<'_>, stamp: &mut Stamp, query: bool) {
        ink.address(self.client);
        ink.fixed(b" - - [");
        stamp.clf(ink, self.at);
        ink.fixed(b"] \"");
        ink.backslashed(self.method.unwrap_or("-").as_bytes());
        ink.fixed(b" ");
        self.target(ink, self.path.unwrap_or("-"), query, Ink::backslashed);
        ink.fixed(b" ");
        ink.bytes(self.protocol.as_bytes());
        ink.fixed(b"\" ");
        ink.padded::<3>(self.status.into());
        ink.fixed(b" ");
        ink.number(self.bytes);
        ink.fixed(b" \"-\" \"");
        ink.backslashed(self.user_agent.unwrap_or(b"-"));
        ink.fixed(b"\" ");
        self.seconds(ink);
        ink.fixed(b" \"");
        ink.backslashed(if self.route.is_empty() { b"-" } else { self.route.as_bytes() });
        ink.fixed(b"\" ");
        optional(ink, self.upstream, b"", b"-", Ink::server);
        ink.fixed(b" ");
        ink.bytes(self.verdict.label().as_bytes());
        ink.fixed(b" ");
        optional(ink, self.operation, b"", b"-", Ink::hex);
        ink.fixed(b" \"");
        ink.backslashed(self.request_id.unwrap_or(b"-"));
        ink.fixed(b"\" \"");
        ink.backslashed(self.trace_id.unwrap_or(b"-"));
        ink.fixed(b"\" ");
        ink.address(self.peer);
        ink.fixed(b"\n");
    }

    fn target<'a>(&self, ink: &mut Ink<'a>, path: &str, query: bool, spell: impl Fn(&mut Ink<'a>, &[u8])) {
        spell(ink, path.as_bytes());
        if let Some(query) = self.query.filter(|_| query) {
            ink.fixed(b"?");
            spell(ink, query.as_bytes());
        }
    }

    fn seconds(&self, ink: &mut Ink<'_>) {
        ink.number(self.took.as_secs());
        ink.fixed(b".");
        ink.padded::<6>(self.took.subsec_micros());
    }
}

fn quoted(ink: &mut Ink<'_>, value: Option<&[u8]>) {
    optional(ink, value, b"\"", b"null", Ink::json);
}

/// A value in its marks, or what stands for none.
#[inline]
fn optional<'a, T, const MARK: usize, const NONE: usize>(
    ink: &mut Ink<'a>,
    value: Option<T>,
    mark: &[u8; MARK],
    none: &[u8; NONE],
    spell: impl FnOnce(&mut Ink<'a>, T),
) {
    match value {
        None => ink.fixed(none),
        Some(value) => {
            ink.fixed(mark);
            spell(ink, value);
            ink.fixed(mark);
        }
    }
}

/// The text of the last second that was spelled: the next line is mostly of the same.
#[derive(Debug, Default)]
pub(super) struct Stamp {
    second: Option<u64>,
    text: String,
}

impl Stamp {
    fn rfc3339(&mut self, ink: &mut Ink<'_>, at: u64) {
        ink.bytes(self.of(at / 1_000, "%Y-%m-%dT%H:%M:%S"));
        ink.fixed(b".");
        ink.padded::<3>(u32::try_from(at % 1_000).unwrap_or(0));
        ink.fixed(b"Z");
    }

    fn clf(&mut self, ink: &mut Ink<'_>, at: u64) {
        ink.bytes(self.of(at / 1_000, "%d/%b/%Y:%H:%M:%S +0000"));
    }

    fn of(&mut self, second: u64, format: &str) -> &[u8] {
        if self.second != Some(second) {
            let at = i64::try_from(second).ok().and_then(|second| jiff::Timestamp::from_second(second).ok());
            self.text = at.unwrap_or_default().strftime(format).to_string();
            self.second = Some(second);
        }
        self.text.as_bytes()
    }
}
