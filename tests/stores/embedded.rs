//! The contract, met in a file; and what the file is for: kills, cuts and garbage.

use std::collections::HashMap;
use std::future::{Ready, ready};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use oncegate::clock::Clock;
use oncegate::machine::{Expect, Record, Recorded};
use oncegate::store::codec::Codec;
use oncegate::store::embedded::{EmbeddedStore, OpenError, Settings};
use oncegate::store::{Cursor, Store, Written};
use tempfile::TempDir;

use crate::contract::{Subject, completed, contract, id, reservation};

const TIMEOUT: Duration = Duration::from_secs(20);

/// Names the directory for a child of the killing test.
const DIRECTORY: &str = "ONCEGATE_TEST_STORE";
/// Names the first operation that the child takes.
const FIRST: &str = "ONCEGATE_TEST_FIRST";

fn open(directory: &Path) -> EmbeddedStore {
    EmbeddedStore::open(&Settings::at(directory), TIMEOUT, Clock::system(), Codec::default()).unwrap()
}

fn fresh() -> Ready<Subject> {
    let directory = tempfile::tempdir().unwrap();
    ready(Subject::new(Arc::new(open(&directory.path().join("new/and/deep"))), directory))
}

contract!(fresh);

/// What the operation's record must look like in the end, apart from its times.
fn outcome(number: u32) -> Recorded {
    let body = number.to_be_bytes().repeat(1 + number as usize % 700);
    Recorded::new(201, [("x-number", number.to_string())], &body)
}

async fn run_once(store: &EmbeddedStore, number: u32) {
    let reserved = reservation(store, 1).await;
    assert_eq!(store.write(&id(number), Expect::Absent, &reserved).await.unwrap(), Written::Done);
    let done = completed(&reserved, outcome(number));
    let settled = store.write(&id(number), Expect::Fence(reserved.fence), &done).await.unwrap();
    assert_eq!(settled, Written::Done);
}

fn is_outcome(record: &Record, number: u32) -> bool {
    *record == completed(&Record { fence: crate::contract::fence(1, 1), ..record.clone() }, outcome(number))
}

/// Not a test: what the killing test starts as another process.
#[tokio::test]
#[ignore = "runs as a child of the_acknowledged_outlives_a_kill"]
async fn writes_until_it_is_killed() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let first: u32 = std::env::var(FIRST).unwrap().parse().unwrap();
    let store = open(Path::new(&directory));
    for round in 0.. {
        let numbers = first + round * 8..first + round * 8 + 8;
        join_all(numbers.map(async |number| {
            run_once(&store, number).await;
            let mut out = std::io::stdout().lock();
            writeln!(out, "ack {number}").unwrap();
            out.flush().unwrap();
        }))
        .await;
    }
}

fn child(directory: &Path, first: u32) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "embedded::writes_until_it_is_killed", "--ignored", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(FIRST, first.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn the_acknowledged_outlives_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged: Vec<u32> = Vec::new();
    for round in 0..6 {
        let mut child = child(directory.path(), round * 1_000_000);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Odd numbers of acknowledgements, so that the kill falls anywhere in a batch.
        let enough = acknowledged.len() + [3, 41, 160, 77, 9, 222][round as usize];
        for line in lines {
            let Some(number) = line.unwrap().rsplit_once("ack ").and_then(|(_, number)| number.parse().ok()) else {
                continue;
            };
            acknowledged.push(number);
            if acknowledged.len() == enough {
                let second =
                    EmbeddedStore::open(&Settings::at(directory.path()), TIMEOUT, Clock::system(), Codec::default());
                assert!(matches!(second.err(), Some(OpenError::InUse(_))), "two processes share a file");
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(acknowledged.len() >= enough, "the child ended by itself");
        let store = open(directory.path());
        for number in &acknowledged {
            let record = store.load(&id(*number)).await.unwrap();
            assert!(record.is_some_and(|record| is_outcome(&record, *number)), "lost operation {number}");
        }
    }
}

#[test]
fn a_second_opening_says_that_the_store_is_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path());
    let error =
        EmbeddedStore::open(&Settings::at(directory.path()), TIMEOUT, Clock::system(), Codec::default()).err().unwrap();
    assert!(matches!(error, OpenError::InUse(_)));
    assert!(error.to_string().contains("in use by another process"), "{error}");
    drop(first);
    drop(open(directory.path()));
}

#[tokio::test]
async fn what_was_written_is_there_after_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    for number in 0..20 {
        run_once(&store, number).await;
    }
    let kept = reservation(&store, 1).await;
    assert_eq!(store.write(&id(100), Expect::Absent, &kept).await.unwrap(), Written::Done);
    assert_eq!(store.remove(&id(3), crate::contract::fence(1, 2)).await.unwrap(), Written::Done);
    drop(store);
    let store = open(directory.path());
    for number in (0..20).filter(|number| *number != 3) {
        assert!(is_outcome(&store.load(&id(number)).await.unwrap().unwrap(), number));
    }
    assert_eq!(store.load(&id(3)).await.unwrap(), None);
    assert_eq!(store.load(&id(100)).await.unwrap(), Some(kept));
}

/// The file of a store with 200 finished operations.
async fn filled() -> (TempDir, Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let numbers: Vec<u32> = (0..200).collect();
    join_all(numbers.iter().map(|number| run_once(&store, *number))).await;
    drop(store);
    let bytes = std::fs::read(directory.path().join("records.redb")).unwrap();
    (directory, bytes)
}

/// What became of a store on changed bytes.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// It was not opened, with a reason.
    Refused,
    /// Some records could not be read, with a reason; the rest was true.
    Errors,
    /// Everything that it showed was true.
    Truth,
}

/// Opens a store on `bytes`: it refuses with a reason, or has every record as it was.
async fn never_lies(bytes: &[u8], what: &str) -> Seen {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("records.redb"), bytes).unwrap();
    let store = match EmbeddedStore::open(&Settings::at(directory.path()), TIMEOUT, Clock::system(), Codec::default()) {
        Ok(store) => store,
        Err(error) => {
            assert!(matches!(error, OpenError::Damaged { .. }), "{what}: {error}");
            let told = error.to_string();
            assert!(told.contains("cannot be opened: ") && told.contains("oncegate backup"), "{what}: {told}");
            return Seen::Refused;
        }
    };
    let Ok(page) = store.list(Cursor::START, 1_000).await else { return Seen::Errors };
    let found: HashMap<_, _> = page.records.into_iter().collect();
    for number in 0..200 {
        match found.get(&id(number)) {
            Some(record) => assert!(is_outcome(record, number), "{what}: operation {number} is a lie"),
            None => assert!(page.unreadable > 0, "{what}: operation {number} is forgotten"),
        }
    }
    if page.unreadable > 0 { Seen::Errors } else { Seen::Truth }
}

#[tokio::test]
async fn a_cut_file_is_refused() {
    let (_directory, bytes) = filled().await;
    assert_eq!(never_lies(&bytes, "whole").await, Seen::Truth);
    for cut in [1, 100, 4_095, 4_096, 8_192, 65_536, bytes.len() / 2, bytes.len() - 4_096, bytes.len() - 1, bytes.len()]
    {
        assert_eq!(never_lies(&bytes[..bytes.len() - cut], &format!("cut by {cut}")).await, Seen::Refused, "{cut}");
    }
}

#[tokio::test]
async fn a_flipped_bit_in_the_header_never_lies() {
    let (_directory, bytes) = filled().await;
    let mut refused = 0;
    for place in (0..320).step_by(2) {
        let mut flipped = bytes.clone();
        flipped[place] ^= 1 << (place % 8);
        refused +=
            usize::from(never_lies(&flipped, &format!("bit {} of byte {place}", place % 8)).await == Seen::Refused);
    }
    assert!(refused >= 50, "only {refused} of the changes were noticed");
}

#[tokio::test]
async fn a_first_start_that_was_cut_short_is_begun_anew() {
    let whole = tempfile::tempdir().unwrap();
    drop(open(whole.path()));
    let bytes = std::fs::read(whole.path().join("records.redb")).unwrap();
    for left in [&b""[..], b"garbage", &bytes[..100], &bytes[..4_096], &bytes[..bytes.len() - 1], &bytes] {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("records.redb.new"), left).unwrap();
        let store = open(directory.path());
        run_once(&store, 7).await;
        drop(store);
        assert!(is_outcome(&open(directory.path()).load(&id(7)).await.unwrap().unwrap(), 7));
        assert!(!directory.path().join("records.redb.new").exists());
    }
}

#[tokio::test]
async fn a_garbled_file_never_lies() {
    const PAGE: usize = 4_096;
    let (_directory, bytes) = filled().await;
    let mut noticed = 0;
    for start in (0..bytes.len()).step_by(3 * PAGE) {
        let mut garbled = bytes.clone();
        let end = (start + 2 * PAGE).min(bytes.len());
        for (place, byte) in (1_u32..).zip(&mut garbled[start..end]) {
            *byte ^= (place.wrapping_mul(2_654_435_761) >> 24) as u8;
        }
        noticed += usize::from(never_lies(&garbled, &format!("garbled from {start}")).await != Seen::Truth);
    }
    assert!(noticed >= 5, "only {noticed} of the changes hit anything");
}
