//! How a route names the operations of its requests: what is the same for all of them is worked out once. What makes a key,
//! a scope and a fingerprint is said in the files beside it.

use http::HeaderMap;

use super::client_print::{self, Shown};
use super::content::Entity;
use super::fingerprint::{self, Canonical};
use super::json::{Fault, Scan};
use super::source::{self, Body, View};
use super::{
    Caller, FingerprintSettings, Named, Names, Refusal, Request, Seen, Settings, also, derive, derive_from, frame,
    namespace_tag, scope,
};
use crate::machine::{Arrival, Comparable, NamespaceTag, Print, Salt};
use crate::upstream::headers::Kinds;

/// A route's way to name operations, ready for use.
#[derive(Debug, Clone)]
pub struct Naming {
    pub(super) settings: Settings,
    pub(super) names: Names,
    namespace: NamespaceTag,
    /// Of the second key.
    also: Option<NamespaceTag>,
    /// Digests of the fingerprint settings: for fingerprints of the gateway's own, and for those that clients told.
    words: [u32; 2],
    /// What a request shows of credentials that has none of the fields that are asked for.
    bare: Option<Print>,
    /// Whether all that names an operation is in a request's head.
    in_head: bool,
}

/// What the head of a request has shown; nothing where the whole request has to be looked at.
#[derive(Debug)]
pub struct Head<'a>(Option<Seen<'a>>);

impl Naming {
    /// As these settings want it.
    pub fn new(settings: Settings) -> Self {
        Self {
            names: Names::of(&settings),
            namespace: namespace_tag(&settings.namespace),
            also: settings.also.as_ref().map(|also| namespace_tag(&also.namespace)),
            words: [false, true].map(|told| fingerprint::settings_word(&settings.fingerprint, told)),
            bare: scope::credentials(&settings, &HeaderMap::new()),
            in_head: settings.also.is_none()
                && settings.fingerprint.client.is_none()
                && settings.sources.iter().all(source::is_in_head),
            settings,
        }
    }

    /// Refuses what the head alone shows to be refused, before the body is read. Its fields are of these kinds.
    ///
    /// # Errors
    /// When the request cannot name an operation, whatever its body.
    pub fn check_head(
        &self,
        headers: &HeaderMap,
        kinds: Kinds,
        query: Option<&str>,
        caller: &Caller,
    ) -> Result<Head<'_>, Refusal> {
        let settings = &self.settings;
        self.names.check(headers, kinds)?;
        client_print::shown(settings.fingerprint.client.as_ref(), headers)?;
        let view = View { headers, query, body: None };
        let seen = Seen::of(settings, &view, caller)?;
        also::check_head(settings, &view, caller)?;
        Ok(Head(Some(seen).filter(|_| self.in_head)))
    }

    /// Names the operation that a request asks for.
    ///
    /// What it is compared by is computed when the arrival is first asked for it: the arrival borrows the request for that.
    /// The salt is a fresh one.
    ///
    /// # Errors
    /// When the key is missing or malformed, or the scope's value is missing.
    pub fn identify<'a>(&'a self, request: &'a Request, salt: Salt) -> Result<Named<'a>, Refusal> {
        self.identify_after(Head(None), request, salt)
    }

    /// The same of a request whose head was checked, and has shown this.
    ///
    /// # Errors
    /// As of [`identify`](Self::identify).
    pub fn identify_after<'a>(
        &'a self,
        head: Head<'a>,
        request: &'a Request,
        salt: Salt,
    ) -> Result<Named<'a>, Refusal> {
        let settings = &self.settings;
        let body = Body::new(request, settings);
        let derived = match head.0 {
            Some(seen) => derive_from(settings, seen),
            None => derive(settings, &self.names, request, &body)?,
        };
        derived.check_print(&body)?;
        let Some(key) = &derived.key else {
            return Ok(Named::Unkeyed);
        };
        let (operation, made) = (key.operation, key.made);
        let probe = derived.probe(settings, request, &body).and_then(Result::ok);
        let credentials = self.credentials(&request.headers);
        let also = derived.also.as_ref().zip(self.also);
        let also = also
            .map(|(also, namespace)| also.named(settings, namespace, &request.headers, &derived.scope, credentials));
        let (told, validity) = (derived.told_print(), derived.shown.as_ref().map(Shown::validity));
        let word = self.words[usize::from(told.is_some())];
        let compared = Compared::of(request, &settings.fingerprint, body, told);
        let arrival = Arrival::new(operation, self.namespace, salt, word, credentials, compared);
        let arrival = validity.into_iter().fold(arrival, Arrival::valid_within);
        let arrival = arrival.with_made(made).with_probe(probe).with_also(also);
        Ok(Named::Operation(match &key.issued {
            Some(issued) => issued.limit(arrival),
            None => arrival,
        }))
    }

    /// Digest of what a replay must show again; none when nothing is required.
    fn credentials(&self, headers: &HeaderMap) -> Option<Print> {
        if self.settings.require_same.iter().any(|name| headers.contains_key(name)) {
            return scope::credentials(&self.settings, headers);
        }
        self.bare
    }
}

/// A request, as far as it is compared with others.
struct Compared<'a> {
    request: &'a Request,
    settings: &'a FingerprintSettings,
    /// The client's own fingerprint, which takes the place of the canonical one.
    told: Option<Print>,
    /// What is known of the body by now.
    known: Option<Canonical>,
    scanned: Option<Result<Scan, Fault>>,
}

impl<'a> Compared<'a> {
    fn of(request: &'a Request, settings: &'a FingerprintSettings, body: Body<'_>, told: Option<Print>) -> Self {
        if told.is_none() && body.was_decoded() {
            // Its digest is kept rather than its content, which can be many times what was sent.
            body.canonical();
        }
        let known = body.canonical.into_inner();
        let scanned = body.json.into_inner().filter(|_| known.is_none());
        Self { request, settings, told, known, scanned }
    }
}

impl Comparable for Compared<'_> {
    fn raw(&self, salt: Salt) -> [u8; 8] {
        fingerprint::keyed(self.request, self.settings, salt)
    }

    fn canonical(&self) -> Print {
        let made = || {
            let entity = Entity::of(self.request, self.settings.decode.as_ref());
            fingerprint::canonical(self.request, self.settings, &entity, self.scanned.as_ref()).hash
        };
        let known = || self.known.as_ref().map(|known| known.hash);
        self.told.unwrap_or_else(|| frame::print(&known().unwrap_or_else(made)))
    }
}
