//! Fuzz target: any bytes, read as an ORC file through every module of orc-layout, end in values or in an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(init: grampus_fuzz::seed_files::write("read_file"), |data: &[u8]| {
    let _ = grampus_fuzz::read_file::read_file(data);
});
