//! What writes a connection's commands and reads its replies. Who waits for them is the queue's matter.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::Shared;
use super::queue::Turn;
use super::replies::Replies;
use crate::clock::Clock;

/// How much room for commands is kept when there are none.
const KEPT: usize = 64 << 10;

/// Drives a stream until it ends. Then, or when it is dropped, all who wait are told.
pub(super) struct Driver<S> {
    stream: S,
    shared: Arc<Shared>,
    /// What is being written, and how much of it has been.
    out: Vec<u8>,
    written: usize,
    replies: Replies,
    /// Rings when a command's time has passed.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<S> Driver<S> {
    pub(super) fn new(stream: S, shared: Arc<Shared>) -> Self {
        Self { stream, shared, out: Vec::new(), written: 0, replies: Replies::default(), alarm: None }
    }
}

impl<S> Drop for Driver<S> {
    fn drop(&mut self) {
        self.shared.finish("the connection is closed".into());
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Future for Driver<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let driver = &mut *self;
        // Writing comes first: meanwhile more replies come, and are read in one go.
        match driver.write(context).and_then(|()| driver.read(context)) {
            Ok(()) => {
                let Turn { alarm, eases } = driver.shared.queue().turn();
                if eases {
                    driver.shared.room.notify_waiters();
                }
                driver.watch_time(alarm, context);
                Poll::Pending
            }
            Err(error) => {
                driver.shared.finish(error.to_string().into());
                Poll::Ready(())
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Driver<S> {
    /// Writes all there is, as far as the stream takes it.
    fn write(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        loop {
            let begun = self.written < self.out.len();
            self.shared.queue().attend(&mut self.out, context);
            // What comes after the queue was emptied wakes the driver again; what came while there was a rest did not.
            if self.send(context)?.is_pending() || !begun {
                return Ok(());
            }
        }
    }

    /// Writes what it has. Pending where the stream does not take all of it.
    fn send(&mut self, context: &mut Context<'_>) -> io::Result<Poll<()>> {
        let mut stream = Pin::new(&mut self.stream);
        while self.written < self.out.len() {
            match stream.as_mut().poll_write(context, &self.out[self.written..]) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(count) => self.written += count?,
                Poll::Pending => return Ok(Poll::Pending),
            }
        }
        self.out.clear();
        self.out.shrink_to(KEPT);
        self.written = 0;
        // What a stream holds back it goes on with when it is asked again.
        if let Poll::Ready(flushed) = stream.poll_flush(context) {
            flushed?;
        }
        Ok(Poll::Ready(()))
    }

    /// Reads all there is, and hands out the replies in it.
    fn read(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        loop {
            let mut room = ReadBuf::new(self.replies.room());
            match Pin::new(&mut self.stream).poll_read(context, &mut room) {
                Poll::Ready(read) => read?,
                Poll::Pending => return Ok(()),
            }
            let count = room.filled().len();
            if count == 0 {
                return Err(io::Error::other("the server closed the connection"));
            }
            self.replies.fill(count);
            let mut queue = self.shared.queue();
            while let Some(reply) = self.replies.reply().map_err(io::Error::other)? {
                queue.answer(reply).map_err(io::Error::other)?;
            }
        }
    }

    /// Tells those whose time has passed.
    fn watch_time(&mut self, mut next: Option<Instant>, context: &mut Context<'_>) {
        while let Some(end) = next {
            let end = end.into();
            let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
            if alarm.deadline() != end {
                alarm.as_mut().reset(end);
            }
            if alarm.as_mut().poll(context).is_pending() {
                return;
            }
            next = self.shared.queue().expire(Clock::instant());
        }
    }
}
