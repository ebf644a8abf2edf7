//! Metrics and logs. The ground floor: it knows nothing of what it measures.

pub mod access;
mod cells;
mod counted;
mod kept;
mod labels;
mod logs;
mod metrics;
mod redis;
mod register;
mod tokens;
mod upstreams;
mod usual;

pub use kept::{DoubtsFound, KeptMetrics};
pub use labels::{
    CheckResult, FilterAnswer, Handshake, KeysRead, Outcome, ProbeFinding, ReloadResult, ServerState, StoreOp, Timeout,
    TokenCheck, Verdict,
};
pub use logs::{AUDIT, LinesLost, LogFormat, LogSettings, Logs, start};
pub use metrics::{Metrics, RouteMetrics};
pub use redis::RedisMetrics;
pub use upstreams::UpstreamMetrics;
