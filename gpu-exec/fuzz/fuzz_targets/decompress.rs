#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| grampus_gpu_fuzz::decompress(data));
