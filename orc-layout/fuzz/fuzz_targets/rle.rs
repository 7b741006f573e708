//! Fuzz target: any bytes, read as the streams of a run-length encoded column, end in values or in an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    grampus_fuzz::rle::rle(data);
});
