// Aggregates as 8-byte words. Zero is every word's start value, so an empty aggregate is zeroed memory.
#pragma once
#include "tiles.cuh"

namespace grampus {

// How two words of an aggregate are combined.
enum Op : u32 {
    OP_ADD = 0,        // counts, sums of integers
    OP_ADD_FLOAT = 1,  // bits of a double
    OP_ADD_WIDE = 2,   // sums of decimals: this word and the next are a Wide
    OP_WIDE_HIGH = 3,  // the word behind an OP_ADD_WIDE
    OP_MAX = 4,        // word_for_max, word_for_min
    OP_OR = 5,         // which aggregates have seen a value, OR of bits
    OP_XOR = 6,        // exclusive OR of bits
    OP_MOMENTS = 7,    // this word and the next two are Moments, which no atomics combine
    OP_MOMENTS_REST = 8,
};

// Number of values, their mean, and the sum of their squared distances from it.
struct Moments {
    u64 count;
    double mean, squares;
};
// The moments of the values of both (Chan, Golub and LeVeque 1979).
GRAMPUS_DEVICE Moments merge(Moments a, Moments b) {
    u64 count = a.count + b.count;
    double share = (double)b.count / (double)(count != 0 ? count : 1), delta = b.mean - a.mean;
    Moments both = {count, a.mean + delta * share, a.squares + b.squares + delta * delta * ((double)a.count * share)};
    return b.count == 0 ? a : a.count == 0 ? b : both;
}
GRAMPUS_DEVICE Moments moments_of(const u64* word) {
    return Moments{word[0], bits_as<double>(word[1]), bits_as<double>(word[2])};
}

// `Words` is generated: COUNT, and op(i) for each word. The words are combined one after the other by templates, not in
// a loop. With a switch in each turn of a loop, the compiler goes over the loop several times: a thirtieth of a
// kernel's compilation.
template <class Words, u32 AT = 0>
GRAMPUS_DEVICE void combine(u64* into, const u64* from) {
    if constexpr (AT < Words::COUNT) {
        constexpr Op OP = Words::op(AT);
        if constexpr (OP == OP_ADD) into[AT] += from[AT];
        if constexpr (OP == OP_ADD_FLOAT)
            into[AT] = bits_as<u64>(bits_as<double>(into[AT]) + bits_as<double>(from[AT]));
        if constexpr (OP == OP_ADD_WIDE) {
            Wide sum = add(Wide{into[AT], into[AT + 1]}, Wide{from[AT], from[AT + 1]});
            into[AT] = sum.low;
            into[AT + 1] = sum.high;
        }
        if constexpr (OP == OP_MAX) into[AT] = greater_word(into[AT], from[AT]);
        if constexpr (OP == OP_OR) into[AT] |= from[AT];
        if constexpr (OP == OP_XOR) into[AT] ^= from[AT];
        if constexpr (OP == OP_MOMENTS) {
            Moments both = merge(moments_of(into + AT), moments_of(from + AT));
            into[AT] = both.count;
            into[AT + 1] = bits_as<u64>(both.mean);
            into[AT + 2] = bits_as<u64>(both.squares);
        }
        combine<Words, AT + 1>(into, from);
    }
}

// Combines the lanes' words into lane 0's, always in the same order. Collective.
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
