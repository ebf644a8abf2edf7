//! Values that people type, brought into one form before they are hashed. What is forwarded stays as it was typed.
//!
//! Steps follow one another in the order in which [`Step`] has them, however they are written down, and all over again until
//! they change nothing more: what is in its form stays in it.

use std::sync::LazyLock;

use icu_casemap::CaseMapper;
use icu_normalizer::ComposingNormalizer;
use icu_properties::props::{GeneralCategory, WhiteSpace};
use icu_properties::{CodePointMapData, CodePointSetData};

/// Longer texts are not typed, and would take their time: in a fingerprint they stay as they are.
const LONGEST: usize = 64 << 10;
/// How often all steps are taken at most. By the tests twice is enough, and a third time sees that.
const ROUNDS: usize = 4;

/// One thing that is done to a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Unicode's composed form.
    Nfc,
    /// Unicode's composed form, with full-width letters, ligatures and the like replaced.
    Nfkc,
    /// Unicode's full case folding, by no language's rules; then the composed form again, if that is asked for.
    CaseFold,
    /// Decimal digits of any script (general category Nd) become those of ASCII.
    Digits,
    /// White space (Unicode's `White_Space`), however much, becomes one space.
    CollapseSpaces,
    /// White space at both ends goes.
    Trim,
}

impl Step {
    /// As the configuration writes it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Nfc => "nfc",
            Self::Nfkc => "nfkc",
            Self::CaseFold => "case_fold",
            Self::Digits => "digits",
            Self::CollapseSpaces => "collapse_spaces",
            Self::Trim => "trim",
        }
    }

    fn take(self, text: &str) -> String {
        match self {
            Self::Nfc => ComposingNormalizer::new_nfc().normalize(text).into_owned(),
            Self::Nfkc => ComposingNormalizer::new_nfkc().normalize(text).into_owned(),
            Self::CaseFold => CaseMapper::new().fold_string(text).into_owned(),
            Self::Digits => text.chars().map(digit).collect(),
            Self::CollapseSpaces => collapsed(text),
            Self::Trim => text.trim_matches(is_space).to_owned(),
        }
    }
}

/// Steps that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps(Vec<Step>);

impl Steps {
    /// These, in their own order.
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let mut steps: Vec<_> = steps.into_iter().collect();
        steps.sort_unstable();
        steps.dedup();
        Self(steps)
    }

    /// In the order in which they are taken.
    pub fn words(&self) -> impl ExactSizeIterator<Item = &'static str> {
        self.0.iter().map(|step| step.word())
    }

    /// The text in its form.
    pub fn form(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for _ in 0..ROUNDS {
            let next = self.round(&text);
            if next == text {
                break;
            }
            text = next;
        }
        text
    }

    /// The same of a value of a request; none where it is no text, or too long to have been typed.
    pub(super) fn form_of(&self, value: &[u8]) -> Option<String> {
        let text = std::str::from_utf8(value).ok().filter(|text| text.len() <= LONGEST)?;
        Some(self.form(text))
    }

    fn round(&self, text: &str) -> String {
        let composing = self.0.iter().copied().find(|step| matches!(step, Step::Nfc | Step::Nfkc));
        let folded = |step| composing.filter(|_| step == Step::CaseFold);
        let steps = self.0.iter().flat_map(|step| [Some(*step), folded(*step)]).flatten();
        steps.fold(text.to_owned(), |text, step| step.take(&text))
    }
}

fn is_space(c: char) -> bool {
    CodePointSetData::new::<WhiteSpace>().contains(c)
}

fn collapsed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_space = false;
    for c in text.chars() {
        let space = is_space(c);
        if !space {
            out.push(c);
        } else if !in_space {
            out.push(' ');
        }
        in_space = space;
    }
    out
}

/// Where runs of decimal digits begin. Unicode keeps the ten of a script together, from zero up.
static ZEROS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let categories = CodePointMapData::<GeneralCategory>::new();
    categories.iter_ranges_for_value(GeneralCategory::DecimalNumber).map(|range| *range.start()).collect()
});

fn digit(c: char) -> char {
    if c.is_ascii() || CodePointMapData::<GeneralCategory>::new().get(c) != GeneralCategory::DecimalNumber {
        return c;
    }
    let after = ZEROS.partition_point(|zero| *zero <= u32::from(c));
    let zero = after.checked_sub(1).and_then(|at| ZEROS.get(at));
    zero.and_then(|zero| char::from_digit((u32::from(c) - zero) % 10, 10)).unwrap_or(c)
}

#[cfg(test)]
mod tests;
