//! The eye on the configuration file. It says that something may have changed; what, is found by reading.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

/// How long after a first change the file is read: whoever writes is then done, or will be heard of again.
const SETTLE: Duration = Duration::from_millis(200);

/// A watch on the folder of a file. The file itself may be replaced, or be a link that is turned to another.
pub(super) struct Watch {
    _watcher: RecommendedWatcher,
    stirred: Arc<Notify>,
}

impl Watch {
    /// Begins to watch: the folder where the file is named, and the one where it is.
    pub(super) fn start(file: &Path) -> notify::Result<Self> {
        let stirred = Arc::new(Notify::new());
        let heard = Arc::clone(&stirred);
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // An error may have swallowed an event.
            if event.is_ok_and(|event| is_reading(event.kind)) {
                return;
            }
            heard.notify_one();
        })?;
        let named = folder(file);
        watcher.watch(&named, RecursiveMode::NonRecursive)?;
        if let Some(real) = file.canonicalize().ok().map(|file| folder(&file))
            && named.canonicalize().is_ok_and(|named| named != real)
        {
            watcher.watch(&real, RecursiveMode::NonRecursive)?;
        }
        Ok(Self { _watcher: watcher, stirred })
    }

    /// Waits until something has happened in the folder.
    pub(super) async fn stirred(&self) {
        self.stirred.notified().await;
        tokio::time::sleep(SETTLE).await;
    }
}

/// Reading the file is heard of too.
fn is_reading(kind: EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

fn folder(file: &Path) -> PathBuf {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_owned()
}
