//! A changed configuration, read while the gateway runs: taken over whole, or not at all.

use std::path::PathBuf;

use sha2::{Digest, Sha256};

use super::Parts;
use super::changes::{fixed, summary};
use super::watch::Watch;
use crate::clock::Clock;
use crate::config;
use crate::telemetry::{Logs, ReloadResult, access};

/// Where the configuration comes from.
pub(super) struct Source {
    file: PathBuf,
    /// The digest of the file's content when it was last looked at.
    seen: Option<[u8; 32]>,
    watch: Option<Watch>,
    logs: Logs,
}

impl Source {
    /// The file that the gateway was started on; watched, where the settings say so.
    pub(super) fn new(file: PathBuf, watched: bool, logs: Logs) -> Self {
        let mut source = Self { file, seen: None, watch: None, logs };
        source.seen = source.digest();
        source.watch = source.eye(watched);
        source
    }

    fn eye(&self, watched: bool) -> Option<Watch> {
        watched.then(|| Watch::new(std::iter::once(self.file.as_path())))
    }

    /// Waits until the file, being watched, has another content.
    pub(super) async fn changed(&mut self) {
        while let Some(watch) = &mut self.watch {
            watch.changed().await;
            // One that is away comes back, or is refused at the next SIGHUP.
            if let Some(found) = self.digest()
                && self.seen != Some(found)
            {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    fn digest(&self) -> Option<[u8; 32]> {
        Some(Sha256::digest(std::fs::read(&self.file).ok()?).into())
    }

    /// Reads the file and puts it in force. On any fault the old configuration stays, and the log says why.
    pub(super) fn reload(&mut self, parts: &Parts) {
        parts.service.reloading();
        self.seen = self.digest();
        let (result, status) = match self.take_over(parts) {
            Ok(changes) => {
                parts.note_configuration();
                tracing::info!(changes, "configuration reloaded");
                (ReloadResult::Ok, "Serving.")
            }
            Err(faults) => {
                for fault in faults {
                    tracing::error!("{fault}");
                }
                tracing::error!("configuration not reloaded: the one in force stays");
                (ReloadResult::Refused, "Serving; the changed configuration was refused, see the log.")
            }
        };
        parts.arbiter.metrics.reloaded(result);
        parts.service.reloaded(status);
    }

    fn take_over(&mut self, parts: &Parts) -> Result<String, Vec<String>> {
        let loaded =
            config::load(&self.file).map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        let (state, new) = (parts.live.now(), loaded.settings);
        let unchangeable = fixed(&state.settings, &new);
        if !unchangeable.is_empty() {
            let refusal = |name| format!("`{name}` differs: it needs a restart");
            return Err(unchangeable.into_iter().map(refusal).collect());
        }
        // What may fail comes first, and what does something even if the rest fails comes last of it.
        let log = new.access_log.clone().filter(|log| state.settings.access_log.as_ref() != Some(log));
        let log = log.map(access::Settings::open).transpose().map_err(|error| vec![error])?;
        let front = state.front_for(&new).map_err(|error| vec![format!("tls: {error}")])?;
        self.logs.set_level(&new.log.level).map_err(|error| vec![error])?;
        if new.watch != state.settings.watch {
            self.watch = self.eye(new.watch);
        }
        if let Some(log) = log {
            parts.access.turn(log).map_err(|error| vec![format!("`access_log`: no thread: {error}")])?;
        }
        for warning in loaded.warnings {
            tracing::warn!("{warning}");
        }
        let changes = summary(&state.settings, &new);
        parts.arbiter.limit(new.arbiter);
        parts.arbiter.filter.remember_for(new.filter.lifetime);
        parts.store.exchange_keys(new.store.encryption.clone());
        parts.live.exchange(state.succeeded_by(new, front));
        state.retire(&parts.live.now());
        parts.reload_certificates();
        Ok(changes)
    }
}

impl Parts {
    /// Publishes since when the configuration is in force.
    pub(super) fn note_configuration(&self) {
        self.arbiter.metrics.config_loaded(Clock::wall().0 / 1_000);
    }
}
