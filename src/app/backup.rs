//! `oncegate backup`: a copy of the embedded store, out of the gateway that has it open, or of the file when none has.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::config::Settings;
use crate::store::embedded::{self, Copied, Copier, CopyError};
use crate::store::{Kind, NoBackup};

/// How long the gateway may take to answer, and between two pieces.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a refusal may be.
const REFUSAL: usize = 64 << 10;

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The store is of a kind that is not backed up here.
    #[error(transparent)]
    Kind(#[from] NoBackup),
    /// The copy.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The original, while no gateway has it open.
    #[error(transparent)]
    Original(#[from] embedded::OpenError),
    /// A gateway has the store open, and there is no way to it.
    #[error("the store is in use, so the backup comes from the gateway that has it open: {0}")]
    NoWay(&'static str),
    /// The gateway that has the store open, at its operators' door.
    #[error("the store is in use, and the gateway's operators' door at {at} gave no backup: {why}")]
    Door {
        /// Where it was asked.
        at: SocketAddr,
        /// What it said, or what became of the connection.
        why: String,
    },
}

/// Copies the store of `settings` into the directory `to`. `admin` goes before the settings' `admin.listen`.
///
/// # Errors
/// When there is no whole, safe and checked copy: then there is none at all.
pub fn backup(settings: &Settings, to: &Path, admin: Option<SocketAddr>) -> Result<Copied, BackupError> {
    let original = match &settings.store.kind {
        Kind::Embedded(original) => original,
        Kind::Memory => return Err(NoBackup::Memory.into()),
        Kind::Redis(_) => return Err(NoBackup::Redis.into()),
    };
    let mut copier = Copier::new(to)?;
    let mut failure = None;
    let sink = |piece: Vec<u8>| copier.feed(&piece).map_err(|error| failure = Some(error)).is_ok();
    match embedded::dump_closed(&original.path, sink) {
        Err(embedded::OpenError::InUse(_)) => {
            let at = door(settings, admin)?;
            let runtime = super::runtime().map_err(|error| Door(at).failed(&error))?;
            runtime.block_on(Door(at).fetch(settings.admin.token.as_deref(), &mut copier))?;
        }
        done => done?,
    }
    failure.map_or(Ok(()), Err)?;
    Ok(copier.finish()?)
}

/// Where the gateway of these settings is asked.
fn door(settings: &Settings, admin: Option<SocketAddr>) -> Result<SocketAddr, BackupError> {
    let none = "it has no operators' door (`admin.listen: none`). Stop it first";
    let mut at = admin.or(settings.admin.listen).ok_or(BackupError::NoWay(none))?;
    if at.port() == 0 {
        return Err(BackupError::NoWay("say with `--admin` where its operators' door is"));
    }
    if at.ip().is_unspecified() {
        at.set_ip(if at.is_ipv4() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { IpAddr::V6(Ipv6Addr::LOCALHOST) });
    }
    Ok(at)
}

/// The operators' door of a running gateway.
#[derive(Clone, Copy)]
struct Door(SocketAddr);

impl Door {
    /// Feeds the gateway's backup to `copier`.
    async fn fetch(self, token: Option<&str>, copier: &mut Copier) -> Result<(), BackupError> {
        let mut body = self.ask(token).await?;
        while let Some(frame) = self.within(body.frame()).await? {
            if let Ok(piece) = frame.map_err(|error| self.failed(&error))?.into_data() {
                copier.feed(&piece)?;
            }
        }
        Ok(())
    }

    async fn ask(self, token: Option<&str>) -> Result<Incoming, BackupError> {
        let stream = self.within(TcpStream::connect(self.0)).await?.map_err(|error| self.failed(&error))?;
        let begun = http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await;
        let (mut calls, connection) = begun.map_err(|error| self.failed(&error))?;
        tokio::spawn(connection);
        let mut request = Request::get("/api/v1/backup").header(HOST, self.0.to_string());
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Empty::new()).map_err(|error| self.failed(&error))?;
        let answer = self.within(calls.send_request(request)).await?.map_err(|error| self.failed(&error))?;
        let (head, body) = answer.into_parts();
        if head.status == StatusCode::OK {
            return Ok(body);
        }
        let told = self.within(Limited::new(body, REFUSAL).collect()).await?;
        let told = told.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let problem: serde_json::Value = serde_json::from_slice(&told).unwrap_or_default();
        let detail = problem["detail"].as_str().map_or_else(|| head.status.to_string(), str::to_owned);
        Err(self.failed(&detail))
    }

    async fn within<T>(self, work: impl Future<Output = T>) -> Result<T, BackupError> {
        timeout(PATIENCE, work).await.map_err(|_| self.failed(&format!("silent for {PATIENCE:?}")))
    }

    fn failed(self, why: &impl ToString) -> BackupError {
        BackupError::Door { at: self.0, why: why.to_string() }
    }
}
