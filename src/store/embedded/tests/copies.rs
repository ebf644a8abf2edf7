//! Copies of the store while it is used: what is in them, and how many there may be.

use super::*;

/// Stores answers of such a size under so many operations.
async fn fill(store: &EmbeddedStore, count: u8, size: usize) {
    for op in 0..count {
        let answer = crate::machine::Answer::Recorded(crate::machine::Recorded::bare(200, &vec![op; size]));
        let record = Record { state: State::Completed { at: Time(1), answer }, ..lasting(op) };
        store.write(&id(op), Expect::Absent, &record).await.unwrap();
    }
}

async fn dumped(store: &EmbeddedStore) -> Vec<u8> {
    let (mut dump, mut all) = (store.backup().await.unwrap(), Vec::new());
    while let Some(piece) = dump.recv().await {
        all.extend_from_slice(&piece.unwrap());
    }
    all
}

#[tokio::test]
async fn a_copy_is_the_same_however_it_comes() {
    let (directory, shelf) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(directory.path());
    fill(&store, 60, 100_000).await;
    for op in 60..100 {
        reserve(&store, op).await.unwrap();
    }
    // One is damaged, and stays so: a copy without it would let its operation run again.
    let spoil = |database: &redb::Database| {
        let transaction = database.begin_write()?;
        transaction.open_table(RECORDS)?.insert(&id(7).0, &b"not a record"[..])?;
        Ok(transaction.commit()?)
    };
    store.disk.with(spoil).unwrap();
    let stream = dumped(&store).await;
    let page = store.list(Cursor::START, 1_000).await.unwrap();
    for size in [13_577, 1_000_000, stream.len()] {
        let to = shelf.path().join(size.to_string());
        let mut copier = Copier::new(&to).unwrap();
        stream.chunks(size).for_each(|piece| copier.feed(piece).unwrap());
        assert!(!to.exists(), "the name comes last");
        let done = copier.finish().unwrap();
        assert_eq!((done.records, done.damaged), (100, 1));
        let copy = open(&to);
        assert_eq!(kept(&copy), (100, 100));
        let same = copy.list(Cursor::START, 1_000).await.unwrap();
        assert_eq!(
            (same.records, same.unreadable, same.next),
            (page.records.clone(), page.unreadable, page.next.clone())
        );
        assert!(matches!(reserve(&copy, 7).await, Err(StoreError::Unreadable(_))));
    }
    // What is begun and not ended leaves nothing.
    let mut copier = Copier::new(&shelf.path().join("half")).unwrap();
    copier.feed(&stream[..stream.len() / 2]).unwrap();
    assert!(matches!(copier.finish(), Err(CopyError::Torn(_))));
    assert_eq!(shelf.path().read_dir().unwrap().count(), 3);
}

#[tokio::test]
async fn a_copy_is_of_the_moment_when_it_was_begun_and_there_is_one_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    fill(&store, 60, 100_000).await;
    let mut dump = store.backup().await.unwrap();
    assert!(matches!(store.backup().await, Err(NoDump::Busy)));
    // Writes go on; what they change is not in the copy.
    for op in 0..60 {
        store.remove(&id(op), lasting(op).fence).await.unwrap();
        reserve(&store, 100 + op).await.unwrap();
    }
    let copy = directory.path().join("copy");
    let mut copier = Copier::new(&copy).unwrap();
    while let Some(piece) = dump.recv().await {
        copier.feed(&piece.unwrap()).unwrap();
    }
    assert_eq!(copier.finish().unwrap().records, 60);
    let copy = open(&copy);
    assert!(copy.load(&id(3)).await.unwrap().is_some() && copy.load(&id(103)).await.unwrap().is_none());
    // A reader who goes away frees the place.
    drop(store.backup().await.unwrap());
    let start = Clock::instant();
    while store.backup().await.is_err() {
        assert!(start.elapsed() < TIMEOUT, "nobody frees the place");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
