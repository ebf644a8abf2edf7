//! Fuzzes what `properties/json.rs` checks.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| oncegate_fuzz::json::check(data));
