//! Content codings and what `keys` makes of them, where no gateway is needed to see it.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method};
use oncegate::keys::{
    BodyForm, Caller, Coding, Decoding, FingerprintSettings, Request, Settings, Source, Undecoded, explain,
};

use crate::coded::{brotli, gzip};
use crate::request::settings;

const FORM: &str = "application/x-www-form-urlencoded";

fn request(kind: &'static str, coding: &'static str, body: Vec<u8>) -> Request {
    let mut headers = HeaderMap::new();
    headers.insert("idempotency-key", HeaderValue::from_static("k"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
    Request {
        method: Method::POST,
        authority: "shop.example".to_owned(),
        path: "/orders".to_owned(),
        query: None,
        raw_path: "/orders".to_owned(),
        headers,
        caller: Caller::default(),
        body: body.into(),
    }
}

#[test]
fn an_explanation_says_what_came_of_decoding() {
    let settings = settings();
    let of = |coding, body| explain(&settings, &request("application/json", coding, body)).unwrap();
    let read = of("gzip", gzip(br#"{ "b": 1.0, "a": [] }"#));
    assert_eq!((read.decoded, read.body), (Some(Ok(21)), BodyForm::Json));
    assert_eq!(read.canonical_json.as_deref(), Some(r#"{"a":[],"b":1}"#));
    for (coding, body, why) in [
        ("gzip", b"{}".to_vec(), Undecoded::Broken),
        ("compress", b"{}".to_vec(), Undecoded::Unknown),
        ("gzip", gzip(&vec![b' '; 1 << 20]), Undecoded::TooLarge { limit: gzip(&vec![b' '; 1 << 20]).len() * 100 }),
    ] {
        let left = of(coding, body);
        assert_eq!((left.decoded, left.body, left.canonical_json), (Some(Err(why)), BodyForm::Raw, None), "{coding}");
    }
    let plain = of("identity", b"{}".to_vec());
    assert_eq!((plain.decoded, plain.body), (None, BodyForm::Json));
}

#[test]
fn what_does_not_count_is_left_out_of_the_content() {
    let ignoring = Settings {
        fingerprint: FingerprintSettings { ignore_json: vec!["/at".to_owned()], ..settings().fingerprint },
        ..settings()
    };
    let print =
        |coding, body: Vec<u8>| explain(&ignoring, &request("application/json", coding, body)).unwrap().canonical;
    assert_eq!(print("gzip", gzip(br#"{"at":1,"n":1}"#)), print("br", brotli(br#"{"n":1,"at":2}"#)));
    assert_ne!(print("gzip", gzip(br#"{"at":1,"n":1}"#)), print("gzip", gzip(br#"{"at":1,"n":2}"#)));
}

#[test]
fn a_form_key_is_demanded_of_forms_only() {
    let settings = Settings { sources: vec![Source::Form("no".to_owned())], ..settings() };
    let broken = |kind| explain(&settings, &request(kind, "gzip", b"no=7".to_vec())).unwrap_err().to_string();
    assert!(broken(FORM).contains("cannot be decoded"), "{}", broken(FORM));
    assert!(broken("text/plain").contains("no key"), "{}", broken("text/plain"));
}

#[test]
fn the_settings_of_decoding_are_part_of_the_settings_word() {
    let word = |decode: Option<Decoding>| {
        let fingerprint = FingerprintSettings { decode, ..FingerprintSettings::default() };
        let settings = Settings { fingerprint, ..settings() };
        explain(&settings, &request("text/plain", "identity", Vec::new())).unwrap().settings
    };
    let decoding = |codings: &[Coding], ratio, size| Some(Decoding { codings: codings.to_vec(), ratio, size });
    let words = [
        word(None),
        word(decoding(&[Coding::Gzip], 100, 1024)),
        word(decoding(&[Coding::Gzip, Coding::Brotli], 100, 1024)),
        word(decoding(&[Coding::Gzip], 101, 1024)),
        word(decoding(&[Coding::Gzip], 100, 1025)),
    ];
    for (at, one) in words.iter().enumerate() {
        assert!(words[..at].iter().all(|other| other != one), "{words:x?}");
    }
    // Records that were made before there was decoding stay comparable.
    assert_eq!(words[0], 3_026_818_463);
}
