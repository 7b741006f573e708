#![no_main]

libfuzzer_sys::fuzz_target!(
    init: grampus_gpu_fuzz::write_seeds(),
    |data: &[u8]| grampus_gpu_fuzz::decompress(data)
);
