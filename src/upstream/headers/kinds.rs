//! Which kinds of fields a message has, found in one pass over their names: most messages have few of those that somebody
//! asks for, and each question costs more than the pass. Values are not looked at.

use std::sync::LazyLock;

use http::{HeaderMap, HeaderName};

use crate::wire::framing::Known;

/// Kinds of fields; a message has all of those that one of its fields is of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kinds(u32);

impl Kinds {
    /// `Connection`.
    pub const CONNECTION: Self = Self(1);
    /// `Transfer-Encoding`.
    pub const TRANSFER_ENCODING: Self = Self(1 << 1);
    /// `Upgrade`.
    pub const UPGRADE: Self = Self(1 << 2);
    /// Others that speak of one connection only.
    pub const HOP: Self = Self(1 << 3);
    /// The gateway's own, in any spelling.
    pub const OURS: Self = Self(1 << 4);
    /// The gateway's marks under names that others use too.
    pub const MARK: Self = Self(1 << 5);
    /// `Expect`.
    pub const EXPECT: Self = Self(1 << 6);
    /// `Origin`.
    pub const ORIGIN: Self = Self(1 << 7);
    /// `Via`.
    pub const VIA: Self = Self(1 << 8);
    /// Names with an underscore.
    pub const UNDERSCORE: Self = Self(1 << 9);
    /// `Forwarded`, and what begins with `X-Forwarded-` in any spelling.
    pub const FORWARDING: Self = Self(1 << 10);
    /// `traceparent` and `tracestate`.
    pub const TRACE: Self = Self(1 << 11);
    /// `X-Request-Id`.
    pub const REQUEST_ID: Self = Self(1 << 12);
    /// What asks for another method than the request's own, in any spelling.
    pub const OVERRIDE: Self = Self(1 << 13);
    /// `Idempotency-Key`.
    pub const IDEMPOTENCY_KEY: Self = Self(1 << 14);

    /// Those of a message.
    pub fn of(headers: &HeaderMap) -> Self {
        headers.keys().fold(Self::default(), |all, name| all.and(Self::one(name)))
    }

    /// These and others.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether one of `others` is among these.
    pub const fn any(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Those that one field is of.
    pub fn one(name: &HeaderName) -> Self {
        Self::named(name.as_str())
    }

    /// Those that a field with this name is of, which is in lower case.
    pub(super) fn named(name: &str) -> Self {
        static KNOWN: LazyLock<[Kinds; Known::COUNT]> =
            LazyLock::new(|| Known::all().map(|known| Kinds::in_words(known.name().as_str())));
        let known = Known::of(name.as_bytes());
        known.map_or_else(|| Self::in_words(name), |known| KNOWN[known.place()])
    }

    fn in_words(name: &str) -> Self {
        if name.as_bytes().contains(&b'_') {
            // CGI-like servers cannot tell it from one with hyphens.
            return Self::UNDERSCORE.and(Self::in_any_spelling(&name.replace('_', "-")));
        }
        match name.as_bytes().first() {
            Some(b'c') if name == "connection" => Self::CONNECTION,
            Some(b'e') if name == "expect" => Self::EXPECT,
            Some(b'f') if name == "forwarded" => Self::FORWARDING,
            Some(b'h') if name == "http2-settings" => Self::HOP,
            Some(b'i') => Self::in_i(name),
            Some(b'k') if name == "keep-alive" => Self::HOP,
            Some(b'o') if name == "origin" => Self::ORIGIN,
            Some(b'p') => Self::in_p(name),
            Some(b't') => Self::in_t(name),
            Some(b'u') if name == "upgrade" => Self::UPGRADE,
            Some(b'v') if name == "via" => Self::VIA,
            Some(b'x') if name == "x-request-id" => Self::REQUEST_ID,
            Some(b'x') if name == "x-idempotent-retry" => Self::MARK,
            Some(b'o' | b'x') => Self::in_any_spelling(name),
            _ => Self::default(),
        }
    }

    fn in_i(name: &str) -> Self {
        match name {
            "idempotency-key" => Self::IDEMPOTENCY_KEY,
            "idempotent-replayed" | "idempotency-expires" => Self::MARK,
            _ => Self::default(),
        }
    }

    fn in_p(name: &str) -> Self {
        match name {
            "proxy-authenticate" | "proxy-authentication-info" | "proxy-authorization" | "proxy-connection" => {
                Self::HOP
            }
            _ => Self::default(),
        }
    }

    fn in_t(name: &str) -> Self {
        match name {
            "te" | "trailer" => Self::HOP,
            "transfer-encoding" => Self::TRANSFER_ENCODING,
            "traceparent" | "tracestate" => Self::TRACE,
            _ => Self::default(),
        }
    }

    fn in_any_spelling(name: &str) -> Self {
        match name {
            "x-http-method-override" | "x-http-method" | "x-method-override" => Self::OVERRIDE,
            _ if name.starts_with("x-forwarded-") => Self::FORWARDING,
            _ if name.starts_with("oncegate-") => Self::OURS,
            _ => Self::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH: [(Kinds, &[&str]); 15] = [
        (Kinds::CONNECTION, &["connection"]),
        (Kinds::TRANSFER_ENCODING, &["transfer-encoding"]),
        (Kinds::UPGRADE, &["upgrade"]),
        (
            Kinds::HOP,
            &[
                "http2-settings",
                "keep-alive",
                "proxy-authenticate",
                "proxy-authentication-info",
                "proxy-authorization",
                "proxy-connection",
                "te",
                "trailer",
            ],
        ),
        (Kinds::OURS, &["oncegate-operation", "oncegate-", "oncegate-x"]),
        (Kinds::MARK, &["idempotent-replayed", "x-idempotent-retry", "idempotency-expires"]),
        (Kinds::EXPECT, &["expect"]),
        (Kinds::ORIGIN, &["origin"]),
        (Kinds::VIA, &["via"]),
        (Kinds::FORWARDING, &["forwarded", "x-forwarded-for", "x-forwarded-port", "x-forwarded-"]),
        (Kinds::TRACE, &["traceparent", "tracestate"]),
        (Kinds::REQUEST_ID, &["x-request-id"]),
        (Kinds::OVERRIDE, &["x-http-method-override", "x-http-method", "x-method-override"]),
        (Kinds::IDEMPOTENCY_KEY, &["idempotency-key"]),
        (
            Kinds(0),
            &["host", "accept", "content-length", "cookie", "oncegate", "x-forwarded", "x-via", "proxy", "te-", "x"],
        ),
    ];

    fn one(name: &str) -> Kinds {
        Kinds::one(&name.parse().unwrap())
    }

    #[test]
    fn each_name_is_of_one_kind() {
        for (kind, names) in EACH {
            for name in names {
                assert_eq!(one(name), kind, "{name}");
            }
        }
    }

    #[test]
    fn what_servers_take_for_another_name_is_of_its_kind_too() {
        let in_any_spelling = Kinds::OURS.and(Kinds::FORWARDING).and(Kinds::OVERRIDE);
        for (kind, names) in EACH {
            for name in names.iter().filter(|name| name.contains('-')) {
                let expected = if in_any_spelling.any(kind) { Kinds::UNDERSCORE.and(kind) } else { Kinds::UNDERSCORE };
                assert_eq!(one(&name.replace('-', "_")), expected, "{name}");
                assert_eq!(one(&name.replacen('-', "_", 1)), expected, "{name}");
            }
        }
    }

    #[test]
    fn a_message_has_the_kinds_of_all_its_fields() {
        let names = ["host", "via", "x_a", "via", "te"];
        let headers = names.iter().map(|name| (name.parse().unwrap(), http::HeaderValue::from_static("1"))).collect();
        assert_eq!(Kinds::of(&headers), Kinds::VIA.and(Kinds::UNDERSCORE).and(Kinds::HOP));
    }
}
