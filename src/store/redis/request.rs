//! What is asked of a server in one piece, and what comes back. It sends nothing.

use redis::Value;

use super::settings::Wait;

/// What goes over a connection in one piece.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    /// As it is sent.
    pub(super) command: &'a [u8],
    /// Who else must have what the command has written, before it counts.
    pub(super) wait: Option<Wait>,
    /// Whether a node of a cluster is asked for a key that it is still being given.
    pub(super) asking: bool,
    /// Whether it is sent once more when its connection breaks.
    pub(super) again: bool,
}

impl<'a> Request<'a> {
    pub(super) fn plain(command: &'a [u8]) -> Self {
        Self { command, wait: None, asking: false, again: true }
    }
}

/// What came back. Either may be an error of the server's.
pub(super) struct Answer {
    pub(super) reply: Value,
    /// The reply to `WAIT`, where it was asked for.
    pub(super) acknowledged: Option<Value>,
}
