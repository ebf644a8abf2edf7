//! A tiny API for the bench: answers every POST with 201 and 400 bytes, and counts how often it saw each key.
//! It speaks only as much HTTP as the proxies under test send.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const ANSWER_BYTES: usize = 400;

type Counts = Arc<Mutex<HashMap<Box<[u8]>, u64>>>;

/// The API on a thread of its own.
pub(crate) struct Upstream {
    port: u16,
    counts: Counts,
}

/// What reached the API.
pub(crate) struct Executions {
    /// Different keys.
    pub(crate) keys: u64,
    /// Requests in all.
    pub(crate) requests: u64,
}

impl Upstream {
    pub(crate) fn start() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
        let port = listener.local_addr()?.port();
        let counts = Counts::default();
        let shared = Arc::clone(&counts);
        std::thread::Builder::new()
            .name("upstream".to_owned())
            .spawn(move || runtime.block_on(serve(listener, shared)))?;
        Ok(Self { port, counts })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn forget(&self) {
        lock(&self.counts).clear();
    }

    pub(crate) fn executions(&self) -> Executions {
        let counts = lock(&self.counts);
        Executions { keys: counts.len() as u64, requests: counts.values().sum() }
    }
}

fn lock(counts: &Counts) -> MutexGuard<'_, HashMap<Box<[u8]>, u64>> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, counts: Counts) {
    let answer: Arc<[u8]> = answer().into();
    while let Ok((connection, _)) = listener.accept().await {
        let (counts, answer) = (Arc::clone(&counts), Arc::clone(&answer));
        tokio::spawn(async move {
            // A proxy that closes its connection ends the task; that is no fault.
            talk(connection, &counts, &answer).await.ok();
        });
    }
}

fn answer() -> Vec<u8> {
    let head = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nLocation: /orders/1\r\n";
    let body = format!("{{\"id\":1,\"note\":\"{}\"}}", "x".repeat(ANSWER_BYTES - 18));
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

async fn talk(mut connection: TcpStream, counts: &Counts, answer: &[u8]) -> Result<()> {
    connection.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(16 * 1024);
    loop {
        let Some(head) = read_head(&mut connection, &mut buffer).await? else { return Ok(()) };
        let length: usize = field(&buffer[..head], "content-length").context("a request without length")?.parse()?;
        while buffer.len() < head + length {
            if connection.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        }
        let key = field(&buffer[..head], "idempotency-key").context("a request without key")?;
        *lock(counts).entry(key.as_bytes().into()).or_default() += 1;
        connection.write_all(answer).await?;
        buffer.drain(..head + length);
    }
}

/// Reads until a whole head is in the buffer, and tells its length; none when the peer has closed in between.
pub(crate) async fn read_head(connection: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<Option<usize>> {
    loop {
        if let Some(at) = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            return Ok(Some(at + 4));
        }
        if connection.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// A header field's value.
pub(crate) fn field<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    let lines = head.split(|&byte| byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    let mut fields = lines.filter_map(|line| line.split_once(':'));
    fields.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}
