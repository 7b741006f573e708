// `LibraryLaunch`: the parameter of the kernels around a library that decompresses, and the constants of both sides.
//
// gpu-exec mirrors this header in Rust, proves the layouts equal and says what writes the fields.
#pragma once
#include "decompress.h"

namespace grampus {

// A batch of chunks. Each array has an entry for each chunk. The library reads `inputs`, `input_bytes`, `spaces` and
// `outputs`, and writes `output_bytes` and `statuses`. Nothing but the library's workspace is shown to the library.
struct LibraryLaunch {
    u32* failed;           // 0 at first; then 1 + the label of a chunk that is corrupt, or of another length
    ChunkResult* results;  // for each chunk; null: not wanted
    u64* inputs;           // addresses
    u64* input_bytes;
    u64* spaces;           // bytes that may come out
    u64* output_bytes;
    u64* outputs;          // addresses
    u32* statuses;         // 0: decompressed
    u8* stored;            // the chunks' bytes for the library, each at a multiple of `stored_stride`
    u8* decompressed;      // what comes out, each at a multiple of `decompressed_stride`
    u32 stored_stride;     // a multiple of 16, at least 16 and each chunk's `length`
    u32 decompressed_stride;  // likewise, and each chunk's `bytes`
    u32 called;            // 0: the library did not take the batch, and there may be no arrays
    u32 jobs;
    u32 chunks;            // of all jobs
    u32 unused;
    ChunkJob job[DECOMPRESS_JOBS];
};

}  // namespace grampus
