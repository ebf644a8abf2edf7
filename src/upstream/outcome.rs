//! The one place that judges whether a failed request was sent. Without proof that it was not, it may have been.

use std::error::Error;
use std::fmt;

use rustls::AlertDescription;

use super::sending::Stopped;
use crate::wire::Lapse;
use crate::wire::framing::Fault;

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Proven: not a byte of the request left this gateway, or the server says that it processed none.
    #[error("{0}")]
    NotSent(NotSent),
    /// The upstream may have acted on the request.
    #[error("{0}")]
    Unknown(String),
    /// The same: it was silent for `first_byte_timeout`.
    #[error("no answer within first_byte_timeout")]
    Late,
}

/// A request that was not sent, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct NotSent {
    /// What kept it.
    pub reason: Reason,
    /// The same in words, for logs: it names the server.
    pub detail: String,
}

/// What kept a request from being sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The server's name has no address.
    Dns,
    /// The connection was refused, or could not be made.
    Connect,
    /// The connection was not made within `connect_timeout`.
    Timeout,
    /// TLS was not agreed on: the server could not show who it is, or did not like who this gateway is.
    Tls,
    /// The server said that it did not process the request (HTTP/2), or the request cannot be said to it.
    Refused,
    /// The connection was made, and closed before a byte of the request was written.
    Closed,
    /// The upstream has no server that is healthy.
    NoServer,
    /// No connection was free within `connect_timeout`: `max_connections` are in use.
    Full,
}

impl Reason {
    /// Whether no server was even tried. A request that comes a little later may well go through.
    pub fn is_shortage(self) -> bool {
        match self {
            Self::NoServer | Self::Full => true,
            Self::Dns | Self::Connect | Self::Timeout | Self::Tls | Self::Refused | Self::Closed => false,
        }
    }
}

/// An answer's body broke off: bytes of it, or its end, are missing.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The upstream broke it off.
    #[error("the answer broke off: {0}")]
    Broken(String),
    /// The upstream was silent for `answer_idle_timeout`.
    #[error("the answer stopped short: no byte within answer_idle_timeout")]
    Idle,
    /// The exchange has taken as long as it may.
    #[error("the answer was cut off after total_timeout")]
    Overtime,
}

impl BodyError {
    pub(super) fn new(error: &(dyn Error + 'static)) -> Self {
        Self::Broken(in_words(error))
    }
}

impl From<Lapse> for BodyError {
    fn from(lapse: Lapse) -> Self {
        match lapse {
            Lapse::Idle => Self::Idle,
            Lapse::Total => Self::Overtime,
        }
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error(transparent)]
    Sending(#[from] Stopped),
    #[error(transparent)]
    Answer(#[from] Fault),
    #[error("a field of the answer is none")]
    Field,
    #[error("the upstream switched protocols unasked")]
    Switched,
}

/// What came of trying one connection.
#[derive(Debug)]
pub(super) enum Tried {
    /// The request is untouched: another connection may have it.
    Returned(NotSent),
    /// The request is spent.
    Failed(Failure),
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Returned(why) => why.fmt(f),
            Self::Failed(why) => why.fmt(f),
        }
    }
}

impl NotSent {
    pub(super) fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

/// Judges a request that an HTTP/1 connection could not see through. `begun` says that a byte of it may have been written;
/// `unadmitted`, that its server had not yet looked at the certificate of this gateway.
///
/// Two things are proof of not sent. Not a byte of it was written, and none will be: the connection is gone. Or the
/// server turned down the certificate of this gateway, or its lack, and so never took the connection; then the request
/// may have been read in part, so there is nothing left to send elsewhere. Nor is there where its client broke it off.
pub(super) fn judge(broken: &Broken, begun: bool, unadmitted: bool) -> Tried {
    let detail = in_words(broken);
    let wire = if let Broken::Sending(Stopped::Wire(error)) = broken { Some(error) } else { None };
    let turned_down = unadmitted && wire.is_some_and(|error| is_about_certificate(error));
    let reason = if turned_down { Reason::Tls } else { Reason::Closed };
    match wire {
        _ if begun && !turned_down => Tried::Failed(Failure::Unknown(detail)),
        Some(_) if !begun => Tried::Returned(NotSent::new(reason, detail)),
        _ => Tried::Failed(Failure::NotSent(NotSent::new(reason, detail))),
    }
}

/// Judges a request whose HTTP/2 stream broke before its answer. `begun` says that a part of an answer was there; `whole`,
/// that the request can be sent again.
///
/// Two things are proof that it was not processed (RFC 9113, 8.7): the server says so with `REFUSED_STREAM`, or it goes
/// away and the last stream that it names came before. h2 breaks no stream with the server's GOAWAY but those after it.
pub(super) fn judge_stream(error: &h2::Error, begun: bool, whole: bool) -> Tried {
    let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    let detail = in_words(error);
    if begun || !error.is_remote() || !(refused || error.is_go_away()) {
        return Tried::Failed(Failure::Unknown(detail));
    }
    let why = NotSent::new(Reason::Refused, detail);
    if whole { Tried::Returned(why) } else { Tried::Failed(Failure::NotSent(why)) }
}

/// Whether a server says by an alert of TLS that it does not take this gateway's certificate, or wants one. In TLS 1.3
/// these alerts belong to the handshake alone (RFC 8446, 6.2).
fn is_about_certificate(error: &(dyn Error + 'static)) -> bool {
    use AlertDescription as A;
    causes(error).any(|cause| match tls_error(cause) {
        Some(rustls::Error::AlertReceived(alert)) => matches!(
            alert,
            A::BadCertificate
                | A::UnsupportedCertificate
                | A::CertificateRevoked
                | A::CertificateExpired
                | A::CertificateUnknown
                | A::UnknownCA
                | A::DecryptError
                | A::CertificateRequired
        ),
        _ => false,
    })
}

/// TLS errors come inside of I/O errors, which do not name them as their cause.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    error.downcast_ref::<std::io::Error>()?.get_ref()?.downcast_ref()
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// An error with everything that led to it: many leave their causes out of their own text.
fn in_words(error: &(dyn Error + 'static)) -> String {
    causes(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
