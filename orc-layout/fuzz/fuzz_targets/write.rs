//! Fuzz target: any bytes, taken as a table, are written and read back by two readers.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    grampus_fuzz::write::write(data);
});
