// Partially resident columns: parameters by which a kernel finds and requests pages, and by which pages are placed.
//
// gpu-exec mirrors this header in Rust, proves the layouts equal and says what writes the fields.
#pragma once
#include "types.h"

namespace grampus {

// A column's values of one stripe. A page has PAGE_BYTES of values that lie raw in their file, or the decoded rows of a
// row group or of a chunk.
struct PagedPiece {
    u32* there;      // a bit for each page; null: all are resident
    u8* values;      // a multiple of 8
    u64 bytes;       // bytes of values
    u32 first_page;  // number of the first page among the pages of all pieces; a multiple of 32
    u32 page_rows;   // not 0
    u32 pages;
    u32 pad0;
};

// The end of a query kernel's parameter, for queries with a paged column.
struct alignas(16) PagingDesc {
    const u64* first_rows;     // [stripes], ascending
    const PagedPiece* pieces;  // [paged columns * stripes]
    u32* wanted;               // a bit for each requested page
    u32* list;                 // [capacity] in host memory, zeros at first: number + 1 of each requested page
    u32* missed;               // number of requests, also of those for which the list had no space
    u32 capacity;
    u32 stripes;
};

struct PageMove {
    u32 piece;  // index into PagedPiece pieces
    u32 page;   // of the piece
};

// Pages that have arrived, `count` of them. The first `raw` have PAGE_BYTES each in `values`. The others lie in their
// places already, or will before they are published.
struct alignas(16) PageBatch {
    const PagedPiece* pieces;
    const PageMove* moves;
    const u64* values;
    u32* came;  // a bit for each page of all pieces
    u32 count;
    u32 raw;
};

// The pages that have arrived during a pass, to be published for the next.
struct alignas(16) PagesCame {
    const PagedPiece* pieces;
    const u32* came;
    u32 count;  // number of pieces
    u32 pad0;
};

constexpr u32 PAGE_BYTES = 64;

}  // namespace grampus
