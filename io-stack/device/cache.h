// The cache of file bytes in device memory: 4 KiB lines of 128-512 B sectors, set-associative. Its metadata takes 20
// bytes per line and 8 per set, and 32 more per line if kernels store to it. States: docs/PROTOCOL.md.
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

// What is not yet on its storage of a line, in a cache that kernels store to (write_back.cuh). The host zeroes it. All
// words but `lock` change under `lock`; other lanes read `dirty` and `writing` without it.
//
// **Invariant:** while a sector is dirty or being written, one pin holds the line.
struct alignas(32) LineWrites {
    u32 lock;          // 1 while one lane stores to the line, copies sectors out, or changes the words below
    u32 dirty;         // sectors with stores that no write command has copied out
    u32 writing;       // sectors that some warp writes: at most one command for each
    u32 source;        // index into IoStack::sources
    u64 storage_byte;  // the line's byte position on its namespace
    u32 wanted;        // first line of a set: lanes that wait for a way of the set; changes by additions
    u32 pad0;
};

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
    LineWrites* writes;  // by metadata index; null: kernels only read
};

}  // namespace grampus
