// Decompression of chunks, one warp for each chunk: the one place that knows all codecs.
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
GRAMPUS_DEVICE ChunkResult decompress(const StoredChunk& chunk, ShortElementBatch& batch) {
    switch (chunk.codec) {
    case CODEC_ORIGINAL: return copy_original(chunk);
    case CODEC_SNAPPY: return decompress_snappy(chunk, batch);
    case CODEC_LZ4: return decompress_lz4(chunk, batch);
    default: return ChunkResult{CHUNK_CORRUPT, 0};
    }
}

}  // namespace grampus
