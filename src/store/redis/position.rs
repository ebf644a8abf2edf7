//! How far a pass through all records has come: which primary, which run of it, which position in it. Pure.

use std::sync::Arc;

use super::faults::unavailable;
use super::link::Link;
use super::{Cursor, StoreError};

/// A place in a pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// Where the primary's share begins.
    pub(super) turn: u16,
    /// The run of it that counts positions this way.
    pub(super) run: u64,
    /// What `SCAN` said last.
    pub(super) at: u64,
}

/// A primary's part of a pass through all records.
pub(super) struct Turn {
    /// What the pass has come to.
    pub(super) at: u16,
    pub(super) link: Arc<Link>,
    /// Where it goes on after this one.
    pub(super) next: Option<u16>,
}

impl Position {
    pub(super) fn read(cursor: &Cursor) -> Result<Self, StoreError> {
        if *cursor == Cursor::START {
            return Ok(Self::default());
        }
        let strange = || unavailable("the listing was begun in another store");
        let bytes: [u8; 18] = cursor.0[..].try_into().map_err(|_| strange())?;
        let (turn, rest) = bytes.split_first_chunk().ok_or_else(strange)?;
        let (run, rest) = rest.split_first_chunk().ok_or_else(strange)?;
        let (at, _) = rest.split_first_chunk().ok_or_else(strange)?;
        Ok(Self { turn: u16::from_be_bytes(*turn), run: u64::from_be_bytes(*run), at: u64::from_be_bytes(*at) })
    }

    /// Where to begin in the share that it has come to: in another one than it was in, at the beginning.
    pub(super) fn within(self, turn: u16) -> Self {
        if self.turn == turn { self } else { Self { turn, ..Self::default() } }
    }

    /// Where it goes on after a page of a run that ended at `at`; none at the end of it all.
    pub(super) fn after(turn: &Turn, run: u64, at: u64) -> Option<Cursor> {
        let next = if at == 0 { Self { turn: turn.next?, ..Self::default() } } else { Self { turn: turn.at, run, at } };
        Some(next.cursor())
    }

    fn cursor(self) -> Cursor {
        let (turn, run, at) = (self.turn.to_be_bytes(), self.run.to_be_bytes(), self.at.to_be_bytes());
        Cursor([&turn[..], &run, &at].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_of_other_stores_are_refused() {
        let position = Position { turn: 5_461, run: u64::MAX - 1, at: 77 };
        assert_eq!(Position::read(&position.cursor()).unwrap(), position);
        assert_eq!(Position::read(&Cursor::START).unwrap(), Position::default());
        for strange in [vec![1, 2, 3], vec![0; 17], vec![0; 19]] {
            assert!(Position::read(&Cursor(strange)).is_err());
        }
    }

    #[test]
    fn another_share_begins_at_its_beginning() {
        let position = Position { turn: 100, run: 7, at: 77 };
        assert_eq!(position.within(100), position);
        assert_eq!(position.within(200), Position { turn: 200, run: 0, at: 0 });
    }
}
