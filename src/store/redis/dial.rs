//! Opening a connection: TCP, TLS, user and password, RESP. It knows addresses and secrets, and nothing of records.

use std::io::Read as _;
use std::path::Path;

use redis::aio::{AsyncStream, MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use super::StoreError;
use super::faults::{translate, unavailable};
use super::settings::{Access, Node, Password, Protocol};

/// How many commands may wait to be written to the connection.
const QUEUE: usize = 1_024;

/// How long a password's file may be.
const PASSWORD: u64 = 4_096;

/// A pipelined connection. Dropped, it is closed, whoever still waits for an answer.
pub(super) struct Connection {
    pub(super) line: MultiplexedConnection,
    driver: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

type Stream = Box<dyn AsyncStream + Send + Unpin>;

/// Connects, and is let in.
pub(super) async fn connect(node: &Node, access: &Access) -> Result<Connection, StoreError> {
    let info = introduction(access, access.protocol).await?;
    // Our own limits hold for calls and for connecting.
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_pipeline_buffer_size(QUEUE);
    let opened = MultiplexedConnection::new_with_config(&info, open(node, access).await?, config).await;
    let (line, driver) = opened.map_err(|error| translate(&error))?;
    Ok(Connection { line, driver: tokio::spawn(driver).abort_handle() })
}

/// Connects to hear what is published.
pub(super) async fn listen(node: &Node, access: &Access) -> Result<PubSub, StoreError> {
    let info = introduction(access, Protocol::Resp2).await?;
    PubSub::new(&info, open(node, access).await?).await.map_err(|error| translate(&error))
}

async fn open(node: &Node, access: &Access) -> Result<Stream, StoreError> {
    let failed = |error: std::io::Error| unavailable(error.to_string());
    let stream = TcpStream::connect((node.host.as_str(), node.port)).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    Ok(match &access.tls {
        None => Box::new(stream),
        Some(tls) => {
            Box::new(tls.secure(stream, &node.host).await.map_err(|error| unavailable(format!("TLS: {error}")))?)
        }
    })
}

/// What a connection says first.
async fn introduction(access: &Access, protocol: Protocol) -> Result<RedisConnectionInfo, StoreError> {
    let version = match protocol {
        Protocol::Resp2 => ProtocolVersion::RESP2,
        Protocol::Resp3 => ProtocolVersion::RESP3,
    };
    let mut info = RedisConnectionInfo::default().set_protocol(version).set_db(access.database.into());
    if let Some(username) = &access.username {
        info = info.set_username(username);
    }
    match &access.password {
        None => {}
        Some(Password::Text(text)) => info = info.set_password(text),
        Some(Password::File(path)) => info = info.set_password(password(path).await?),
    }
    Ok(info)
}

/// The first line of a file.
async fn password(path: &Path) -> Result<String, StoreError> {
    let file = path.to_owned();
    // Where a slow disk holds up nobody else.
    let read = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        std::fs::File::open(file)?.take(PASSWORD).read_to_string(&mut text).map(|_| text)
    });
    let read = read.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    let text = read.map_err(|error| unavailable(format!("password_file {}: {error}", path.display())))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(unavailable(format!("password_file {} is empty", path.display()))),
    }
}
