//! Fuzzes what `properties/coding.rs` checks.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| oncegate_fuzz::coding::check(data));
