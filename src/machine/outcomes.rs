//! The outcome table: what an upstream's status says about the operation.

use std::collections::BTreeMap;

/// What an answer means for the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// The operation is done; the answer is remembered.
    Keep,
    /// The operation was not done; the key is free again.
    Release,
    /// The upstream may have acted.
    Doubt,
}

/// A named table that a route starts from. To all of them a status beyond 5xx says nothing: doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// 2xx and 3xx keep; 4xx and 5xx release, but 502 and 504 are doubt.
    SuccessOnly,
    /// As `SuccessOnly`, with every 5xx but 503 in doubt.
    Cautious,
    /// Stripe's rule: everything is kept, but 401, 403, 408, 425, 429, and 503 with `Retry-After`, release.
    Strict,
}

/// What an entry of the table speaks of. The exact one wins over the class, the class over the preset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatusRule {
    /// One status with a `Retry-After` field.
    WithRetryAfter(u16),
    /// One status.
    Exact(u16),
    /// A class by its first digit: 5 for 5xx.
    Class(u16),
}

/// A route's outcome table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcomes {
    preset: Preset,
    rules: BTreeMap<StatusRule, Judgement>,
}

impl Outcomes {
    /// The preset with the route's own entries over it.
    pub fn new(preset: Preset, rules: BTreeMap<StatusRule, Judgement>) -> Self {
        Self { preset, rules }
    }

    /// The preset.
    pub fn preset(&self) -> Preset {
        self.preset
    }

    /// The route's own entries.
    pub fn rules(&self) -> &BTreeMap<StatusRule, Judgement> {
        &self.rules
    }

    /// What an answer with this status means.
    pub fn judge(&self, status: u16, retry_after: bool) -> Judgement {
        let with_retry_after = retry_after.then_some(StatusRule::WithRetryAfter(status));
        let own = [with_retry_after, Some(StatusRule::Exact(status)), Some(StatusRule::Class(status / 100))];
        own.into_iter()
            .flatten()
            .find_map(|rule| self.rules.get(&rule).copied())
            .unwrap_or_else(|| self.preset.judge(status, retry_after))
    }
}

impl Preset {
    fn judge(self, status: u16, retry_after: bool) -> Judgement {
        let released = match self {
            Self::Strict => matches!(status, 401 | 403 | 408 | 425 | 429) || (status == 503 && retry_after),
            Self::SuccessOnly | Self::Cautious => status >= 400,
        };
        let doubtful = match self {
            Self::Strict => false,
            Self::SuccessOnly => matches!(status, 502 | 504),
            Self::Cautious => status >= 500 && status != 503,
        };
        let doubtful = doubtful || status >= 600;
        match (doubtful, released) {
            (true, _) => Judgement::Doubt,
            (false, true) => Judgement::Release,
            (false, false) => Judgement::Keep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(preset: Preset, rules: &[(StatusRule, Judgement)]) -> Outcomes {
        Outcomes::new(preset, rules.iter().copied().collect())
    }

    #[test]
    fn presets_judge_as_documented() {
        use Judgement::{Doubt, Keep, Release};
        let cases = [
            (Preset::SuccessOnly, [Keep, Keep, Release, Release, Release, Doubt, Release, Doubt]),
            (Preset::Cautious, [Keep, Keep, Release, Release, Doubt, Doubt, Release, Doubt]),
            (Preset::Strict, [Keep, Keep, Keep, Release, Keep, Keep, Keep, Keep]),
        ];
        for (preset, expected) in cases {
            let judged = [200, 302, 422, 429, 500, 502, 503, 504].map(|status| table(preset, &[]).judge(status, false));
            assert_eq!(judged, expected, "{preset:?}");
        }
        assert_eq!(table(Preset::Strict, &[]).judge(503, true), Release);
        for preset in [Preset::SuccessOnly, Preset::Cautious, Preset::Strict] {
            assert_eq!([600, 999].map(|status| table(preset, &[]).judge(status, true)), [Doubt, Doubt], "{preset:?}");
        }
    }

    #[test]
    fn the_exact_entry_wins_over_the_class_and_the_class_over_the_preset() {
        let outcomes = table(
            Preset::SuccessOnly,
            &[
                (StatusRule::Class(4), Judgement::Keep),
                (StatusRule::Exact(404), Judgement::Release),
                (StatusRule::WithRetryAfter(503), Judgement::Doubt),
            ],
        );
        assert_eq!(outcomes.judge(422, false), Judgement::Keep);
        assert_eq!(outcomes.judge(404, false), Judgement::Release);
        assert_eq!(outcomes.judge(503, true), Judgement::Doubt);
        assert_eq!(outcomes.judge(503, false), Judgement::Release);
    }
}
