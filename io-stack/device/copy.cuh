// Copies of many short pieces by one warp. The lanes' pieces are laid end to end and divided into 16-byte units, so
// that 32 small pieces cost about one memory latency, not 32.
#pragma once
#include "target.cuh"

namespace grampus {

struct FromBounce {
    GRAMPUS_DEVICE static u64x2 load(const u64x2* p) { return load_bounce(p); }
};
struct FromMapped {
    GRAMPUS_DEVICE static u64x2 load(const u64x2* p) { return load_mapped(p); }
};
// Sectors of a line whose lock the warp holds: other warps store to other sectors only.
struct FromLine {
    GRAMPUS_DEVICE static u64x2 load(const u64x2* p) { return load_pair_relaxed_gpu((const u64*)p); }
};

// Copies `units` 16-byte units from `from` to `to` for every lane (0: none). Collective; the stores are relaxed. On
// return every lane has stored its share. Before publishing, the caller needs sync_warp() and a fence or a release.
template <class From>
GRAMPUS_DEVICE void copy_pieces(const u8* from, u8* to, u32 units) {
    constexpr u32 UNROLL = 4;
    u32 end = units;  // inclusive prefix sum
    GRAMPUS_UNROLL
    for (u32 by = 1; by < WARP; by *= 2) {
        u32 below = shuffle_up(end, by);
        if (lane_id() >= by) end += below;
    }
    u32 total = shuffle(end, WARP - 1);
    GRAMPUS_NO_UNROLL
    for (u32 base = 0; base < total; base += WARP * UNROLL) {
        u64x2 data[UNROLL];
        u64x2* dest[UNROLL];
        GRAMPUS_UNROLL
        for (u32 k = 0; k < UNROLL; k++) {
            u32 unit = base + k * WARP + lane_id();
            u32 owner = 0;  // the lane whose piece holds the unit: the number of prefix sums <= unit
            GRAMPUS_UNROLL
            for (u32 half = WARP / 2; half > 0; half /= 2)
                if (shuffle(end, owner + half - 1) <= unit) owner += half;
            u32 at = unit - shuffle(end - units, owner);
            const u64x2* src = (const u64x2*)shuffle((u64)from, owner) + at;
            dest[k] = (u64x2*)shuffle((u64)to, owner) + at;
            if (unit < total) data[k] = From::load(src);
        }
        GRAMPUS_UNROLL
        for (u32 k = 0; k < UNROLL; k++)
            if (base + k * WARP + lane_id() < total) store_line(dest[k], data[k]);
    }
}

}  // namespace grampus
