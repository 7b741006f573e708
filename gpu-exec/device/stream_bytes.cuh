// The bytes of one stream and a place in it. What they mean is for the runs above; no byte outside is ever looked at, and who asks for
// more has failed.
#pragma once
#include "target.cuh"
#include "decode.h"

namespace grampus {

GRAMPUS_DEVICE u64 reverse_bytes(u64 v) {
    v = (v & 0x00FF00FF00FF00FFull) << 8 | (v >> 8 & 0x00FF00FF00FF00FFull);
    v = (v & 0x0000FFFF0000FFFFull) << 16 | (v >> 16 & 0x0000FFFF0000FFFFull);
    return v << 32 | v >> 32;
}

// The same in all lanes.
class StreamBytes {
    const u8* begin;

  public:
    u32 length;
    u32 at;       // the next byte, at most `length`
    bool failed;  // there were too few bytes, or they made no sense

    GRAMPUS_DEVICE explicit StreamBytes(const DecodeStream& stream) : begin(stream.bytes), length(stream.length), at(0), failed(false) {}

    // Byte i, which there is.
    GRAMPUS_DEVICE u32 byte(u32 i) const { return load_constant(begin + i); }

    // The next byte; 0 if there is none.
    GRAMPUS_DEVICE u32 take() {
        if (at >= length) {
            failed = true;
            return 0;
        }
        return byte(at++);
    }
    // Moves over bytes, which must be there.
    GRAMPUS_DEVICE void skip(u32 count) {
        if (count > length - at) {
            failed = true;
            return;
        }
        at += count;
    }
    // Bytes i to i + 7, the first one lowest; what lies behind the stream's last is anything. Byte i there is. Differs by lane.
    GRAMPUS_DEVICE u64 word(u32 i) const {
        u64 address = (u64)(begin + i);
        const u64* words = (const u64*)(address & ~7ull);
        u32 shift = (u32)(address & 7) * 8;
        u64 v = load_constant(words) >> shift;
        if (shift != 0 && (u64)(words + 1) < (u64)(begin + length)) v |= load_constant(words + 1) << (64 - shift);
        return v;
    }
    // Value `index` of those packed from byte `from` on, `width` bits each, the first one highest: all its bytes are there. No width
    // above 56 leaves a byte's border, so that a value lies in eight bytes. Differs by lane.
    GRAMPUS_DEVICE u64 packed(u32 from, u32 width, u32 index) const {
        u32 bit = index * width;
        return reverse_bytes(word(from + bit / 8)) << bit % 8 >> (64 - width);
    }
    // Base-128, least significant group first.
    GRAMPUS_DEVICE u64 varint() {
        u64 v = 0;
        GRAMPUS_NO_UNROLL
        for (u32 i = 0; i < 10; i++) {
            u32 b = take();
            v |= (u64)(b & 0x7F) << 7 * i;
            if (b < 0x80) return v;
        }
        failed = true;
        return v;
    }
};

// Bytes that so many values take.
GRAMPUS_DEVICE u32 packed_bytes(u32 count, u32 width) { return (count * width + 7) / 8; }

}  // namespace grampus
