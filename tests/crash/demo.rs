//! The demo, which kills a gateway too: its story comes to its end.

use std::process::Command;

#[test]
fn the_demo_tells_its_story_to_the_end() {
    let output = Command::new(env!("CARGO_BIN_EXE_oncegate")).args(["demo", "--once"]).output().unwrap();
    let (told, complaints) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{told}\n{complaints}");
    let last = told.lines().last();
    let end = "Orders at the API: 3. Requests sent: 8. No operation ran twice, none was lost.";
    assert_eq!(last, Some(end), "{told}\n{complaints}");
    assert!(told.contains("outcome-unknown") && told.contains("already-executed"), "{told}");
}
