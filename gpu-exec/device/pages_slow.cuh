// The lookup of pages that pages.cuh declares, and the placing and publishing of pages that have arrived. Independent
// of any query.
#pragma once
#include "pages.cuh"
#include "tiles_slow.cuh"

namespace grampus {

// Requests a page, once. Any lane may call.
GRAMPUS_SLOW void ask_for_page(const PagingDesc& paging, u32 number) {
    u32 *word = paging.wanted + number / 32, bit = 1u << number % 32;
    if ((load_relaxed_gpu(word) & bit) != 0 || (fetch_or_relaxed_gpu(word, bit) & bit) != 0) return;
    u32 at = fetch_add_relaxed_gpu(paging.missed, 1u);
    if (at < paging.capacity) store_relaxed_sys(&paging.list[at], number + 1);
}

GRAMPUS_SLOW NearStripe stripe_of(const PagingDesc& paging, u64 row) {
    u32 low = 0, high = paging.stripes;
    GRAMPUS_NO_UNROLL
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (load_constant(&paging.first_rows[middle]) <= row) low = middle; else high = middle;
    }
    u64 begin = load_constant(&paging.first_rows[low]);
    u64 end = low + 1 < paging.stripes ? load_constant(&paging.first_rows[low + 1]) : ~0ull;
    return NearStripe{begin, end - begin, low};
}

// The stripe of the active lane's row. Collective.
GRAMPUS_DEVICE NearStripe find_stripe(const PagingDesc& paging, NearStripe& near, bool active, u64 row) {
    NearStripe in = near;
    sync_warp();
    bool stranger = active && row - in.begin >= in.rows;
    u32 strangers = ballot(stranger);
    if (stranger) in = stripe_of(paging, row);
    // Rows ascend: the next rows are closest to one of these.
    if (stranger && lane_id() == lowest_bit(strangers)) near = in;
    sync_warp();
    return in;
}

GRAMPUS_ENTRY bool has_pages(const PagingDesc& paging, u64 which, NearStripe& near, bool active, u64 row) {
    constexpr u32 TOGETHER = 4;
    const NearStripe in = find_stripe(paging, near, active, row);
    if (!active) return false;
    bool missed = false;
    GRAMPUS_NO_UNROLL
    while (which != 0) {
        u64 there[TOGETHER], numbers[TOGETHER];
        GRAMPUS_UNROLL
        for (u32 i = 0; i < TOGETHER; i++) {
            there[i] = numbers[i] = 0;
            if (which == 0) continue;
            const PagedPiece* piece = paging.pieces + ((u64)take_column(which) * paging.stripes + in.at);
            const u64* fields = (const u64*)piece;  // as 8-byte words: there, values, bytes, first_page and page_rows
            there[i] = load_constant(&fields[0]);
            numbers[i] = load_constant(&fields[3]);
        }
        u32 pages[TOGETHER], bits[TOGETHER];
        GRAMPUS_UNROLL
        for (u32 i = 0; i < TOGETHER; i++) {
            pages[i] = there[i] == 0 ? 0 : (u32)(row - in.begin) / (u32)(numbers[i] >> 32);
            // a piece without bits is resident
            bits[i] = there[i] == 0 ? ~0u : load_constant((const u32*)there[i] + pages[i] / 32);
        }
        GRAMPUS_UNROLL
        for (u32 i = 0; i < TOGETHER; i++) {
            if ((bits[i] >> pages[i] % 32 & 1) != 0) continue;
            ask_for_page(paging, (u32)numbers[i] + pages[i]);
            missed = true;
        }
    }
    return !missed;
}

// Puts pages into their places, eight lanes for each, while the query's kernels run. No kernel reads a page that is not
// published.
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

// Publishes the pages that have arrived: between two passes, behind everything that loaded them. A warp for each piece.
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
