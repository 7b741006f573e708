//! `LibraryLaunch`: the only parameter of the kernels before and after a library's call (mirror of
//! device/library_chunks.h).
#![allow(missing_docs)] // fields are documented where they are declared first: in device/library_chunks.h

use crate::abi::decompress::{ChunkJob, DECOMPRESS_JOBS};

grampus_io_stack::shared_structs! {
    LibraryLaunch {
        failed: u64, results: u64, inputs: u64, input_bytes: u64, spaces: u64, output_bytes: u64, outputs: u64,
        statuses: u64, stored: u64, decompressed: u64, stored_stride: u32, decompressed_stride: u32, called: u32,
        jobs: u32, chunks: u32, unused: u32, job: [ChunkJob; DECOMPRESS_JOBS],
    }
}
