//! A story that needs no server: a sample order API, a real gateway in front of it, and what happens to retries, double
//! clicks and a crash. The gateway is a process of its own, so that it can be killed for real.

mod api;
mod gateway;
mod story;

use std::io;
use std::path::PathBuf;

use http::uri::InvalidUri;

use super::Signals;
use gateway::Gateway;
use tokio::signal::unix::{SignalKind, signal};

/// Why the demo ended early.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// Files, processes or sockets.
    #[error("{0}: {1}")]
    Io(&'static str, #[source] io::Error),
    /// The gateway did not do what the story tells.
    #[error("the story went another way: {0}")]
    Story(String),
    /// A request of the story's own.
    #[error("request: {0}")]
    Request(String),
}

impl From<InvalidUri> for DemoError {
    fn from(error: InvalidUri) -> Self {
        Self::Request(error.to_string())
    }
}

/// Tells the story, then stays up until a signal ends it; with `once` it ends with the story. Whenever it ends, the
/// gateway and its folder are gone. A reader who stops reading ends it too.
///
/// # Errors
/// When something could not be started, or the story went another way than it is told.
pub fn demo(once: bool) -> Result<(), DemoError> {
    let runtime = super::runtime().map_err(|error| DemoError::Io("runtime", error))?;
    let ended = runtime.block_on(async {
        let mut signals = Signals::new().map_err(|error| DemoError::Io("signal", error))?;
        // A terminal that closes ends it as Ctrl-C does: the gateway must not stay behind.
        let mut hangup = signal(SignalKind::hangup()).map_err(|error| DemoError::Io("signal", error))?;
        tokio::select! {
            told = tell(once) => told,
            () = signals.next() => Ok(()),
            _ = hangup.recv() => Ok(()),
        }
    });
    match ended {
        Err(DemoError::Io(story::OUTPUT, error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        ended => ended,
    }
}

async fn tell(once: bool) -> Result<(), DemoError> {
    let folder = Folder::new()?;
    let api = api::start().map_err(|error| DemoError::Io("sample API", error))?;
    let mut gateway = Gateway::start(&folder.0, api.address())?;
    story::tell(&mut gateway, &api).await?;
    if !once {
        story::invite(&gateway)?;
        std::future::pending::<()>().await;
    }
    Ok(())
}

/// A folder for the demo's configuration and store; gone when the demo ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, DemoError> {
        let folder = std::env::temp_dir().join(format!("oncegate-demo-{}", std::process::id()));
        std::fs::create_dir(&folder).map_err(|error| DemoError::Io("folder", error))?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{} is left behind: {error}", self.0.display());
        }
    }
}
