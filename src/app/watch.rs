//! Says when files may have changed. What they say, and whether it is different, is for the reader to find out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

/// How long the files must have been left alone: a certificate and its key are written one after the other.
const QUIET: Duration = Duration::from_millis(300);
/// How many times they may be touched meanwhile: in a busy folder it is never quiet.
const PATIENCE: usize = 10;
/// How often they count as changed without a sign: some file systems give none, and a folder may be replaced.
const ANYWAY: Duration = Duration::from_mins(1);

/// A watch over files.
///
/// It looks at the folders they are in. A watch on a file itself ends when the file is replaced, and Kubernetes replaces
/// a link beside it.
#[derive(Debug)]
pub(super) struct Watch {
    seen: Arc<Notify>,
    /// Watches for as long as it lives; none when that is not to be had.
    _watcher: Option<RecommendedWatcher>,
}

impl Watch {
    /// Begins to watch.
    pub(super) fn new<'a>(files: impl Iterator<Item = &'a Path>) -> Self {
        let seen = Arc::new(Notify::new());
        let watcher = watcher(folders(files), Arc::clone(&seen));
        if let Err(error) = &watcher {
            tracing::warn!(%error, "files are not watched: they are looked at every {ANYWAY:?}");
        }
        Self { seen, _watcher: watcher.ok() }
    }

    /// Waits until the files may have changed, and then until they are left alone.
    pub(super) async fn changed(&mut self) {
        if tokio::time::timeout(ANYWAY, self.seen.notified()).await.is_ok() {
            for _ in 0..PATIENCE {
                if tokio::time::timeout(QUIET, self.seen.notified()).await.is_err() {
                    return;
                }
            }
        }
    }
}

fn watcher(folders: BTreeSet<PathBuf>, seen: Arc<Notify>) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // To read a file, as this process does itself, is no change. An error may have swallowed one.
        if event.is_ok_and(|event| event.kind.is_access()) {
            return;
        }
        seen.notify_one();
    })?;
    for folder in folders {
        watcher.watch(&folder, RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}

/// Where the files are named, and where they are: a link may lead elsewhere.
fn folders<'a>(files: impl Iterator<Item = &'a Path>) -> BTreeSet<PathBuf> {
    let folder = |file: &Path| match file.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let both = |file: &Path| [Some(folder(file)), file.canonicalize().ok().map(|file| folder(&file))];
    files.flat_map(both).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_link_that_is_replaced_is_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for version in ["1", "2"] {
            std::fs::create_dir(at(version)).unwrap();
            std::fs::write(at(version).join("tls.crt"), version).unwrap();
        }
        std::os::unix::fs::symlink("1", at("..data")).unwrap();
        std::os::unix::fs::symlink("..data/tls.crt", at("tls.crt")).unwrap();
        let mut watch = Watch::new([at("tls.crt").as_path()].into_iter());
        std::os::unix::fs::symlink("2", at("..new")).unwrap();
        std::fs::rename(at("..new"), at("..data")).unwrap();
        tokio::time::timeout(Duration::from_secs(20), watch.changed()).await.unwrap();
        assert_eq!(std::fs::read(at("tls.crt")).unwrap(), b"2");
    }

    #[test]
    fn the_folders_of_files_are_watched() {
        let files = ["/a/b.crt", "/a/b.key", "c.crt", "d/e.crt"].map(Path::new);
        let folders: Vec<_> = folders(files.into_iter()).into_iter().collect();
        assert_eq!(folders, ["/a", ".", "d"].map(PathBuf::from));
    }
}
