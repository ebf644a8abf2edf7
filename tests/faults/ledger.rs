//! What the upstream writes down before it acts and before it answers, in a file that outlives its process; and what each
//! of its answers is made of. One line a fact, each written at once: the order of lines is the order of facts.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use crate::dice::Dice;
use crate::history::{Name, Run};

/// A process of the upstream begins; what ran before is over.
const BOOT: &str = "boot";
const RUN: &str = "run";
const END: &str = "end";

/// The writing side.
pub(crate) struct Ledger(File);

impl Ledger {
    pub(crate) fn open(path: &Path) -> Self {
        Self(OpenOptions::new().create(true).append(true).open(path).unwrap())
    }

    pub(crate) fn boot(&self) {
        self.write(&format!("{BOOT}\n"));
    }

    pub(crate) fn run(&self, name: &Name, run: &Run) {
        let (Name { scope, key }, Run { request, attempt, variant, status, receipt, .. }) = (name, run);
        self.write(&format!("{RUN} {receipt} {scope} {key} {request} {attempt} {variant} {status}\n"));
    }

    pub(crate) fn end(&self, receipt: u64) {
        self.write(&format!("{END} {receipt}\n"));
    }

    fn write(&self, line: &str) {
        // One call, one line: what is appended in one piece stays in one piece, also when the process is killed.
        let written = (&self.0).write(line.as_bytes()).unwrap();
        assert_eq!(written, line.len());
    }
}

/// All runs in a ledger, in their order. What is being written just now does not count.
pub(crate) fn read(text: &str) -> Vec<(Name, Run)> {
    let (mut runs, mut running, mut at) = (Vec::new(), HashMap::new(), 0_u64);
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let mut words = line.split_whitespace();
        let kind = words.next();
        let numbers: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
        match (kind, &numbers[..]) {
            (Some(BOOT), []) => running.drain().for_each(|(_, place): (u64, usize)| close(&mut runs, place, at, false)),
            (Some(RUN), numbers) => {
                running.insert(numbers[0], runs.len());
                runs.push(begun(numbers, at));
            }
            (Some(END), [receipt]) => {
                let place = running.remove(receipt).expect("what ends has begun");
                close(&mut runs, place, at, true);
            }
            _ => panic!("no line of a ledger: {line:?}"),
        }
        at += line.len() as u64;
    }
    runs
}

fn close(runs: &mut [(Name, Run)], place: usize, at: u64, answered: bool) {
    let run = &mut runs[place].1;
    run.over = Some(at);
    run.ended = answered.then_some(at);
}

fn begun(numbers: &[u64], at: u64) -> (Name, Run) {
    let &[receipt, scope, key, request, attempt, variant, status] = numbers else { panic!("half a run: {numbers:?}") };
    let small = |number: u64| u8::try_from(number).unwrap();
    let run = Run {
        request,
        attempt: u32::try_from(attempt).unwrap(),
        variant: small(variant),
        status: u16::try_from(status).unwrap(),
        receipt,
        began: at,
        ended: None,
        over: None,
    };
    (Name { scope: small(scope), key }, run)
}

/// The end-to-end fields and the body of the answer that belongs to a receipt.
pub(crate) fn answer(status: u16, receipt: u64) -> (Vec<(String, String)>, Vec<u8>) {
    let mut dice = Dice::new(receipt);
    let own = |name: &str, value: String| (name.to_owned(), value);
    let mut fields = vec![
        own("content-type", "text/plain; charset=utf-8".to_owned()),
        own("location", format!("/orders/{receipt}")),
        own("x-receipt", receipt.to_string()),
        own("x-item", format!("first of {receipt}, \"quoted\"")),
        own("x-item", format!("second,  of {receipt}")),
    ];
    if dice.chance(30) {
        fields.push(own("etag", format!("W/\"{receipt}-{status}\"")));
    }
    let line = format!("{status}: receipt {receipt}\n");
    let body = line.repeat(usize::try_from(dice.between(0, 12)).unwrap());
    (fields, body.into_bytes())
}

#[test]
fn a_ledger_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let ledger = Ledger::open(&path);
    let name = |key| Name { scope: 2, key };
    let run = |receipt| Run {
        request: receipt + 70,
        attempt: 1,
        variant: 1,
        status: 201,
        receipt,
        began: 0,
        ended: None,
        over: None,
    };
    ledger.boot();
    ledger.run(&name(7), &run(1));
    ledger.run(&name(8), &run(2));
    ledger.end(2);
    // Another process, on the same file.
    Ledger::open(&path).boot();
    ledger.run(&name(7), &run(3));
    let text = std::fs::read_to_string(&path).unwrap() + "run 4 1 1";
    let [(first, killed), (_, whole), (_, running)] = &read(&text)[..] else { panic!("{text}") };
    assert_eq!((first, killed.request, killed.began), (&name(7), 71, 5));
    assert_eq!((killed.ended, killed.over.is_some()), (None, true));
    assert!(whole.ended.is_some() && whole.ended == whole.over && whole.ended < killed.over);
    assert_eq!((running.ended, running.over), (None, None));
}
