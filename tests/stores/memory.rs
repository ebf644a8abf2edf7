//! The contract, met in memory.

use std::future::{Ready, ready};
use std::sync::Arc;

use oncegate::clock::Clock;
use oncegate::store::memory::MemoryStore;

use crate::contract::{Subject, contract};

fn fresh() -> Ready<Subject> {
    ready(Subject::new(Arc::new(MemoryStore::new(Clock::system())), ()))
}

contract!(fresh);
