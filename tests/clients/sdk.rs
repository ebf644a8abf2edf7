//! The JavaScript SDK of `clients/js`: by itself, its types, and against the real binary, from Node and from Chromium.
//! The tests proper are in JavaScript; here they are started, and their word is passed on. It never skips.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::libraries::packages;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command to its end; what it wrote is for whoever looks for its fault.
fn pass(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| {
        panic!("{} cannot run: {error}; `tests/prepare` installs it", command.get_program().display())
    });
    let [said, faults] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{}\n{said}{faults}", output.status);
}

/// Node's test runner, over these files or, if there are none, over the tests of this folder.
fn node(folder: PathBuf, files: &[&str]) -> Command {
    let mut command = Command::new("node");
    command.args(["--test", "--test-reporter=spec"]).args(files).current_dir(folder);
    command.env("ONCEGATE", env!("CARGO_BIN_EXE_oncegate")).env("NO_COLOR", "1").env_remove("NODE_OPTIONS");
    command
}

fn tsc(project: &str) -> Command {
    let compiler = packages().join("typescript/bin/tsc");
    assert!(compiler.exists(), "no TypeScript at {}; `tests/prepare` installs it", compiler.display());
    let mut command = Command::new("node");
    command.arg(compiler).arg("--project").arg(root().join("clients/js/check").join(project));
    command
}

#[test]
fn it_does_what_it_says() {
    pass(&mut node(root().join("clients/js"), &[]));
}

#[test]
fn a_page_that_uses_it_is_typed() {
    pass(&mut tsc("tsconfig.json"));
}

#[test]
fn its_sources_are_what_its_types_say() {
    pass(&mut tsc("sources.json"));
}

#[test]
fn through_the_gateway_an_intent_is_one_order() {
    pass(&mut node(root().join("tests/clients/sdk"), &["gateway.test.mjs"]));
}

#[test]
fn through_the_gateway_a_number_is_one_order() {
    pass(&mut node(root().join("tests/clients/sdk"), &["tokens.test.mjs"]));
}

#[test]
fn through_the_gateway_a_signed_intent_is_one_order() {
    pass(&mut node(root().join("tests/clients/sdk"), &["signed.test.mjs"]));
}

#[test]
fn in_a_browser_an_intent_is_one_order() {
    pass(&mut node(root().join("tests/clients/sdk"), &["browser.test.mjs"]));
}
