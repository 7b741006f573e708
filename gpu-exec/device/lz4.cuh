// `decompress_lz4`: an LZ4 block, by one warp (github.com/lz4/lz4, lz4_Block_format.md).
//
// Sequences up to the end, each a token with two lengths, literal bytes, and a copy of earlier output. The last
// sequence ends behind its literal bytes.
#pragma once
#include "byte_copy.cuh"
#include "short_elements.cuh"

namespace grampus {

// A length: four bits of the token and, if these are all set, bytes up to the first one below 255.
GRAMPUS_DEVICE u32 lz4_length(StreamBytes& in, u32 bits) {
    if (bits < 15) return bits;
    u32 length = 15, more;  // less than 2^31: a chunk has less than 2^23 bytes
    GRAMPUS_NO_UNROLL
    do {
        more = in.take();
        length += more;
    } while (more == 255);
    return length;
}

struct Lz4 {
    // A sequence with both lengths in its token, and with a copy. `i` may differ by lane; the chunk has byte i.
    GRAMPUS_DEVICE static ShortElement short_element(const StreamBytes& in, u32 i) {
        const u32 token = in.byte(i), literals = token >> 4, copies = (token & 15) + 4, length = 3 + literals;
        if (literals == 15 || copies == 19 || length > in.length - i) return ShortElement{0, 0, 0, 0};
        u32 offset = in.byte(i + 1 + literals) | in.byte(i + 2 + literals) << 8;
        return ShortElement{length, literals, copies, offset};
    }
};

// Collective; all lanes get the result.
GRAMPUS_SLOW ChunkResult decompress_lz4(const StoredChunk& chunk, ElementBatch& batch) {
    const ChunkResult corrupt = {CHUNK_CORRUPT, 0}, too_long = {CHUNK_TOO_LONG, 0};
    u8* to = chunk.to;
    StreamBytes in(DecodeStream{chunk.from, chunk.length, 0});
    u32 at = 0;
    GRAMPUS_NO_UNROLL
    for (;;) {
        if (in.at < in.length && decompress_short_elements<Lz4>(in, to, at, chunk.bytes, batch)) continue;
        u32 token = in.take(), count = lz4_length(in, token >> 4);
        if (in.failed || count > in.length - in.at) return corrupt;
        if (count > chunk.bytes - at) return too_long;
        copy_bytes<FromInput>(to + at, chunk.from + in.at, count);
        sync_warp();
        in.at += count;
        at += count;
        if (in.at == in.length) return ChunkResult{CHUNK_OK, at};
        u32 offset = in.take();
        offset |= in.take() << 8;
        count = 4 + lz4_length(in, token & 15);
        if (in.failed || offset == 0 || offset > at) return corrupt;
        if (count > chunk.bytes - at) return too_long;
        repeat_bytes(to, at, offset, count);
        at += count;
    }
}

}  // namespace grampus
