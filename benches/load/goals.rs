//! The goals, and what was measured beside them. Ratios are to nginx as a plain proxy in the same round, where nothing
//! else is said.

use anyhow::{Context, Result};

/// One line of the table.
struct Goal {
    what: &'static str,
    better: Better,
    must: f64,
    stretch: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Better {
    Less,
    More,
}

const fn at_most(what: &'static str, must: f64, stretch: Option<f64>) -> Goal {
    Goal { what, better: Better::Less, must, stretch }
}

const fn at_least(what: &'static str, must: f64, stretch: Option<f64>) -> Goal {
    Goal { what, better: Better::More, must, stretch }
}

const GOALS: &[Goal] = &[
    at_most("unique POST: gateway", 1.35, Some(1.0)),
    at_most("unique POST: gateway and Redis", 1.75, Some(1.35)),
    at_least("unique POST: requests a second", 0.65, Some(0.85)),
    at_most("unique POST by fingerprint: gateway", 1.45, Some(1.1)),
    at_most("replay from Redis: gateway", 0.7, Some(0.5)),
    at_most("replay from Redis: gateway and Redis", 0.85, Some(0.62)),
    at_least("replay from Redis: requests a second", 1.5, Some(1.9)),
    at_most("replay from the local cache: gateway and Redis", 0.65, Some(0.45)),
    at_most("replay from the local cache: Redis commands", 0.0, None),
    at_most("409 for a duplicate in flight: gateway", 0.65, Some(0.45)),
    at_most("50/50 mix: gateway and Redis", 1.35, Some(1.0)),
    at_most("plain route: gateway", 1.15, Some(0.85)),
    at_least("embedded, unique POST: to append + fdatasync", 1.2, Some(2.0)),
    at_most("system calls a request: unique", 4.9, Some(4.6)),
    at_most("system calls a request: replay", 2.5, Some(2.3)),
    at_most("user instructions a request: unique", 1.9, Some(1.0)),
    at_most("user instructions a request: replay", 1.1, Some(0.5)),
    at_most("added p50 at one connection: unique", 3.0, Some(2.1)),
    at_most("added p50 at one connection: replay", 1.25, Some(0.85)),
    at_most("added p50 at one connection: cached replay", 0.25, Some(0.05)),
    at_most("p99 at 64 connections, to nginx + Lua", 1.0, None),
    at_most("p99.9 at 64 connections, to nginx + Lua", 1.0, None),
    at_most("p99 paced, to nginx + Lua", 1.0, None),
    at_most("p99.9 paced, to nginx + Lua", 1.0, None),
    at_most("stalls over 20 ms under sweep, rotation, reload", 0.0, None),
    at_most("stalls over 20 ms, embedded, the same", 0.0, None),
    at_most("filter: processor time, percent of a unique POST", 2.0, None),
    at_most("filter: bytes a key of capacity and generation", 3.0, None),
    at_most("Redis bytes a key at a 400 B answer", 665.0, Some(600.0)),
    at_most("resident MiB: idle", 40.0, Some(25.0)),
    at_most("resident MiB: 10,000 connections", 250.0, None),
    at_most("resident bytes per live key", 120.0, Some(40.0)),
    at_most("start to first answer", 0.6, Some(0.4)),
    at_most("growth: 1,000 to 1,000,000 live keys", 1.1, None),
    at_most("growth: 1 to 500 routes", 1.1, None),
    at_most("growth: 64 to 5,000 connections", 1.1, None),
];

/// What was measured.
#[derive(Default)]
pub(crate) struct Table(Vec<(&'static Goal, f64, String)>);

impl Table {
    /// What was measured of a goal, as it is compared, and what it was made of.
    pub(crate) fn put(&mut self, what: &str, value: f64, made_of: impl Into<String>) -> Result<()> {
        let goal =
            GOALS.iter().find(|goal| goal.what == what).with_context(|| format!("no goal is called {what:?}"))?;
        self.0.push((goal, value, made_of.into()));
        Ok(())
    }

    /// The goals of which something was measured, as a table in Markdown.
    pub(crate) fn print(&self) {
        println!("\n| goal | measured | must | stretch | reached | made of |\n|---|---|---|---|---|---|");
        for goal in GOALS {
            for (_, value, made_of) in self.0.iter().filter(|(measured, ..)| measured.what == goal.what) {
                println!("{}", goal.line(*value, made_of));
            }
        }
    }
}

impl Goal {
    fn line(&self, value: f64, made_of: &str) -> String {
        let bound = |bound: f64| format!("{} {}", if self.better == Better::Less { "<=" } else { ">=" }, number(bound));
        let stretch = self.stretch.map_or_else(String::new, bound);
        format!(
            "| {} | {} | {} | {stretch} | {} | {made_of} |",
            self.what,
            number(value),
            bound(self.must),
            self.reached(value)
        )
    }

    fn reached(&self, value: f64) -> &'static str {
        let within = |bound: f64| if self.better == Better::Less { value <= bound } else { value >= bound };
        match self.stretch {
            Some(stretch) if within(stretch) => "stretch",
            _ if within(self.must) => "must",
            _ => "no",
        }
    }
}

/// Three digits that matter.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || size.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// The middle of the values.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}
