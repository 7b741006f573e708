// `QueryHead`: the start of a query kernel's parameter, and the constants of both sides.
//
// gpu-exec mirrors this header in Rust, proves the layouts equal and says what writes the fields.
#pragma once
#include "io_stack.h"

namespace grampus {

// Consecutive rows of one stripe to evaluate. Tiles are counted over all runs; the last tile of each run is short.
struct RowRun {
    u64 first_tile;  // number of this run's first tile; ascending
    u64 first_row;
    u64 rows;        // not 0
};

// QueryHead::flags
constexpr u32 LAUNCH_FIRST = 1;  // warps start afresh; without it, they go on from QueryHead::state
constexpr u32 LAUNCH_FLUSH = 2;  // no row stays in a warp's buffers when the launch ends
constexpr u32 LAUNCH_LAST = 4;   // likewise, and the warps leave their partials

// QueryHead::refused
constexpr u32 REFUSED_VALUE = 1;   // a value out of a cast's range, a division by zero
constexpr u32 REFUSED_GROUPS = 2;  // the group table is full

// The start of a query kernel's parameter; ColumnDesc columns[N] and ColumnDesc valid[N] follow.
struct alignas(16) QueryHead {
    IoStack io;
    const RowRun* runs;    // ascending
    u64 first_tile;        // the launch's tiles: first_tile .. end_tile - 1
    u64 end_tile;
    const u64* arguments;  // the literals, 8 bytes each
    u8* state;             // what a warp keeps from launch to launch
    u8* partials;          // what a warp leaves at the end of the last launch
    u64* counters;         // of each warp, summed up from launch to launch
    u32* refused;          // REFUSED_*, 0 at first: the device cannot answer the query
    u64* group_slots;      // [1 << group_slots_log2], GROUP_*
    u64* group_words;      // [group_capacity * words of a group]
    u32* group_count;      // groups in the table
    u32 group_capacity;
    u32 group_slots_log2;  // more slots than groups
    u32 run_count;
    u32 flags;
    u32 patience;           // tiles for which rows that passed may wait for others; all ones: unbounded
    u32 pad0;
};

// The codes of a key: of the value first + c the code is c, if c is below `codes`. NULL has the code `codes`.
struct KeyCodes {
    u64 first;
    u32 codes;
    u32 step;  // what a code counts in the number of its group
};

// Group tables by code, at the end of a kernel's parameter; KeyCodes keys[N] follow.
struct alignas(16) GroupCodes {
    u64* partials;      // words by partial, group and word: what warps, or blocks, have added up
    u64* merged;        // words by group and word: the result
    u32 groups;         // numbers of groups are below this
    u32 partial_count;  // not 0
    u64 pad0;
};

}  // namespace grampus
