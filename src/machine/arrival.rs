//! A request as the rules see it: whose operation it is, and what it looks like.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{NamespaceTag, OperationId, Policy, Print, Probe, RawPrint, Salt, Time, Untimely, Validity};

/// The version of the rules by which [`Prints`] are made: part of each digest, and kept in each record.
pub const FINGERPRINT_VERSION: u8 = 1;

/// What a record knows its request by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prints {
    /// Keyed hash of the request as sent: recognises an exact retry.
    pub raw: RawPrint,
    /// Digest of the request in canonical form: recognises an equal request.
    pub canonical: Print,
    /// Digest of the route's fingerprint settings. Canonical digests compare only under equal settings.
    pub settings: u32,
}

/// A request that can be compared with the one on record.
pub trait Comparable: Send {
    /// Hash of the request as sent, keyed by this salt: without the salt nobody can tell which requests have the same.
    fn raw(&self, salt: Salt) -> [u8; 8];

    /// Digest of the request in canonical form.
    fn canonical(&self) -> Print;
}

/// A request that asks to act on an operation.
pub struct Arrival<'a> {
    /// The operation that it names.
    pub operation: OperationId,
    /// The namespace that the key lives in.
    pub namespace: NamespaceTag,
    /// Digest of the route's fingerprint settings.
    pub settings: u32,
    /// Digest of the credentials; none when the scope itself proves the caller, or nothing is required.
    pub credentials: Option<Print>,
    /// How the upstream could be asked about the operation.
    pub probe: Option<Box<Probe>>,
    /// When the key says that it was made, where keys do.
    pub made: Option<Time>,
    /// When it may act, if nothing is known of the operation; none: at any time.
    pub validities: Vec<Validity>,
    /// The second operation that it names, where it names two. It may act when it may act on both.
    pub also: Option<Box<Also>>,
    /// The operation that an attempt would hold beside this one.
    pub(super) beside: Option<Box<OperationId>>,
    /// Until when its key by itself gives a right to act, where it is one that ends: no record of it is forgotten before.
    pub good_until: Option<Time>,
    /// What its claims are salted with.
    salt: Salt,
    compared: Shared<'a>,
}

/// One request asks for one operation, or for two.
type Shared<'a> = Arc<Mutex<Compared<dyn Comparable + 'a>>>;

/// A request, and what was made of it to compare it. An exact retry never needs its canonical digest.
struct Compared<R: ?Sized> {
    /// The last one: a request that waits meets the same record again and again.
    raw: Option<RawPrint>,
    canonical: Option<Print>,
    request: R,
}

/// A second operation that a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Also {
    /// The operation.
    pub operation: OperationId,
    /// The namespace that its key lives in.
    pub namespace: NamespaceTag,
    /// Digest of what a replay by it has to show; none when its scope proves as much as the first one's.
    pub credentials: Option<Print>,
}

/// How a request compares with the one on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Likeness {
    Same,
    Changed,
    /// The fingerprint settings have changed in between, and the bytes differ.
    Unsure,
}

impl<'a> Arrival<'a> {
    /// An arrival of a request that may be borrowed. What it is compared by is computed when it is first needed. The salt
    /// is a fresh one, of which nobody outside knows.
    pub fn new(
        operation: OperationId,
        namespace: NamespaceTag,
        salt: Salt,
        settings: u32,
        credentials: Option<Print>,
        request: impl Comparable + 'a,
    ) -> Self {
        let compared = Arc::new(Mutex::new(Compared { raw: None, canonical: None, request }));
        Self::over(operation, namespace, salt, settings, credentials, compared)
    }

    fn over(
        operation: OperationId,
        namespace: NamespaceTag,
        salt: Salt,
        settings: u32,
        credentials: Option<Print>,
        compared: Shared<'a>,
    ) -> Self {
        Self {
            operation,
            namespace,
            settings,
            credentials,
            probe: None,
            made: None,
            validities: Vec::new(),
            also: None,
            beside: None,
            good_until: None,
            salt,
            compared,
        }
    }

    /// The same, with the question by which the upstream could be asked about it.
    #[must_use]
    pub fn with_probe(self, probe: Option<Probe>) -> Self {
        Self { probe: probe.map(Box::new), ..self }
    }

    /// The same, with the time at which its key says that it was made.
    #[must_use]
    pub fn with_made(self, made: Option<Time>) -> Self {
        Self { made, ..self }
    }

    /// The same, good for a first attempt within this span only.
    #[must_use]
    pub fn valid_within(mut self, span: Validity) -> Self {
        self.validities.push(span);
        self
    }

    /// The same, with the second operation that it names.
    #[must_use]
    pub fn with_also(self, also: Option<Also>) -> Self {
        Self { beside: also.map(|also| Box::new(also.operation)), also: also.map(Box::new), ..self }
    }

    /// The same request as it asks to act on the second operation: for whoever holds the first. Whether it comes in time,
    /// and how the upstream could be asked, is the first one's matter.
    pub fn second(&self) -> Option<Self> {
        let Also { operation, namespace, credentials } = *self.also.as_deref()?;
        let compared = Arc::clone(&self.compared);
        let second = Self::over(operation, namespace, self.salt, self.settings, credentials, compared);
        Some(Self { beside: Some(Box::new(self.operation)), ..second })
    }

    /// The same, with a record that is not forgotten before this time.
    #[must_use]
    pub fn remembered_until(self, end: Time) -> Self {
        Self { good_until: self.good_until.max(Some(end)), ..self }
    }

    /// Why it gives no right to act at this moment, if nothing is known of the operation.
    pub fn untimely(&self, policy: &Policy, now: Time) -> Option<Untimely> {
        let outside = self.validities.iter().find_map(|span| span.untimely(now));
        outside.or_else(|| policy.untimely(self.made, now))
    }

    /// What its record is to know it by.
    pub fn prints(&self) -> Prints {
        let mut own = self.compared();
        Prints { raw: own.raw(self.salt), canonical: own.canonical(), settings: self.settings }
    }

    /// Whether it was sent in the very bytes of the request on record.
    pub fn is_exactly(&self, recorded: RawPrint) -> bool {
        self.compared().raw(recorded.salt()) == recorded
    }

    pub(super) fn likeness(&self, recorded: &Prints) -> Likeness {
        if self.is_exactly(recorded.raw) {
            Likeness::Same
        } else if self.settings != recorded.settings {
            Likeness::Unsure
        } else if self.compared().canonical() == recorded.canonical {
            Likeness::Same
        } else {
            Likeness::Changed
        }
    }

    /// The same, for what is done in the name of the request on record: who can read the store knows the salt of a raw
    /// print, and may find another request that has the same. A canonical digest cannot be made to measure, so it has to
    /// agree wherever it can be compared.
    pub(super) fn likeness_to_act(&self, recorded: &Prints) -> Likeness {
        match self.likeness(recorded) {
            Likeness::Same
                if self.settings == recorded.settings && self.compared().canonical() != recorded.canonical =>
            {
                Likeness::Changed
            }
            likeness => likeness,
        }
    }

    /// Whether a replay of a record kept under `recorded` may be shown to this caller.
    pub(super) fn may_see(&self, recorded: Option<Print>) -> bool {
        self.credentials.is_none() || self.credentials == recorded
    }

    fn compared(&self) -> MutexGuard<'_, Compared<dyn Comparable + 'a>> {
        self.compared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Comparable + ?Sized> Compared<R> {
    fn raw(&mut self, salt: Salt) -> RawPrint {
        match self.raw {
            Some(raw) if raw.salt() == salt => raw,
            _ => *self.raw.insert(RawPrint::new(salt, self.request.raw(salt))),
        }
    }

    fn canonical(&mut self) -> Print {
        *self.canonical.get_or_insert_with(|| self.request.canonical())
    }
}

impl fmt::Debug for Arrival<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrival").field("operation", &self.operation).finish_non_exhaustive()
    }
}
