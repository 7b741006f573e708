//! Bodies of the fuzz targets. `orc-layout/tests/mutated_files.rs` runs the same code on a small, seeded set of
//! mutations: a plain `cargo test` covers corrupt files too.

pub mod one_column_file;
pub mod other_writers;
pub mod peer;
pub mod read_file;
pub mod rle;
pub mod seed_files;
pub mod seeds;
pub mod write;
