//! Fuzzes what `properties/request_head.rs` checks.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| oncegate_fuzz::request_head::check(data));
