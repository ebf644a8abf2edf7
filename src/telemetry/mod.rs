//! Metrics and logs. The ground floor: it knows nothing of what it measures.

mod labels;
mod logs;
mod metrics;

pub use labels::{FilterAnswer, Outcome, StoreOp, Timeout, Verdict};
pub use logs::{LinesLost, LogFormat, LogSettings, Logs, start};
pub use metrics::{Metrics, RouteMetrics};
