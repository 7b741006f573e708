// The cache of file bytes in device memory: 4 KiB lines of 128-512 B sectors, set-associative. Its metadata takes 20
// bytes per line and 8 per set. States: docs/PROTOCOL.md.
#pragma once
#include "types.h"

namespace grampus {

constexpr u32 CACHE_WAYS = 8;
constexpr u64 TAG_NONE = ~0ull;  // no line; the host sets every tag to this before first use

// `state` of a line: one 64-bit word, so that every transition is one atomic operation.
constexpr u64 LINE_PIN = 1;                    // bits 15:0, pins: readers and outstanding commands
constexpr u64 LINE_PINS = 0xFFFF;
constexpr u64 LINE_BUSY = 1ull << 16;          // the tag is being replaced
constexpr u64 LINE_REF = 1ull << 17;           // used since the clock hand passed
constexpr u32 LINE_VERSION_SHIFT = 18;         // bits 31:18, counts replacements
constexpr u64 LINE_VERSION_ONE = 1ull << LINE_VERSION_SHIFT;
constexpr u64 LINE_VERSION = 0x3FFFull << LINE_VERSION_SHIFT;
constexpr u32 LINE_VALID_SHIFT = 32;           // bits 63:32, one per sector that holds its bytes

struct CacheSet {
    u32 lock;  // 1 while one lane replaces a line of the set
    u32 hand;  // policy state: clock hand or counter; read and written under `lock`
};

// Metadata index of way w of set s: s * ways + w. Data slot: w * sets + s. Lines with consecutive keys in one way are
// therefore contiguous, and one command can fill them all.
struct alignas(16) CacheDesc {
    u8* data;         // [ways * sets * 4096] device memory, 4 KiB aligned
    u64* tags;        // line keys
    u64* state;       // LINE_*
    u32* requested;   // sectors asked for since the line was installed; superset of valid
    CacheSet* sets;   // [sets]
    u32 set_count;    // groups << group_log2
    u32 groups;       // set groups: a line's group is (key >> group_log2) mod groups
    u32 group_log2;   // log2 of the lines of a group, the longest run one command can fill; at most 12
    u32 sector_log2;  // 7 .. 12
    u32 pad0, pad1;
};

}  // namespace grampus
