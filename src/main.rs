//! The thin binary.

use std::alloc::{GlobalAlloc, Layout};

use mimalloc::MiMalloc;

/// Has mimalloc linked in the place of the C library's allocator, which is Rust's own, too. As Rust's allocator itself it would
/// be told an alignment with each call, and go the long way for every size that is no power of two.
#[used]
static LINKED: unsafe fn(&MiMalloc, Layout) -> *mut u8 = <MiMalloc as GlobalAlloc>::alloc;

fn main() -> std::process::ExitCode {
    oncegate::cli::run()
}
