//! The journal over a restart: what was synced is there again, what was torn is not, and damage is never a guess.

use std::path::Path;

use super::*;
use crate::machine::{Answer, AttemptId, NamespaceTag, Print, Prints, RawPrint, Recorded};

fn record(attempt: u8, state: State) -> Record {
    Record {
        fence: Fence { attempt: AttemptId([attempt; 16]), version: 1 },
        number: 1,
        state,
        prints: Prints { raw: RawPrint([1; 16]), canonical: Print([2; 16]), settings: 3 },
        credentials: None,
        namespace: NamespaceTag(7),
        expires: Time(90_000),
        probe: None,
        beside: None,
        good_until: None,
    }
}

fn claim(attempt: u8) -> Record {
    record(attempt, State::InFlight { since: Time(1_000), lease: Time(16_000) })
}

fn completed(claim: &Record) -> Record {
    let recorded = Recorded::bare(201, b"done");
    let state = State::Completed { at: Time(2_000), answer: Answer::Recorded(recorded) };
    Record { fence: Fence { version: 2, ..claim.fence }, state, ..claim.clone() }
}

const fn id(byte: u8) -> OperationId {
    OperationId([byte; 32])
}

fn try_open(path: &Path, size: u64) -> Result<Journal, OpenError> {
    let settings = Settings { path: path.to_owned(), size };
    let clock = Clock::manual(Time(1_000));
    Journal::open(&settings, Codec::default(), clock, Arc::new(Metrics::new().unwrap()))
}

fn open(path: &Path) -> Journal {
    // The thread of the one before has the file for a moment longer.
    let start = Clock::instant();
    loop {
        match try_open(path, 1 << 20) {
            Ok(journal) => return journal,
            Err(OpenError::InUse(_)) if start.elapsed().as_secs() < 10 => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

async fn put(journal: &Journal, byte: u8, expect: Expect, record: &Record) -> Written {
    journal.write(&id(byte), expect, record).await.unwrap()
}

#[tokio::test]
async fn what_was_written_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/journal");
    let journal = open(&path);
    for byte in 1..=3 {
        assert_eq!(put(&journal, byte, Expect::Absent, &claim(byte)).await, Written::Done);
    }
    assert_eq!(put(&journal, 1, Expect::Absent, &claim(9)).await, Written::Lost(Some(claim(1).into())));
    assert_eq!(put(&journal, 4, Expect::Fence(claim(4).fence), &claim(4)).await, Written::Lost(None));
    assert_eq!(put(&journal, 2, Expect::Fence(claim(2).fence), &completed(&claim(2))).await, Written::Done);
    assert_eq!(journal.forget(&id(3), claim(8).fence), Written::Lost(Some(claim(3).into())));
    assert_eq!(journal.forget(&id(3), claim(3).fence), Written::Done);
    drop(journal);
    let journal = open(&path);
    assert_eq!(journal.len(), 2);
    assert_eq!(journal.load(&id(1)).await.unwrap(), Some(claim(1)));
    assert_eq!(journal.load(&id(2)).await.unwrap(), Some(completed(&claim(2))));
    assert!(journal.holds(&id(1)) && !journal.holds(&id(3)));
}

#[tokio::test]
async fn a_lease_that_goes_on_costs_no_sync_and_no_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = open(&path);
    put(&journal, 1, Expect::Absent, &claim(1)).await;
    let before = std::fs::metadata(&path).unwrap().len();
    let renewed = Record { fence: Fence { version: 2, ..claim(1).fence }, ..claim(1) };
    assert_eq!(put(&journal, 1, Expect::Fence(claim(1).fence), &renewed).await, Written::Done);
    assert_eq!(journal.load(&id(1)).await.unwrap(), Some(renewed));
    journal.probe().await.unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), before);
}

#[tokio::test]
async fn what_is_handed_over_leaves_an_empty_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let journal = open(&path);
    for byte in 1..=50 {
        put(&journal, byte, Expect::Absent, &claim(byte)).await;
    }
    for byte in 1..=50 {
        assert_eq!(journal.forget(&id(byte), claim(byte).fence), Written::Done);
    }
    journal.probe().await.unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), frames::MAGIC.len() as u64);
    put(&journal, 60, Expect::Absent, &claim(60)).await;
    drop(journal);
    assert_eq!(open(&path).some(10, |_, _| true), [(id(60), claim(60))]);
}

#[tokio::test]
async fn a_full_journal_takes_ends_and_no_beginnings() {
    let folder = tempfile::tempdir().unwrap();
    let journal = try_open(&folder.path().join("journal"), 100).unwrap();
    put(&journal, 1, Expect::Absent, &claim(1)).await;
    let refused = journal.write(&id(2), Expect::Absent, &claim(2)).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(why)) if why.contains("full")));
    assert!(!journal.holds(&id(2)));
    assert_eq!(put(&journal, 1, Expect::Fence(claim(1).fence), &completed(&claim(1))).await, Written::Done);
    journal.forget(&id(1), completed(&claim(1)).fence);
    assert_eq!(put(&journal, 2, Expect::Absent, &claim(2)).await, Written::Done);
}

#[tokio::test]
async fn two_processes_cannot_have_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let _journal = open(&path);
    assert!(matches!(try_open(&path, 100), Err(OpenError::InUse(_))));
}

/// The bytes of a file with a claim, its outcome, and another claim, and where each frame ends.
async fn written(path: &Path) -> (Vec<u8>, Vec<usize>) {
    let journal = open(path);
    let mut ends = vec![frames::MAGIC.len()];
    let (first, second) = (claim(1), claim(2));
    for (byte, expect, record) in [
        (1, Expect::Absent, first.clone()),
        (1, Expect::Fence(first.fence), completed(&first)),
        (2, Expect::Absent, second),
    ] {
        put(&journal, byte, expect, &record).await;
        ends.push(usize::try_from(std::fs::metadata(path).unwrap().len()).unwrap());
    }
    drop(journal);
    (std::fs::read(path).unwrap(), ends)
}

#[tokio::test]
async fn a_file_cut_anywhere_tells_what_was_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (bytes, ends) = written(&folder.path().join("journal")).await;
    for length in 0..frames::MAGIC.len() {
        // It never was so short.
        assert_eq!(frames::read(&bytes[..length]), Err(frames::Fault::Damaged(length)));
    }
    for length in frames::MAGIC.len()..bytes.len() {
        let (entries, counts) = frames::read(&bytes[..length]).unwrap();
        let whole = ends.iter().filter(|end| **end <= length).count();
        assert_eq!((entries.len(), counts), (whole - 1, ends[whole - 1]), "{length}");
        // The same when the file system had grown the file, and not filled it.
        let mut grown = bytes[..ends[whole - 1]].to_vec();
        grown.resize(bytes.len() + 100, 0);
        assert_eq!(frames::read(&grown).unwrap().0.len(), whole - 1, "{length}");
    }
}

#[tokio::test]
async fn a_changed_byte_is_a_torn_end_or_an_error_and_never_another_story() {
    let folder = tempfile::tempdir().unwrap();
    let (bytes, ends) = written(&folder.path().join("journal")).await;
    let whole = frames::read(&bytes).unwrap().0;
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x40;
        match frames::read(&damaged) {
            Ok((entries, _)) => assert!(place >= ends[2] && entries == whole[..2], "{place}"),
            Err(_) => assert!(place < ends[2] + 8, "{place}"),
        }
    }
}

/// Why the file is refused, once the process before has let it go.
fn refused(path: &Path) -> String {
    let start = Clock::instant();
    loop {
        match try_open(path, 100) {
            Err(OpenError::InUse(_)) if start.elapsed().as_secs() < 10 => std::thread::yield_now(),
            other => break other.err().unwrap().to_string(),
        }
    }
}

#[tokio::test]
async fn a_torn_end_is_cut_off_and_a_damaged_file_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let (bytes, ends) = written(&path).await;
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    let journal = open(&path);
    assert_eq!(journal.some(10, |_, _| true), [(id(1), completed(&claim(1)))]);
    put(&journal, 3, Expect::Absent, &claim(3)).await;
    drop(journal);
    assert_eq!(open(&path).len(), 2);
    let mut damaged = bytes;
    damaged[ends[0] + 40] ^= 1;
    std::fs::write(&path, damaged).unwrap();
    let error = refused(&path);
    assert!(error.contains("damaged at byte 8") && error.contains("store.journal"), "{error}");
    // A new one is never empty: somebody else has emptied this one.
    std::fs::write(&path, b"").unwrap();
    let error = refused(&path);
    assert!(error.contains("damaged at byte 0") && error.contains("store.journal"), "{error}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "it is left as it was found");
}

#[tokio::test]
async fn none_of_its_records_waits_behind_others_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let journal = open(&folder.path().join("journal"));
    assert_eq!(journal.some(1, |_, _| true), []);
    for byte in 0..10 {
        put(&journal, byte, Expect::Absent, &claim(byte)).await;
    }
    let mut waiting: std::collections::HashSet<_> = (0..10).map(id).collect();
    for _ in 0..10_000 {
        waiting.retain(|id| !journal.some(2, |_, _| true).iter().any(|(drawn, _)| drawn == id));
    }
    assert!(waiting.is_empty(), "{waiting:?}");
}
