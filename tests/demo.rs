//! The demo as a newcomer runs it: the story comes out right, and whenever it ends nothing is left behind.
#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

fn demo(arguments: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_oncegate"))
        .arg("demo")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap());
    (child, said)
}

/// Reads until a line holds `mark`: all that was said, and what stands behind the mark.
fn until(said: &mut impl BufRead, mark: &str) -> (String, String) {
    let mut all = String::new();
    loop {
        let start = all.len();
        assert_ne!(said.read_line(&mut all).unwrap(), 0, "no `{mark}` in:\n{all}");
        if let Some((_, rest)) = all[start..].split_once(mark) {
            let rest = rest.trim().to_owned();
            return (all, rest);
        }
    }
}

/// One test, so that two demos never want the usual ports at once.
#[test]
fn the_story_comes_out_right_and_nothing_is_left_behind() {
    let (mut child, mut said) = demo(&[]);
    let (story, config) = until(&mut said, "The configuration is ");
    for words in [
        "(Idempotent-Replayed: true)",
        "409 request-in-flight: ",
        "422 key-reused: ",
        "409 outcome-unknown: ",
        "409 already-executed: ",
        "The API has 3 orders: each of them once.",
        "It stays up until Ctrl-C.",
    ] {
        assert!(story.contains(words), "no `{words}` in:\n{story}");
    }
    assert!(Path::new(&config).exists(), "{config}");
    let gateway = story.split("in front of it, on ").nth(1).unwrap().split(',').next().unwrap().to_owned();
    assert!(TcpStream::connect(&gateway).is_ok());
    assert!(Command::new("kill").arg("-TERM").arg(child.id().to_string()).status().unwrap().success());
    assert!(child.wait().unwrap().success());
    assert!(!Path::new(&config).exists() && TcpStream::connect(&gateway).is_err());

    // A reader that stops reading ends it quietly, as it does any command.
    let (mut child, mut said) = demo(&["--once"]);
    until(&mut said, "A sample order API");
    drop(said);
    assert!(child.wait().unwrap().success());
}
