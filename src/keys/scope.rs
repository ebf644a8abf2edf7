//! Whose key it is, and what a replay must show. It trusts what the configuration tells it to trust.

use http::{
    HeaderMap, HeaderName,
    header::{AUTHORIZATION, COOKIE},
};

use super::frame::{Frame, Pieces, print, sha256};
use super::header::{self, Line};
use super::{Caller, Carrier, CertificateName, Claim, Claims, Refusal, Scope, Settings};
use crate::machine::Print;
use crate::wire::Certificate;

/// The kind of a value that is a digest of credentials.
pub(super) const CREDENTIALS: &str = "credentials";
/// The kind of a value that is a digest of a client's certificate.
pub(super) const CERTIFICATE: &str = "client certificate";
/// The kind of a value that is a claim of the client's token.
const CLAIM: &str = "JWT claim";
/// The kind of one that is a number, in canonical form.
pub(super) const NUMBER_CLAIM: &str = "JWT claim (a number)";
/// The kind of the value that says who issued the token.
pub(super) const ISSUER: &str = "JWT issuer";

/// One value of a scope.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Value<'a> {
    /// The kind: values of different kinds never make the same scope.
    pub(super) kind: &'static str,
    /// Which header or cookie, or what of the certificate.
    pub(super) name: &'a str,
    /// As sent; of credentials and certificates only a digest.
    pub(super) bytes: Vec<u8>,
}

/// The values that make a request's scope.
pub(super) fn values<'a>(scope: &'a Scope, headers: &HeaderMap, caller: &Caller) -> Result<Vec<Value<'a>>, Refusal> {
    let mut values = Vec::new();
    for leaf in leaves(scope) {
        let (kind, name, bytes) = match leaf {
            Scope::TrustedHeader(name) => ("trusted header", name.as_str(), header_value(headers, name)?),
            Scope::Header(name) => ("header", name.as_str(), header_value(headers, name)?),
            Scope::Cookie(name) => ("cookie", name.as_str(), cookie(headers, name)?),
            Scope::Authorization => {
                let value = header_value(headers, &AUTHORIZATION)?;
                (CREDENTIALS, AUTHORIZATION.as_str(), sha256(&value).to_vec())
            }
            Scope::ClientCertificate(name) => {
                (CERTIFICATE, name.word(), certificate(caller.certificate.as_ref(), *name)?)
            }
            Scope::JwtClaim(pointer, _) => {
                let (kind, bytes) = claim(caller.claims.as_deref(), pointer)?;
                (kind, pointer.as_str(), bytes)
            }
            Scope::PathParameter(name) => ("path parameter", name.as_str(), parameter(caller, name)?),
            Scope::None => continue,
            // What is in there would not count.
            Scope::All(_) => return Err(Refusal::ScopeMissing("The scope has several values in one.".to_owned())),
        };
        values.push(Value { kind, name, bytes });
    }
    values.extend(issuer(scope, caller.claims.as_deref()));
    Ok(values)
}

/// Appends a scope to an operation's identity.
pub(super) fn frame_values(frame: &mut Frame, values: &[Value<'_>]) {
    frame.label("scope").count(values.len());
    for value in values {
        frame.label_of("scope", value.name, "kind").part(value.kind);
        frame.label_of("scope", value.name, "name").part(value.name);
        frame.label_of("scope", value.name, "value").part(&value.bytes);
    }
}

/// The fields that a scope is read from.
pub(super) fn header_names(scope: &Scope) -> impl Iterator<Item = HeaderName> {
    leaves(scope).iter().filter_map(|leaf| match leaf {
        Scope::TrustedHeader(name) | Scope::Header(name) => Some(name.clone()),
        Scope::Cookie(_) => Some(COOKIE),
        Scope::Authorization => Some(AUTHORIZATION),
        Scope::JwtClaim(_, carrier) => Some(carrier.header_name()),
        Scope::ClientCertificate(_) | Scope::PathParameter(_) | Scope::All(_) | Scope::None => None,
    })
}

impl Scope {
    /// Whether it is one value of the request's own.
    pub(super) fn is_one_value(&self) -> bool {
        use Scope::{Cookie, Header, JwtClaim, PathParameter, TrustedHeader};
        matches!(leaves(self), [TrustedHeader(_) | Header(_) | Cookie(_) | JwtClaim(..) | PathParameter(_)])
    }

    /// The header in it that an authenticating proxy sets, if there is one: its word counts only where it comes from one.
    pub fn trusted_header(&self) -> Option<&HeaderName> {
        leaves(self).iter().find_map(|leaf| match leaf {
            Self::TrustedHeader(name) => Some(name),
            _ => None,
        })
    }

    /// What the token comes in that it reads, if it reads one.
    pub fn carrier(&self) -> Option<&Carrier> {
        leaves(self).iter().find_map(|leaf| match leaf {
            Self::JwtClaim(_, carrier) => Some(carrier),
            _ => None,
        })
    }

    /// The parameters of the route's path that it reads, by name.
    pub fn path_parameters(&self) -> impl Iterator<Item = &str> {
        leaves(self).iter().filter_map(|leaf| match leaf {
            Self::PathParameter(name) => Some(name.as_str()),
            _ => None,
        })
    }
}

/// Digest of what a replay must show again; none when nothing is required.
pub(super) fn credentials(settings: &Settings, headers: &HeaderMap) -> Option<Print> {
    if settings.require_same.is_empty() {
        return None;
    }
    let mut frame = Frame::new("oncegate credentials 1");
    frame_headers(&mut frame, &settings.require_same, headers);
    Some(print(&frame.finish()))
}

/// Appends all lines of the named fields. An absent field is not an empty one.
pub(super) fn frame_headers<H: Pieces>(frame: &mut Frame<H>, names: &[HeaderName], headers: &HeaderMap) {
    frame.label("headers").count(names.len());
    for name in names {
        frame.label_of("header", name, "name").part(name);
        frame.label_of("header", name, "line").count(headers.get_all(name).iter().count());
        headers.get_all(name).iter().for_each(|line| frame.part(line));
    }
}

/// A scope's own parts, in order, with `all` taken apart.
fn leaves(scope: &Scope) -> &[Scope] {
    match scope {
        Scope::All(parts) => parts,
        leaf => std::slice::from_ref(leaf),
    }
}

fn header_value(headers: &HeaderMap, name: &HeaderName) -> Result<Vec<u8>, Refusal> {
    let missing = |what| Err(Refusal::ScopeMissing(format!("The scope's header {name} {what}.")));
    match header::line(headers, name) {
        Line::Absent => missing("is not there"),
        Line::Several => missing("is on several lines"),
        Line::One(b"") => missing("is blank"),
        Line::One(value) => Ok(value.to_vec()),
    }
}

fn certificate(shown: Option<&Certificate>, name: CertificateName) -> Result<Vec<u8>, Refusal> {
    let missing = |what: &str| Refusal::ScopeMissing(format!("The client {what}."));
    let shown = shown.ok_or_else(|| missing("shows no certificate"))?;
    match name {
        CertificateName::Fingerprint => Ok(shown.fingerprint.to_vec()),
        CertificateName::Subject => {
            shown.subject.map(Vec::from).ok_or_else(|| missing("shows a certificate without a subject"))
        }
    }
}

/// A claim's kind and value.
fn claim(claims: Option<&Claims>, pointer: &str) -> Result<(&'static str, Vec<u8>), Refusal> {
    let claim = claims.ok_or("cannot be read: there is no token").and_then(|claims| claims.claim(pointer));
    match claim {
        Ok(Claim::Text(text)) => Ok((CLAIM, text.into_bytes())),
        Ok(Claim::Number(text)) => Ok((NUMBER_CLAIM, text.into_bytes())),
        Err(what) => Err(Refusal::ScopeMissing(format!("The scope's claim {pointer} of the token {what}."))),
    }
}

/// Who issued the token, if that is read and says so: the same subject of two issuers is two callers.
fn issuer(scope: &Scope, claims: Option<&Claims>) -> Option<Value<'static>> {
    let [issuer] = scope.carrier().and(claims)?.values(["/iss"]);
    Some(Value { kind: ISSUER, name: "/iss", bytes: issuer? })
}

fn parameter(caller: &Caller, name: &str) -> Result<Vec<u8>, Refusal> {
    let missing = |what| Err(Refusal::ScopeMissing(format!("The scope's path parameter {name} {what}.")));
    match caller.parameters.iter().find(|(own, _)| own == name) {
        None => missing("is not there once, in one reading, as UTF-8"),
        Some((_, value)) if value.trim().is_empty() => missing("is blank"),
        Some((_, value)) => Ok(value.clone().into_bytes()),
    }
}

/// The value of a cookie. HTTP/2 may send cookies on several lines, but none may come twice.
pub(super) fn cookie(headers: &HeaderMap, name: &str) -> Result<Vec<u8>, Refusal> {
    let crumbs = headers.get_all(COOKIE).into_iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
    let mut found = crumbs.filter_map(|crumb| {
        let at = crumb.iter().position(|byte| *byte == b'=')?;
        (crumb[..at].trim_ascii() == name.as_bytes()).then(|| crumb[at + 1..].trim_ascii())
    });
    let missing = |what| Err(Refusal::ScopeMissing(format!("The scope's cookie {name} {what}.")));
    match (found.next(), found.next()) {
        (None, _) => missing("is not there"),
        (Some(_), Some(_)) => missing("is there twice"),
        (Some(b""), None) => missing("is blank"),
        (Some(value), None) => Ok(value.to_vec()),
    }
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(fields: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn hash(scope: &Scope, fields: &[(&str, &str)]) -> [u8; 32] {
        let mut frame = Frame::new("test");
        frame_values(&mut frame, &values(scope, &headers(fields), &Caller::default()).unwrap());
        frame.finish()
    }

    fn name(name: &'static str) -> HeaderName {
        HeaderName::from_static(name)
    }

    #[test]
    fn scopes_of_different_kinds_never_meet() {
        let fields = [("authorization", "v"), ("x-a", "v"), ("x-b", "v"), ("cookie", "x-a=v")];
        let all = [
            Scope::None,
            Scope::Header(name("x-a")),
            Scope::TrustedHeader(name("x-a")),
            Scope::Header(name("x-b")),
            Scope::Cookie("x-a".to_owned()),
            Scope::Header(AUTHORIZATION),
            Scope::Authorization,
            Scope::All(vec![Scope::Header(name("x-a")), Scope::Header(name("x-b"))]),
        ]
        .map(|scope| hash(&scope, &fields));
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{at}");
        }
    }

    #[test]
    fn parts_of_a_scope_cannot_flow_into_each_other() {
        let scope = Scope::All(vec![Scope::Header(name("x-a")), Scope::Header(name("x-b"))]);
        assert_ne!(hash(&scope, &[("x-a", "1"), ("x-b", "23")]), hash(&scope, &[("x-a", "12"), ("x-b", "3")]));
        assert_ne!(hash(&scope, &[("x-a", "1"), ("x-b", "2")]), hash(&scope, &[("x-a", "2"), ("x-b", "1")]));
    }

    #[test]
    fn a_value_that_is_absent_blank_or_double_is_missing() {
        let header = Scope::Header(name("x-a"));
        let cookie = Scope::Cookie("sid".to_owned());
        let cases: [(&Scope, &[(&str, &str)]); 9] = [
            (&header, &[]),
            (&header, &[("x-a", " ")]),
            (&header, &[("x-a", "1"), ("x-a", "1")]),
            (&cookie, &[("x-a", "1")]),
            (&cookie, &[("cookie", "sid=")]),
            (&cookie, &[("cookie", "SID=1; xsid=1; sid")]),
            (&cookie, &[("cookie", "sid=1; a=b; sid=1")]),
            (&cookie, &[("cookie", "sid=1"), ("cookie", "sid=2")]),
            (&Scope::Authorization, &[]),
        ];
        for (scope, fields) in cases {
            assert!(
                matches!(values(scope, &headers(fields), &Caller::default()), Err(Refusal::ScopeMissing(_))),
                "{scope:?} {fields:?}"
            );
        }
        assert!(values(&Scope::All(vec![Scope::None, header]), &headers(&[]), &Caller::default()).is_err());
    }

    #[test]
    fn a_certificate_names_its_owner() {
        let own = Certificate { fingerprint: [1; 32], subject: Some([2; 32]) };
        let renewed = Certificate { fingerprint: [3; 32], ..own.clone() };
        let nameless = Certificate { subject: None, ..own.clone() };
        let bytes = |name, shown: Option<&Certificate>| {
            let scope = Scope::ClientCertificate(name);
            let caller = Caller { certificate: shown.cloned(), ..Caller::default() };
            values(&scope, &headers(&[]), &caller).map(|values| values[0].bytes.clone())
        };
        for name in [CertificateName::Fingerprint, CertificateName::Subject] {
            assert!(matches!(bytes(name, None), Err(Refusal::ScopeMissing(_))));
        }
        assert_ne!(
            bytes(CertificateName::Fingerprint, Some(&own)),
            bytes(CertificateName::Fingerprint, Some(&renewed))
        );
        assert_eq!(bytes(CertificateName::Subject, Some(&own)), bytes(CertificateName::Subject, Some(&renewed)));
        assert!(bytes(CertificateName::Fingerprint, Some(&nameless)).is_ok());
        assert!(bytes(CertificateName::Subject, Some(&nameless)).is_err());
    }

    #[test]
    fn a_cookie_is_found_among_others_and_over_lines() {
        let fields = headers(&[("cookie", "a=b; sid = x=y ;c=d"), ("cookie", "e=f")]);
        assert_eq!(values(&Scope::Cookie("sid".to_owned()), &fields, &Caller::default()).unwrap()[0].bytes, b"x=y");
    }
}
