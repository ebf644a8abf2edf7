//! The contract, met with encrypted answers.

use std::sync::Arc;
use std::time::Duration;

use oncegate::store::codec::{Codec, Key, Keyring, SECRET_LEN};

/// What a call may take: the contract asks for correct answers, not quick ones.
const TIMEOUT: Duration = Duration::from_secs(20);

fn codec() -> Codec {
    let key = |id, secret| Key::new(id, &[secret; SECRET_LEN]).unwrap();
    Codec::new(Keyring::new(vec![key("2026-11", 7), key("2026-10", 8)]))
}

mod embedded {
    use std::future::{Ready, ready};

    use oncegate::clock::Clock;
    use oncegate::store::embedded::{EmbeddedStore, Settings};

    use super::{Arc, TIMEOUT, codec};
    use crate::contract::{Subject, contract};

    fn fresh() -> Ready<Subject> {
        let directory = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(&Settings::at(directory.path()), TIMEOUT, Clock::system(), codec()).unwrap();
        ready(Subject::new(Arc::new(store), directory))
    }

    contract!(fresh);
}

mod redis {
    use std::future::{Ready, ready};

    use super::{Arc, TIMEOUT, codec};
    use crate::contract::{Subject, contract};
    use crate::redis::store_of_its_own;

    fn fresh() -> Ready<Subject> {
        let (store, server) = store_of_its_own(TIMEOUT);
        ready(Subject::new(Arc::new(store.with_codec(codec())), server))
    }

    contract!(fresh);
}
