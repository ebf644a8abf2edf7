//! Where `tracing` events go.

use std::fs::{File, OpenOptions};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tracing_appender::non_blocking::NonBlockingBuilder;
use tracing_subscriber::filter::{Directive, FilterFn};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

/// What operators did is told under this target, whatever the level of other lines.
pub const AUDIT: &str = "oncegate::audit";

/// How log lines look and which are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// The lines' format.
    pub format: LogFormat,
    /// A level, or `tracing`'s filter directives.
    pub level: String,
    /// A file that gets what operators did as well, whole lines of JSON.
    pub audit: Option<PathBuf>,
}

/// A log line's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// How many lines may wait for standard error. There is room for all of them from the start, and making it takes time.
const WAITING: usize = 2048;

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
/// When the level is no filter, the file for audit lines cannot be written, or logs have been started already.
pub fn start(settings: &LogSettings) -> Result<Logs, String> {
    let (writer, guard) = NonBlockingBuilder::default().buffered_lines_limit(WAITING).finish(std::io::stderr());
    let lost = LinesLost(writer.error_counter());
    let (levels, filter) = reload::Layer::new(filter(&settings.level)?);
    let lines = fmt::layer().with_ansi(std::io::stderr().is_terminal()).with_writer(writer);
    let lines = match settings.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    // Not through the writer above: that one drops lines under pressure.
    let audit = settings.audit.as_deref().map(audit_file).transpose()?.map(|file| {
        let kept = FilterFn::new(|metadata| metadata.target() == AUDIT);
        fmt::layer().json().flatten_event(true).with_writer(Mutex::new(file)).with_filter(kept)
    });
    let started = tracing_subscriber::registry().with(levels).with(lines).with(audit).try_init();
    started.map_err(|error| error.to_string())?;
    Ok(Logs { _guard: guard, lost, filter })
}

fn audit_file(path: &Path) -> Result<File, String> {
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|error| format!("`log.audit`: {} cannot be written: {error}", path.display()))
}

/// The lines that are written: by the level, and audit lines by none.
fn filter(level: &str) -> Result<EnvFilter, String> {
    let wrong = |error: &dyn std::error::Error| format!("log level `{level}`: {error}");
    let levels = EnvFilter::try_from_default_env().or_else(|_| EnvFilter::try_new(level));
    let always: Directive = format!("{AUDIT}=info").parse().map_err(|error| wrong(&error))?;
    Ok(levels.map_err(|error| wrong(&error))?.add_directive(always))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Where lines of a test go.
    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_level_silences_audit_lines() {
        for level in ["off", "error", "oncegate=off", "oncegate::audit=off", "info,oncegate::audit=error"] {
            let sink = Sink::default();
            let writer = sink.clone();
            let lines = fmt::layer().with_ansi(false).with_writer(move || writer.clone());
            let logs = tracing_subscriber::registry().with(filter(level).unwrap()).with(lines);
            tracing::subscriber::with_default(logs, || {
                tracing::info!(target: AUDIT, "told");
                tracing::debug!("chatter");
            });
            let written = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
            assert!(written.contains("told") && !written.contains("chatter"), "{level}: {written}");
        }
    }
}
