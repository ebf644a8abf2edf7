//! The rules of the house, checked over the sources: floors, sizes, names, words that may not appear.
//! It reads text, not types: each checker takes a text, and is shown below to fail on a bad sample.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const MAX_FILE_LINES: usize = 400;
const MAX_FUNCTION_LINES: usize = 70;
/// Where our own Rust is.
const RUST: [&str; 6] = ["src", "tests", "benches", "examples", "fuzz/fuzz_targets", "fuzz/properties"];
const BANNED_NAMES: [&str; 6] = ["utils", "util", "common", "manager", "helpers", "helper"];
/// What ends a thread instead of an answer.
const PANICS: [&str; 4] = [".unwrap()", ".expect(", "panic!(", "unreachable!("];
/// What the pure rules may not know: waiting, clocks, the runtime.
const IMPURE_WORDS: [&str; 4] = ["async", "Instant", "SystemTime", "tokio"];

// --- Reading source text ---------------------------------------------------------------------------------------

/// The text with comments, strings and character literals blanked out; line breaks stay, so that lines keep
/// their numbers.
fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = blank_end(&chars, at);
        if end == at {
            code.push(chars[at]);
            at += 1;
        } else {
            code.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// Where the comment or literal that begins at `at` ends; `at` itself when none begins there.
fn blank_end(chars: &[char], at: usize) -> usize {
    let next = |offset: usize| chars.get(at + offset).copied().unwrap_or(' ');
    let in_word = at > 0 && is_word(chars[at - 1]);
    match (chars[at], next(1)) {
        ('/', '/') => find(chars, at, |rest| rest.starts_with(&['\n'])),
        ('/', '*') => block_comment_end(chars, at),
        ('"', _) => string_end(chars, at + 1),
        ('r', '#' | '"') if !in_word || chars[at - 1] == 'b' => raw_string_end(chars, at),
        ('\'', '\\') => find(chars, at + 3, |rest| rest.starts_with(&['\''])) + 1,
        ('\'', _) if next(2) == '\'' => at + 3,
        _ => at,
    }
    .min(chars.len())
}

fn find(chars: &[char], from: usize, is_it: impl Fn(&[char]) -> bool) -> usize {
    (from..chars.len()).find(|&i| is_it(&chars[i..])).unwrap_or(chars.len())
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let (mut depth, mut i) = (0_usize, at);
    while i < chars.len() {
        if chars[i..].starts_with(&['/', '*']) {
            depth += 1;
            i += 2;
        } else if chars[i..].starts_with(&['*', '/']) {
            depth -= 1;
            i += 2;
            if depth == 0 {
                return i;
            }
        } else {
            i += 1;
        }
    }
    i
}

fn string_end(chars: &[char], mut at: usize) -> usize {
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// `r"..."`, `r#"..."#`; a raw identifier (`r#type`) is no string.
fn raw_string_end(chars: &[char], at: usize) -> usize {
    let hashes = chars[at + 1..].iter().take_while(|&&c| c == '#').count();
    if chars.get(at + 1 + hashes) != Some(&'"') {
        return at;
    }
    let mut close = vec!['"'];
    close.extend(std::iter::repeat_n('#', hashes));
    find(chars, at + 2 + hashes, |rest| rest.starts_with(&close)) + close.len()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Byte positions of `word` in `code` where it stands alone.
fn places(code: &str, word: &str) -> Vec<usize> {
    let alone = |at: usize| {
        !code[..at].chars().next_back().is_some_and(is_word)
            && !code[at + word.len()..].chars().next().is_some_and(is_word)
    };
    code.match_indices(word).map(|(at, _)| at).filter(|&at| alone(at)).collect()
}

/// The code without its `#[cfg(test)]` items; line breaks stay.
fn without_tests(code: &str) -> String {
    let mut kept = code.to_owned();
    for (at, attribute) in code.match_indices("#[cfg(test)]") {
        let end = at + attribute.len() + item_length(&code[at + attribute.len()..]);
        let blank: String = code[at..end].chars().map(|c| if c == '\n' { "\n" } else { " " }).collect();
        // Blanking by characters keeps the length only in ASCII code, which is all that is left after `code_only`.
        if blank.len() == end - at {
            kept.replace_range(at..end, &blank);
        }
    }
    kept
}

/// The length of the item at the text's beginning: to its `;`, or to the brace that closes its first one.
fn item_length(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth <= 1 => return at + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

// --- Floors ----------------------------------------------------------------------------------------------------

/// Each module's floor, counted from the top, as `src/lib.rs` lists them: a blank line begins the next floor.
fn floors(lib: &str) -> BTreeMap<String, usize> {
    let mut floors = BTreeMap::new();
    let mut floor = 0;
    for line in lib.lines() {
        if line.trim().is_empty() {
            floor += 1;
        } else if let Some(name) = line.strip_prefix("pub mod ").and_then(|rest| rest.strip_suffix(';')) {
            floors.insert(name.to_owned(), floor);
        }
    }
    floors
}

/// The names that follow `prefix` in paths, also in groups: `use crate::{a, b::{c, d}}` gives `a`, `b`.
fn roots_after(code: &str, prefix: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for at in places(code, prefix) {
        let Some(rest) = code[at + prefix.len()..].trim_start().strip_prefix("::") else { continue };
        let start = code.len() - rest.len();
        for (offset, name) in group_roots(rest) {
            found.push((line_of(code, start + offset), name));
        }
    }
    found
}

/// The first name of each member of the group at the text's beginning, or the one name that stands there.
fn group_roots(text: &str) -> Vec<(usize, String)> {
    let name_at = |at: usize| -> Option<(usize, String)> {
        let at = at + (text[at..].len() - text[at..].trim_start().len());
        let name: String = text[at..].chars().take_while(|&c| is_word(c)).collect();
        (!name.is_empty()).then_some((at, name))
    };
    if !text.trim_start().starts_with('{') {
        return name_at(0).into_iter().collect();
    }
    let (mut depth, mut roots) = (0_usize, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 && c == '}' {
            break;
        }
        if depth == 1 && (c == '{' || c == ',') {
            roots.extend(name_at(at + 1));
        }
    }
    roots
}

/// Imports of `module` that point up, sideways, or to no module at all.
fn upward_imports(floors: &BTreeMap<String, usize>, module: &str, text: &str) -> Vec<String> {
    let Some(own) = floors.get(module) else {
        return vec![format!("`{module}` is not in src/lib.rs")];
    };
    let wrong = |(line, name): (usize, String)| match floors.get(&name) {
        _ if name == module => None,
        Some(floor) if floor > own => None,
        Some(floor) if floor == own => Some(format!("line {line}: `{module}` uses `{name}` on its own floor")),
        Some(_) => Some(format!("line {line}: `{module}` uses `{name}`, which is above it")),
        None => Some(format!("line {line}: `crate::{name}` is no module of src/lib.rs")),
    };
    roots_after(&code_only(text), "crate").into_iter().filter_map(wrong).collect()
}

/// Paths of a module file at `depth` below the crate's root that climb out of their floor with `super`.
fn climbing_paths(depth: usize, text: &str) -> Vec<String> {
    let code = without_tests(&code_only(text));
    let climb = vec!["super"; depth].join("::");
    places(&code, &climb)
        .into_iter()
        .map(|at| format!("line {}: `{climb}` leaves the floor", line_of(&code, at)))
        .collect()
}

/// Names on circles of the graph, if there are any.
fn circle(graph: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    let mut left = graph.clone();
    loop {
        let leans = |name: &String| left[name].iter().any(|used| left.contains_key(used));
        let carries = |name: &String| left.values().any(|uses| uses.contains(name));
        // What uses nothing of what is left, or is used by nothing of it, is on no circle.
        let Some(done) = left.keys().find(|name| !leans(name) || !carries(name)).cloned() else {
            return (!left.is_empty()).then(|| left.into_keys().collect());
        };
        left.remove(&done);
    }
}

// --- Sizes, names, words ---------------------------------------------------------------------------------------

fn too_long(text: &str) -> Option<String> {
    let code = without_tests(&code_only(text));
    // Lines of notes count too: a line is test code when blanking the tests emptied it.
    let whole = code_only(text);
    let tests = whole.lines().zip(code.lines()).filter(|(all, kept)| all != kept).count();
    let lines = text.lines().count() - tests;
    (lines > MAX_FILE_LINES).then(|| format!("{lines} lines outside tests, {MAX_FILE_LINES} allowed"))
}

fn long_functions(text: &str) -> Vec<String> {
    let code = code_only(text);
    let mut found = Vec::new();
    for at in places(&code, "fn") {
        let item = &code[at..at + item_length(&code[at..])];
        let name: String = item[2..].trim_start().chars().take_while(|&c| is_word(c)).collect();
        let lines = item.lines().count();
        if !name.is_empty() && lines > MAX_FUNCTION_LINES {
            found.push(format!("line {}: `{name}` has {lines} lines", line_of(&code, at)));
        }
    }
    found
}

fn panics(text: &str) -> Vec<String> {
    let code = without_tests(&code_only(text));
    let found = PANICS.iter().flat_map(|panic| code.match_indices(panic));
    found.map(|(at, panic)| format!("line {}: `{panic}`", line_of(&code, at))).collect()
}

fn unopened(text: &str) -> Option<String> {
    (!text.starts_with("//! ")).then(|| "the first line is not a `//!` line".to_owned())
}

fn badly_named(path: &Path) -> Option<String> {
    let bad = |part: &str| BANNED_NAMES.contains(&part.trim_end_matches(".rs"));
    path.iter().filter_map(|part| part.to_str()).find(|part| bad(part)).map(|part| format!("`{part}` says nothing"))
}

fn unfinished(text: &str) -> Vec<String> {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("to", "do!"), concat!("unimple", "mented!")];
    let marked = |line: &str| marks.iter().find(|mark| line.contains(*mark)).copied();
    let lines = text.lines().enumerate();
    lines.filter_map(|(n, line)| marked(line).map(|mark| format!("line {}: {mark}", n + 1))).collect()
}

fn impurities(text: &str) -> Vec<String> {
    let code = code_only(text);
    let found = IMPURE_WORDS.iter().flat_map(|word| places(&code, word).into_iter().map(move |at| (at, word)));
    found.map(|(at, word)| format!("line {}: `{word}` in the pure rules", line_of(&code, at))).collect()
}

// --- The tree --------------------------------------------------------------------------------------------------

struct Source {
    /// Below the package's folder, such as `src/keys/mod.rs`.
    path: PathBuf,
    text: String,
}

impl Source {
    /// The names below `src`, the file's own last, without `mod`: `src/keys/mod.rs` is `[keys]`.
    fn module(&self) -> Vec<String> {
        let below = self.path.strip_prefix("src").unwrap_or(&self.path).with_extension("");
        let parts = below.iter().filter_map(|part| part.to_str()).filter(|part| *part != "mod");
        parts.map(str::to_owned).collect()
    }

    fn is_root(&self) -> bool {
        ["src/lib.rs", "src/main.rs"].iter().any(|root| self.path == Path::new(root))
    }
}

fn sources(folders: &[&str]) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|name| root.join(name)).filter(|path| path.exists()).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                files.push(Source { path: path.strip_prefix(root).unwrap().to_owned(), text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// Files that are test code as a whole: some parent says `#[cfg(test)] mod NAME;`.
fn test_modules(files: &[Source]) -> BTreeSet<Vec<String>> {
    let mut modules = BTreeSet::new();
    for file in files {
        let code = code_only(&file.text);
        for (at, attribute) in code.match_indices("#[cfg(test)]") {
            let rest = code[at + attribute.len()..].trim_start();
            let rest = rest.strip_prefix("pub(crate) ").unwrap_or(rest);
            if let Some(name) = rest.strip_prefix("mod ").and_then(|rest| rest.split_once(';')).map(|(name, _)| name)
                && name.chars().all(is_word)
            {
                let mut module = if file.is_root() { Vec::new() } else { file.module() };
                module.push(name.to_owned());
                modules.insert(module);
            }
        }
    }
    modules
}

/// The files of `src` that are not test code as a whole.
fn production_sources() -> Vec<Source> {
    let files = sources(&["src"]);
    let tests = test_modules(&files);
    files.into_iter().filter(|file| !tests.iter().any(|test| file.module().starts_with(test))).collect()
}

fn expect_none(faults: Vec<(PathBuf, Vec<String>)>) {
    let lines: Vec<String> = faults
        .into_iter()
        .flat_map(|(path, faults)| faults.into_iter().map(move |fault| format!("{}: {fault}", path.display())))
        .collect();
    assert!(lines.is_empty(), "\n{}", lines.join("\n"));
}

fn check<F: IntoIterator<Item = String>>(files: Vec<Source>, checker: impl Fn(&Source) -> F) {
    assert!(!files.is_empty(), "no files to check");
    expect_none(files.into_iter().map(|file| (file.path.clone(), checker(&file).into_iter().collect())).collect());
}

fn lib() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap()
}

#[test]
fn imports_point_down() {
    let floors = floors(&lib());
    let files = sources(&["src"]).into_iter().filter(|file| !file.is_root()).collect();
    check(files, |file| upward_imports(&floors, &file.module()[0], &file.text));
}

#[test]
fn no_path_climbs_out_of_its_floor() {
    let files = production_sources().into_iter().filter(|file| !file.is_root()).collect();
    check(files, |file| climbing_paths(file.module().len(), &file.text));
}

#[test]
fn every_module_has_a_floor() {
    let floors = floors(&lib());
    let declared = lib().lines().filter(|line| line.contains("mod ") && line.ends_with(';')).count();
    assert_eq!(floors.len(), declared, "a module of src/lib.rs is not a plain `pub mod NAME;`");
    assert_eq!(floors["admin"], floors["gateway"], "the doors stand side by side");
    assert!(floors["cli"] < floors["machine"], "the command line is above the rules");
}

/// Within one folder, siblings that name each other by path form no circle.
#[test]
fn siblings_form_no_circle() {
    let mut folders: BTreeMap<Vec<String>, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for file in production_sources().iter().filter(|file| file.module().len() > 1) {
        let mut folder = file.module();
        let name = folder.pop().unwrap();
        let code = without_tests(&code_only(&file.text));
        let by_path = roots_after(&code, &format!("crate::{}", folder.join("::")));
        let uses = roots_after(&code, "super").into_iter().chain(by_path).map(|(_, name)| name);
        let uses = uses.filter(|used| *used != name).collect();
        folders.entry(folder).or_default().insert(name, uses);
    }
    let circles: Vec<_> = folders.iter().filter_map(|(folder, graph)| Some((folder, circle(graph)?))).collect();
    assert!(circles.is_empty(), "{circles:?}");
}

#[test]
fn files_are_short() {
    check(production_sources(), |file| too_long(&file.text));
}

#[test]
fn functions_are_short() {
    check(sources(&RUST), |file| long_functions(&file.text));
}

#[test]
fn nothing_panics_outside_tests() {
    check(production_sources(), |file| panics(&file.text));
}

#[test]
fn every_file_says_what_it_is() {
    check(sources(&RUST), |file| unopened(&file.text));
}

#[test]
fn names_say_something() {
    check(sources(&RUST), |file| badly_named(&file.path));
}

#[test]
fn nothing_is_left_unfinished() {
    check(sources(&RUST), |file| unfinished(&file.text));
}

#[test]
fn the_rules_are_pure() {
    let files = sources(&["src/machine"]);
    check(files, |file| impurities(&file.text));
}

// --- Each checker can fail -------------------------------------------------------------------------------------

const LIB: &str = "//! Map.\n\npub mod top;\n\npub mod left;\npub mod right;\n\npub mod ground;\n";

fn imports(module: &str, text: &str) -> Vec<String> {
    upward_imports(&floors(LIB), module, text)
}

#[test]
fn an_import_that_points_up_is_found() {
    assert_eq!(imports("ground", "use crate::top::Thing;"), ["line 1: `ground` uses `top`, which is above it"]);
    assert_eq!(imports("left", "use crate::{ground, top::{a, b}};").len(), 1);
    assert_eq!(imports("ground", "use crate::{\n    ground::a,\n    left::b,\n    right,\n};").len(), 2);
    assert_eq!(imports("left", "fn f() {\n    crate::top::go();\n}"), ["line 2: `left` uses `top`, which is above it"]);
    assert_eq!(imports("ground", "fn f() -> Result<crate :: top::A, ()> {}").len(), 1);
    assert_eq!(imports("ground", "#[cfg(test)]\nmod tests { use crate::top::a; }").len(), 1);
}

#[test]
fn an_import_to_the_side_or_to_nowhere_is_found() {
    assert_eq!(imports("left", "use crate::right::Thing;"), ["line 1: `left` uses `right` on its own floor"]);
    assert_eq!(imports("left", "use crate::Thing;"), ["line 1: `crate::Thing` is no module of src/lib.rs"]);
    assert_eq!(imports("cellar", ""), ["`cellar` is not in src/lib.rs"]);
}

#[test]
fn an_import_that_points_down_is_not_found() {
    assert!(imports("top", "use crate::{left::{a, b}, right, ground::c};").is_empty());
    assert!(imports("left", "use crate::left::part; pub(crate) fn f() {}").is_empty());
    assert!(
        imports("ground", "// crate::top\n/* crate::top */ /// [`crate::top`]\nconst A: &str = \"crate::top\";")
            .is_empty()
    );
    assert!(imports("ground", "const A: &str = r#\"\" crate::top\"#; const B: char = '\"'; // crate::top").is_empty());
}

#[test]
fn a_quote_in_a_character_does_not_hide_code() {
    assert_eq!(imports("ground", "const B: char = '\"'; use crate::top::a; const C: char = '\"';").len(), 1);
    assert_eq!(imports("ground", "const B: char = '\\''; use crate::top::a; fn f<'a>(x: &'a str) {}").len(), 1);
}

#[test]
fn a_climbing_path_is_found() {
    assert_eq!(climbing_paths(1, "use super::top;").len(), 1);
    assert_eq!(
        climbing_paths(2, "use super::sibling;\nuse super::super::top;"),
        ["line 2: `super::super` leaves the floor"]
    );
    assert!(climbing_paths(1, "#[cfg(test)]\nmod tests {\n    use super::*;\n}\n").is_empty());
}

#[test]
fn a_circle_is_found() {
    let graph = |edges: &[(&str, &str)]| {
        let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in edges {
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        graph
    };
    let found = circle(&graph(&[("before", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("c", "after")]));
    assert_eq!(found, Some(["a", "b", "c"].map(str::to_owned).to_vec()));
    assert_eq!(circle(&graph(&[("a", "b"), ("b", "c"), ("a", "c")])), None);
}

#[test]
fn a_long_file_is_found() {
    let lines = |n: usize| "//! A line.\n".repeat(n);
    assert!(too_long(&lines(MAX_FILE_LINES + 1)).is_some());
    assert!(too_long(&lines(MAX_FILE_LINES)).is_none());
    let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    fn f() {}\n".repeat(100));
    assert!(too_long(&(lines(MAX_FILE_LINES) + &tests)).is_none(), "tests do not count");
    assert!(too_long(&(lines(MAX_FILE_LINES) + &tests + "fn more() {}\n")).is_some(), "what follows tests counts");
}

#[test]
fn a_long_function_is_found() {
    let function = |lines: usize| format!("pub fn big(a: u8) -> u8 {{\n{}}}\n", "    a();\n".repeat(lines - 2));
    assert_eq!(long_functions(&function(71)), ["line 1: `big` has 71 lines"]);
    assert!(long_functions(&function(70)).is_empty());
    assert!(long_functions("trait T {\n    fn f(&self) -> u8;\n}\n").is_empty());
}

#[test]
fn a_panic_outside_tests_is_found() {
    assert_eq!(panics("fn f() {\n    g().unwrap();\n}"), ["line 2: `.unwrap()`"]);
    assert_eq!(panics("fn f() {\n    g().expect(\"a\");\n    panic!(\"b\");\n}").len(), 2);
    assert!(panics("#[cfg(test)]\nmod tests {\n    fn f() { g().unwrap(); }\n}").is_empty());
    assert!(panics("/// Like `x.unwrap()`.\n#[expect(unused)]\nfn f() { g().unwrap_or(1); }").is_empty());
}

#[test]
fn a_file_without_an_opening_is_found() {
    assert!(unopened("use std::fs;\n").is_some());
    assert!(unopened("\n//! Late.\n").is_some());
    assert!(unopened("//! What it is.\n").is_none());
}

#[test]
fn a_name_that_says_nothing_is_found() {
    for bad in ["src/utils.rs", "src/store/helpers/mod.rs", "src/manager.rs", "tests/common/mod.rs"] {
        assert!(badly_named(Path::new(bad)).is_some(), "{bad}");
    }
    assert!(badly_named(Path::new("src/store/embedded.rs")).is_none());
}

#[test]
fn a_mark_of_unfinished_work_is_found() {
    assert_eq!(unfinished(concat!("fn f() {}\n// TO", "DO: later\n")).len(), 1);
    assert_eq!(unfinished(concat!("fn f() { to", "do!() }\n// FIX", "ME\n")).len(), 2);
    assert!(unfinished("fn f() {}\n").is_empty());
}

#[test]
fn an_impurity_is_found() {
    for bad in [
        "pub async fn f() {}",
        "use std::time::{Duration, Instant};",
        "fn f() -> std::time::SystemTime { g() }",
        "use tokio::sync::Mutex;",
    ] {
        assert_eq!(impurities(bad).len(), 1, "{bad}");
    }
    assert!(impurities("//! No async, no tokio.\nuse std::time::Duration;\nstruct Instantly;").is_empty());
}

#[test]
fn a_file_of_tests_is_recognised() {
    let parent = |path: &str, text: &str| Source { path: PathBuf::from(path), text: text.to_owned() };
    let files = [
        parent("src/store/mod.rs", "//! S.\n#[cfg(test)]\nmod contract;\nmod codec;\n"),
        parent("src/keys/header.rs", "//! H.\n#[cfg(test)]\nmod tests { }\nfn f() { g(); }\n"),
    ];
    let found: Vec<String> = test_modules(&files).iter().map(|module| module.join("::")).collect();
    assert_eq!(found, ["store::contract"]);
}
