//! The written pages, held against what they speak of: metrics, verdicts, alerts, links, settings. Not their prose.
#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::path::Path;

use oncegate::config::parse;
use oncegate::telemetry::{Metrics, Outcome, StoreOp, Verdict};

fn page(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The words of `names` that are not in `text` as whole words.
fn missing<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    names.into_iter().filter(|name| !words.contains(name)).collect()
}

/// Targets of relative links, `[text](target)`, without their fragments.
fn links(text: &str) -> Vec<&str> {
    let after = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let targets = after.map(|(target, _)| target.split('#').next().unwrap_or_default());
    targets.filter(|target| !target.is_empty() && !target.contains("://")).collect()
}

#[test]
fn the_readme_lists_every_metric_and_label() {
    let readme = page("README.md");
    let written = Metrics::new(&["route".to_owned()], &["upstream".to_owned()]).unwrap().render();
    let names = written.lines().filter_map(|line| line.strip_prefix("# TYPE oncegate_")?.split(' ').next());
    assert_eq!(missing(&readme, names), Vec::<&str>::new());
    assert_eq!(missing(&readme, Verdict::ALL.iter().map(|verdict| verdict.label())), Vec::<&str>::new());
    assert_eq!(missing(&readme, Outcome::ALL.iter().map(|outcome| outcome.label())), Vec::<&str>::new());
    assert_eq!(missing(&readme, StoreOp::ALL.iter().map(|op| op.label())), Vec::<&str>::new());
}

#[test]
fn the_readme_lists_every_alert() {
    let alerts = page("deploy/prometheus/alerts.yml");
    let names: Vec<&str> = alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(!names.is_empty());
    assert_eq!(missing(&page("README.md"), names), Vec::<&str>::new());
}

#[test]
fn links_lead_somewhere() {
    for name in ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/design.md"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(name).parent().unwrap().to_owned();
        let text = page(name);
        let broken: Vec<&str> = links(&text).into_iter().filter(|target| !folder.join(target).exists()).collect();
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
    assert_eq!(links("[a](b/c.md#d), [e](https://f.example), [g](#h)"), ["b/c.md"]);
}
