// `decompress_snappy`: a raw Snappy chunk, by one warp (github.com/google/snappy, format_description.txt).
//
// 1. The length of the output, base 128.
// 2. Elements up to the end: literal bytes, or a copy of earlier output. A tag of up to 5 bytes says which.
#pragma once
#include "byte_copy.cuh"
#include "short_elements.cuh"

namespace grampus {

struct Snappy {
    // `i` may differ by lane; the chunk has byte i. Offsets of four bytes do not occur below 64 KiB.
    GRAMPUS_DEVICE static ShortElement short_element(const StreamBytes& in, u32 i) {
        const u32 tag = in.byte(i), kind = tag & 3, count = kind == 1 ? (tag >> 2 & 7) + 4 : (tag >> 2) + 1;
        const u32 length = kind == 0 ? 1 + count : 1 + kind;
        if (kind == 3 || count > MAX_SHORT_ELEMENT || length > in.length - i) return ShortElement{0, 0, 0, 0};
        if (kind == 0) return ShortElement{length, count, 0, 0};
        const u32 high = kind == 1 ? tag >> 5 : (u32)in.byte(i + 2);
        return ShortElement{length, 0, count, in.byte(i + 1) | high << 8};
    }
};

// Of the stated length, which has 32 bits: longer forms are invalid, whatever their value.
constexpr u32 MAX_LENGTH_BYTES = 5;

// Collective; all lanes get the result.
GRAMPUS_SLOW ChunkResult decompress_snappy(const StoredChunk& chunk, ElementBatch& batch) {
    const ChunkResult corrupt = {CHUNK_CORRUPT, 0};
    u8* to = chunk.to;
    StreamBytes in(DecodeStream{chunk.from, chunk.length, 0});
    u64 stated = in.varint();
    if (in.failed || in.at > MAX_LENGTH_BYTES) return corrupt;
    if (stated > chunk.bytes) return ChunkResult{CHUNK_TOO_LONG, 0};
    u32 bytes = (u32)stated, at = 0;
    GRAMPUS_NO_UNROLL
    while (in.at < in.length) {
        if (decompress_short_elements<Snappy>(in, to, at, bytes, batch)) continue;
        u64 word = in.word(in.at);
        u32 tag = (u32)word & 0xFF, kind = tag & 3, left = in.length - in.at, count = tag >> 2;
        u32 behind = (u32)(word >> 8);  // the four bytes behind the tag, or fewer and then arbitrary ones
        if (kind == 0) {
            u32 extra = count < 60 ? 0 : count - 59;
            if (left <= extra) return corrupt;
            if (extra > 0) count = behind & ~0u >> (32 - 8 * extra);
            in.at += 1 + extra;
            // of count + 1 bytes
            if (count >= in.length - in.at || count >= bytes - at) return corrupt;
            copy_bytes<FromInput>(to + at, chunk.from + in.at, count + 1);
            sync_warp();
            in.at += count + 1;
            at += count + 1;
        } else {
            u32 extra = kind == 3 ? 4 : kind;
            if (left <= extra) return corrupt;
            u32 offset = kind == 1 ? tag >> 5 << 8 | (behind & 0xFF) : kind == 2 ? behind & 0xFFFF : behind;
            count = kind == 1 ? (count & 7) + 4 : count + 1;
            if (offset == 0 || offset > at || count > bytes - at) return corrupt;
            repeat_bytes(to, at, offset, count);
            in.at += 1 + extra;
            at += count;
        }
    }
    return at == bytes ? ChunkResult{CHUNK_OK, bytes} : corrupt;
}

}  // namespace grampus
