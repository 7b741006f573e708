// What kernels call between runs, extents and launches: the entries that tiles.cuh declares. Nothing here depends on a query, so
// that it is compiled once, in a unit with io-stack's slow path, and linked.
#pragma once
#include "tiles.cuh"

namespace grampus {

// The run is found by 33rds, each lane one border.
GRAMPUS_ENTRY Place next_place(const QueryHead& head, Place from, u32 tile_log2, u32 chunk_log2) {
    u64 tile = head.first_tile;
    if (from.run == ~0u) {
        u64 warps = launch_warps(), chunk = tile >> chunk_log2, turn = chunk % warps, mine = launch_warp();
        from.left = (1u << chunk_log2) - ((u32)tile & ((1u << chunk_log2) - 1));
        if (turn != mine) {
            tile = (chunk + (mine > turn ? mine - turn : mine + warps - turn)) << chunk_log2;
            from.left = 1u << chunk_log2;
        }
    } else {
        const RowRun& run = head.runs[from.run];
        tile = load_constant(&run.first_tile) + ((from.row - load_constant(&run.first_row)) >> tile_log2);
    }
    if (tile >= head.end_tile) return Place{0, 0, from.run, 0};
    u32 low = 0, high = head.run_count;  // it is one of low .. high - 1
    GRAMPUS_NO_UNROLL
    while (high - low > 1) {
        u32 step = (high - low + WARP) / (WARP + 1), border = low + (lane_id() + 1) * step;
        u32 below = leading_lanes(border < high && load_constant(&head.runs[border].first_tile) <= tile);
        u32 start = low + below * step;
        if (high - start > step) high = start + step;
        low = start;
    }
    const RowRun& run = head.runs[low];
    u64 first_tile = load_constant(&run.first_tile), first_row = load_constant(&run.first_row), rows = load_constant(&run.rows);
    u64 most = (head.end_tile - first_tile) << tile_log2;  // rows before the launch's end
    return Place{first_row + ((tile - first_tile) << tile_log2), first_row + (rows < most ? rows : most), low, from.left};
}

GRAMPUS_ENTRY Located locate(const IoStack& io, const ColumnDesc& column, Nearby* nearby, bool active, u64 row, u32 size) {
    Nearby in = {0, 0, 0};
    if (nearby) in = *nearby;
    bool there = !active || (row >= in.row_begin && row < in.row_end);
    u32 strangers = ballot(!there);
    if (strangers != 0) {
        if (!there) {
            const Extent& e = *extent_of(column, row);
            there = has_row(e, row);
            in = Nearby{e.first_row, e.first_row + e.rows, (u64)e.mapped + e.first_byte - e.first_row * size};
        }
        if (!all(there)) return Located{out_of_range(io, !there, row), 0};
        // Rows ascend: the next ones are closest to one of these.
        if (nearby && lane_id() == lowest_bit(strangers)) *nearby = in;
        sync_warp();
    }
    return Located{true, in.origin + row * size};
}

GRAMPUS_DEVICE u64* state_of_warp(const QueryHead& head, u32 shared_words, u32 lane_words) {
    return (u64*)head.state + (u64)launch_warp() * (shared_words + WARP * lane_words);
}
GRAMPUS_ENTRY void keep(const QueryHead& head, const u64* shared, u32 shared_words, const u64* lane, u32 lane_words) {
    u64* to = state_of_warp(head, shared_words, lane_words);
    sync_warp();
    copy_words_together(to, shared, shared_words);
    to += shared_words + lane_id() * lane_words;
    GRAMPUS_NO_UNROLL
    for (u32 i = 0; i < lane_words; i++) to[i] = lane[i];
}
GRAMPUS_ENTRY void resume(const QueryHead& head, u64* shared, u32 shared_words, u64* lane, u32 lane_words) {
    const u64* from = state_of_warp(head, shared_words, lane_words);
    copy_words_together(shared, from, shared_words);
    from += shared_words + lane_id() * lane_words;
    GRAMPUS_NO_UNROLL
    for (u32 i = 0; i < lane_words; i++) lane[i] = from[i];
    sync_warp();
}

}  // namespace grampus
