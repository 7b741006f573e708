// Entries that kernels call between runs, extents and launches, and long arithmetic, as tiles.cuh and values.cuh
// declare them. Independent of any query: compiled once, in a unit with io-stack's slow path, and linked.
#pragma once
#include "tiles.cuh"

namespace grampus {

// The run is found by 33rds: each lane has one border.
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
    u32 low = 0, high = head.run_count;  // the run is one of low .. high - 1
    GRAMPUS_NO_UNROLL
    while (high - low > 1) {
        u32 step = (high - low + WARP) / (WARP + 1), border = low + (lane_id() + 1) * step;
        u32 below = leading_lanes(border < high && load_constant(&head.runs[border].first_tile) <= tile);
        u32 start = low + below * step;
        if (high - start > step) high = start + step;
        low = start;
    }
    const RowRun& run = head.runs[low];
    u64 first_tile = load_constant(&run.first_tile), first_row = load_constant(&run.first_row);
    u64 rows = load_constant(&run.rows);
    u64 most = (head.end_tile - first_tile) << tile_log2;  // rows before the launch's end
    u64 row = first_row + ((tile - first_tile) << tile_log2);
    return Place{row, first_row + (rows < most ? rows : most), low, from.left};
}

GRAMPUS_ENTRY double quotient(double a, double b) { return settle_nan(a / b, a, b); }
GRAMPUS_ENTRY double remainder(double a, double b) { return settle_nan(float_modulo(a, b), a, b); }

GRAMPUS_DEVICE Nearby nearby(const Extent& e, u32 size) {
    u64 first = (u64)e.mapped + e.first_byte;
    u64 origin = size == 0 ? bit_of_row_0(first, e.first_row) : first - e.first_row * size;
    return Nearby{e.first_row, e.first_row + e.rows, origin, size};
}

// Removes the lowest column from `which` and returns it.
GRAMPUS_DEVICE u32 take_column(u64& which) {
    u32 low = (u32)which, column = low != 0 ? lowest_bit(low) : 32 + lowest_bit((u32)(which >> 32));
    which &= which - 1;
    return column;
}
GRAMPUS_DEVICE u32 columns_in(u64 which) { return count_bits((u32)which) + count_bits((u32)(which >> 32)); }

// The column of `which` that `before` others precede.
GRAMPUS_DEVICE u32 nth_column(u64 which, u32 before) {
    GRAMPUS_NO_UNROLL
    for (u32 i = 0; i < before; i++) which &= which - 1;
    return take_column(which);
}

GRAMPUS_ENTRY Stretch find_stretch(const ColumnDesc* columns, u64 which, const ColumnDesc* valid, u64 nullable, u64 row,
                                   u64* origin) {
    u32 values = columns_in(which), count = values + columns_in(nullable);
    Stretch found = {0, ~0ull};
    GRAMPUS_NO_UNROLL
    for (u32 base = 0; base < count; base += WARP) {
        u32 mine = base + lane_id();
        InExtent in = {0, ~0ull, 0};
        if (mine < count) {
            const ColumnDesc& array =
                mine < values ? columns[nth_column(which, mine)] : valid[nth_column(nullable, mine - values)];
            in = extent_at(array, row, array.value_bytes, false);
            if (mine >= values) in.origin = bit_of_row_0(in.origin, in.row_begin);
        }
        GRAMPUS_NO_UNROLL
        for (u32 i = 0; i < WARP && base + i < count; i++) {
            u64 begin = shuffle(in.row_begin, i), end = shuffle(in.row_end, i);
            found.begin = found.begin > begin ? found.begin : begin;
            found.end = found.end < end ? found.end : end;
            origin[base + i] = shuffle(in.origin, i);
        }
    }
    return found;
}

GRAMPUS_ENTRY void fill_near(const ColumnDesc* columns, u64 which, Nearby* near) {
    u32 count = columns_in(which);
    GRAMPUS_NO_UNROLL
    for (u32 i = 0; i < count; i++) {
        u32 c = take_column(which);
        if (i % WARP == lane_id())
            near[i] = columns[c].extent_count == 0 ? Nearby{0, 0, 0, 0}
                                                   : nearby(*columns[c].extents, columns[c].value_bytes);
    }
    sync_warp();
}

// Locates the active lanes' values. Collective. False: a status is up.
GRAMPUS_SLOW bool locate(const IoStack& io, const ColumnDesc& column, Nearby* near, bool active, u64 row, Nearby& in) {
    in = Nearby{0, 0, 0, 0};
    if (near) in = *near;
    sync_warp();
    bool there = !active || (row >= in.row_begin && row < in.row_end);
    u32 strangers = ballot(!there);
    if (strangers == 0) return true;
    if (!there) {
        const Extent& e = *extent_of(column, row);
        there = has_row(e, row);
        in = nearby(e, column.value_bytes);
    }
    if (!all(there)) return out_of_range(io, !there, row);
    // Rows ascend: the next rows are closest to one of these.
    if (near && lane_id() == lowest_bit(strangers)) *near = in;
    return true;
}

GRAMPUS_ENTRY bool fetch_columns(const IoStack& io, const ColumnDesc* columns, u64 which, Nearby* near, u64 at_hand,
                                 bool active, u64 row, u64* bits) {
    constexpr u32 TOGETHER = 4;
    GRAMPUS_NO_UNROLL
    for (; which != 0; bits += TOGETHER) {
        u64 place[TOGETHER], low[TOGETHER], high[TOGETHER];
        GRAMPUS_UNROLL
        for (u32 i = 0; i < TOGETHER; i++) {
            place[i] = 0;  // of the value's first bit
            high[i] = 0;
            if (which == 0) continue;
            u32 c = take_column(which);
            u64 bit = 1ull << c;
            Nearby in;
            Nearby* known = (at_hand & bit) != 0 ? near + columns_in(at_hand & (bit - 1)) : 0;
            if (!locate(io, columns[c], known, active, row, in)) return false;
            if (active) {
                place[i] = in.size == 0 ? in.origin + row : 8 * (in.origin + row * in.size);
                high[i] = (place[i] & 63) + 8 * in.size > 64 ? 1 : 0;
            }
        }
        GRAMPUS_UNROLL
        for (u32 i = 0; i < TOGETHER; i++) {
            const u64* word = (const u64*)(place[i] >> 6 << 3);
            low[i] = load_near_if(place[i] != 0, word);
            high[i] = load_near_if(high[i] != 0, word + 1);
        }
        GRAMPUS_UNROLL
        for (u32 i = 0; i < TOGETHER; i++) {
            u32 shift = (u32)place[i] & 63;
            bits[i] = shift == 0 ? low[i] : low[i] >> shift | high[i] << (64 - shift);
        }
    }
    return true;
}

GRAMPUS_ENTRY RowBits validity_slowly(const IoStack& io, const ColumnDesc& valid, u64 row, u32 rows, u32 k) {
    RowBits found = {true, 0};
    GRAMPUS_NO_UNROLL
    for (u32 i = 0; i < k && found.ok; i++) {
        u32 n = i * WARP + lane_id();
        if (n >= rows) break;
        const Extent& e = *extent_of(valid, row + n);
        found.ok = has_row(e, row + n);
        if (!found.ok) break;
        u64 place = bit_of_row_0((u64)e.mapped + e.first_byte, e.first_row) + row + n;
        found.bits |= (load_constant((const u8*)(place >> 3)) >> (place & 7) & 1) << i;
    }
    sync_warp();
    if (!all(found.ok)) found.ok = out_of_range(io, !found.ok, row);
    return found;
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

GRAMPUS_ENTRY void begin_warp(const QueryHead& head, u64* shared, u32 shared_words, u64* tally, u32 tally_words) {
    if ((head.flags & LAUNCH_FIRST) == 0) resume(head, shared, shared_words, 0, 0);
    GRAMPUS_NO_UNROLL
    for (u32 i = lane_id(); (head.flags & LAUNCH_FIRST) != 0 && i < tally_words; i += WARP) tally[i] = 0;
    sync_warp();
}

GRAMPUS_ENTRY void end_warp(const QueryHead& head, const u64* shared, u32 shared_words, u32* counted, u32 steps,
                            u32 looked, const u64* partial, u32 partial_words, u32 partial_bytes) {
    u64* counters = head.counters + (u64)launch_warp() * (1 + steps);
    if (lane_id() == 0) counters[0] += looked;
    sync_warp();
    GRAMPUS_NO_UNROLL
    for (u32 i = lane_id(); i < steps; i += WARP) {
        counters[1 + i] += counted[i];
        counted[i] = 0;
    }
    sync_warp();
    if ((head.flags & LAUNCH_LAST) == 0) keep(head, shared, shared_words, 0, 0);
    else copy_words_together((u64*)(head.partials + (u64)launch_warp() * partial_bytes), partial, partial_words);
}

}  // namespace grampus
