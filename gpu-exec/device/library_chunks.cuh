// Chunks on their way to a library and back, one warp for each chunk.
//
// 1. `prepare_chunk` copies a chunk's stored bytes to the library's workspace, and describes the chunk.
// 2. The library decompresses within its workspace.
// 3. `take_chunk` copies what came out to the chunk's target, if status and length are right.
//
// **Invariant:** a chunk that fails is not copied to its target.
#pragma once
#include "byte_copy.cuh"
#include "library_chunks.h"

namespace grampus {

constexpr u32 ZSTD_MAGIC = 0xFD2FB528;
constexpr u32 ZSTD_MAX_BLOCK = 128 << 10;

// `count` bytes from byte `at` on, the first one lowest.
GRAMPUS_DEVICE u64 little_endian(const u8* from, u32 at, u32 count) {
    u64 v = 0;
    GRAMPUS_NO_UNROLL
    for (u32 i = 0; i < count; i++) v |= (u64)load_constant(from + at + i) << 8 * i;
    return v;
}

// Whether `length` bytes have the outline of one Zstandard frame of `bytes` bytes without a dictionary: its header, and
// blocks that end with the last byte (RFC 8878, 3.1.1). The blocks' contents are not read.
GRAMPUS_DEVICE bool is_zstd_frame(const u8* from, u32 length, u32 bytes) {
    if (length < 6 || (u32)little_endian(from, 0, 4) != ZSTD_MAGIC) return false;
    u32 flags = load_constant(from + 4), at = 5;
    bool has_window = (flags & 0x20) == 0;
    if ((flags & 0x0B) != 0) return false;  // a reserved bit, or a dictionary
    u32 size_bytes = flags >> 6 == 0 ? (has_window ? 0u : 1u) : 1u << (flags >> 6);
    if (has_window) at++;
    if (length - at < size_bytes) return false;
    u64 stated = little_endian(from, at, size_bytes) + (size_bytes == 2 ? 256 : 0);
    if (size_bytes != 0 && stated != bytes) return false;
    at += size_bytes;
    u32 checksum = flags & 4;
    bool is_last = false;
    GRAMPUS_NO_UNROLL
    while (!is_last) {
        if (length - at < 3) return false;
        u32 header = (u32)little_endian(from, at, 3), type = header >> 1 & 3, size = header >> 3;
        is_last = (header & 1) != 0;
        at += 3;
        if (type == 3 || size > ZSTD_MAX_BLOCK || (type < 2 && size > bytes)) return false;
        u32 body = type == 1 ? 1 : size;  // type 1 repeats one byte
        if (length - at < body) return false;
        at += body;
    }
    return length - at == checksum;
}

// A frame of one byte, in place of a chunk that the library must not see.
constexpr u64 ZSTD_STAND_IN = 0x00090120FD2FB528;
constexpr u32 ZSTD_STAND_IN_BYTES = 10;

// Collective.
GRAMPUS_DEVICE void prepare_chunk(const LibraryLaunch& launch, u32 at, const StoredChunk& chunk) {
    u8* stored = launch.stored + (u64)at * launch.stored_stride;
    bool fits = chunk.codec != CODEC_ZSTD || is_zstd_frame(chunk.from, chunk.length, chunk.bytes);
    if (fits) copy_bytes<FromInput>(stored, chunk.from, chunk.length);
    if (lane_id() != 0) return;
    if (!fits) {
        ((u64*)stored)[0] = ZSTD_STAND_IN;
        ((u64*)stored)[1] = 0;
    }
    launch.inputs[at] = (u64)stored;
    launch.input_bytes[at] = fits ? chunk.length : ZSTD_STAND_IN_BYTES;
    // Space for a stand-in: `take_chunk` finds no chunk of that length with so few bytes.
    launch.spaces[at] = fits ? chunk.bytes : chunk.bytes == 1 ? 2 : 1;
    launch.output_bytes[at] = ~0ull;
    launch.outputs[at] = (u64)(launch.decompressed + (u64)at * launch.decompressed_stride);
    launch.statuses[at] = ~0u;
}

// Collective; all lanes get the result.
GRAMPUS_DEVICE ChunkResult take_chunk(const LibraryLaunch& launch, u32 at, const StoredChunk& chunk) {
    if (launch.called == 0 || load_constant(launch.statuses + at) != 0) return ChunkResult{CHUNK_CORRUPT, 0};
    u64 bytes = load_constant(launch.output_bytes + at);
    if (load_constant(launch.spaces + at) != chunk.bytes || bytes > chunk.bytes) return ChunkResult{CHUNK_CORRUPT, 0};
    copy_bytes<FromInput>(chunk.to, launch.decompressed + (u64)at * launch.decompressed_stride, (u32)bytes);
    return ChunkResult{CHUNK_OK, (u32)bytes};
}

}  // namespace grampus
