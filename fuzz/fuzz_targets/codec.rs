//! Fuzzes what `properties/codec.rs` checks.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| oncegate_fuzz::codec::check(data));
