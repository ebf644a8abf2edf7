//! JSON Web Tokens as a scope reads them: the section as written, and what it becomes. Says nothing of any secret.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use http::{HeaderName, Uri};
use serde_json::{Value as Json, json};

use super::client_tls::{self, ClientTls};
use super::define::section;
use super::finding::{Place, Report};
use super::names::checked;
use super::reader::{At, Field, Schemas, Setting, parsed, scalar_schema, values};
use super::tree::Node;
use super::values::{DAY, GIB, HOUR, KIB, MIB, MINUTE, SECOND, Size, Span, Text, not_empty, span_text};
use crate::jwt::{Algorithm, KeySet, Origin, Proof, Reading, Rules, Secret, Settings};
use crate::keys::Carrier;
use crate::tls::client;

/// How many secrets there may be: each costs a digest.
const MOST_SECRETS: usize = 16;

section! {
    /// JSON Web Tokens that say who calls, for routes whose scope is a `jwt_claim`: what proves them, and what they must say.
    Jwt {
        /// A file with the issuer's public keys, a JSON Web Key Set. It is read again every `refresh`.
        jwks_file: Text = Optional,
        /// Instead: the address of that set, `https://...` or `http://...`.
        jwks_url: Text = Optional,
        /// TLS with the server behind `jwks_url`.
        tls: ClientTls = Optional,
        /// How often the keys are read again.
        refresh: Span<SECOND, DAY> = Default("5m"),
        /// The least time between two readings: a token whose key is not known causes one, out of turn.
        refresh_pause: Span<100, HOUR> = Default("10s"),
        /// How long a reading may take, and how long a request may wait for one.
        fetch_timeout: Span<100, MINUTE> = Default("5s"),
        /// The largest set of keys.
        jwks_size_limit: Size<KIB, { 4 * MIB }> = Default("256KiB"),
        /// Instead of public keys: secrets that are shared with the issuer (HS256 and the like), 32 bytes or more each. Any of them verifies.
        secrets: Vec<Field<Text>> = Optional,
        /// Instead of both: `true` takes tokens at their word, because a proxy in front has verified them. Once there are `trusted_proxies`, from these alone.
        unverified: bool = Default("false"),
        /// What tokens may be signed with (default: all that fit: `RS256` to `EdDSA` for public keys, `HS256` and the like for secrets). `none` never.
        algorithms: Vec<Field<Algorithm>> = Optional,
        /// Issuers, of which a token must name one as `iss`; none: any.
        issuer: Vec<Field<Text>> = Default("[]"),
        /// Audiences, of which a token must name one in `aud`; none: any.
        audience: Vec<Field<Text>> = Default("[]"),
        /// How far off the issuer's clock may be, for `exp` and `nbf`.
        leeway: Span<0, HOUR> = Default("60s"),
        /// A header that the token comes in, by itself (default: `Authorization: Bearer`).
        header: HeaderName = Optional,
        /// Instead: a cookie that it comes in.
        cookie: Text = Optional,
        /// The longest token.
        token_size_limit: Size<256, { 64 * KIB }> = Default("8KiB"),
        /// How much memory verified tokens may take, so that each is verified once; 0: none.
        cache: Size<0, GIB> = Default("4MiB"),
    }
    later {}
}

impl Setting for Algorithm {
    fn read(node: &Node, report: &mut Report) -> Option<Self> {
        let known = || Self::all(false).chain(Self::all(true)).map(Self::name).collect::<Vec<_>>().join(", ");
        parsed(node, "the name of an algorithm", report, |text| {
            Self::of(text).ok_or_else(|| format!("`{text}` is no algorithm for tokens: write one of {}", known()))
        })
    }

    fn schema(_: &mut Schemas) -> Json {
        let known: Vec<&str> = Self::all(false).chain(Self::all(true)).map(Self::name).collect();
        scalar_schema(&json!({ "enum": known }))
    }
}

/// What a route is told of tokens.
pub(super) enum Tokens {
    /// No section says how they are believed.
    Absent,
    /// A section is there, and does not say what they come in.
    Unclear,
    /// They come in this.
    From(Carrier),
}

/// What routes are told of the section.
pub(super) fn tokens(section: &Field<Jwt>) -> Tokens {
    let carrier = |at: &At<Jwt>| match (&at.value.header, &at.value.cookie) {
        (Field::Given(name), Field::Absent) => Tokens::From(Carrier::Header(name.value.clone())),
        (Field::Absent, Field::Given(name)) => Tokens::From(Carrier::Cookie(name.value.0.clone())),
        (Field::Absent, Field::Absent) => Tokens::From(Carrier::Bearer),
        _ => Tokens::Unclear,
    };
    match section {
        Field::Absent => Tokens::Absent,
        Field::Broken => Tokens::Unclear,
        Field::Given(at) => carrier(at),
    }
}

/// Translates the section. `proxies` is whether somebody is trusted.
pub(super) fn compile(section: &Field<Jwt>, proxies: bool, report: &mut Report) -> Option<Settings> {
    let at = section.at()?;
    let section = &at.value;
    let proof = proof(at, proxies, report);
    let carrier = carrier(section, report);
    let (proof, carrier) = (proof?, carrier?);
    Some(Settings {
        algorithms: algorithms(section, &proof, report)?,
        proof,
        carrier,
        rules: Rules {
            issuers: values(section.issuer.value()?)?.into_iter().map(|text| text.0).collect(),
            audiences: values(section.audience.value()?)?.into_iter().map(|text| text.0).collect(),
            leeway: section.leeway.value()?.0,
        },
        size_limit: section.token_size_limit.value()?.0,
        cache: section.cache.value()?.0,
    })
}

/// The one of the four ways that is stated.
fn proof(at: &At<Jwt>, proxies: bool, report: &mut Report) -> Option<Proof> {
    let section = &at.value;
    let unverified = section.unverified.at()?;
    let stated = [
        ("jwks_file", section.jwks_file.at().map(|at| &at.place)),
        ("jwks_url", section.jwks_url.at().map(|at| &at.place)),
        ("secrets", section.secrets.at().map(|at| &at.place)),
        ("unverified", unverified.value.then_some(&unverified.place)),
    ];
    let mut stated = stated.into_iter().filter_map(|(name, place)| place.map(|place| (name, place)));
    let Some((first, _)) = stated.next() else {
        let message = "says nothing that proves a token: write `jwks_url`, `jwks_file` or `secrets`; or `unverified: true` \
                       where a proxy in front has verified it";
        // What is stated and broken has been reported.
        let whole = ![matches!(section.jwks_file, Field::Broken), matches!(section.jwks_url, Field::Broken)]
            .into_iter()
            .chain([matches!(section.secrets, Field::Broken)])
            .any(|broken| broken);
        if whole {
            report.fault(&at.place, message);
        }
        return None;
    };
    for (_, place) in stated {
        report.fault(place, format!("stands beside `{first}`: one of them proves a token, remove the other"));
    }
    if !matches!(first, "jwks_url")
        && let Some(tls) = section.tls.at()
    {
        report.fault(&tls.place, "belongs to `jwks_url` only: remove it");
    }
    match first {
        "jwks_file" => file(section.jwks_file.at()?, section, report),
        "jwks_url" => url(section.jwks_url.at()?, section, report),
        "secrets" => secrets(section.secrets.at()?, report),
        _ => {
            warn_of_trust(&unverified.place, proxies, report);
            Some(Proof::Elsewhere)
        }
    }
}

fn warn_of_trust(place: &Place, proxies: bool, report: &mut Report) {
    let message = if proxies {
        "takes tokens of `trusted_proxies` at their word: these have to verify every token"
    } else {
        "takes every token at its word: whoever reaches this gateway can name any caller; let a proxy verify them, and \
         state it in `trusted_proxies`"
    };
    report.warn(place, message);
}

fn reading(section: &Jwt, report: &mut Report) -> Option<Reading> {
    let (refresh, pause) = (section.refresh.at()?, section.refresh_pause.at()?);
    if pause.value.0 > refresh.value.0 {
        let place = if pause.stated { &pause.place } else { &refresh.place };
        let (pause, refresh) = (span_text(pause.value.0), span_text(refresh.value.0));
        report.fault(place, format!("`refresh_pause` ({pause}) is above `refresh` ({refresh}): lower it"));
    }
    Some(Reading {
        refresh: refresh.value.0,
        pause: pause.value.0,
        timeout: section.fetch_timeout.value()?.0,
        size_limit: section.jwks_size_limit.value()?.0,
    })
}

fn file(at: &At<Text>, section: &Jwt, report: &mut Report) -> Option<Proof> {
    let reading = reading(section, report)?;
    let path = PathBuf::from(&at.value.0);
    let set = KeySet::load(&path, reading.size_limit);
    let set = set.map_err(|error| report.fault(&at.place, format!("`{}` {error}", path.display()))).ok()?;
    Some(Proof::Keys(Origin::File { path, set: Arc::new(set) }, reading))
}

fn url(at: &At<Text>, section: &Jwt, report: &mut Report) -> Option<Proof> {
    let reading = reading(section, report);
    let whole = |url: &Uri| {
        url.host().is_some_and(|host| !host.is_empty()) && !url.authority().is_some_and(|at| at.as_str().contains('@'))
    };
    let Some(url) = at.value.0.parse::<Uri>().ok().filter(whole) else {
        report.fault(
            &at.place,
            "is no address, or one with a user: write one such as `https://id.example/.well-known/jwks.json`",
        );
        return None;
    };
    let settings = client_tls::settings(&section.tls, report)?;
    let tls = match url.scheme_str() {
        Some("https") => {
            let loaded = client_tls::load(settings, client::HTTP1, &section.tls, Some(&at.place), report)?;
            Some(Box::new(loaded))
        }
        Some("http") => {
            if let Some(tls) = section.tls.at() {
                report.fault(&tls.place, "belongs to an `https://` address: remove it, or write one");
            }
            in_the_clear(at, &url, report);
            None
        }
        _ => {
            report.fault(&at.place, "is spoken neither over `https://` nor over `http://`: write one of them");
            return None;
        }
    };
    Some(Proof::Keys(Origin::Url { url, tls }, reading?))
}

fn in_the_clear(at: &At<Text>, url: &Uri, report: &mut Report) {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    if host != "localhost" && !host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()) {
        let message = "reads keys in the clear: whoever stands between could name any caller; use `https://`";
        report.warn(&at.place, message);
    }
}

fn secrets(at: &At<Vec<Field<Text>>>, report: &mut Report) -> Option<Proof> {
    not_empty(&at.place, at.value.is_empty(), "`\"${JWT_SECRET}\"`", report);
    if at.value.len() > MOST_SECRETS {
        report.fault(&at.place, format!("has {} secrets, and {MOST_SECRETS} may be here", at.value.len()));
    }
    let secret = |text: &At<Text>, report: &mut Report| {
        let secret = Secret::new(text.value.0.as_bytes());
        if secret.is_none() {
            let message = format!("has fewer than {} bytes: make one with `openssl rand -base64 48`", Secret::LEAST);
            report.fault(&text.place, message);
        }
        secret
    };
    let all: Vec<_> = at.value.iter().map(|field| secret(field.at()?, report)).collect();
    Some(Proof::Secrets(all.into_iter().collect::<Option<_>>()?))
}

/// What is stated, if all of it can ever verify; else all that can.
fn algorithms(section: &Jwt, proof: &Proof, report: &mut Report) -> Option<Vec<Algorithm>> {
    let symmetric = matches!(proof, Proof::Secrets(_));
    let unstated = || match proof {
        Proof::Elsewhere => Algorithm::all(false).chain(Algorithm::all(true)).collect(),
        Proof::Keys(..) | Proof::Secrets(_) => Algorithm::all(symmetric).collect(),
    };
    let Some(list) = section.algorithms.at() else {
        return matches!(section.algorithms, Field::Absent).then(unstated);
    };
    not_empty(&list.place, list.value.is_empty(), "`RS256`", report);
    for one in list.value.iter().filter_map(Field::at) {
        if *proof != Proof::Elsewhere && one.value.is_symmetric() != symmetric {
            let (name, needs) = (one.value.name(), if symmetric { "public keys" } else { "`secrets`" });
            report.fault(&one.place, format!("`{name}` is verified with {needs}, and here are none: remove it"));
        }
    }
    values(&list.value)
}

fn carrier(section: &Jwt, report: &mut Report) -> Option<Carrier> {
    match (&section.header, &section.cookie) {
        (Field::Broken, _) | (_, Field::Broken) => None,
        (Field::Absent, Field::Absent) => Some(Carrier::Bearer),
        (Field::Given(name), Field::Absent) => Some(Carrier::Header(checked(&name.value, &name.place, report)?)),
        (Field::Absent, Field::Given(name)) => Some(Carrier::Cookie(name.value.0.clone())),
        (Field::Given(_), Field::Given(cookie)) => {
            report.fault(&cookie.place, "stands beside `header`: a token comes in one of them, remove the other");
            None
        }
    }
}
