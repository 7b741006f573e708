//! Fuzz target: any bytes, taken as a table, are written and read back by two readers.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(init: grampus_fuzz::seed_files::write("write"), |data: &[u8]| {
    grampus_fuzz::write::write(data);
});
