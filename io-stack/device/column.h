// A column's location: extents of rows, each a contiguous run of fixed-width values at any byte alignment. The host
// builds them; kernels only read them.
#pragma once
#include "types.h"

namespace grampus {

// One contiguous run of values. Each version of a file owns a range of line keys that is never used again. A changed
// file therefore gets new keys, and its old lines are evicted unread.
struct alignas(16) Extent {
    u64 first_row;      // row of the first value
    u64 rows;           // values
    u64 first_line;     // cache key of the line that holds the first value's first byte; below 2^52
    u64 storage_byte;   // that line's byte position on its namespace, a multiple of 4096
    const u8* mapped;   // device address of that line in a registered mapping, or null
    u32 first_byte;     // position of the first value in that line, 0 .. 4095
    u32 source;         // index into IoStack::sources
};

struct alignas(16) ColumnDesc {
    const Extent* extents;  // ascending by first_row, without gaps
    u32 extent_count;
    u32 value_bytes;        // 1, 2, 4 or 8
};

// SourceDesc::flags
constexpr u32 SOURCE_WRITABLE = 1;  // the storage takes writes and flushes

// A storage: its namespace and its queues.
struct alignas(16) SourceDesc {
    u64 blocks;        // size of the namespace in logical blocks; a multiple of 4096 bytes
    u32 nsid;
    u32 lba_log2;      // log2 of the logical block's bytes, 9 .. 12
    u32 first_queue;   // index into IoStack::queues
    u32 queue_count;
    u32 max_lines;     // longest transfer, in lines (from MDTS); at least 1
    u32 flags;         // SOURCE_*
};

}  // namespace grampus
