//! The steps by examples, and what holds for any of them: order does not count, and twice is once.

use proptest::prelude::*;

use super::*;

const ALL: [Step; 6] = [Step::Nfc, Step::Nfkc, Step::CaseFold, Step::Digits, Step::CollapseSpaces, Step::Trim];

fn formed(steps: &[Step], text: &str) -> String {
    Steps::new(steps.iter().copied()).form(text)
}

/// Every set of steps.
fn sets() -> impl Iterator<Item = Steps> {
    (0_u8..1 << ALL.len())
        .map(|set| Steps::new(ALL.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1).map(|(_, step)| *step)))
}

#[test]
fn each_step_does_what_its_name_says() {
    for (step, text, form) in [
        (Step::Trim, "\u{3000} a  b\u{a0}\n", "a  b"),
        (Step::CollapseSpaces, " a \t\u{2003} b\u{a0}", " a b "),
        (Step::CaseFold, "MASSE Maße ΣΊΣΥΦΟΣ ﬃ İ", "masse masse σίσυφοσ ffi i\u{307}"),
        (Step::Nfc, "e\u{301} \u{212b} ﬁ ２", "\u{e9} \u{c5} ﬁ ２"),
        (Step::Nfkc, "ﬁ ２ Ａ ㈱ \u{a0}", "fi 2 A (株)  "),
        (Step::Digits, "１２ ٣ ۴ ५ \u{1d7d8}\u{1d7ff} ² Ⅷ 9", "12 3 4 5 09 ² Ⅷ 9"),
    ] {
        assert_eq!(formed(&[step], text), form, "{step:?}");
    }
    let zero_width = "a\u{200b}b";
    assert_eq!(formed(&ALL, zero_width), zero_width, "no white space by Unicode's word");
}

#[test]
fn what_people_type_is_one() {
    let typed = [Step::Trim, Step::CollapseSpaces, Step::CaseFold, Step::Nfkc];
    let one = formed(&typed, "Rue de l'Été 12");
    for other in [" rue de  l'été 12", "RUE DE L'E\u{301}TE\u{301} １２ ", "Rue\u{a0}de\tl'Été\u{3000}12"] {
        assert_eq!(formed(&typed, other), one, "{other}");
    }
    assert_ne!(formed(&typed, "Rue de l'Été 13"), one);
    assert_ne!(formed(&typed, "Ruede l'Été 12"), one);
}

#[test]
fn the_order_in_which_steps_are_written_does_not_count() {
    let (one, other) = (Steps::new(ALL), Steps::new(ALL.into_iter().rev().chain(ALL)));
    assert_eq!(one, other);
    assert_eq!(one.words().collect::<Vec<_>>(), ["nfc", "nfkc", "case_fold", "digits", "collapse_spaces", "trim"]);
}

#[test]
fn decimal_digits_come_in_tens() {
    let categories = CodePointMapData::<GeneralCategory>::new();
    let mut scripts = 0;
    for range in categories.iter_ranges_for_value(GeneralCategory::DecimalNumber) {
        assert_eq!(range.clone().count() % 10, 0, "{range:?}");
        for c in range.clone().filter_map(char::from_u32) {
            let value = (u32::from(c) - range.start()) % 10;
            assert_eq!(formed(&[Step::Digits], &c.to_string()), value.to_string());
        }
        scripts += range.count() / 10;
    }
    assert!(scripts >= 70, "{scripts}");
    assert_eq!(formed(&[Step::Digits], "\u{11de5}"), "5", "Tolong Siki came with Unicode 17, which the page names");
}

/// Every character by itself, with one that combines behind it, and between two others, under every set of steps.
#[test]
fn twice_is_once_for_every_character() {
    let all = ('\0'..=char::MAX).filter(|c| !matches!(u32::from(*c), 0x3400..0xd7a4 | 0xe000..0xf900 | 0x1_7000..0x1_b000 | 0x2_0000..0xe_0000 | 0xf_0000..));
    let texts: Vec<String> = all.flat_map(|c| [format!("{c}"), format!(" A{c}\u{345}\u{301}{c}b")]).collect();
    for steps in [
        Steps::new([Step::Nfkc, Step::CaseFold, Step::Digits, Step::CollapseSpaces, Step::Trim]),
        Steps::new([Step::Nfc, Step::CaseFold, Step::CollapseSpaces]),
        Steps::new([Step::CaseFold, Step::Trim]),
        Steps::new([Step::Nfkc, Step::Digits]),
    ] {
        for text in &texts {
            let once = steps.form(text);
            assert_eq!(steps.round(&once), once, "{text:?} {steps:?}");
        }
    }
}

#[test]
fn what_is_too_long_or_no_text_stays_as_it_is() {
    let steps = Steps::new([Step::Trim]);
    assert_eq!(steps.form_of(b" a "), Some("a".to_owned()));
    assert_eq!(steps.form_of(b" \xff "), None);
    assert_eq!(steps.form_of(" ".repeat(LONGEST).as_bytes()), Some(String::new()));
    assert_eq!(steps.form_of(" ".repeat(LONGEST + 1).as_bytes()), None);
}

/// Text of what is apt to change: letters with marks, ligatures, digits, spaces, compatibility forms.
fn text() -> impl Strategy<Value = String> {
    let odd = "[ -~\u{a0}-\u{17f}\u{300}-\u{345}\u{370}-\u{3ff}\u{660}-\u{669}\u{1e00}-\u{1fff}\u{2000}-\u{214f}\u{3000}\u{fb00}-\u{fb06}\u{ff01}-\u{ff5e}]";
    prop_oneof![proptest::string::string_regex(&format!("{odd}{{0,24}}")).expect("an expression"), any::<String>()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn twice_is_once(text in text()) {
        for steps in sets() {
            let once = steps.form(&text);
            prop_assert_eq!(steps.round(&once), once, "{:?}", steps);
        }
    }

    /// Texts that Unicode takes for the same (canonically equivalent) have one form wherever a composed form is asked for.
    #[test]
    fn equivalent_texts_have_one_form(text in text()) {
        let decomposed = icu_normalizer::DecomposingNormalizer::new_nfd().normalize(&text).into_owned();
        for steps in sets().filter(|steps| steps.0.iter().any(|step| matches!(step, Step::Nfc | Step::Nfkc))) {
            prop_assert_eq!(steps.form(&text), steps.form(&decomposed), "{:?}", steps);
        }
    }
}
