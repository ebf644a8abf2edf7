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

    /// What an answer with this status and this word means. A word that cannot be made out may have said the contrary of
    /// what the table says: it frees no key.
    pub fn judge(&self, outcomes: &Outcomes, status: u16, retry_after: bool) -> Judgement {
        match (self.outcome, outcomes.judge(status, retry_after)) {
            (Said::Clearly(judgement), _) => judgement,
            (Said::Unclearly, Judgement::Release) => Judgement::Doubt,
            (Said::Nothing | Said::Unclearly, judgement) => judgement,
        }
    }

    /// How an attempt ended that brought an answer and this word.
    pub fn ending(&self, judgement: Judgement, status: u16, answer: Answer) -> Ending {
        let answer = if self.keep_answer { answer } else { Answer::TooLarge { status, location: None } };
        Ending::Answered { judgement, status, answer, retention: self.retention }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::machine::Preset;

    #[test]
    fn a_word_goes_before_the_table_and_an_unclear_one_frees_no_key() {
        use Judgement::{Doubt, Keep, Release};
        let table = Outcomes::new(Preset::SuccessOnly, BTreeMap::new());
        let judged =
            |outcome| [200, 422, 502].map(|status| Word { outcome, ..Word::NONE }.judge(&table, status, false));
        assert_eq!(judged(Said::Nothing), [Keep, Release, Doubt]);
        assert_eq!(judged(Said::Unclearly), [Keep, Doubt, Doubt]);
        for word in [Keep, Release, Doubt] {
            assert_eq!(judged(Said::Clearly(word)), [word; 3]);
        }
    }
}
