//! The gateway and the JavaScript that clients use, on thousands of random requests.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::wild::Wild;
use crate::{Given, made, of_the_client, settings};

const REQUESTS: usize = 6_000;

/// What the JavaScript makes of them; `none` where there is no fingerprint.
fn by_node(requests: &[Given]) -> Vec<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/prints/digests.mjs");
    let mut command = Command::new("node");
    command.arg(script).arg(of_the_client("")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("these tests need node: tests/prepare brings it");
    let lines: String = requests.iter().map(|request| serde_json::to_string(request).unwrap() + "\n").collect();
    let mut input = child.stdin.take().unwrap();
    let writing = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_gateway_and_the_client_agree_on_random_requests() {
    let mut wild = Wild::new(5);
    let requests: Vec<Given> = (0..REQUESTS).map(|_| wild.request()).collect();
    let theirs = by_node(&requests);
    assert_eq!(theirs.len(), REQUESTS);
    let (settings, mut forms) = (settings(), BTreeMap::<String, usize>::new());
    for (request, their) in requests.iter().zip(&theirs) {
        let own = made(&settings, request);
        assert_eq!(own.as_ref().map_or("none", |(_, print)| print.as_str()), their, "{request:?}");
        let form = own.map_or("none".to_owned(), |(image, _)| form(&image));
        *forms.entry(form).or_default() += 1;
    }
    // Otherwise the test would show less than it seems to.
    for form in ["json", "form", "multipart", "broken-multipart", "raw", "none"] {
        assert!(forms.get(form).is_some_and(|count| *count >= 100), "{form}: {forms:?}");
    }
}

/// The seventh part.
fn form(image: &[u8]) -> String {
    let mut rest = image;
    let mut part: &[u8] = &[];
    for _ in 0..7 {
        let colon = rest.iter().position(|byte| *byte == b':').unwrap();
        let length: usize = std::str::from_utf8(&rest[..colon]).unwrap().parse().unwrap();
        part = &rest[colon + 1..colon + 1 + length];
        rest = &rest[colon + length + 2..];
    }
    String::from_utf8(part.to_vec()).unwrap()
}
