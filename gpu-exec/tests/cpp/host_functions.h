// What programs behind a unit of device code need: the functions of its host, and random numbers.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace grampus_host {
void step(const char*) {}
grampus::u64 now_ns() { return 0; }
void pause_ns(grampus::u32) {}
int mutant = 0;
__thread grampus::u32 warp, warps;
}  // namespace grampus_host

namespace {
using namespace grampus;

u64 state = 1;
u64 next() {
    u64 z = state += 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
}
u32 below(u32 n) { return (u32)(next() % n); }
}  // namespace
