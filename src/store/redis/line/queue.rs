//! Who waits for which reply of a connection: replies come in the order of the commands. It does no input or output.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use redis::Value;

use super::super::deadline::Deadline;
use super::Lost;

/// How many commands may be under way: what comes then waits for its turn.
const COMMANDS: usize = 4_096;

/// How many bytes may wait to be written before further commands wait for their turn.
const BYTES: usize = 4 << 20;

/// The commands of a connection, from their sending to the taking of their replies.
#[derive(Default)]
pub(super) struct Queue {
    /// Commands that are still to be written.
    out: Vec<u8>,
    slots: Vec<Slot>,
    /// Slots that nobody uses.
    free: Vec<u32>,
    /// Whose turn it is when a reply comes.
    order: VecDeque<u32>,
    /// Who writes and reads.
    driver: Option<Waker>,
    /// When the driver looks for commands whose time has passed.
    alarm: Option<Instant>,
    /// Why there will be no more replies.
    end: Option<Arc<str>>,
    /// Whether somebody waits for room.
    crowded: bool,
}

/// What became of a command.
enum Slot {
    /// Nothing: there is none.
    Free,
    /// Its reply is awaited.
    Waiting { deadline: Deadline, late: bool, caller: Option<Waker> },
    /// Nobody waits any more, and its reply is still to come.
    Left,
    /// Its reply has come and is not yet taken.
    Answered(Value),
}

/// What the driver has to know at each of its turns.
pub(super) struct Turn {
    /// When commands are to be looked for whose time has passed.
    pub(super) alarm: Option<Instant>,
    /// Whether those who wait for room may try again.
    pub(super) eases: bool,
}

/// A reply came that nobody has asked for.
#[derive(Debug, thiserror::Error)]
#[error("Redis answered without being asked")]
pub(super) struct Unasked;

impl Queue {
    /// Has so many commands written in a row, if there is room for them; where their replies will be.
    pub(super) fn admit<const N: usize>(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>),
        deadline: Deadline,
    ) -> Result<Option<[u32; N]>, Lost> {
        if let Some(cause) = &self.end {
            return Err(Lost::Broken(Arc::clone(cause)));
        }
        if self.is_full(N) {
            self.crowded = true;
            return Ok(None);
        }
        let sooner = self.alarm.is_none_or(|alarm| deadline.end < alarm);
        if sooner {
            self.alarm = Some(deadline.end);
        }
        // One that has been woken for other commands takes these along.
        if (sooner || self.out.is_empty())
            && let Some(driver) = &self.driver
        {
            driver.wake_by_ref();
        }
        write(&mut self.out);
        Ok(Some([(); N].map(|()| {
            let place = self.place(Slot::Waiting { deadline, late: false, caller: None });
            self.order.push_back(place);
            place
        })))
    }

    fn is_full(&self, more: usize) -> bool {
        self.order.len() + more > COMMANDS || self.out.len() >= BYTES
    }

    fn place(&mut self, slot: Slot) -> u32 {
        if let Some(place) = self.free.pop() {
            self.slots[place as usize] = slot;
            return place;
        }
        self.slots.push(slot);
        // Far fewer than that, by the bound above.
        u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
    }

    /// The reply, if it has come.
    pub(super) fn poll(&mut self, place: u32, context: &Context<'_>) -> Poll<Result<Value, Lost>> {
        let slot = &mut self.slots[place as usize];
        match slot {
            Slot::Answered(reply) => {
                let reply = std::mem::replace(reply, Value::Nil);
                self.release(place);
                Poll::Ready(Ok(reply))
            }
            Slot::Waiting { late: true, deadline, .. } => Poll::Ready(Err(Lost::Late(*deadline))),
            Slot::Waiting { caller, .. } => {
                if let Some(cause) = &self.end {
                    return Poll::Ready(Err(Lost::Broken(Arc::clone(cause))));
                }
                if caller.as_ref().is_none_or(|waker| !waker.will_wake(context.waker())) {
                    *caller = Some(context.waker().clone());
                }
                Poll::Pending
            }
            Slot::Free | Slot::Left => Poll::Pending,
        }
    }

    /// Nobody waits for the reply any more.
    pub(super) fn leave(&mut self, place: u32) {
        match &mut self.slots[place as usize] {
            slot @ Slot::Waiting { .. } => *slot = Slot::Left,
            Slot::Answered(_) => self.release(place),
            Slot::Free | Slot::Left => {}
        }
    }

    fn release(&mut self, place: u32) {
        self.slots[place as usize] = Slot::Free;
        self.free.push(place);
    }

    /// The next reply has come.
    pub(super) fn answer(&mut self, reply: Value) -> Result<(), Unasked> {
        let place = self.order.pop_front().ok_or(Unasked)?;
        match std::mem::replace(&mut self.slots[place as usize], Slot::Answered(reply)) {
            Slot::Waiting { caller, .. } => wake(caller),
            Slot::Left | Slot::Free | Slot::Answered(_) => self.release(place),
        }
        Ok(())
    }

    /// No more replies will come: all who wait are told why.
    pub(super) fn finish(&mut self, cause: Arc<str>) {
        self.end.get_or_insert(cause);
        for place in &self.order {
            if let Slot::Waiting { caller, .. } = &mut self.slots[*place as usize] {
                wake(caller.take());
            }
        }
    }

    /// Gives the driver what is to be written, where it has nothing left of what it had, and remembers whom to wake for more.
    pub(super) fn attend(&mut self, written: &mut Vec<u8>, context: &Context<'_>) {
        if self.driver.as_ref().is_none_or(|driver| !driver.will_wake(context.waker())) {
            self.driver = Some(context.waker().clone());
        }
        if written.is_empty() {
            std::mem::swap(&mut self.out, written);
        }
    }

    /// What the driver has to know when it has written and read.
    pub(super) fn turn(&mut self) -> Turn {
        Turn { alarm: self.alarm, eases: self.eases() }
    }

    /// Tells those whose time has passed, and sets the alarm to the next of them.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Instant> {
        self.alarm = None;
        for place in &self.order {
            if let Slot::Waiting { deadline, late, caller } = &mut self.slots[*place as usize]
                && !*late
            {
                if deadline.end <= now {
                    *late = true;
                    wake(caller.take());
                } else if self.alarm.is_none_or(|alarm| deadline.end < alarm) {
                    self.alarm = Some(deadline.end);
                }
            }
        }
        self.alarm
    }

    /// Whether those who wait for room may try again.
    fn eases(&mut self) -> bool {
        let eases = self.crowded && !self.is_full(1);
        self.crowded &= !eases;
        eases
    }
}

#[cfg(test)]
impl Queue {
    /// Whether nothing is under way, and every place is free.
    pub(super) fn is_at_rest(&self) -> bool {
        self.order.is_empty() && self.out.is_empty() && self.free.len() == self.slots.len()
    }

    /// How much waits to be written.
    pub(super) fn bytes(&self) -> usize {
        self.out.len()
    }
}

fn wake(caller: Option<Waker>) {
    if let Some(caller) = caller {
        caller.wake();
    }
}
