//! Tokens: only what was issued, for whom it was issued, whole.

use proptest::prelude::*;

use super::*;

const NOW: Time = Time(1_790_000_000_000);
const MINUTE: Duration = Duration::from_mins(1);

fn key(byte: u8) -> TokenKey {
    TokenKey::new(&[byte; TOKEN_SECRET_LEN]).unwrap()
}

fn tokens(keys: &[u8]) -> Tokens {
    let header = HeaderName::from_static("idempotency-token");
    Tokens { header, lifetime: 30 * MINUTE, keys: keys.iter().map(|byte| key(*byte)).collect() }
}

fn bound(namespace: &str, customer: &str) -> Bound {
    Bound::new(namespace, &[scope::Value { kind: "header", name: "x-customer", bytes: customer.into() }])
}

fn issue(tokens: &Tokens, bound: &Bound) -> String {
    tokens.issue(bound, NOW, [7; NUMBER_LEN]).unwrap().0
}

fn is_good(tokens: &Tokens, bound: &Bound, text: &str) -> bool {
    Token::read(text).is_some_and(|token| tokens.is_signed(&token, bound))
}

#[test]
fn a_secret_has_32_bytes_at_least_and_is_not_shown() {
    assert_eq!(TokenKey::new(&[1; 31]), None);
    assert_ne!(key(1), key(2));
    assert_eq!(format!("{:?}", key(1)), format!("TokenKey({})", key(1).id()));
    assert_eq!(key(1).id().len(), 8);
}

/// Tokens are taken by other gateways, and by later versions. The expected text was made by another program, from the
/// definition in docs/design.md.
#[test]
fn the_format_does_not_change_by_accident() {
    let text = issue(&tokens(&[1]), &bound("orders", "7"));
    assert_eq!(text.len(), TEXT_LEN);
    assert_eq!(text, "ASynvDkAAAGgxFBsAAAAAaDEa-NABwcHBwcHBwcHBwcHBwcHB3ub3QclKCVu50bAw0lZITpQ3-HkxVTf-FSNi_KYCRKR");
}

#[test]
fn a_token_says_when_it_was_issued_and_ends_with_the_shorter_of_both_lifetimes() {
    let long = tokens(&[1]);
    let short = Tokens { lifetime: 5 * MINUTE, ..long.clone() };
    let token = Token::read(&issue(&long, &bound("orders", "7"))).unwrap();
    assert_eq!((token.issued, token.expires, token.number), (NOW, NOW.plus(30 * MINUTE), [7; NUMBER_LEN]));
    let until = |tokens: &Tokens, text: &str| tokens.until(&Token::read(text).unwrap());
    assert_eq!(until(&short, &issue(&long, &bound("orders", "7"))), NOW.plus(5 * MINUTE));
    assert_eq!(until(&long, &issue(&short, &bound("orders", "7"))), NOW.plus(5 * MINUTE));
    let [late, early] = long.spans(&token);
    assert_eq!((late.from, late.until, late.otherwise), (Time(0), token.expires, Untimely::TokenExpired));
    assert_eq!((early.from, early.otherwise), (Time(NOW.0 - 30_000), Untimely::TokenEarly));
}

#[test]
fn all_keys_verify_and_the_first_signs() {
    let (old, both, new) = (tokens(&[1]), tokens(&[2, 1]), tokens(&[2]));
    let own = bound("orders", "7");
    let (by_old, by_both) = (issue(&old, &own), issue(&both, &own));
    assert!(is_good(&both, &own, &by_old) && is_good(&both, &own, &by_both) && is_good(&new, &own, &by_both));
    assert!(!is_good(&new, &own, &by_old) && !is_good(&old, &own, &by_both));
    assert_eq!(Token::read(&by_both).unwrap().key, key(2).short());
    assert!(!is_good(&tokens(&[]), &own, &by_old));
    assert_eq!(tokens(&[]).issue(&own, NOW, [0; NUMBER_LEN]), None);
}

/// The id of a key that the token names is looked up, not believed: another key's signature does not hold under it.
#[test]
fn a_token_cannot_choose_its_key() {
    let own = bound("orders", "7");
    let mut token = Token::read(&issue(&tokens(&[1]), &own)).unwrap();
    token.key = key(2).short();
    assert!(!tokens(&[1, 2]).is_signed(&token, &own));
}

#[test]
fn namespaces_and_callers_do_not_flow_into_each_other() {
    let all = [("orders", "7"), ("orders7", ""), ("order", "s7"), ("orders", "8"), ("pay", "7"), ("", "orders7")];
    let tokens = tokens(&[1]);
    for (at, (namespace, customer)) in all.into_iter().enumerate() {
        let text = issue(&tokens, &bound(namespace, customer));
        for (other, (namespace, customer)) in all.into_iter().enumerate() {
            assert_eq!(is_good(&tokens, &bound(namespace, customer), &text), at == other, "{at} {other}");
        }
    }
    let text = issue(&tokens, &Bound::new("orders", &[]));
    assert!(!is_good(&tokens, &bound("orders", ""), &text));
}

proptest! {
    #[test]
    fn only_the_whole_token_is_good(
        number: [u8; NUMBER_LEN],
        now in 0..1_u64 << 48,
        at in 0..TEXT_LEN,
        bit in 0..8_u32,
        other: char,
    ) {
        let (tokens, own) = (tokens(&[1, 2]), bound("orders", "7"));
        let (text, expires) = tokens.issue(&own, Time(now), number).unwrap();
        prop_assert!(is_good(&tokens, &own, &text));
        prop_assert_eq!(expires, Time(now).plus(tokens.lifetime));
        // A bit of what is signed, a bit of the text, a character, a cut, a tail.
        let mut bytes = URL_SAFE_NO_PAD.decode(&text).unwrap();
        bytes[at % LEN] ^= 1 << bit;
        prop_assert!(!is_good(&tokens, &own, &URL_SAFE_NO_PAD.encode(bytes)));
        let mut letters = text.clone().into_bytes();
        letters[at] ^= 1 << bit;
        prop_assert!(!is_good(&tokens, &own, &String::from_utf8_lossy(&letters)));
        let swapped: String = text.chars().enumerate().map(|(place, own)| if place == at { other } else { own }).collect();
        prop_assert!(swapped == text || !is_good(&tokens, &own, &swapped));
        prop_assert!(!is_good(&tokens, &own, &text[..at]));
        for tail in ["=", "A", " ", "AAA"] {
            let longer = text.clone() + tail;
            prop_assert!(!is_good(&tokens, &own, &longer));
        }
    }

    #[test]
    fn any_text_is_read_calmly(noise in "\\PC{0,100}|[A-Za-z0-9_-]{92}") {
        prop_assert!(!is_good(&tokens(&[1]), &bound("orders", "7"), &noise));
    }
}
