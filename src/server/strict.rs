//! A client's connection under hyper, read strictly: hyper sees only requests that have one meaning. What a refused one
//! is told, the doors decide.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::wire::framing::{Limits, Requests};
use crate::wire::{Client, Sieve, Sifted, Watch};

/// What hyper reads in place of a head that was refused. It does no harm, and the service knows it by its number.
const DECOY: &[u8] = b"GET / HTTP/1.1\r\nHost: refused\r\nConnection: close\r\n\r\n";

/// The connection.
pub(super) struct Strict<S> {
    stream: S,
    client: Arc<Client>,
    watch: Arc<Watch>,
    sieve: Sieve<Requests>,
    /// What is left to be read of the decoy.
    decoy: &'static [u8],
    reading: Reading,
    /// What is left to be written of an interim answer.
    interim: Bytes,
}

enum Reading {
    Open,
    /// A head was refused: nothing is read after it.
    Refused,
    /// The client sends no more.
    Ended,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Strict<S> {
    pub(super) fn new(stream: S, client: Arc<Client>, watch: Arc<Watch>, limits: Limits) -> Self {
        Self {
            stream,
            client,
            watch,
            sieve: Sieve::new(Requests::new(limits)),
            decoy: b"",
            reading: Reading::Open,
            interim: Bytes::new(),
        }
    }

    fn poll_sieve(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let exchange = &self.client.exchange;
        let requests = self.sieve.machine();
        if requests.is_undecided()
            && let Some(raw) = exchange.decision(requests.heads(), cx)
        {
            self.sieve.machine_mut().decided(raw);
        }
        match ready!(self.sieve.poll_read(&mut self.stream, cx, buf))? {
            Sifted::Good => {
                if self.sieve.is_passed_on() {
                    exchange.passed_on(self.sieve.machine().whole());
                }
            }
            Sifted::End => self.reading = Reading::Ended,
            Sifted::Wait => return Poll::Pending,
            Sifted::Refused(fault) if self.sieve.machine().is_in_body() => {
                exchange.break_off(fault);
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, fault)));
            }
            Sifted::Refused(fault) => {
                tracing::debug!(%fault, "request refused");
                exchange.refuse(self.sieve.machine().heads() + 1, fault);
                self.reading = Reading::Refused;
                self.decoy = DECOY;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Writes interim answers for as long as the moment is right; one that was begun is written to its end whatever comes.
    fn poll_interim(&mut self, cx: &mut Context<'_>, next: Option<Bytes>) -> Poll<io::Result<()>> {
        if let Some(next) = next {
            debug_assert!(self.interim.is_empty());
            self.interim = next;
        }
        loop {
            while !self.interim.is_empty() {
                let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.interim))?;
                if written == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.interim.advance(written);
            }
            match self.client.exchange.writing() {
                Some(next) => self.interim = next,
                None => return Poll::Ready(Ok(())),
            }
        }
    }

    fn poll_write_with(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_interim(cx, None))?;
        let written = write(Pin::new(&mut self.stream), cx);
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.client.exchange.wrote();
        }
        written
    }

    /// Whether the client may still be sending something that nobody reads.
    fn leaves_unread(&self) -> bool {
        let requests = self.sieve.machine();
        let cut_short = self.sieve.is_clogged() || requests.is_in_body();
        cut_short && !requests.is_raw() && !matches!(self.reading, Reading::Ended)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Strict<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        loop {
            if !this.decoy.is_empty() {
                let (some, rest) = this.decoy.split_at(this.decoy.len().min(buf.remaining()));
                buf.put_slice(some);
                this.decoy = rest;
                return Poll::Ready(Ok(()));
            }
            match this.reading {
                // An end read here would end the answer too.
                Reading::Refused => return Poll::Pending,
                Reading::Ended if this.client.exchange.end(cx) => return Poll::Pending,
                Reading::Ended => return Poll::Ready(Ok(())),
                Reading::Open => ready!(this.poll_sieve(cx, buf))?,
            }
            if buf.filled().len() > before {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Strict<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_with(cx, |stream, cx| stream.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_with(cx, |stream, cx| stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.interim.is_empty() {
            let next = this.client.exchange.flushing(cx);
            ready!(this.poll_interim(cx, next))?;
        } else {
            ready!(this.poll_interim(cx, None))?;
        }
        ready!(Pin::new(&mut this.stream).poll_flush(cx))?;
        this.client.exchange.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // Closing on unread bytes resets a connection, and a reset can overtake the answer.
        if this.leaves_unread() {
            this.watch.leaves_unread();
        }
        Pin::new(&mut this.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
