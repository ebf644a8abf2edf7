//! Opening a connection: TCP, TLS, user and password, RESP. It knows addresses and secrets, and nothing of records.

use std::borrow::Cow;
use std::io::Read as _;
use std::path::Path;

use redis::aio::{AsyncStream, MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, Value};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio_rustls::client::TlsStream;

use super::StoreError;
use super::deadline::Deadline;
use super::faults::{cause, refuse, translate, unavailable};
use super::line::{Digits, Line, Words, command};
use super::settings::{Access, Node, Password, Protocol};

/// How many commands may wait to be written to the connection.
const QUEUE: usize = 1_024;

/// How long a password's file may be.
const PASSWORD: u64 = 4_096;

/// A connection to ask about servers. Dropped, it is closed, whoever still waits for an answer.
pub(super) struct Connection {
    pub(super) line: MultiplexedConnection,
    driver: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

enum Stream {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

impl Stream {
    fn boxed(self) -> Box<dyn AsyncStream + Send + Unpin> {
        match self {
            Self::Plain(stream) => Box::new(stream),
            Self::Secure(stream) => stream,
        }
    }
}

/// Connects to ask about servers, and is let in.
pub(super) async fn connect(node: &Node, access: &Access) -> Result<Connection, StoreError> {
    let info = introduction(access, access.protocol).await?;
    // Our own limits hold for calls and for connecting.
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_pipeline_buffer_size(QUEUE);
    let opened = MultiplexedConnection::new_with_config(&info, open(node, access).await?.boxed(), config).await;
    let (line, driver) = opened.map_err(|error| translate(&error))?;
    Ok(Connection { line, driver: tokio::spawn(driver).abort_handle() })
}

/// Connects for records, and is let in.
pub(super) async fn line(node: &Node, access: &Access, deadline: Deadline) -> Result<Line, StoreError> {
    let line = match open(node, access).await? {
        Stream::Plain(stream) => Line::over(stream),
        Stream::Secure(stream) => Line::over(stream),
    };
    let say = async |words: Words<'_>| {
        let [reply] = line.send([&command(words)], deadline).await?;
        refuse(reply)
    };
    let secret = secret(access).await?;
    let (user, secret) = (access.username.as_deref().map(str::as_bytes), secret.as_deref().map(str::as_bytes));
    let let_in = match (access.protocol, user, secret) {
        (Protocol::Resp3, _, None) => say(&[b"HELLO", b"3"]).await,
        (Protocol::Resp3, user, Some(secret)) => {
            say(&[b"HELLO", b"3", b"AUTH", user.unwrap_or(b"default"), secret]).await
        }
        (Protocol::Resp2, Some(user), Some(secret)) => say(&[b"AUTH", user, secret]).await,
        (Protocol::Resp2, None, Some(secret)) => say(&[b"AUTH", secret]).await,
        (Protocol::Resp2, _, None) => Ok(Value::Nil),
    };
    let_in.map_err(|error| unavailable(format!("authentication: {}", cause(&error))))?;
    if access.database != 0 {
        say(&[b"SELECT", Digits::of(access.database.into()).text()]).await?;
    }
    Ok(line)
}

/// Connects to hear what is published.
pub(super) async fn listen(node: &Node, access: &Access) -> Result<PubSub, StoreError> {
    let info = introduction(access, Protocol::Resp2).await?;
    PubSub::new(&info, open(node, access).await?.boxed()).await.map_err(|error| translate(&error))
}

async fn open(node: &Node, access: &Access) -> Result<Stream, StoreError> {
    let failed = |error: std::io::Error| unavailable(error.to_string());
    let stream = TcpStream::connect((node.host.as_str(), node.port)).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    let Some(tls) = &access.tls else { return Ok(Stream::Plain(stream)) };
    let secured = tls.secure(stream, &node.host).await.map_err(|error| unavailable(format!("TLS: {error}")))?;
    Ok(Stream::Secure(Box::new(secured)))
}

/// What a connection of the client library says first.
async fn introduction(access: &Access, protocol: Protocol) -> Result<RedisConnectionInfo, StoreError> {
    let version = match protocol {
        Protocol::Resp2 => ProtocolVersion::RESP2,
        Protocol::Resp3 => ProtocolVersion::RESP3,
    };
    let mut info = RedisConnectionInfo::default().set_protocol(version).set_db(access.database.into());
    if let Some(username) = &access.username {
        info = info.set_username(username);
    }
    if let Some(secret) = secret(access).await? {
        info = info.set_password(&*secret);
    }
    Ok(info)
}

/// The password as it is now.
async fn secret(access: &Access) -> Result<Option<Cow<'_, str>>, StoreError> {
    Ok(match &access.password {
        None => None,
        Some(Password::Text(text)) => Some(text.into()),
        Some(Password::File(path)) => Some(first_line(path).await?.into()),
    })
}

/// The first line of a password's file.
async fn first_line(path: &Path) -> Result<String, StoreError> {
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
