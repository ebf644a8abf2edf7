//! The HTTP door.

mod settings;

pub use settings::{Guard, Limits, Mode, Network, OnDuplicate, OnInFlight, Route, Settings, StoreFailure};
