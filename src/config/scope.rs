//! Whose a key is: as the file says it, and as the floors below are told.

use http::HeaderName;

use super::around::Around;
use super::define::{choice, one_of};
use super::finding::{Place, Report};
use super::jwt::Tokens;
use super::names::checked;
use super::reader::{At, Field};
use super::values::{Text, not_empty};
use crate::keys;

one_of! {
    /// Whose a key is.
    Scope {
        /// A header that an authenticating proxy sets, so that it proves the caller.
        "trusted_header" => TrustedHeader(HeaderName),
        /// A header that the client sets: its own word.
        "header" => Header(HeaderName),
        /// A cookie.
        "cookie" => Cookie(Text),
        /// The digest of the Authorization header.
        "authorization" => Authorization(Hash),
        /// The client's certificate, or its subject; needs `tls.client_certificates`.
        "client_certificate" => ClientCertificate(keys::CertificateName),
        /// A claim of the client's JSON Web Token, by name, or by a JSON pointer when it begins with a slash; needs the section `jwt`, and proves the caller.
        "jwt_claim" => JwtClaim(Text),
        /// A parameter of the route's path, by name.
        "path_parameter" => PathParameter(Text),
        /// Several values together.
        "all" => All(Vec<Field<Scope>>),
    }
    words {
        /// One scope for all callers.
        "none" => Nobody
    }
    later {}
}

/// The only form of `authorization`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hash;

choice! { Hash { "hash" => Self } later {} }
choice! {
    keys::CertificateName { "fingerprint" => Self::Fingerprint, "subject" => Self::Subject }
    later {}
}

/// Translates a route's scope.
pub(super) fn compile(at: &At<Scope>, around: &Around<'_>, report: &mut Report) -> Option<keys::Scope> {
    let warning = match &at.value {
        Scope::TrustedHeader(_) if around.anybody_connects => {
            Some("is taken from whoever connects: list the proxies that set it in `trusted_proxies`")
        }
        Scope::TrustedHeader(_)
        | Scope::ClientCertificate(keys::CertificateName::Subject)
        | Scope::JwtClaim(_)
        | Scope::All(_) => None,
        Scope::ClientCertificate(_) => {
            Some("changes when a certificate is renewed: a retry after it is a new operation")
        }
        Scope::Header(_) => Some("a header is the client's own word: another client can name the same scope"),
        Scope::Cookie(_) => Some("a cookie is the client's own word, unless the upstream verifies it"),
        Scope::PathParameter(_) => {
            Some("a path is the client's own word, unless the upstream holds it against the caller")
        }
        Scope::Authorization(_) => Some("changes with each refresh of a token: a retry after it is a new operation"),
        Scope::Nobody => Some("all callers share their keys: one can meet another's operation"),
    };
    if let Some(warning) = warning {
        report.warn(&at.place, warning);
    }
    Some(match &at.value {
        Scope::TrustedHeader(name) => keys::Scope::TrustedHeader(checked(name, &at.place, report)?),
        Scope::Header(name) => keys::Scope::Header(checked(name, &at.place, report)?),
        Scope::Cookie(name) => keys::Scope::Cookie(name.0.clone()),
        Scope::Authorization(_) => keys::Scope::Authorization,
        Scope::ClientCertificate(name) => {
            if !around.client_certificates {
                report.fault(&at.place, "no client is asked for a certificate: set `tls.client_certificates`");
                return None;
            }
            keys::Scope::ClientCertificate(*name)
        }
        Scope::JwtClaim(name) => claim(&at.place, &name.0, around, report)?,
        Scope::PathParameter(name) => parameter(&at.place, &name.0, around, report),
        Scope::Nobody => keys::Scope::None,
        Scope::All(parts) => {
            not_empty(&at.place, parts.is_empty(), "`{ trusted_header: X-Customer-Id }`", report);
            let parts: Vec<_> = parts.iter().map(|part| inner(part.at()?, around, report)).collect();
            keys::Scope::All(parts.into_iter().collect::<Option<_>>()?)
        }
    })
}

fn claim(place: &Place, name: &str, around: &Around<'_>, report: &mut Report) -> Option<keys::Scope> {
    match &around.tokens {
        Tokens::From(carrier) => Some(keys::Scope::JwtClaim(keys::claim_pointer(name), carrier.clone())),
        Tokens::Unclear => None,
        Tokens::Absent => {
            let message =
                "needs the section `jwt`, which says what proves a token: write `jwt: { jwks_url: \"https://...\" }`";
            report.fault(place, message);
            None
        }
    }
}

fn parameter(place: &Place, name: &str, around: &Around<'_>, report: &mut Report) -> keys::Scope {
    if ASKED.contains(&name) {
        let message =
            format!("`{name}` means something else where clients ask for their operations: rename `{{{name}}}`");
        report.fault(place, message);
    }
    if let Some(path) = around.path.filter(|path| path.parameter(name).is_none()) {
        let message = format!("the route's path `{path}` has no parameter `{{{name}}}` of one segment");
        report.fault(place, message);
    }
    keys::Scope::PathParameter(name.to_owned())
}

/// What a question for an operation has parameters for: `?route=` and `?wait=`.
const ASKED: [&str; 2] = ["route", "wait"];

fn inner(at: &At<Scope>, around: &Around<'_>, report: &mut Report) -> Option<keys::Scope> {
    if matches!(at.value, Scope::All(_) | Scope::Nobody) {
        report.fault(&at.place, "cannot stand inside of `all`: use any other");
        return None;
    }
    compile(at, around, report)
}

/// Whether it leaves nothing for the credentials to prove.
pub(super) fn proves_the_caller(scope: &keys::Scope) -> bool {
    match scope {
        keys::Scope::TrustedHeader(_) | keys::Scope::ClientCertificate(_) | keys::Scope::JwtClaim(..) => true,
        keys::Scope::All(parts) => parts.iter().any(proves_the_caller),
        keys::Scope::Header(_)
        | keys::Scope::Cookie(_)
        | keys::Scope::PathParameter(_)
        | keys::Scope::Authorization
        | keys::Scope::None => false,
    }
}
