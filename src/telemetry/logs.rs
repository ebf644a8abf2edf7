//! Where `tracing` events go.

use std::io::IsTerminal;

use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

/// How log lines look and which are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// The lines' format.
    pub format: LogFormat,
    /// A level, or `tracing`'s filter directives.
    pub level: String,
}

/// A log line's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Keeps the log writer alive; dropping it writes out what is left.
pub struct Logs {
    _guard: tracing_appender::non_blocking::WorkerGuard,
    lost: LinesLost,
    filter: reload::Handle<EnvFilter, Registry>,
}

/// Counts the lines that were dropped because the writer could not keep up.
#[derive(Clone)]
pub struct LinesLost(tracing_appender::non_blocking::ErrorCounter);

impl Logs {
    /// The count of dropped lines.
    pub fn lines_lost(&self) -> LinesLost {
        self.lost.clone()
    }

    /// Writes lines of this level from now on. `RUST_LOG`, when set, still goes before it.
    ///
    /// # Errors
    /// When the level is no filter: then nothing has changed.
    pub fn set_level(&self, level: &str) -> Result<(), String> {
        self.filter.reload(filter(level)?).map_err(|error| error.to_string())
    }
}

impl LinesLost {
    /// How many since the start.
    pub fn count(&self) -> usize {
        self.0.dropped_lines()
    }
}

/// Sends `tracing` events to standard error. `RUST_LOG`, when set, goes before the settings' level.
///
/// # Errors
/// When the level is no filter, or logs have been started already.
pub fn start(settings: &LogSettings) -> Result<Logs, String> {
    let (writer, guard) = tracing_appender::non_blocking(std::io::stderr());
    let lost = LinesLost(writer.error_counter());
    let (levels, filter) = reload::Layer::new(filter(&settings.level)?);
    let lines = fmt::layer().with_ansi(std::io::stderr().is_terminal()).with_writer(writer);
    let lines = match settings.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let started = tracing_subscriber::registry().with(levels).with(lines).try_init();
    started.map_err(|error| error.to_string())?;
    Ok(Logs { _guard: guard, lost, filter })
}

fn filter(level: &str) -> Result<EnvFilter, String> {
    EnvFilter::try_from_default_env()
        .or_else(|_| EnvFilter::try_new(level))
        .map_err(|error| format!("log level `{level}`: {error}"))
}
