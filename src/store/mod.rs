//! Where records live. A store compares fences and forgets what has expired; it holds no rules of its own.

pub mod codec;
pub mod embedded;
pub mod filter;
pub mod journal;
pub mod memory;
mod open;
pub mod redis;

pub use open::{Health, NoBackup, OpenError, Opened, open};

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::machine::{Expect, Fence, OperationId, Record, Time};

/// What a store call returns: a future that can cross threads.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A keeper of records, shared by all gateways that protect the same operations.
///
/// Every store forgets a record at its `expires`, by the store's own time, and answers as if it had never been.
/// Every call ends within the store's command timeout. A call that fails, or whose future is dropped, may still have
/// been carried out: callers recognise their own writes by the fence.
pub trait Store: Send + Sync {
    /// What is stored under the operation.
    fn load<'a>(&'a self, id: &'a OperationId) -> Reply<'a, Option<Record>>;

    /// Stores `record` if what is there meets `expect`; one round trip, and durable (as far as the store is) on return.
    fn write<'a>(&'a self, id: &'a OperationId, expect: Expect, record: &'a Record) -> Reply<'a, Written>;

    /// Removes the record if it carries `fence`.
    fn remove<'a>(&'a self, id: &'a OperationId, fence: Fence) -> Reply<'a, Written>;

    /// Some records and where to go on; bounded work. A full pass from [`Cursor::START`] meets every record that stays
    /// throughout. Records that cannot be read are left out and counted in [`Page::unreadable`].
    fn list(&self, from: Cursor, limit: usize) -> Reply<'_, Page>;

    /// The store's time.
    fn time(&self) -> Reply<'_, Time>;

    /// Writes and removes a probe record the way a reservation would: whether guarded routes can work.
    fn probe(&self) -> Reply<'_, ()>;
}

/// What became of a conditional write or removal. A lost race is an answer, not an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// It was carried out.
    Done,
    /// The condition did not hold; this is what is stored. Shared: it is asked about, and told.
    Lost(Option<Arc<Record>>),
}

impl Written {
    /// The condition did not hold; this was found.
    fn lost(found: Option<Record>) -> Self {
        Self::Lost(found.map(Arc::new))
    }
}

/// Where a listing goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(pub(crate) Vec<u8>);

impl Cursor {
    /// The beginning.
    pub const START: Self = Self(Vec::new());
}

/// A part of a listing.
#[derive(Debug, Clone)]
pub struct Page {
    /// Operations with their records.
    pub records: Vec<(OperationId, Record)>,
    /// How many records of the page could not be read.
    pub unreadable: usize,
    /// Where to go on; none at the end.
    pub next: Option<Cursor>,
}

/// Why a store call gave no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached, refused the command, or did not answer in time. The command may have been executed.
    #[error("store unavailable: {0}")]
    Unavailable(String),
    /// The store has carried the write out, but could not say that enough replicas have it: it may yet be lost. Whoever
    /// claimed by it takes it back.
    #[error("not acknowledged: {0}")]
    Unacknowledged(String),
    /// The stored bytes are not a record that this version knows. The operation is neither run nor replayed.
    #[error("record unreadable: {0}")]
    Unreadable(#[from] codec::CodecError),
}

/// Which store, and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The kind of store with its own settings.
    pub kind: Kind,
    /// How long a single call may take.
    pub command_timeout: Duration,
    /// Where this gateway is the only one that uses the store: what it keeps while that is away.
    pub journal: Option<journal::Settings>,
    /// The keys that stored answers are sealed under; without any they are stored in the clear.
    pub encryption: codec::Keyring,
}

/// The kinds of store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// In this process's memory: for tests and trials, forgets all at exit.
    Memory,
    /// A database file of this gateway's own.
    Embedded(embedded::Settings),
    /// Redis or Valkey, 7.0 and later.
    Redis(Box<redis::Settings>),
}
