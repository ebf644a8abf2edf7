//! Fuzzes what `properties/key_header.rs` checks.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| oncegate_fuzz::key_header::check(data));
