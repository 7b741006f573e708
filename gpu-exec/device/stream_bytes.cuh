// `StreamBytes`: the bytes of one stream and a position in them.
//
// **Invariant:** no byte outside the stream is used; a read beyond its end sets `failed`.
#pragma once
#include "target.cuh"
#include "decode.h"

namespace grampus {

GRAMPUS_DEVICE u64 reverse_bytes(u64 v) {
    v = (v & 0x00FF00FF00FF00FFull) << 8 | (v >> 8 & 0x00FF00FF00FF00FFull);
    v = (v & 0x0000FFFF0000FFFFull) << 16 | (v >> 16 & 0x0000FFFF0000FFFFull);
    return v << 32 | v >> 32;
}

// The state is the same in all lanes.
class StreamBytes {
    const u8* begin;

  public:
    u32 length;
    u32 at;       // the next byte, at most `length`
    bool failed;  // the stream ended early, or its bytes make no sense

    GRAMPUS_DEVICE explicit StreamBytes(const DecodeStream& stream)
        : begin(stream.bytes), length(stream.length), at(0), failed(false) {}

    // Byte i, which the stream has.
    GRAMPUS_DEVICE u32 byte(u32 i) const { return load_constant(begin + i); }

    // The next byte; 0 at the end of the stream.
    GRAMPUS_DEVICE u32 take() {
        if (at >= length) {
            failed = true;
            return 0;
        }
        return byte(at++);
    }
    // Moves over bytes, which the stream must have.
    GRAMPUS_DEVICE void skip(u32 count) {
        if (count > length - at) {
            failed = true;
            return;
        }
        at += count;
    }
    // Bytes i to i + 7, the first one lowest. The stream has byte i; bytes behind its end are arbitrary. `i` may differ
    // by lane.
    GRAMPUS_DEVICE u64 word(u32 i) const {
        u64 address = (u64)(begin + i);
        const u64* words = (const u64*)(address & ~7ull);
        u32 shift = (u32)(address & 7) * 8;
        u64 v = load_constant(words) >> shift;
        if (shift != 0 && (u64)(words + 1) < (u64)(begin + length)) v |= load_constant(words + 1) << (64 - shift);
        return v;
    }
    // Value `index` of those packed from byte `from` on, `width` bits each, the first one highest. The stream has all
    // of its bytes. Widths above 56 are multiples of 8, so that each value lies in eight bytes. `index` may differ by
    // lane.
    GRAMPUS_DEVICE u64 packed(u32 from, u32 width, u32 index) const {
        u32 bit = index * width;
        return reverse_bytes(word(from + bit / 8)) << bit % 8 >> (64 - width);
    }
    // Base-128, least significant group first. The tenth byte holds the highest of 64 bits.
    GRAMPUS_DEVICE u64 varint() {
        u64 v = 0;
        GRAMPUS_NO_UNROLL
        for (u32 i = 0; i < 10; i++) {
            u32 b = take();
            v |= (u64)(b & 0x7F) << 7 * i;
            if (i == 9 && b > 1) break;
            if (b < 0x80) return v;
        }
        failed = true;
        return v;
    }
};

// Bytes that `count` packed values take.
GRAMPUS_DEVICE u32 packed_bytes(u32 count, u32 width) { return (count * width + 7) / 8; }

}  // namespace grampus
