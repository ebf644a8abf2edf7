//! The drill in its long form, for nights: `tests/drill` starts it with what `ONCEGATE_DRILL` says.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use crate::drill::Plan;
use crate::scene::Backing;

const WISHES: &str = "ONCEGATE_DRILL";

/// How the head of the reports' table begins.
const TABLE: &str = "| scenario |";

/// What was asked for: `name=value`, and what is not said has its default.
struct Wishes(Vec<(String, String)>);

impl Wishes {
    const KNOWN: [&'static str; 8] =
        ["scenario", "operations", "minutes", "seed", "beat", "clients", "gateways", "report"];

    fn read(text: &str) -> Self {
        let pairs = text.split_whitespace().map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or_else(|| panic!("`{pair}` is not NAME=VALUE"));
            assert!(Self::KNOWN.contains(&name), "`{name}` is none of {:?}", Self::KNOWN);
            (name.to_owned(), value.to_owned())
        });
        Self(pairs.collect())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    fn number<T: FromStr>(&self, name: &str, default: T) -> T {
        self.text(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("`{name}` is no number")))
    }

    /// The page that gets the row. Looked at first: a night later is too late to find that there is none.
    fn page(&self) -> Option<&Path> {
        let page = self.text("report").map(Path::new)?;
        let has_table = std::fs::read_to_string(page).is_ok_and(|text| text.contains(TABLE));
        assert!(has_table, "`report={}` is no page with a table that begins with `{TABLE}`", page.display());
        Some(page)
    }

    fn plan(&self) -> Plan {
        let backing = match self.text("scenario").unwrap_or("sentinel") {
            "embedded" => Backing::Embedded,
            "redis" => Backing::Redis,
            "sentinel" => Backing::Sentinels,
            "sentinel-all" => Backing::PatientSentinels,
            "cluster" => Backing::Cluster,
            other => panic!("`{other}` is none of embedded, redis, sentinel, sentinel-all and cluster"),
        };
        let gateways = if backing == Backing::Embedded { 1 } else { self.number("gateways", 3) };
        let mut plan = Plan::short(backing, gateways, self.number("seed", rand::random()));
        plan.clients = self.number("clients", 48);
        plan.operations = self.number("operations", 200_000);
        plan.most = Duration::from_mins(self.number("minutes", 60));
        plan.beat = Some(Duration::from_millis(self.number("beat", 1_000)));
        plan
    }
}

#[test]
#[ignore = "takes long: tests/drill starts it"]
fn drill() {
    let wishes = Wishes::read(&std::env::var(WISHES).unwrap_or_default());
    let plan = wishes.plan();
    let page = wishes.page();
    let scenario = wishes.text("scenario").unwrap_or("sentinel");
    println!("scenario {scenario}, seed {}", plan.seed);
    let report = plan.run();
    println!("{}", report.table(scenario));
    if let Some(page) = page {
        let text = std::fs::read_to_string(page).unwrap();
        std::fs::write(page, filled(&text, &report.row(scenario, plan.seed))).unwrap();
    }
    report.assert_true();
}

/// The page with this row in the place of the one that begins in the same way, or behind the table's last row.
fn filled(page: &str, row: &str) -> String {
    let first = |line: &str| line.split('|').nth(1).map(str::trim).unwrap_or_default().to_owned();
    let mut lines: Vec<&str> = page.lines().collect();
    let head = lines.iter().position(|line| line.starts_with(TABLE)).expect("a table of scenarios");
    let rows = lines[head..].iter().take_while(|line| line.starts_with('|')).count();
    let rows = head + 2..head + rows;
    match rows.clone().find(|place| first(lines[*place]) == first(row)) {
        Some(place) => lines[place] = row,
        None => lines.insert(rows.end, row),
    }
    lines.join("\n") + "\n"
}

#[test]
fn a_row_takes_the_place_of_its_like() {
    let page = "# x\n\n| scenario | n |\n|---|---|\n| a | 1 |\n| b | 1 |\n\nend\n";
    assert_eq!(filled(page, "| b | 2 |"), page.replace("| b | 1 |", "| b | 2 |"));
    assert_eq!(filled(page, "| c | 3 |"), page.replace("| b | 1 |\n", "| b | 1 |\n| c | 3 |\n"));
}

#[test]
#[should_panic(expected = "`operation` is none of")]
fn a_wish_that_nobody_knows_is_refused() {
    Wishes::read("operations=5 operation=6");
}

#[test]
#[should_panic(expected = "is no page with a table")]
fn a_report_that_cannot_be_written_is_refused_at_once() {
    Wishes::read("report=nowhere.md").page();
}
