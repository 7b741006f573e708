// Aggregates as 8-byte words. Zero is every word's start value, so an empty aggregate is zeroed memory.
#pragma once
#include "tiles.cuh"

namespace grampus {

// How two words of an aggregate become one.
enum Op : u32 {
    OP_ADD = 0,        // counts, sums of integers
    OP_ADD_FLOAT = 1,  // bits of a double
    OP_ADD_WIDE = 2,   // sums of decimals: this word and the next are a Wide
    OP_WIDE_HIGH = 3,  // that next word
    OP_MAX = 4,        // word_for_max, word_for_min
    OP_OR = 5,         // which aggregates have seen a value
};

// `Words` is generated: COUNT, and op(i) for each word.
template <class Words>
GRAMPUS_DEVICE void combine(u64* into, const u64* from) {
    GRAMPUS_UNROLL
    for (u32 i = 0; i < Words::COUNT; i++) {
        switch (Words::op(i)) {
            case OP_ADD: into[i] += from[i]; break;
            case OP_ADD_FLOAT: into[i] = bits_as<u64>(bits_as<double>(into[i]) + bits_as<double>(from[i])); break;
            case OP_ADD_WIDE: {
                Wide sum = add(Wide{into[i], into[i + 1]}, Wide{from[i], from[i + 1]});
                into[i] = sum.low;
                into[i + 1] = sum.high;
                break;
            }
            case OP_WIDE_HIGH: break;
            case OP_MAX: into[i] = greater_word(into[i], from[i]); break;
            case OP_OR: into[i] |= from[i]; break;
        }
    }
}

// The lanes' words become lane 0's, always in the same order. Collective.
template <class Words>
GRAMPUS_DEVICE void combine_lanes(u64 (&word)[Words::COUNT]) {
    GRAMPUS_NO_UNROLL
    for (u32 by = WARP / 2; by > 0; by /= 2) {
        u64 other[Words::COUNT];
        GRAMPUS_UNROLL
        for (u32 i = 0; i < Words::COUNT; i++) other[i] = shuffle_down(word[i], by);
        combine<Words>(word, other);
    }
}

}  // namespace grampus
