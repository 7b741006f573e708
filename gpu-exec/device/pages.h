// Columns of which only some pages are in device memory, and how a kernel asks for the others: what it is told, and what brings pages.
// Mirrored and proved equal in gpu-exec/src/paging.rs; who fills what is said there.
#pragma once
#include "types.h"

namespace grampus {

// A column's values of one stripe. A page of it is PAGE_BYTES of values that lie raw in their file, or a row group of decoded ones.
struct PagedPiece {
    u32* there;      // a bit for each page; null: all are there
    u8* values;      // a multiple of 8
    u64 bytes;       // of values
    u32 first_page;  // number of its first page among those of all pieces; a multiple of 32
    u32 page_rows;   // not 0
    u32 pages;
    u32 pad0;
};

// The end of a query kernel's parameter, where some column is paged.
struct alignas(16) PagingDesc {
    const u64* first_rows;     // [stripes], ascending
    const PagedPiece* pieces;  // [paged columns * stripes]
    u32* wanted;               // a bit for each page
    u32* list;                 // [capacity] in host memory, zeros at first: each page that is wanted, its number plus 1
    u32* missed;               // how many were wanted, whether or not there was room in the list
    u32 capacity;
    u32 stripes;
};

struct PageMove {
    u32 piece;  // index into PagedPiece pieces
    u32 page;   // of the piece
};

// Pages that have come: the first `raw` of `count` with PAGE_BYTES each in `values`, the others lie in their places already, or will before
// it is said that they are there.
struct alignas(16) PageBatch {
    const PagedPiece* pieces;
    const PageMove* moves;
    const u64* values;
    u32* came;  // a bit for each page of all pieces
    u32 count;
    u32 raw;
};

// What has come in a pass, to be there in the next.
struct alignas(16) PagesCame {
    const PagedPiece* pieces;
    const u32* came;
    u32 count;  // of pieces
    u32 pad0;
};

constexpr u32 PAGE_BYTES = 64;

}  // namespace grampus
