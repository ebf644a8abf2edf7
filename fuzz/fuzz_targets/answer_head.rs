//! Fuzzes what `properties/answer_head.rs` checks.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| oncegate_fuzz::answer_head::check(data));
