//! Shows every input in `fuzz/corpus` to the check that its fuzz target makes. It looks for no new ones.

#![expect(clippy::unwrap_used, reason = "a test may fail where it stands")]

#[path = "../fuzz/properties/lib.rs"]
#[expect(unreachable_pub, reason = "to the fuzz targets it is a library")]
mod properties;

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use properties::TARGETS;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

/// The names in a folder, without what follows the first dot.
fn names(folder: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.map(|name| name.split('.').next().unwrap().to_owned()).collect()
}

#[test]
fn every_target_is_replayed_and_has_a_corpus() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names(&fuzz().join("fuzz_targets")), targets);
    assert_eq!(names(&fuzz().join("corpus")), targets);
}

#[test]
fn what_the_fuzz_targets_check_holds_for_their_corpora() {
    let mut broken = Vec::new();
    for (target, check) in TARGETS {
        let mut inputs: Vec<_> =
            fs::read_dir(fuzz().join("corpus").join(target)).unwrap().map(Result::unwrap).collect();
        inputs.sort_by_key(fs::DirEntry::file_name);
        assert!(inputs.len() > 10, "{target}: {} inputs", inputs.len());
        for input in inputs {
            let data = fs::read(input.path()).unwrap();
            if catch_unwind(AssertUnwindSafe(|| check(&data))).is_err() {
                broken.push(input.path());
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
