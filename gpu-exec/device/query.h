// What a launch of a query kernel is told, and the constants both sides share. Mirrored and proved equal in
// gpu-exec/src/params.rs; who fills what is said there.
#pragma once
#include "io_stack.h"

namespace grampus {

// Consecutive rows to look at, of one stripe. Tiles are counted over all runs; the last tile of each is short.
struct RowRun {
    u64 first_tile;  // of this run; ascending
    u64 first_row;
    u64 rows;        // not 0
};

// QueryHead::flags
constexpr u32 LAUNCH_FIRST = 1;  // warps start afresh; else they go on from QueryHead::state
constexpr u32 LAUNCH_FLUSH = 2;  // no row stays in a warp's buffers when the launch ends
constexpr u32 LAUNCH_LAST = 4;   // likewise, and the warps leave their partials

// QueryHead::refused
constexpr u32 REFUSED_VALUE = 1;   // a value out of a cast's range, a division by zero
constexpr u32 REFUSED_GROUPS = 2;  // the group table is full

// The start of a query kernel's parameter; after it come ColumnDesc columns[N] and ColumnDesc valid[N].
struct alignas(16) QueryHead {
    IoStack io;
    const RowRun* runs;    // ascending
    u64 first_tile;        // the launch's tiles: first_tile .. end_tile - 1
    u64 end_tile;
    const u64* arguments;  // the literals, 8 bytes each
    u8* state;             // what a warp keeps from launch to launch
    u8* partials;          // what a warp leaves in the end
    u64* counters;         // of each warp, added to from launch to launch
    u32* refused;          // REFUSED_*, 0 at first: the query cannot be answered here
    u32* group_locks;      // [group_slots], GROUP_*
    u64* group_words;      // [group_slots * words of a group]
    u32 group_slots_log2;
    u32 run_count;
    u32 flags;
    u32 patience;           // tiles for which rows that passed wait for others, at most; all ones: as long as it takes
};

}  // namespace grampus
