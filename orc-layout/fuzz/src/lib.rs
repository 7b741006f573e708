//! What the fuzz targets run. The same text runs in `orc-layout/tests/mutated_files.rs` on a small,
//! seeded set of mutations, so that a plain `cargo test` meets corrupt files too.

pub mod read_file;
pub mod rle;
pub mod seeds;
