#![no_main]

libfuzzer_sys::fuzz_target!(
    init: grampus_driver_fuzz::write_seeds("any_host"),
    |data: &[u8]| grampus_driver_fuzz::any_host(data)
);
