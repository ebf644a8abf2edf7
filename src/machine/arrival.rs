//! A request as the rules see it: whose operation it is, and what it looks like.

use std::fmt;
use std::sync::LazyLock;

use super::{NamespaceTag, OperationId, Policy, Print, Probe, Time, Untimely, Validity};

/// The version of the rules by which [`Prints`] are made: part of each digest, and kept in each record.
pub const FINGERPRINT_VERSION: u8 = 1;

/// Digests of a request, kept in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prints {
    /// Digest of the request as sent: recognises an exact retry.
    pub raw: Print,
    /// Digest of the request in canonical form: recognises an equal request.
    pub canonical: Print,
    /// Digest of the route's fingerprint settings. Canonical digests compare only under equal settings.
    pub settings: u32,
}

/// A request that asks to act on an operation.
pub struct Arrival<'a> {
    /// The operation that it names.
    pub operation: OperationId,
    /// The namespace that the key lives in.
    pub namespace: NamespaceTag,
    /// Digest of the request as sent.
    pub raw: Print,
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
    canonical: LazyLock<Print, Canonical<'a>>,
}

/// What computes the canonical digest, of a request that it may borrow.
type Canonical<'a> = Box<dyn FnOnce() -> Print + Send + 'a>;

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
    /// An arrival whose canonical digest is computed when it is first needed: an exact retry never needs it.
    pub fn new(
        operation: OperationId,
        namespace: NamespaceTag,
        raw: Print,
        settings: u32,
        credentials: Option<Print>,
        canonical: impl FnOnce() -> Print + Send + 'a,
    ) -> Self {
        let canonical: Canonical<'a> = Box::new(canonical);
        let canonical = LazyLock::new(canonical);
        Self {
            operation,
            namespace,
            raw,
            settings,
            credentials,
            probe: None,
            made: None,
            validities: Vec::new(),
            also: None,
            beside: None,
            good_until: None,
            canonical,
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
        // Known by now, in most cases: the first one's claim holds it.
        let Prints { raw, canonical, settings } = self.prints();
        let second = Self::new(operation, namespace, raw, settings, credentials, move || canonical);
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

    /// The digests to keep in the record.
    pub fn prints(&self) -> Prints {
        Prints { raw: self.raw, canonical: *self.canonical, settings: self.settings }
    }

    pub(super) fn likeness(&self, recorded: &Prints) -> Likeness {
        if self.raw == recorded.raw {
            Likeness::Same
        } else if self.settings != recorded.settings {
            Likeness::Unsure
        } else if *self.canonical == recorded.canonical {
            Likeness::Same
        } else {
            Likeness::Changed
        }
    }

    /// Whether a replay of a record kept under `recorded` may be shown to this caller.
    pub(super) fn may_see(&self, recorded: Option<Print>) -> bool {
        self.credentials.is_none() || self.credentials == recorded
    }
}

impl fmt::Debug for Arrival<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrival").field("operation", &self.operation).field("raw", &self.raw).finish_non_exhaustive()
    }
}
