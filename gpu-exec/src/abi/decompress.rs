//! `DecompressLaunch`: the only parameter of the decompression kernel, and the chunks that it points to (mirror of
//! device/decompress.h).
#![allow(missing_docs)] // fields are documented where they are declared first: in device/decompress.h

/// Maximum number of jobs in one launch.
pub const DECOMPRESS_JOBS: usize = 128;

/// The bytes as they are.
pub const CODEC_ORIGINAL: u32 = 0;
/// Raw Snappy.
pub const CODEC_SNAPPY: u32 = 1;
/// An LZ4 block.
pub const CODEC_LZ4: u32 = 2;
/// A Zstandard frame.
pub const CODEC_ZSTD: u32 = 3;
/// Raw deflate.
pub const CODEC_DEFLATE: u32 = 4;
/// A codec that no kernel decompresses: the chunk is corrupt.
pub const CODEC_UNKNOWN: u32 = u32::MAX;

/// [`ChunkResult::status`]: the chunk's bytes came out.
pub const CHUNK_OK: u32 = 0;
/// The chunk is invalid.
pub const CHUNK_CORRUPT: u32 = 1;
/// More bytes would come out than there is space for.
pub const CHUNK_TOO_LONG: u32 = 2;

grampus_io_stack::shared_structs! {
    StoredChunk { from: u64, to: u64, length: u32, bytes: u32, codec: u32, label: u32 }
    ChunkResult { status: u32, bytes: u32 }
    ChunkJob { chunks: u64, first: u32, count: u32 }
    DecompressLaunch { failed: u64, results: u64, jobs: u32, chunks: u32, job: [ChunkJob; DECOMPRESS_JOBS] }
}
