//! The written pages, held against what they speak of: metrics, alerts, answers, commands, links, files, settings. Not
//! their prose.
#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use oncegate::config::{parse, schema};
use oncegate::telemetry::{Handshake, Metrics, Outcome, ReloadResult, StoreOp, Timeout, Verdict};
use regex::Regex;
use serde_json::Value;

/// The pages for those who use the gateway.
const MANUAL: [&str; 5] =
    ["README.md", "docs/answers.md", "docs/configuration.md", "docs/fingerprint.md", "docs/operating.md"];
/// All others.
const OTHERS: [&str; 7] = [
    "clients/js/README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/design.md",
    "docs/model.md",
    "docs/performance.md",
    "docs/reliability.md",
];

fn page(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The pages for those who use the gateway, together.
fn manual() -> String {
    MANUAL.map(page).concat()
}

/// The words of `names` that are not in `text` as whole words.
fn missing<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    names.into_iter().filter(|name| !words.contains(name)).collect()
}

/// Targets of relative links, `[text](target)`: file and heading.
fn links(text: &str) -> Vec<(&str, &str)> {
    let after = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let targets = after.map(|(target, _)| target).filter(|target| !target.contains("://"));
    targets.map(|target| target.split_once('#').unwrap_or((target, ""))).collect()
}

/// The headings of a page, as links spell them.
fn headings(text: &str) -> BTreeSet<String> {
    let titles = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let spelled = |title: &str| {
        let letters = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        letters.collect::<String>().to_lowercase().replace(' ', "-")
    };
    titles.map(spelled).collect()
}

/// Code and advice of every problem in the table of `src/gateway/problem/table.rs`.
fn problems(source: &str) -> BTreeSet<(String, String)> {
    let row = Regex::new(r#"row\(\s*"([a-z-]+)",\s*"[^"]+",\s*(\w+),"#).unwrap();
    let advice = |word: &str| match word {
        "SameKey" => "same-key",
        "NewKey" => "new-key",
        _ => "stop",
    };
    row.captures_iter(source).map(|found| (found[1].to_owned(), advice(&found[2]).to_owned())).collect()
}

/// Code and advice of every row of a page's table of codes.
fn listed(page: &str) -> BTreeSet<(String, String)> {
    let row = Regex::new(r"(?m)^\| `([a-z-]+)` \| [^|]+ \| `(same-key|new-key|stop)` \|").unwrap();
    row.captures_iter(page).map(|found| (found[1].to_owned(), found[2].to_owned())).collect()
}

/// Files and folders of the tree that a page names.
fn named_files(page: &str) -> BTreeSet<String> {
    let name = Regex::new(r"`((?:tests|src|deploy|config|docs|benches|\.ci)/[\w./-]*)").unwrap();
    name.captures_iter(page).map(|found| found[1].to_owned()).collect()
}

#[test]
fn the_manual_says_what_each_problem_is_and_what_to_do() {
    let told = problems(&page("src/gateway/problem/table.rs"));
    assert!(told.len() >= 19, "the table is written another way: {told:?}");
    assert_eq!(listed(&manual()), told);
    let design = page("docs/design.md");
    let absent: Vec<_> = told.iter().filter(|(code, _)| !design.contains(&format!("`{code}`"))).collect();
    assert!(absent.is_empty(), "not in docs/design.md: {absent:?}");
}

#[test]
fn the_manual_lists_every_refusal_of_the_operators_door() {
    let files = ["mod", "answer", "backup", "bodies", "doubts", "keys", "resolve"];
    let source: String = files.iter().map(|name| page(&format!("src/admin/{name}.rs"))).collect();
    let call = Regex::new(r#"problem\([^"]*"([a-z-]+)""#).unwrap();
    let manual = manual();
    let codes: BTreeSet<_> = call.captures_iter(&source).map(|found| found[1].to_owned()).collect();
    assert!(codes.len() >= 7, "{codes:?}");
    let absent: Vec<_> = codes.iter().filter(|code| !manual.contains(&format!("`{code}`"))).collect();
    assert!(absent.is_empty(), "{absent:?}");
}

#[test]
fn the_manual_shows_every_command() {
    let help = Command::new(env!("CARGO_BIN_EXE_oncegate")).arg("--help").output().unwrap().stdout;
    let help = String::from_utf8(help).unwrap();
    let list = help.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let commands: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"serve"), "{help}");
    let manual = manual();
    let shown = |command: &str| ["oncegate ", "-- "].iter().any(|start| manual.contains(&format!("{start}{command}")));
    let absent: Vec<_> = commands.into_iter().filter(|command| *command != "help" && !shown(command)).collect();
    assert!(absent.is_empty(), "{absent:?}");
}

#[test]
fn files_that_are_named_exist() {
    for name in MANUAL.iter().chain(&OTHERS) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let absent: Vec<_> = named_files(&page(name)).into_iter().filter(|file| !root.join(file).exists()).collect();
        assert!(absent.is_empty(), "{name}: {absent:?}");
    }
}

#[test]
fn the_manual_lists_every_metric_and_label() {
    let manual = manual();
    let metrics = Metrics::new().unwrap();
    let _handles = (metrics.route("route"), metrics.upstream("upstream"));
    let written = metrics.render();
    let names = written.lines().filter_map(|line| line.strip_prefix("# TYPE oncegate_")?.split(' ').next());
    assert_eq!(missing(&manual, names), Vec::<&str>::new());
    assert_eq!(missing(&manual, Verdict::ALL.iter().map(|verdict| verdict.label())), Vec::<&str>::new());
    assert_eq!(missing(&manual, Outcome::ALL.iter().map(|outcome| outcome.label())), Vec::<&str>::new());
    assert_eq!(missing(&manual, Handshake::ALL.iter().map(|step| step.label())), Vec::<&str>::new());
    assert_eq!(missing(&manual, ReloadResult::ALL.iter().map(|result| result.label())), Vec::<&str>::new());
    assert_eq!(missing(&manual, Timeout::ALL.iter().map(|kind| kind.label())), Vec::<&str>::new());
    assert_eq!(missing(&manual, StoreOp::ALL.iter().map(|op| op.label())), Vec::<&str>::new());
}

#[test]
fn the_manual_lists_every_alert() {
    let alerts = page("deploy/prometheus/alerts.yml");
    let names: Vec<&str> = alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(!names.is_empty());
    assert_eq!(missing(&manual(), names), Vec::<&str>::new());
}

/// Names of settings, in every section of a JSON Schema.
fn settings(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            let own = members.get("properties").and_then(Value::as_object);
            names.extend(own.into_iter().flatten().map(|(name, _)| name.clone()));
            members.values().for_each(|member| settings(member, names));
        }
        Value::Array(members) => members.iter().for_each(|member| settings(member, names)),
        _ => {}
    }
}

#[test]
fn the_full_reference_has_every_setting() {
    let mut names = BTreeSet::new();
    settings(&schema(), &mut names);
    assert!(names.len() > 100, "{names:?}");
    assert_eq!(missing(&page("config/oncegate.yaml"), names.iter().map(String::as_str)), Vec::<&str>::new());
}

#[test]
fn links_lead_somewhere() {
    for name in MANUAL.iter().chain(&OTHERS) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let leads = |(path, heading): &(&str, &str)| {
            let target = if path.is_empty() { file.clone() } else { file.parent().unwrap().join(path) };
            let is_there = |heading: &str| headings(&std::fs::read_to_string(&target).unwrap()).contains(heading);
            target.exists() && (heading.is_empty() || is_there(heading))
        };
        let text = page(name);
        let broken: Vec<_> = links(&text).into_iter().filter(|link| !leads(link)).collect();
        assert!(broken.is_empty(), "{name}: {broken:?}");
    }
}

/// The settings that the README starts with work as they stand there.
#[test]
fn the_readmes_settings_load() {
    let readme = page("README.md");
    let block = readme.split_once("```yaml\n").unwrap().1.split_once("```").unwrap().0;
    let yaml: String = block.lines().map(|line| line.strip_prefix("   ").unwrap_or(line).to_owned() + "\n").collect();
    let loaded = parse("README.md", &yaml, &|_| None).map_err(|errors| errors.to_string());
    let routes = loaded.unwrap().settings.gateway.routes;
    assert_eq!(routes.iter().map(|route| route.guard.is_some()).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn what_is_missing_is_found() {
    assert_eq!(missing("| `doubts{route}` |", ["doubts", "doubt", "route"]), ["doubt"]);
    assert_eq!(links("[a](b/c.md#d), [e](https://f.example), [g](#h)"), [("b/c.md", "d"), ("", "h")]);
    assert_eq!(headings("# A\ntext\n## TLS, HTTP/2: `x_y`\n"), BTreeSet::from(["a".into(), "tls-http2-x_y".into()]));
    let pair = |code: &str, advice: &str| BTreeSet::from([(code.to_owned(), advice.to_owned())]);
    assert_eq!(problems("row(\"in-doubt\", \"In doubt\", SameKey, V::X)"), pair("in-doubt", "same-key"));
    assert_eq!(listed("| `in-doubt` | 409 | `stop` | now |\n| `not-a-row` | 409 |"), pair("in-doubt", "stop"));
    assert_eq!(named_files("`tests/run x` and `target/x`"), BTreeSet::from(["tests/run".to_owned()]));
}
