//! Fuzzes what `properties/client_print.rs` checks.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| oncegate_fuzz::client_print::check(data));
