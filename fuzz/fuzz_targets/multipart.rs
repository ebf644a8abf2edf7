//! Fuzzes what `properties/multipart.rs` checks.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| oncegate_fuzz::multipart::check(data));
