//! Replies of a Redis: however they are cut they are the same, and what is taken is what the client library reads too.
//! It knows nothing of what they answer.

use oncegate::store::redis::{Malformed, Replies};
use redis::Value;

use super::dice::Dice;

/// Takes the input for the bytes that a server sends.
pub fn check(data: &[u8]) {
    let whole = taken(data.chunks(data.len().max(1)));
    assert_eq!(taken(data.chunks(1)), whole, "byte by byte");
    let size = 1 + Dice::of(data).below(40);
    assert_eq!(taken(data.chunks(size)), whole, "{size} bytes at a time");
    let theirs = by_the_library(data);
    assert!(alike(&theirs, &whole.0), "{:?} are not the first of {theirs:?}", whole.0);
}

/// What comes of bytes that arrive in pieces, up to a fault.
fn taken<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, Option<Malformed>) {
    let (mut replies, mut all) = (Replies::default(), Vec::new());
    for mut piece in pieces {
        while !piece.is_empty() {
            let room = replies.room();
            let count = piece.len().min(room.len());
            room[..count].copy_from_slice(&piece[..count]);
            replies.fill(count);
            piece = &piece[count..];
            loop {
                match replies.reply() {
                    Ok(Some(reply)) => all.push(told(&reply)),
                    Ok(None) => break,
                    Err(fault) => return (all, Some(fault)),
                }
            }
        }
    }
    (all, None)
}

/// As text, in which what is no number is equal to itself.
fn told(reply: &Value) -> String {
    format!("{reply:?}")
}

/// What the client library reads, up to what it does not understand, without what answers nobody.
fn by_the_library(mut data: &[u8]) -> Vec<String> {
    let mut parser = redis::Parser::new();
    let all = std::iter::from_fn(|| parser.parse_value(&mut data).ok());
    all.filter(|reply| !matches!(reply, Value::Push { .. })).map(|reply| told(&reply)).collect()
}

/// Whether what was taken is what they begin with. A value beyond all bounds has an error in its place, and takes
/// with it what follows.
fn alike(theirs: &[String], taken: &[String]) -> bool {
    let own = taken.iter().position(|reply| reply.contains("TOOLONG")).unwrap_or(taken.len());
    theirs.starts_with(&taken[..own])
}
