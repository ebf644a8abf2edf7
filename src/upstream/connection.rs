//! One HTTP/1 connection to a server, used by one request at a time. Which one a request gets is the pool's matter.

use std::fmt;
use std::time::Instant;

use rustls::ProtocolVersion;

use super::stream::Stream;
use crate::clock::Clock;

/// An open connection, in use by one request or idle. Dropped, it closes, whatever is going on.
pub(super) struct Connection {
    pub(super) stream: Stream,
    made: Instant,
    /// How many answers came over it.
    answers: usize,
}

impl Connection {
    /// A connection ready for its first request. Nothing was sent yet.
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, made: Clock::instant(), answers: 0 }
    }

    /// The same, after one more answer.
    pub(super) fn answered(self) -> Self {
        Self { answers: self.answers.saturating_add(1), ..self }
    }

    /// When it was made.
    pub(super) fn made(&self) -> Instant {
        self.made
    }

    /// Whether the event loop has heard that no further request can go over it: the server has closed it, or said
    /// something that nobody asked for.
    pub(super) fn is_over(&mut self) -> bool {
        self.stream.news().is_ready()
    }

    /// The same before it is used again. The socket itself is asked too `if_rested`, since its server may have closed it
    /// after the event loop's last look; and after a first answer, as there are servers that close after each without a
    /// word.
    pub(super) fn is_over_now(&mut self, if_rested: bool) -> bool {
        self.is_over() || (self.answers == 1 || if_rested) && self.stream.look().is_ready()
    }

    /// Whether a server that turns down this gateway's certificate cannot have read the present request. TLS 1.3 lets
    /// a client speak before its certificate was looked at; the server reads nothing of it until it has looked.
    pub(super) fn is_before_admission(&self) -> bool {
        self.answers == 0 && self.stream.tls() == Some(ProtocolVersion::TLSv1_3)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("answers", &self.answers).finish_non_exhaustive()
    }
}
