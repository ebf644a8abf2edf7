//! Instructions that the gateway's parts take, and a whole request, each held against a limit: what is well above fails.
//! `cargo bench --profile profiling --bench instructions` (CONTRIBUTING.md); it measures no time.
#![expect(clippy::unwrap_used, reason = "a bench that cannot go on fails where it stands")]

mod codec;
mod exchange;
mod filter;
mod hundred;
mod keys;
mod lines;
mod orders;
mod rules;
mod whole;

use gungraun::{Callgrind, EventKind, LibraryBenchmarkConfig, main};

use codec::record_bytes;
use exchange::exchanges;
use filter::bloom_filter;
use hundred::whole_requests;
use keys::{fingerprints, naming_requests};
use lines::access_log;
use rules::machine;

/// At most this many instructions and an eighth more, since builds of one source differ by up to 7 %. SHA-256 does not
/// count: the processor has an instruction for it that valgrind does not know.
fn at_most(instructions: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::with_args([
        // Counting stops there, and goes on after it. Before a bench it is the other way round: that is thrown away.
        "--toggle-collect=*sha256*compress256*",
        // Not quite the pattern by which counting begins, or valgrind would take this for that.
        "--zero-before=*gungraun_wrapper_mod*",
    ]);
    callgrind.hard_limits([(EventKind::Ir, instructions + instructions / 8)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

main!(
    library_benchmark_groups =
        [naming_requests, fingerprints, bloom_filter, record_bytes, machine, access_log, exchanges, whole_requests]
);
