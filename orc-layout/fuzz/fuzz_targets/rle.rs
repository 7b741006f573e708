//! Fuzz target: any bytes, read as the streams of a run-length encoded column, end in values or in an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(init: grampus_fuzz::seed_files::write("rle"), |data: &[u8]| {
    grampus_fuzz::rle::rle(data);
});
