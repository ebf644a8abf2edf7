//! The vectors that come with the definition. A third implementation has made them, see `make_vectors.py` beside them.

use serde::Deserialize;

use crate::{Given, made, of_the_client, settings, unhex};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Vector {
    name: String,
    #[serde(flatten)]
    given: Given,
    preimage: Option<String>,
    preimage_hex: Option<String>,
    fingerprint: String,
}

#[test]
fn the_gateway_makes_the_pre_images_and_fingerprints_of_the_vectors() {
    let text = std::fs::read(of_the_client("test/vectors.json")).unwrap();
    let vectors: Vec<Vector> = serde_json::from_slice(&text).unwrap();
    assert!(vectors.len() >= 60, "{}", vectors.len());
    let settings = settings();
    for Vector { name, given, preimage, preimage_hex, fingerprint } in vectors {
        let expected = preimage_hex.map_or_else(|| preimage.unwrap().into_bytes(), |digits| unhex(&digits));
        let (image, print) = made(&settings, &given).unwrap();
        assert_eq!(String::from_utf8_lossy(&image), String::from_utf8_lossy(&expected), "{name}");
        assert_eq!((image, print), (expected, fingerprint), "{name}");
    }
}
