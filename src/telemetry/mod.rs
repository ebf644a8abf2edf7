//! Metrics and logs. The ground floor: it knows nothing of what it measures.

mod logs;
mod metrics;

pub use logs::{LinesLost, LogFormat, LogSettings, Logs, start};
pub use metrics::{FilterAnswer, Metrics, Outcome, RouteMetrics, StoreOp, Verdict};
