// `Random`: the tests' random numbers, which a seed repeats.
#pragma once
#include "types.h"

using namespace grampus;

struct Random {  // splitmix64
    u64 state;
    explicit Random(u64 seed) : state(seed) {}
    u64 next() {
        u64 z = (state += 0x9E3779B97F4A7C15ull);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        return z ^ (z >> 31);
    }
    u32 below(u32 n) { return (u32)(next() % n); }
    bool one_in(u32 n) { return n != 0 && below(n) == 0; }
};
