//! `store.encryption`: which keys are taken, what is said of the others, and that no secret is ever shown.

use super::{LEAST, config, errors, loaded};

const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const BASE64: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const OTHER: &str = "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn with_keys(keys: &str) -> String {
    format!("{LEAST}store: {{ encryption: {{ keys: [ {keys} ] }} }}\n")
}

fn key(id: &str, secret: &str) -> String {
    format!("{{ id: '{id}', secret: '{secret}' }}")
}

#[test]
fn without_the_section_there_are_no_keys() {
    assert_eq!(loaded(LEAST).settings.store.encryption.ids().count(), 0);
    assert!(!config::show(&loaded(LEAST).settings).contains("encryption"));
}

#[test]
fn takes_keys_in_their_order_from_text_variables_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, format!("{OTHER}\n")).unwrap();
    let text = with_keys(&format!(
        "{}, {{ id: old, secret: \"${{STORE_KEY}}\" }}, {{ id: older, secret_file: '{}' }}",
        key("2026-11", HEX),
        file.display()
    ));
    let variable = |name: &str| (name == "STORE_KEY").then(|| BASE64.to_owned());
    let read = config::parse("f.yaml", &text, &variable).unwrap().settings;
    assert_eq!(read.store.encryption.ids().collect::<Vec<_>>(), ["2026-11", "old", "older"]);
    let shown = config::show(&read) + &format!("{read:?}");
    for secret in [HEX, BASE64, OTHER] {
        assert!(!shown.contains(secret), "{shown}");
    }
    assert!(shown.contains("id: \"2026-11\"\n        secret: \"***\""), "{shown}");
}

#[test]
fn two_spellings_of_a_secret_are_one_key_and_two_secrets_are_two() {
    let keys = |secret: &str| loaded(&with_keys(&key("k", secret))).settings.store.encryption;
    assert_eq!(keys(HEX), keys(BASE64));
    assert_eq!(keys(HEX), keys(&BASE64.replace('=', "")));
    assert_ne!(keys(HEX), keys(OTHER));
}

#[test]
fn a_bad_key_is_refused_with_place_and_remedy_and_without_its_text() {
    let short = &HEX[..62];
    let path = "store.encryption.keys[0]";
    for (keys, place, message) in [
        (key("k", short), format!("{path}.secret"), "32 bytes"),
        (key("k", "s3cret-s3cret"), format!("{path}.secret"), "openssl rand -base64 32"),
        (key("k", ""), format!("{path}.secret"), "is empty"),
        (key("a key", HEX), format!("{path}.id"), "is no name"),
        ("{ id: k }".to_owned(), path.to_owned(), "needs `secret` or `secret_file`"),
        (format!("{{ secret: '{HEX}' }}"), path.to_owned(), "`id` is missing"),
        (format!("{{ id: k, secret: '{HEX}', secret_file: /x }}"), format!("{path}.secret_file"), "remove one of them"),
        ("{ id: k, secret_file: /nowhere/key }".to_owned(), format!("{path}.secret_file"), "cannot be read"),
        (format!("{}, {}", key("k", HEX), key("k", OTHER)), "store.encryption.keys[1].id".to_owned(), "an earlier key"),
        (String::new(), "store.encryption.keys".to_owned(), "is empty"),
        (vec![key("k", HEX); 65].join(", "), "store.encryption.keys".to_owned(), "has 65 keys"),
    ] {
        let found = errors(&with_keys(&keys));
        assert!(found.iter().any(|it| it.contains(&format!(" {place} ")) && it.contains(message)), "{keys}: {found:?}");
        assert!(!found.iter().any(|it| it.contains(short) || it.contains("s3cret")), "{found:?}");
    }
}

#[test]
fn memory_keeps_nothing_that_could_be_encrypted() {
    let text = with_keys(&key("k", HEX)).replace("store: {", "store: { kind: memory,");
    let found = errors(&text);
    assert!(found.iter().any(|it| it.contains("store.encryption belongs to")), "{found:?}");
}
