//! Fuzzes what `properties/token.rs` checks.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| oncegate_fuzz::token::check(data));
