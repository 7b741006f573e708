#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| grampus_driver_fuzz::any_host(data));
