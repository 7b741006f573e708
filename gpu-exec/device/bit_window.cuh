// `BitWindow`: the bits of a chunk in order, the lowest bit of a byte first.
//
// The lanes hold a window of the input, a word each, and the window behind it: a warp waits for one load where it takes
// many symbols.
//
// **Invariant:** only words that hold a byte of the chunk are read. Bits behind its end are zeros.
#pragma once
#include "target.cuh"

namespace grampus {

// The 32 bits of `high:low` from bit `shift` on, 0 to 31.
GRAMPUS_DEVICE u32 funnel(u32 low, u32 high, u32 shift) { return (u32)(((u64)high << 32 | low) >> shift); }

// The state is the same in all lanes, but for their words. All functions that move are collective.
class BitWindow {
    const u32* words;  // the word with the first byte
    u32 lead;          // bytes of that word before the first byte
    u32 length;        // bytes
    u32 next;          // the next word to take
    u32 mine, ahead;   // this lane's words of the window that has `next`, and of the one behind it
    u32 held;          // bits at hand

    GRAMPUS_DEVICE u32 word(u32 i) const { return 4 * i < lead + length ? load_constant(words + i) : 0; }

  public:
    u64 bits;  // the next ones, the lowest one first; those behind the ones at hand are zeros

    GRAMPUS_DEVICE BitWindow(const u8* from, u32 bytes)
        : words((const u32*)((u64)from & ~3ull)), lead((u32)((u64)from & 3)), length(bytes) {
        seek(0);
    }

    // Moves to a bit.
    GRAMPUS_DEVICE void seek(u32 bit) {
        next = (lead * 8 + bit) / 32;
        const u32 window = next / WARP * WARP + lane_id();
        mine = word(window);
        ahead = word(window + WARP);
        held = 0;
        bits = 0;
        refill();
        drop((lead * 8 + bit) % 32);
    }

    // The number of the next bit.
    GRAMPUS_DEVICE u32 position() const { return next * 32 - held - lead * 8; }

    // The 32 bits from `bit` on, for each i of `words` 32 * i bits further. `bit` may differ by lane.
    template <u32 WORDS>
    GRAMPUS_DEVICE void words_at(u32 bit, u32 (&out)[WORDS]) const {
        const u32 first = (lead * 8 + bit) / 32, shift = (lead * 8 + bit) % 32;
        u32 low = word(first);
        GRAMPUS_UNROLL
        for (u32 i = 0; i < WORDS; i++) {
            const u32 high = word(first + 1 + i);
            out[i] = funnel(low, high, shift);
            low = high;
        }
    }

    // Afterwards at least 33 bits are at hand.
    GRAMPUS_DEVICE void refill() {
        if (held > 32) return;
        bits |= (u64)shuffle(mine, next % WARP) << held;
        held += 32;
        next++;
        if (next % WARP != 0) return;
        mine = ahead;
        ahead = word(next + WARP + lane_id());
    }

    // Moves over bits that are at hand.
    GRAMPUS_DEVICE void drop(u32 count) {
        bits >>= count;
        held -= count;
    }

    // The next bits, up to 32 of those at hand.
    GRAMPUS_DEVICE u32 take(u32 count) {
        const u32 v = (u32)(bits & ~(~0ull << count));
        drop(count);
        return v;
    }

    // Moves to the next byte, if this is not the first bit of one. Returns its number.
    GRAMPUS_DEVICE u32 align() {
        drop(held % 8);
        return position() / 8;
    }

    // Bits behind the end were taken.
    GRAMPUS_DEVICE bool is_overrun() const { return position() > length * 8; }
};

}  // namespace grampus
