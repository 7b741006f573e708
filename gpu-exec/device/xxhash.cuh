// `xxhash64`: the checksum of a Zstandard frame, by one warp (RFC 8878, section 3.1.1; the xxHash fast digest
// algorithm, 64 bits, seed 0).
#pragma once
#include "target.cuh"

namespace grampus {

constexpr u64 XX_1 = 0x9E3779B185EBCA87ull, XX_2 = 0xC2B2AE3D27D4EB4Full, XX_3 = 0x165667B19E3779F9ull,
              XX_4 = 0x85EBCA77C2B2AE63ull, XX_5 = 0x27D4EB2F165667C5ull;

GRAMPUS_DEVICE u64 rotated(u64 v, u32 by) { return v << by | v >> (64 - by); }
GRAMPUS_DEVICE u64 xx_round(u64 sum, u64 word) { return rotated(sum + word * XX_2, 31) * XX_1; }
// Bytes that kernels have written, at any alignment.
GRAMPUS_DEVICE u64 written_word(const u8* p, u32 bytes) {
    u64 v = 0;
    GRAMPUS_NO_UNROLL
    for (u32 i = 0; i < bytes; i++) v |= (u64)p[i] << 8 * i;
    return v;
}

// Of four sums, each over every fourth word, a lane has one. Collective; all lanes get the result.
GRAMPUS_SLOW u64 xxhash64(const u8* p, u32 bytes, u64 (&sums)[4]) {
    const u32 stripes = bytes / 32;
    u64 hash = XX_5;
    if (stripes > 0) {
        for (u32 i = lane_id(); i < 4; i += WARP) {
            u64 sum = i == 0 ? XX_1 + XX_2 : i == 1 ? XX_2 : i == 2 ? 0 : 0 - XX_1;
            GRAMPUS_NO_UNROLL
            for (u32 k = 0; k < stripes; k++) sum = xx_round(sum, written_word(p + 32 * k + 8 * i, 8));
            sums[i] = sum;
        }
        sync_warp();
        hash = rotated(sums[0], 1) + rotated(sums[1], 7) + rotated(sums[2], 12) + rotated(sums[3], 18);
        GRAMPUS_NO_UNROLL
        for (u32 i = 0; i < 4; i++) hash = (hash ^ xx_round(0, sums[i])) * XX_1 + XX_4;
        sync_warp();
    }
    hash += bytes;
    u32 at = stripes * 32;
    for (; at + 8 <= bytes; at += 8) hash = rotated(hash ^ xx_round(0, written_word(p + at, 8)), 27) * XX_1 + XX_4;
    if (at + 4 <= bytes) {
        hash = rotated(hash ^ written_word(p + at, 4) * XX_1, 23) * XX_2 + XX_3;
        at += 4;
    }
    for (; at < bytes; at++) hash = rotated(hash ^ p[at] * XX_5, 11) * XX_1;
    hash = (hash ^ hash >> 33) * XX_2;
    hash = (hash ^ hash >> 29) * XX_3;
    return hash ^ hash >> 32;
}

}  // namespace grampus
