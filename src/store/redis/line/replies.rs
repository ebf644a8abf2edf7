//! Replies out of the bytes that a server sends, however they are cut. It knows where a reply ends; what is none of the
//! few that records' commands get is left to the client library to read.

use redis::{Value, parse_redis_value};

/// The longest reply that is taken, where nothing else is said: more than any record has.
const LONGEST: usize = 80 << 20;

/// The longest value that is passed over, where it is too long to be taken.
const PASSED_OVER: usize = 1 << 30;

/// How many values a reply may have in it.
const VALUES: usize = 1 << 20;

/// How long a line of words may be.
const LINE: usize = 64 << 10;

/// How long the line of a number may be, with its end.
const NUMBER: usize = 24;

/// What is read at once, at least.
const CHUNK: usize = 16 << 10;

/// How much room is kept when there is nothing in it.
const KEPT: usize = 64 << 10;

/// Why bytes are no replies. The connection that they came by is of no more use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// They begin with something else than a kind of reply, or an end is not where it belongs.
    #[error("Redis answered with something that is no reply")]
    Form,
    /// A reply that is longer than any may be, and cannot be passed over.
    #[error("Redis answered with a reply that is too long")]
    Length,
}

/// Bytes from a server, and the replies in them.
#[derive(Debug)]
pub struct Replies {
    /// Received and not yet taken: `begin..end`. What is behind is room.
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    /// How far the reply at `begin` has been gone through, and how many values are still missing there.
    walked: usize,
    missing: usize,
    /// How many bytes are still to come of a value that is too long.
    skip: usize,
    longest: usize,
}

impl Default for Replies {
    fn default() -> Self {
        Self::up_to(LONGEST)
    }
}

impl Replies {
    /// Replies of which none may be longer than `longest`.
    pub fn up_to(longest: usize) -> Self {
        Self { buffer: Vec::new(), begin: 0, end: 0, walked: 0, missing: 1, skip: 0, longest }
    }

    /// Where the next bytes may be put.
    pub fn room(&mut self) -> &mut [u8] {
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
            if self.buffer.len() > KEPT {
                self.buffer = Vec::new();
            }
        }
        if self.buffer.len() - self.end < CHUNK {
            self.buffer.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
            // As much again as has come, whatever a length says will.
            self.buffer.resize(self.buffer.len().max(2 * self.end + 2 * CHUNK), 0);
        }
        &mut self.buffer[self.end..]
    }

    /// So many bytes have been put into the room.
    pub fn fill(&mut self, count: usize) {
        self.end = (self.end + count).min(self.buffer.len());
    }

    /// The next reply, if all of it has come. A value that is too long is answered for by an error in its place.
    ///
    /// # Errors
    /// When the bytes are no replies.
    pub fn reply(&mut self) -> Result<Option<Value>, Malformed> {
        loop {
            let dropped = self.skip.min(self.end - self.begin);
            self.begin += dropped;
            self.skip -= dropped;
            if let Some(b'$' | b':') = self.bytes().first()
                && self.walked == 0
            {
                return self.plain();
            }
            if !self.walk()? {
                return Ok(None);
            }
            let reply = self.begin..self.begin + self.walked;
            (self.begin, self.walked, self.missing) = (reply.end, 0, 1);
            // What a server tells without being asked answers nobody.
            if self.buffer[reply.start] != b'>' {
                return read(&self.buffer[reply]).map(Some);
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer[self.begin..self.end]
    }

    /// The replies that records' commands get nearly always: a value, none, a number.
    fn plain(&mut self) -> Result<Option<Value>, Malformed> {
        let bytes = self.bytes();
        let Some(head) = Head::read(bytes)? else { return Ok(None) };
        let (value, taken) = match (head.kind, head.number) {
            (b':', number) => (Value::Int(number), head.length),
            (_, -1) => (Value::Nil, head.length),
            _ => {
                let whole = head.whole()?;
                if whole > PASSED_OVER.max(self.longest) {
                    return Err(Malformed::Length);
                }
                if whole > self.longest {
                    self.skip = whole;
                    return read(b"-TOOLONG the value is longer than any record\r\n").map(Some);
                }
                let Some(value) = bytes.get(head.length..whole) else { return Ok(None) };
                (Value::BulkString(ended(value)?.to_vec()), whole)
            }
        };
        self.begin += taken;
        Ok(Some(value))
    }

    /// Goes through the reply as far as it has come. False when more of it is to come.
    fn walk(&mut self) -> Result<bool, Malformed> {
        while self.missing > 0 {
            let bytes = &self.buffer[self.begin + self.walked..self.end];
            let Some(head) = Head::read(bytes)? else { return Ok(false) };
            let (whole, missing) = (head.whole()?, (self.missing - 1).saturating_add(head.values()?));
            if self.walked.saturating_add(whole) > self.longest || missing > VALUES {
                return Err(Malformed::Length);
            }
            if whole > bytes.len() {
                return Ok(false);
            }
            (self.walked, self.missing) = (self.walked + whole, missing);
        }
        Ok(true)
    }
}

/// The first line of a value.
struct Head {
    kind: u8,
    /// The number that it is, or that tells how much comes behind it; 0 where it is words.
    number: i64,
    /// How long it is, with its end.
    length: usize,
}

impl Head {
    fn read(bytes: &[u8]) -> Result<Option<Self>, Malformed> {
        let Some((&kind, rest)) = bytes.split_first() else { return Ok(None) };
        let is_number = match kind {
            b'$' | b':' | b'*' | b'%' | b'~' | b'>' | b'|' | b'=' | b'!' => true,
            b'+' | b'-' | b'_' | b'#' | b',' | b'(' => false,
            _ => return Err(Malformed::Form),
        };
        let longest = if is_number { NUMBER } else { LINE };
        let Some(end) = rest.iter().take(longest).position(|byte| *byte == b'\r') else {
            return if rest.len() < longest { Ok(None) } else { Err(Malformed::Form) };
        };
        match rest.get(end + 1) {
            None => return Ok(None),
            Some(b'\n') => {}
            Some(_) => return Err(Malformed::Form),
        }
        let number = if is_number { number(&rest[..end]).ok_or(Malformed::Form)? } else { 0 };
        Ok(Some(Self { kind, number, length: end + 3 }))
    }

    /// How long the value is, without the values in it.
    fn whole(&self) -> Result<usize, Malformed> {
        match self.kind {
            b'$' if self.number == -1 => Ok(self.length),
            b'$' | b'=' | b'!' => {
                let behind = usize::try_from(self.number).map_err(|_| Malformed::Form)?;
                behind.checked_add(self.length + 2).ok_or(Malformed::Length)
            }
            _ => Ok(self.length),
        }
    }

    /// How many values are in it.
    fn values(&self) -> Result<usize, Malformed> {
        let each = match self.kind {
            b'*' if self.number == -1 => return Ok(0),
            b'*' | b'~' | b'>' => 1,
            b'%' | b'|' => 2,
            _ => return Ok(0),
        };
        let count = usize::try_from(self.number).map_err(|_| Malformed::Form)?;
        // What attributes belong to comes behind them.
        Ok(count.checked_mul(each).ok_or(Malformed::Length)?.saturating_add(usize::from(self.kind == b'|')))
    }
}

/// A whole number in digits.
fn number(text: &[u8]) -> Option<i64> {
    str::from_utf8(text).ok()?.parse().ok()
}

/// The value in front of its end.
fn ended(bytes: &[u8]) -> Result<&[u8], Malformed> {
    bytes.strip_suffix(b"\r\n").ok_or(Malformed::Form)
}

fn read(reply: &[u8]) -> Result<Value, Malformed> {
    parse_redis_value(reply).map_err(|_| Malformed::Form)
}

#[cfg(test)]
mod tests;
