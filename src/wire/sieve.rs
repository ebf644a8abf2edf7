//! Reads from a connection only what a framing machine lets pass. What is not whole yet waits here, copied; whatever is
//! good at first sight is read straight into the reader's buffer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};

use super::framing::{Fault, Follow};

/// One direction of a connection. While nothing waits, it holds no memory.
#[derive(Debug)]
pub struct Sieve<M> {
    machine: M,
    /// What was read and could not be passed on yet.
    kept: BytesMut,
    /// How much of that is good, and was only too much for the reader's buffer.
    good: usize,
    /// How much of it the machine has seen.
    seen: usize,
    fault: Option<Fault>,
}

/// What a read came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sifted {
    /// Good bytes were put into the buffer.
    Good,
    /// The connection ended.
    End,
    /// The machine cannot tell what comes next. Nothing was read.
    Wait,
    /// What comes next is refused, and all that may come after it.
    Refused(Fault),
}

impl<M: Follow> Sieve<M> {
    /// A sieve through which nothing has come yet.
    pub fn new(machine: M) -> Self {
        Self { machine, kept: BytesMut::new(), good: 0, seen: 0, fault: None }
    }

    /// The machine.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// The machine, to tell it something that no byte says.
    pub fn machine_mut(&mut self) -> &mut M {
        // What it knows may change what it makes of the bytes that wait.
        self.seen = self.good;
        &mut self.machine
    }

    /// Why what comes next is refused, if it is.
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Whether the reader has all that is good so far.
    pub fn is_passed_on(&self) -> bool {
        self.good == 0
    }

    /// Whether bytes wait that are not good yet, or never will be.
    pub fn is_clogged(&self) -> bool {
        self.fault.is_some() || !self.kept.is_empty()
    }

    /// Reads good bytes into the buffer.
    pub fn poll_read<R>(
        &mut self,
        from: &mut R,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<Sifted>>
    where
        R: AsyncRead + Unpin,
    {
        loop {
            if self.good > 0 || buf.remaining() == 0 {
                self.hand_over(buf);
                return Poll::Ready(Ok(Sifted::Good));
            }
            if let Some(fault) = self.fault {
                return Poll::Ready(Ok(Sifted::Refused(fault)));
            }
            if self.machine.waits() {
                return Poll::Ready(Ok(Sifted::Wait));
            }
            if self.seen < self.kept.len() {
                self.look_at_kept();
                continue;
            }
            let before = buf.filled().len();
            ready!(Pin::new(&mut *from).poll_read(cx, buf))?;
            if buf.filled().len() == before {
                return Poll::Ready(Ok(Sifted::End));
            }
            if self.kept.is_empty() {
                if self.take_straight(buf, before) {
                    return Poll::Ready(Ok(Sifted::Good));
                }
            } else {
                // The reader's buffer was only borrowed.
                self.kept.extend_from_slice(&buf.filled()[before..]);
                buf.set_filled(before);
            }
        }
    }

    /// Looks at what was read into the reader's buffer, and takes out of it what is not good. Whether anything is left.
    fn take_straight(&mut self, buf: &mut ReadBuf<'_>, before: usize) -> bool {
        let fresh = &buf.filled()[before..];
        let (good, done) = self.machine.follow(fresh);
        match done {
            Ok(()) => self.kept.extend_from_slice(&fresh[good..]),
            Err(fault) => self.fault = Some(fault),
        }
        // Behind a fork in the protocol the machine has looked at nothing yet; it is asked again when that is decided.
        self.seen = self.kept.len();
        buf.set_filled(before + good);
        good > 0
    }

    fn look_at_kept(&mut self) {
        let (good, done) = self.machine.follow(&self.kept);
        self.good = good;
        if let Err(fault) = done {
            self.kept.truncate(good);
            self.fault = Some(fault);
        }
        self.seen = self.kept.len();
    }

    fn hand_over(&mut self, buf: &mut ReadBuf<'_>) {
        let some = self.good.min(buf.remaining());
        buf.put_slice(&self.kept[..some]);
        self.kept.advance(some);
        self.good -= some;
        self.seen -= some;
        if self.kept.is_empty() {
            self.kept = BytesMut::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::framing::{Limits, Requests};
    use std::collections::VecDeque;

    /// Gives these pieces, one a read, then pends.
    struct Pieces(VecDeque<Vec<u8>>);

    impl AsyncRead for Pieces {
        fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            let Some(mut piece) = self.0.pop_front() else { return Poll::Pending };
            let rest = piece.split_off(piece.len().min(buf.remaining()));
            if !rest.is_empty() {
                self.0.push_front(rest);
            }
            buf.put_slice(&piece);
            Poll::Ready(Ok(()))
        }
    }

    /// Everything that passes through reads of `size` bytes, and what the last one came to.
    fn passed(sieve: &mut Sieve<Requests>, pieces: &mut Pieces, size: usize) -> (Vec<u8>, Poll<Sifted>) {
        let (mut all, mut space) = (Vec::new(), vec![0; size]);
        loop {
            let mut buf = ReadBuf::new(&mut space);
            let mut cx = Context::from_waker(std::task::Waker::noop());
            match sieve.poll_read(pieces, &mut cx, &mut buf).map(Result::unwrap) {
                Poll::Ready(Sifted::Good) => all.extend_from_slice(buf.filled()),
                last => {
                    assert!(buf.filled().is_empty());
                    return (all, last);
                }
            }
        }
    }

    const STREAM: &[u8] =
        b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: a\r\n\r\n";

    #[test]
    fn all_that_is_good_passes_whatever_the_sizes() {
        for piece in [1, 2, 7, 50, 500] {
            for size in [1, 3, 64, 1000] {
                let mut sieve = Sieve::new(Requests::new(Limits::REQUEST));
                let mut pieces = Pieces(STREAM.chunks(piece).map(<[u8]>::to_vec).collect());
                assert_eq!(passed(&mut sieve, &mut pieces, size), (STREAM.to_vec(), Poll::Pending), "{piece} {size}");
                assert_eq!((sieve.is_clogged(), sieve.kept.capacity()), (false, 0));
            }
        }
    }

    #[test]
    fn nothing_of_a_head_passes_before_it_is_whole_and_nothing_of_a_bad_one() {
        for piece in [1, 7, 500] {
            let mut sieve = Sieve::new(Requests::new(Limits::REQUEST));
            let mut pieces = Pieces([&STREAM[..STREAM.len() - 2]].concat().chunks(piece).map(<[u8]>::to_vec).collect());
            assert_eq!(passed(&mut sieve, &mut pieces, 100), (STREAM[..51].to_vec(), Poll::Pending));
            assert!(sieve.is_clogged());
            pieces.0.push_back(b"X: \0\r\n\r\n".to_vec());
            let (more, last) = passed(&mut sieve, &mut pieces, 100);
            assert!(more.is_empty() && matches!(last, Poll::Ready(Sifted::Refused(_))), "{more:?} {last:?}");
            assert_eq!(passed(&mut sieve, &mut pieces, 100).1, last, "a fault is for ever");
        }
    }
}
