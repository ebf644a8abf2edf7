//! The binary: output, exit codes.

use std::process::{Command, Output};

fn oncegate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oncegate")).args(arguments).env("TOKEN", "s3cret-s3cret-s3cret").output().unwrap()
}

fn check(text: &str) -> (Option<i32>, String, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.yaml");
    std::fs::write(&path, text).unwrap();
    let output = oncegate(&["check", "--config", path.to_str().unwrap()]);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn check_prints_the_settings_and_the_warnings() {
    let (code, out, err) =
        check(&format!("{}admin: {{ token: \"${{TOKEN}}\" }}\nstore: {{ kind: memory }}\n", super::LEAST));
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("token: \"***\"") && !out.contains("s3cret"), "{out}");
    assert!(err.starts_with("warning: ") && err.contains("c.yaml:11:16: store.kind: "), "{err}");
}

#[test]
fn check_refuses_a_bad_file_and_a_missing_one() {
    let (code, out, err) = check("routes: []\nfoo: 1\n");
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert_eq!(err.lines().count(), 3, "{err}");
    let output = oncegate(&["check", "--config", "/nonexistent/c.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("c.yaml: cannot be read"));
}

#[test]
fn usage_faults_are_two_and_the_schema_is_json() {
    assert_eq!(oncegate(&["chekc"]).status.code(), Some(2));
    assert_eq!(oncegate(&[]).status.code(), Some(2));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.yaml");
    std::fs::write(&path, super::LEAST).unwrap();
    let nothing = oncegate(&["explain", "--config", path.to_str().unwrap()]);
    let said = String::from_utf8(nothing.stderr).unwrap();
    assert!(nothing.status.code() == Some(2) && said.contains("--url") && said.contains("--request"), "{said}");
    let schema = oncegate(&["schema"]);
    assert_eq!(schema.status.code(), Some(0));
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&schema.stdout).unwrap(), super::config::schema());
}

#[test]
fn serve_refuses_a_bad_file_with_all_that_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.yaml");
    let text = super::LEAST.replace("POST", "PSOT") + "idempotancy: {}\nlisten: nowhere\nreplay_cache: -1\n";
    std::fs::write(&path, text).unwrap();
    let output = oncegate(&["serve", "--config", path.to_str().unwrap()]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{errors}");
    for wrong in ["PSOT", "idempotancy", "listen", "replay_cache"] {
        let named = errors.lines().any(|line| line.starts_with("error: ") && line.contains(wrong));
        assert!(named, "nothing about {wrong}:\n{errors}");
    }
}

#[test]
fn help_names_every_command_and_every_option_with_a_word_on_each() {
    const COMMANDS: [(&str, &[&str]); 6] = [
        ("serve", &["--config <FILE>"]),
        ("check", &["--config <FILE>"]),
        ("schema", &[]),
        (
            "explain",
            &[
                "--config <FILE>",
                "--request <FILE>",
                "--diff <FIRST> <SECOND>",
                "--method <METHOD>",
                "--url <URL>",
                "-H, --header <HEADER>",
                "--client-certificate <FILE>",
                "--data <TEXT>",
                "--data-file <FILE>",
                "--full",
                "--json",
            ],
        ),
        ("backup", &["--config <FILE>", "--to <PATH>", "--admin <ADDRESS>"]),
        ("demo", &["--once"]),
    ];
    let help = |arguments: &[&str]| {
        let output = oncegate(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let overview = help(&["--help"]);
    for (command, options) in COMMANDS {
        assert!(overview.lines().any(|line| is_described(line, command)), "{command}:\n{overview}");
        let page = help(&[command, "--help"]);
        let given = page.lines().filter(|line| line.trim_start().starts_with('-') && !line.contains("--help"));
        assert_eq!(given.clone().count(), options.len(), "{command}:\n{page}");
        for option in options {
            assert!(given.clone().any(|line| is_described(line, option)), "{command} {option}:\n{page}");
        }
    }
}

/// Whether a line of help begins with `name` and goes on with words.
fn is_described(line: &str, name: &str) -> bool {
    line.trim_start().strip_prefix(name).is_some_and(|rest| rest.starts_with("  ") && rest.trim().len() > 10)
}
