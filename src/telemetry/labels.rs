//! The values that metrics' labels can take: all known at compile time, none from requests.

/// A label value that is known at compile time.
macro_rules! labels {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident => $label:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The value as the metrics write it.
            pub fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)* }
            }
        }
    };
}

labels! {
    /// What became of a request. Every request counts once.
    Verdict {
        /// It ran, and the upstream's answer went back.
        Executed => "executed",
        /// It got the recorded answer.
        Replayed => "replayed",
        /// It was refused as a duplicate of a completed operation.
        Rejected => "rejected",
        /// It was refused: done, but the answer was not kept.
        AlreadyExecuted => "already_executed",
        /// It was refused: an attempt is running.
        InFlight => "in_flight",
        /// It was refused: the key belongs to a different request.
        Mismatch => "mismatch",
        /// It was refused: the outcome is not known.
        InDoubt => "in_doubt",
        /// It had no key.
        KeyMissing => "key_missing",
        /// Its key was no key.
        KeyInvalid => "key_invalid",
        /// Its key was too old to be new, and nothing was known of it.
        KeyExpired => "key_expired",
        /// Its scope's value was not there.
        ScopeMissing => "scope_missing",
        /// The token that says who sent it was not to be believed.
        ScopeInvalid => "scope_invalid",
        /// Whether that token was to be believed could not be found out.
        ScopeUnavailable => "scope_unavailable",
        /// The fingerprint that its client made was missing, malformed, or another request's.
        FingerprintInvalid => "fingerprint_invalid",
        /// The time that goes with it was missing, malformed, or too far off.
        TimestampInvalid => "timestamp_invalid",
        /// Its token was not valid.
        TokenInvalid => "token_invalid",
        /// Its token's time was over, and nothing was known of it.
        TokenExpired => "token_expired",
        /// Its body was over the limit.
        BodyTooLarge => "body_too_large",
        /// Its body did not arrive, or its client left before it was admitted.
        BodyAborted => "body_aborted",
        /// The client's deadline passed while the attempt goes on.
        UpstreamTimeout => "upstream_timeout",
        /// The upstream broke after the request was sent.
        UpstreamFailed => "upstream_failed",
        /// Nothing was sent.
        UpstreamUnreachable => "upstream_unreachable",
        /// A limit was reached.
        Overloaded => "overloaded",
        /// The store could not be asked.
        StoreUnavailable => "store_unavailable",
        /// The record could not be read.
        RecordUnreadable => "record_unreadable",
        /// It passed unguarded while the store was away.
        Unguarded => "unguarded",
        /// It passed a plain route, or had no key on a route that lets such requests pass.
        Passed => "passed",
        /// It passed a shadow route as what would have been a duplicate or a refusal.
        Shadowed => "shadowed",
        /// It asked what is known of an operation.
        LookedUp => "looked_up",
        /// It asked for a token, and got one.
        TokenIssued => "token_issued",
        /// It was about the gateway itself, or had no hop left to go.
        Answered => "answered",
        /// No route matched.
        NoRoute => "no_route",
        /// It was malformed, or refused by rule.
        BadRequest => "bad_request",
    }
}

labels! {
    /// What became of an attempt.
    Outcome {
        /// The answer is remembered.
        Kept => "kept",
        /// The answer freed the key.
        Released => "released",
        /// The outcome is not known.
        Doubted => "doubted",
        /// Nothing was sent.
        NotSent => "not_sent",
    }
}

labels! {
    /// What came of asking the upstream about a doubt.
    ProbeFinding {
        /// The operation was executed.
        Executed => "executed",
        /// It was not, and the key is free.
        Absent => "absent",
        /// The upstream does not know of it, but it may still come.
        Early => "early",
        /// An answer that settles nothing.
        Unknown => "unknown",
        /// No whole answer in time.
        Failed => "failed",
        /// Nothing was asked: the request lacked what the question needs.
        Impossible => "impossible",
        /// Nothing was asked: too many doubts are kept in mind.
        Dropped => "dropped",
    }
}

labels! {
    /// A store call.
    StoreOp {
        /// The first conditional write of an attempt.
        Reserve => "reserve",
        /// A read.
        Load => "load",
        /// A lease's extension.
        Renew => "renew",
        /// The recording of an outcome or a doubt.
        Settle => "settle",
        /// A removal.
        Remove => "remove",
        /// A part of a listing.
        List => "list",
    }
}

labels! {
    /// How a server of an upstream stands.
    ServerState {
        /// It takes requests.
        Healthy => "healthy",
        /// It is left out because requests failed there.
        Ejected => "ejected",
        /// Its health checks fail.
        Unhealthy => "unhealthy",
    }
}

labels! {
    /// What came of a health check.
    CheckResult {
        /// A good answer.
        Passed => "passed",
        /// A bad one, or none in time.
        Failed => "failed",
    }
}

labels! {
    /// What became of a changed configuration.
    ReloadResult {
        /// It is in force.
        Ok => "ok",
        /// It cannot be used; the old one stays.
        Refused => "refused",
    }
}

labels! {
    /// What came of reading the keys that tokens are verified with.
    KeysRead {
        /// They are in use.
        Ok => "ok",
        /// They were not to be had, or of no use; those that were known stay.
        Failed => "failed",
    }
}

labels! {
    /// What came of a token.
    TokenCheck {
        /// It is believed.
        Verified => "verified",
        /// It was believed a moment ago, and still is.
        Remembered => "remembered",
        /// It is not believed.
        Refused => "refused",
        /// No keys were there to verify it with.
        Unverifiable => "unverifiable",
    }
}

labels! {
    /// A limit of time that was reached.
    Timeout {
        /// A client's TLS handshake.
        TlsHandshake => "tls_handshake",
        /// A request's head.
        Header => "header",
        /// The next byte of a request's body.
        BodyIdle => "body_idle",
        /// A request's whole body.
        BodyTotal => "body_total",
        /// The next request of a kept-alive connection.
        KeepAlive => "keep_alive",
        /// The life of a client's connection.
        ConnectionAge => "connection_age",
        /// A client's taking of its answer.
        ClientWrite => "client_write",
        /// A connection to an upstream.
        UpstreamConnect => "upstream_connect",
        /// The head of an upstream's answer.
        FirstByte => "first_byte",
        /// The next byte of an upstream's answer.
        UpstreamIdle => "upstream_idle",
        /// What a client waits.
        Response => "response",
        /// An attempt.
        Attempt => "attempt",
        /// A whole exchange on a plain route.
        Total => "total",
    }
}

labels! {
    /// What the Bloom filter said.
    FilterAnswer {
        /// Surely not seen by this gateway.
        New => "new",
        /// Perhaps seen.
        Perhaps => "perhaps",
    }
}

labels! {
    /// What a connection goes through before its first request.
    Handshake {
        /// The PROXY header.
        Proxy => "proxy",
        /// TLS.
        Tls => "tls",
    }
}
