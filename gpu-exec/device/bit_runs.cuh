// `BitRuns`: boolean run-length encoding (ORC v1, "Boolean Run Length Encoding"): bits, the most significant first, in
// byte runs. Boolean columns are stored so, and so is which rows have a value.
#pragma once
#include "stream_bytes.cuh"

namespace grampus {

// The state is the same in all lanes.
class BitRuns {
    StreamBytes in;
    u64 bits;     // the low `held` bits are to come, the highest of them first
    u32 held;
    u32 left;     // bytes left of the current run
    u32 byte;
    bool repeats;

    GRAMPUS_DEVICE u32 next_byte() {
        if (left == 0) {
            u32 control = in.take();
            repeats = control < 0x80;
            left = repeats ? control + 3 : 256 - control;
            if (repeats) byte = in.take();
        }
        left--;
        return repeats ? byte : in.take();
    }

  public:
    GRAMPUS_DEVICE explicit BitRuns(const DecodeStream& stream)
        : in(stream), bits(0), held(0), left(0), byte(0), repeats(false) {}

    GRAMPUS_DEVICE bool failed() const { return in.failed; }

    // The next `count` bits, at most 32, the first one highest; 0 if the stream ends before.
    GRAMPUS_SLOW u64 take(u32 count) {
        GRAMPUS_NO_UNROLL
        while (held < count) {
            bits = bits << 8 | next_byte();
            held += 8;
            if (in.failed) return 0;
        }
        held -= count;
        return bits >> held & ((1ull << count) - 1);
    }
    // Moves over bits; returns how many of them are set.
    GRAMPUS_DEVICE u32 skip(u32 count) {
        u32 set = 0;
        GRAMPUS_NO_UNROLL
        while (count > 0 && !in.failed) {
            u32 part = count < 32 ? count : 32;
            set += count_bits((u32)take(part));
            count -= part;
        }
        return set;
    }
};

}  // namespace grampus
