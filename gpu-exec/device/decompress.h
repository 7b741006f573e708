// `DecompressLaunch`: the parameter of the decompression kernel, and the constants of both sides.
//
// gpu-exec mirrors this header in Rust, proves the layouts equal and says what writes the fields.
#pragma once
#include "types.h"

namespace grampus {

// StoredChunk::codec
constexpr u32 CODEC_ORIGINAL = 0;  // the bytes as they are
constexpr u32 CODEC_SNAPPY = 1;    // raw Snappy, without framing
constexpr u32 CODEC_LZ4 = 2;       // an LZ4 block, without framing
constexpr u32 CODEC_ZSTD = 3;      // a Zstandard frame; by a library alone
constexpr u32 CODEC_DEFLATE = 4;   // raw deflate; by a library alone

// ChunkResult::status
constexpr u32 CHUNK_OK = 0;
constexpr u32 CHUNK_CORRUPT = 1;
constexpr u32 CHUNK_TOO_LONG = 2;  // more than `bytes` would come out

// A compression chunk without its header. Kernels read aligned words of 8 bytes that hold at least one of its bytes.
// They write no byte outside to .. to + bytes - 1.
struct StoredChunk {
    const u8* from;  // any alignment
    u8* to;          // any alignment
    u32 length;      // bytes at `from`, less than 2^23
    u32 bytes;       // bytes that must come out
    u32 codec;
    u32 label;       // for `failed`
};

struct ChunkResult {
    u32 status;
    u32 bytes;  // bytes that came out; CHUNK_OK only
};

// Chunks that were transferred together.
struct ChunkJob {
    const StoredChunk* chunks;
    u32 first;  // counted over the launch
    u32 count;
};

constexpr u32 DECOMPRESS_JOBS = 128;

struct DecompressLaunch {
    u32* failed;           // 0 at first; then 1 + the label of a chunk that is corrupt, or of another length
    ChunkResult* results;  // for each chunk; null: not wanted
    u32 jobs;
    u32 chunks;            // of all jobs
    ChunkJob job[DECOMPRESS_JOBS];
};

}  // namespace grampus
