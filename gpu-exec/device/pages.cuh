// Columns of which only some pages are in device memory: a kernel looks whether the page of a value is there, asks for it if it is not,
// and leaves its row to the next pass over the table. (A GPU's fault buffer in software: mark, serve in batches, replay.)
#pragma once
#include "pages.h"
#include "query.h"
#include "target.cuh"

namespace grampus {

// Asks for a page, once. Any lane may call.
GRAMPUS_SLOW void ask_for_page(const PagingDesc& paging, u32 number) {
    u32 *word = paging.wanted + number / 32, bit = 1u << number % 32;
    if ((load_relaxed_gpu(word) & bit) != 0 || (fetch_or_relaxed_gpu(word, bit) & bit) != 0) return;
    u32 at = fetch_add_relaxed_gpu(paging.missed, 1u);
    if (at < paging.capacity) store_relaxed_sys(&paging.list[at], number + 1);
}

// Bits of pages change only between passes: within a kernel they are constant.
class Pages {
    const PagingDesc& paging;
    u64 begin, rows;  // of the stripe in which the lane's last row was
    u32 stripe;

    GRAMPUS_DEVICE void find(u64 row) {
        u32 low = 0, high = paging.stripes;
        GRAMPUS_NO_UNROLL
        while (high - low > 1) {
            u32 middle = (low + high) / 2;
            if (load_constant(&paging.first_rows[middle]) <= row) low = middle; else high = middle;
        }
        stripe = low;
        begin = load_constant(&paging.first_rows[low]);
        rows = (low + 1 < paging.stripes ? load_constant(&paging.first_rows[low + 1]) : ~0ull) - begin;
    }

  public:
    GRAMPUS_DEVICE explicit Pages(const PagingDesc& desc) : paging(desc), begin(0), rows(0), stripe(0) {}
    Pages(const Pages&) = delete;

    // Whether the value of the active lane's row is not there; then it is asked for. `column` counts the paged ones.
    GRAMPUS_DEVICE bool misses(u32 column, bool active, u64 row) {
        if (!active) return false;
        if (row - begin >= rows) find(row);
        const PagedPiece* piece = paging.pieces + ((u64)column * paging.stripes + stripe);
        const u64* fields = (const u64*)piece;  // in words of 8 bytes: there, values, bytes, first_page and page_rows
        const u32* there = (const u32*)load_constant(&fields[0]);
        if (there == 0) return false;
        u64 numbers = load_constant(&fields[3]);
        u32 page = (u32)(row - begin) / (u32)(numbers >> 32);
        if ((load_constant(&there[page / 32]) >> page % 32 & 1) != 0) return false;
        ask_for_page(paging, (u32)numbers + page);
        return true;
    }
};

// Puts pages where they belong, eight lanes for each, while the query's kernels run: none of them reads what is not said to be there.
GRAMPUS_DEVICE void place_pages(const PageBatch& batch) {
    constexpr u32 WORDS = PAGE_BYTES / 8;
    u64 first = (u64)launch_warp() * WARP + lane_id(), step = (u64)launch_warps() * WARP;
    GRAMPUS_NO_UNROLL
    for (u64 at = first; at < (u64)batch.count * WORDS; at += step) {
        u32 of = (u32)(at / WORDS), word = (u32)(at % WORDS);
        u64 move = load_mapped((const u64*)batch.moves + of);
        u32 page = (u32)(move >> 32);
        const PagedPiece& piece = batch.pieces[(u32)move];
        u64 byte = (u64)page * PAGE_BYTES + word * 8;
        if (of < batch.raw && byte < piece.bytes) *(u64*)(piece.values + byte) = load_mapped(batch.values + at);
        u32 number = piece.first_page + page;
        if (word == 0) fetch_or_relaxed_gpu(&batch.came[number / 32], 1u << number % 32);
    }
}

// Says that what has come is there: between two passes, behind all that brought it. A warp for each piece.
GRAMPUS_DEVICE void publish_pages(const PagesCame& what) {
    GRAMPUS_NO_UNROLL
    for (u32 at = launch_warp(); at < what.count; at += launch_warps()) {
        const PagedPiece& piece = what.pieces[at];
        if (piece.there == 0) continue;
        const u32* came = what.came + piece.first_page / 32;
        GRAMPUS_NO_UNROLL
        for (u32 word = lane_id(); word < (piece.pages + 31) / 32; word += WARP)
            if (came[word] != 0) piece.there[word] |= came[word];
    }
}

}  // namespace grampus
