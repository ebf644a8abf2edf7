//! The upstream's own word on an operation, which goes before the outcome table on routes that trust it. How it is
//! written in a message's fields is not known here.

use std::time::Duration;

use super::{Answer, Ending, Judgement, Outcomes};

/// What an upstream says of the operation beside its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// What became of the operation.
    pub outcome: Said,
    /// Whether the answer may be kept. That the operation is done is remembered in any case.
    pub keep_answer: bool,
    /// How long the outcome is to be remembered; none: as long as the route says.
    pub retention: Option<Duration>,
}

/// What an upstream says of the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// Nothing: the table judges.
    Nothing,
    /// This.
    Clearly(Judgement),
    /// Something that cannot be made out.
    Unclearly,
}

impl Word {
    /// No word at all.
    pub const NONE: Self = Self { outcome: Said::Nothing, keep_answer: true, retention: None };

    /// How an attempt ended that brought an answer with this status, and this word.
    pub fn ending(&self, outcomes: &Outcomes, status: u16, retry_after: bool, answer: Answer) -> Ending {
        let judgement = self.judge(outcomes.judge(status, retry_after));
        let answer = if self.keep_answer { answer } else { Answer::TooLarge { status, location: None } };
        Ending::Answered { judgement, status, answer, retention: self.retention }
    }

    /// The word goes before the table. One that cannot be made out may have said the contrary: it frees no key.
    fn judge(&self, table: Judgement) -> Judgement {
        match (self.outcome, table) {
            (Said::Clearly(judgement), _) => judgement,
            (Said::Unclearly, Judgement::Release) => Judgement::Doubt,
            (Said::Nothing | Said::Unclearly, table) => table,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_goes_before_the_table_and_an_unclear_one_frees_no_key() {
        use Judgement::{Doubt, Keep, Release};
        let judged = |outcome| [Keep, Release, Doubt].map(|table| Word { outcome, ..Word::NONE }.judge(table));
        assert_eq!(judged(Said::Nothing), [Keep, Release, Doubt]);
        assert_eq!(judged(Said::Unclearly), [Keep, Doubt, Doubt]);
        for word in [Keep, Release, Doubt] {
            assert_eq!(judged(Said::Clearly(word)), [word; 3]);
        }
    }
}
