// `decompress_elements`: chunks of Snappy and LZ4, and original ones; `decompress_chunks`: the chunks of a launch, one
// warp for each chunk, by any decompressor.
#pragma once
#include "lz4.cuh"
#include "snappy.cuh"

namespace grampus {

GRAMPUS_DEVICE ChunkResult copy_original(const StoredChunk& chunk) {
    if (chunk.length > chunk.bytes) return ChunkResult{CHUNK_TOO_LONG, 0};
    copy_bytes<FromInput>(chunk.to, chunk.from, chunk.length);
    return ChunkResult{CHUNK_OK, chunk.length};
}

// Collective; all lanes get the result. `batch` is the warp's.
GRAMPUS_DEVICE ChunkResult decompress_elements(const StoredChunk& chunk, ElementBatch& batch) {
    switch (chunk.codec) {
    case CODEC_SNAPPY: return decompress_snappy(chunk, batch);
    case CODEC_LZ4: return decompress_lz4(chunk, batch);
    default: return ChunkResult{CHUNK_CORRUPT, 0};
    }
}

// A warp takes one chunk after the other. `decompress(chunk)` gets those that are no original ones; collective, and all
// lanes get its result.
template <class Decompress>
GRAMPUS_DEVICE void decompress_chunks(const DecompressLaunch& launch, const Decompress& decompress) {
    u32 job = 0;
    GRAMPUS_NO_UNROLL
    for (u32 at = launch_warp(); at < launch.chunks; at += launch_warps()) {
        while (at - launch.job[job].first >= launch.job[job].count) job++;
        const StoredChunk chunk = launch.job[job].chunks[at - launch.job[job].first];
        const ChunkResult result = chunk.codec == CODEC_ORIGINAL ? copy_original(chunk) : decompress(chunk);
        if (lane_id() == 0) {
            bool good = result.status == CHUNK_OK && result.bytes == chunk.bytes;
            if (!good) cas_relaxed_gpu(launch.failed, 0u, chunk.label + 1);
            if (launch.results != nullptr) launch.results[at] = result;
        }
        sync_warp();
    }
}

}  // namespace grampus
