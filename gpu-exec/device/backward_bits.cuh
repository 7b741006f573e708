// `BackwardStream` and `BackwardBits`: a stream of bits that is read from its end (RFC 8878, section 4.1), at any place
// and in order.
//
// The last byte's highest bit that is set ends the stream. The bits before it come first, the highest one highest.
//
// **Invariant:** only words that hold a byte of the stream are read. Bits before its beginning are arbitrary.
#pragma once
#include "target.cuh"

namespace grampus {

// The place of the highest bit that is set, of a number that is not 0.
GRAMPUS_DEVICE u32 highest_bit(u32 v) {
    u32 at = 0;
    GRAMPUS_UNROLL
    for (u32 by = 16; by > 0; by /= 2)
        if (v >> by != 0) v >>= by, at += by;
    return at;
}

// The highest `count` of 32 bits.
GRAMPUS_DEVICE u32 highest_bits(u32 v, u32 count) { return (u32)((u64)v >> (32 - count)); }

class BackwardStream {
    const u32* words;  // the word with the first byte
    i32 lead;          // bits of that word before the first byte

    GRAMPUS_DEVICE u32 word(i32 i) const { return load_constant(words + (i < 0 ? 0 : i)); }

  public:
    i32 bits;  // before the end

    // A stream of `length` bytes. False: it has no end.
    GRAMPUS_DEVICE bool begin(const u8* from, u32 length) {
        if (length == 0) return false;
        const u32 last = load_constant(from + length - 1);
        bits = (i32)(8 * (length - 1) + (last == 0 ? 0 : highest_bit(last)));
        words = (const u32*)((u64)from & ~3ull);
        lead = (i32)((u64)from & 3) * 8;
        return last != 0;
    }

    // The 32 bits before place `at`, at most `bits`. May differ by lane.
    GRAMPUS_DEVICE u32 before(i32 at) const {
        const i32 end = lead + at;
        return (u32)(((u64)word(end >> 5) << 32 | word((end >> 5) - 1)) >> (end & 31));
    }
};

// The bits in order, for a lane or in all lanes alike.
class BackwardBits {
    const u32* words;
    i32 next;
    u32 ahead;  // the word at `next`
    u32 held;   // bits at hand

    GRAMPUS_DEVICE u32 word(i32 i) const { return i >= 0 ? load_constant(words + i) : 0; }

  public:
    u64 bits;  // the next ones, the first one highest
    i32 left;  // bits; below 0: more were taken than there are

    // A stream of `length` bytes. False: it has no end.
    GRAMPUS_DEVICE bool begin(const u8* from, u32 length) {
        if (length == 0) return false;
        const u32 last = load_constant(from + length - 1);
        if (last == 0) return false;
        left = (i32)(8 * (length - 1) + highest_bit(last));
        const u32 lead = (u32)((u64)from & 3), end = lead * 8 + (u32)left;
        words = (const u32*)((u64)from & ~3ull);
        held = end % 32;
        bits = held == 0 ? 0 : (u64)load_constant(words + end / 32) << (64 - held);
        next = (i32)(end / 32) - 1;
        ahead = word(next);
        return true;
    }

    // Afterwards at least 33 bits are at hand.
    GRAMPUS_DEVICE void refill() {
        if (held > 32) return;
        bits |= (u64)ahead << (32 - held);
        held += 32;
        next--;
        ahead = word(next);
    }

    // Moves over bits that are at hand.
    GRAMPUS_DEVICE void drop(u32 count) {
        bits <<= count;
        held -= count;
        left -= (i32)count;
    }

    // The next bits, up to 32 of those at hand.
    GRAMPUS_DEVICE u32 take(u32 count) {
        const u32 v = highest_bits((u32)(bits >> 32), count);
        drop(count);
        return v;
    }
};

}  // namespace grampus
