//! The life of one operation as DESIGN.md section 3 draws it. Written from the page: uses nothing of the machine's rules.

use super::system::{ABSENT_AFTER, ATTEMPT_TIMEOUT, DOUBT_RETENTION, LEASE, Look, RETENTION};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    InFlight { lease: u64 },
    InDoubt,
    Completed { mark: u8 },
}

/// What is remembered of the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) stage: Stage,
    pub(crate) attempt: u8,
    pub(crate) number: u32,
    pub(crate) look: Look,
    pub(crate) expires: u64,
    /// Of a doubt: since when, and whether the attempt may still be under way.
    doubt: (u64, bool),
}

/// What the upstream says when it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    Executed,
    Absent,
    Nothing,
}

/// The mark of the answer that it then gives.
pub(crate) const PROBED: u8 = 255;

/// What the diagram says to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Act { number: u32 },
    Changed,
    Unsure,
    InFlight,
    InDoubt,
    Completed { mark: u8 },
    Stranger { mark: u8 },
}

/// How an attempt ended, and what the outcome table makes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Kept,
    Released,
    NotSent,
    Open,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Became {
    Kept { expires: u64 },
    Released,
    NotSent,
    Doubted,
    Superseded,
}

pub(crate) struct Model {
    pub(crate) retry: bool,
    pub(crate) probe: bool,
    pub(crate) compare: bool,
    pub(crate) memory: Option<Memory>,
}

impl Model {
    pub(crate) fn pass(&mut self, now: u64) {
        self.memory = self.memory.filter(|memory| memory.expires > now);
    }

    pub(crate) fn admit(&mut self, look: Look, attempt: u8, now: u64) -> Verdict {
        let number = match self.memory {
            None => 1,
            Some(memory) if self.compare && memory.look.raw != look.raw && memory.look.settings != look.settings => {
                return Verdict::Unsure;
            }
            Some(memory) if self.compare && memory.look.raw != look.raw && memory.look.canonical != look.canonical => {
                return Verdict::Changed;
            }
            Some(memory) => match self.lapsed(memory, now) {
                Memory { stage: Stage::InFlight { .. }, .. } => return Verdict::InFlight,
                Memory { stage: Stage::Completed { mark }, look: first, .. } => {
                    let proven = look.caller.is_none() || look.caller == first.caller;
                    return if proven { Verdict::Completed { mark } } else { Verdict::Stranger { mark } };
                }
                Memory { stage: Stage::InDoubt, .. } if !self.retry => return Verdict::InDoubt,
                // Nobody acts for another by a keyed hash alone.
                Memory { look: first, .. }
                    if self.compare && first.settings == look.settings && first.canonical != look.canonical =>
                {
                    return Verdict::Changed;
                }
                Memory { number, .. } => number + 1,
            },
        };
        let stage = Stage::InFlight { lease: now + LEASE };
        let expires = now + ATTEMPT_TIMEOUT + DOUBT_RETENTION;
        self.memory = Some(Memory { stage, attempt, number, look, expires, doubt: (0, false) });
        Verdict::Act { number }
    }

    fn lapsed(&mut self, memory: Memory, now: u64) -> Memory {
        self.lapse(now);
        self.memory.unwrap_or(memory)
    }

    /// True when there was something to lapse.
    pub(crate) fn lapse(&mut self, now: u64) -> bool {
        match &mut self.memory {
            Some(memory) if matches!(memory.stage, Stage::InFlight { lease } if lease <= now) => {
                doubt(memory, now, true);
                true
            }
            _ => false,
        }
    }

    pub(crate) fn renew(&mut self, attempt: u8, now: u64) -> bool {
        match &mut self.memory {
            Some(memory) if memory.attempt == attempt && matches!(memory.stage, Stage::InFlight { .. }) => {
                memory.stage = Stage::InFlight { lease: now + LEASE };
                true
            }
            _ => false,
        }
    }

    /// True when what the upstream says ends a doubt.
    pub(crate) fn probe(&mut self, said: Said, now: u64) -> bool {
        let Some(memory) = self.memory.as_mut().filter(|memory| self.probe && memory.stage == Stage::InDoubt) else {
            return false;
        };
        let (since, lost) = memory.doubt;
        let certain = since + if lost { ABSENT_AFTER + ATTEMPT_TIMEOUT } else { ABSENT_AFTER };
        match said {
            Said::Executed => {
                memory.stage = Stage::Completed { mark: PROBED };
                memory.expires = now + RETENTION;
            }
            Said::Absent if now >= certain => self.memory = None,
            Said::Absent | Said::Nothing => return false,
        }
        true
    }

    /// `held` is what the attempt remembers of itself, for a store that has forgotten.
    pub(crate) fn settle(&mut self, held: Memory, end: End, now: u64) -> Became {
        let freed = match (end, held.number) {
            (End::Released, _) => Some(Became::Released),
            (End::NotSent, 1) => Some(Became::NotSent),
            _ => None,
        };
        if let Some(memory) = self.memory {
            if memory.attempt != held.attempt {
                return Became::Superseded;
            }
            if matches!(memory.stage, Stage::Completed { .. }) {
                return Became::Kept { expires: memory.expires };
            }
        }
        if let Some(freed) = freed {
            self.memory = None;
            return freed;
        }
        let memory = self.memory.get_or_insert(held);
        if end == End::Kept {
            memory.expires = now + RETENTION;
            memory.stage = Stage::Completed { mark: held.attempt };
            return Became::Kept { expires: memory.expires };
        }
        if !matches!(memory.stage, Stage::InDoubt) {
            doubt(memory, now, false);
        }
        Became::Doubted
    }
}

fn doubt(memory: &mut Memory, now: u64, lost: bool) {
    memory.stage = Stage::InDoubt;
    memory.doubt = (now, lost);
    memory.expires = memory.expires.max(now + DOUBT_RETENTION);
}
