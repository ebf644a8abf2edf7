//! Fuzzes what `properties/replies.rs` checks.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| oncegate_fuzz::replies::check(data));
