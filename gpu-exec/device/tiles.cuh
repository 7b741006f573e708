// Which rows a warp looks at, tile after tile, and what it takes along from one launch to the next.
#pragma once
#include "column_array.cuh"
#include "values.cuh"

namespace grampus {

// Walks a warp through its tiles of a launch: chunks of CHUNK consecutive tiles, of which warp w of W has those that are w
// modulo W, wherever launches begin and end. Everything here is the same in all lanes.
template <u32 TILE_ROWS, u32 CHUNK>
class Tiles {
    const QueryHead& head;
    u64 next;                 // tile to look at next
    u64 begin_tile, end_tile; // of the run
    u64 begin_row, end_row;   // likewise

    // The warp's first tile not below `tile`.
    GRAMPUS_DEVICE u64 from(u64 tile) const {
        u64 warps = launch_warps(), chunk = tile / CHUNK, turn = chunk % warps, mine = launch_warp();
        if (turn == mine) return tile;
        return (chunk + (mine > turn ? mine - turn : mine + warps - turn)) * CHUNK;
    }

    // The run that has the tile: by 33rds, each lane one border.
    GRAMPUS_DEVICE void find_run(u64 tile) {
        u32 low = 0, high = head.run_count;  // it is one of low .. high - 1
        GRAMPUS_NO_UNROLL
        while (high - low > 1) {
            u32 step = (high - low + WARP) / (WARP + 1), border = low + (lane_id() + 1) * step;
            u32 below = leading_lanes(border < high && load_constant(&head.runs[border].first_tile) <= tile);
            u32 from = low + below * step;
            if (high - from > step) high = from + step;
            low = from;
        }
        RowRun run;
        run.first_tile = load_constant(&head.runs[low].first_tile);
        run.first_row = load_constant(&head.runs[low].first_row);
        run.rows = load_constant(&head.runs[low].rows);
        begin_tile = run.first_tile;
        end_tile = run.first_tile + (run.rows + TILE_ROWS - 1) / TILE_ROWS;
        begin_row = run.first_row;
        end_row = run.first_row + run.rows;
    }

  public:
    GRAMPUS_DEVICE explicit Tiles(const QueryHead& launch) : head(launch), begin_tile(0), end_tile(0), begin_row(0), end_row(0) {
        next = from(launch.first_tile);
    }
    Tiles(const Tiles&) = delete;

    // The next tile's rows: `rows` from `row` on. False: there is none.
    GRAMPUS_DEVICE bool take(u64& row, u32& rows) {
        u64 tile = next;
        if (tile >= head.end_tile) return false;
        if (tile < begin_tile || tile >= end_tile) find_run(tile);
        row = begin_row + (tile - begin_tile) * TILE_ROWS;
        rows = end_row - row < TILE_ROWS ? (u32)(end_row - row) : TILE_ROWS;
        next = tile + 1;
        if (next % CHUNK == 0) next += (u64)(launch_warps() - 1) * CHUNK;
        return true;
    }
};

// As ColumnArray::fetch, out of line: for columns whose fetch is long, and waits long, the call is nothing, and columns of one type
// share the code.
template <class T>
struct FetchedValue {
    bool ok;  // false: a status is up
    T value;
};
template <class T, class Array>
GRAMPUS_SLOW FetchedValue<T> fetch_apart(Array& column, bool active, u64 row) {
    FetchedValue<T> got;
    got.ok = column.fetch(active, row, got.value);
    return got;
}

// A bit for each of the lane's K values of a tile that is one of `rows`.
template <u32 K>
GRAMPUS_DEVICE u32 lanes_bits(u32 rows) {
    static_assert(K < 32, "bits of a word");
    u32 mine = (rows + WARP - 1 - lane_id()) / WARP;
    return (1u << mine) - 1;
}

// Collective; all lanes have it.
GRAMPUS_DEVICE u32 or_of_lanes(u32 v) { return or_within(FULL, v); }

// Row numbers that passed, and what is known of their rows, wait in a ring of CAPACITY entries; arrays of entries are generated.
// The oldest leave first: what was sent for on their behalf has had the most time. The same in all lanes.
template <u32 CAPACITY>
struct Ring {
    static_assert((CAPACITY & (CAPACITY - 1)) == 0, "a power of two");
    u32 first, held;

    // Where this lane's entry goes, if it has one: there is room. Collective.
    GRAMPUS_DEVICE u32 put(bool mine) {
        u32 votes = ballot(mine), at = (first + held + count_bits(votes & lanes_below())) % CAPACITY;
        held += count_bits(votes);
        return at;
    }
    // Where this lane's entry is, if it has one. Collective; the arrays may be read until the next put().
    GRAMPUS_DEVICE bool take(u32& at) {
        bool mine = lane_id() < held;
        at = (first + lane_id()) % CAPACITY;
        u32 taken = held < WARP ? held : WARP;
        first = (first + taken) % CAPACITY;
        held -= taken;
        return mine;
    }
};

// Says that the query cannot be answered here. Any lane may call.
GRAMPUS_SLOW void refuse(const QueryHead& head, u32 why) { cas_relaxed_gpu(head.refused, 0u, why); }
GRAMPUS_DEVICE bool is_refused(const QueryHead& head) { return load_relaxed_gpu(head.refused) != 0; }

GRAMPUS_DEVICE void copy_words(u64* to, const u64* from, u32 count) {
    GRAMPUS_NO_UNROLL
    for (u32 i = 0; i < count; i++) to[i] = from[i];
}
// By the whole warp. Collective.
GRAMPUS_DEVICE void copy_words_together(u64* to, const u64* from, u32 count) {
    GRAMPUS_NO_UNROLL
    for (u32 i = lane_id(); i < count; i += WARP) to[i] = from[i];
}
// Structs of whole words.
template <class T>
GRAMPUS_DEVICE constexpr u32 words_in() {
    static_assert(sizeof(T) % 8 == 0, "whole words");
    return sizeof(T) / 8;
}

// Collective; lane 0 has it.
GRAMPUS_DEVICE u32 sum_of_lanes(u32 v) {
    GRAMPUS_UNROLL
    for (u32 by = WARP / 2; by > 0; by /= 2) v += shuffle_down(v, by);
    return v;
}

// Keeps what a warp shares and what each lane has for the next launch, or brings it back. Collective.
template <class Shared, class Lane>
GRAMPUS_SLOW void keep(const QueryHead& head, const Shared& shared, const Lane& lane) {
    u64* to = (u64*)(head.state + (u64)launch_warp() * (sizeof(Shared) + WARP * sizeof(Lane)));
    sync_warp();
    copy_words_together(to, (const u64*)&shared, words_in<Shared>());
    copy_words(to + words_in<Shared>() + lane_id() * words_in<Lane>(), (const u64*)&lane, words_in<Lane>());
}
template <class Shared, class Lane>
GRAMPUS_SLOW void resume(const QueryHead& head, Shared& shared, Lane& lane) {
    const u64* from = (const u64*)(head.state + (u64)launch_warp() * (sizeof(Shared) + WARP * sizeof(Lane)));
    copy_words_together((u64*)&shared, from, words_in<Shared>());
    copy_words((u64*)&lane, from + words_in<Shared>() + lane_id() * words_in<Lane>(), words_in<Lane>());
    sync_warp();
}

}  // namespace grampus
