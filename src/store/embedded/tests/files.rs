//! Files that are not what they should be: of another layout, or cut while they are open.

use super::*;

#[test]
fn an_unknown_layout_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let mark = |database: &redb::Database| {
        let transaction = database.begin_write()?;
        transaction.open_table(redb::TableDefinition::<&str, u64>::new("facts"))?.insert("layout", 99)?;
        Ok(transaction.commit()?)
    };
    store.disk.with(mark).unwrap();
    drop(store);
    let error =
        EmbeddedStore::open(&Settings::at(directory.path()), TIMEOUT, Clock::system(), Codec::default()).err().unwrap();
    assert!(matches!(error, OpenError::UnknownLayout(_)), "{error}");
}

#[tokio::test]
async fn a_file_that_was_cut_takes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    reserve(&store, 1).await.unwrap();
    let file = directory.path().join("records.redb");
    let whole = std::fs::read(&file).unwrap();
    std::fs::File::options().write(true).open(&file).unwrap().set_len(4_096).unwrap();
    for op in 2..6 {
        assert!(matches!(reserve(&store, op).await, Err(StoreError::Unavailable(_))));
    }
    // A whole one in its place is taken without a restart.
    let fresh = directory.path().join("fresh");
    std::fs::write(&fresh, &whole).unwrap();
    std::fs::rename(&fresh, &file).unwrap();
    recovered(&store).await;
    assert_eq!(store.load(&id(1)).await.unwrap().unwrap().fence, lasting(1).fence);
}
