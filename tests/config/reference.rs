//! The full reference: what is commented out there is read as it stands, once the `# ` in front of its lines is gone.

use super::config;

const REFERENCE: &str = include_str!("../../config/oncegate.yaml");

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Whether a remark goes on in a line of its own.
fn is_remark(line: &str) -> bool {
    indent(line) > 30 && line.trim_start().starts_with('#')
}

/// What a line that is commented out sets; none where it is no setting.
fn name_of(line: &str) -> Option<&str> {
    let (name, rest) = Some(line).filter(|line| !is_remark(line))?.trim_start().strip_prefix("# ")?.split_once(':')?;
    let bare = name.strip_prefix("- ").unwrap_or(name);
    let is_name =
        !bare.is_empty() && bare.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_+-".contains(c));
    (is_name && (rest.is_empty() || rest.starts_with(' '))).then_some(name)
}

/// Where each setting that is commented out begins, and how many lines it has.
fn blocks(lines: &[&str]) -> Vec<(usize, usize)> {
    let goes_on = |line: &&&str, first: &str| {
        let rest = line.get(indent(first)..).and_then(|rest| rest.strip_prefix('#'));
        is_remark(line) || (indent(line) == indent(first) && rest.is_some_and(|rest| rest.starts_with("   ")))
    };
    let length = |at: usize| 1 + lines[at + 1..].iter().take_while(|line| goes_on(line, lines[at])).count();
    (0..lines.len()).filter(|at| name_of(lines[*at]).is_some()).map(|at| (at, length(at))).collect()
}

/// The reference with that setting in force, in the place of the one of its name.
fn with(lines: &[&str], (at, length): (usize, usize)) -> String {
    let (name, depth) = (name_of(lines[at]).unwrap(), indent(lines[at]));
    let mut text: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    for line in text[at..at + length].iter_mut().filter(|line| indent(line) == depth) {
        line.replace_range(depth..(depth + 2).min(line.len()), "");
    }
    let is_own = |line: &&str| indent(line) == depth && line.trim_start().starts_with(&format!("{name}:"));
    if let Some(live) = lines[..at].iter().rposition(is_own) {
        let inside = lines[live + 1..at].iter().take_while(|line| line.is_empty() || indent(line) > depth).count();
        text[live..=live + inside].iter_mut().for_each(String::clear);
    }
    text.join("\n")
}

#[test]
fn what_is_commented_out_can_be_taken_as_it_stands() {
    let lines: Vec<&str> = REFERENCE.lines().collect();
    let blocks = blocks(&lines);
    assert!(blocks.len() >= 30, "{blocks:?}");
    let secret = |_: &str| Some("0123456789abcdef".repeat(4));
    for block in blocks {
        let text = with(&lines, block);
        let Err(errors) = config::parse("r.yaml", &text, &secret) else { continue };
        for error in &errors {
            let message = error.message.as_str();
            let is_misread =
                ["YAML", "unknown field", "is not known", "expected", "twice"].iter().any(|it| message.contains(it));
            assert!(!is_misread, "`{}`: {error}", lines[block.0]);
        }
    }
}
