// `Tiles`: a warp's walk through its tiles of a launch, and what a warp keeps from one launch to the next.
#pragma once
#include "mapped_array.cuh"
#include "validity.cuh"
#include "values.cuh"

namespace grampus {

// A warp's position among its tiles. The same in all lanes.
struct Place {
    u64 row, stop;  // the next rows, of this run and launch; none if row >= stop
    u32 run;        // ~0: before the first run
    u32 left;       // tiles of the chunk, this one included
};

// The warp's next tile after a finished run: the first that is not below the launch's first. Tiles come in chunks of
// consecutive ones. Of W warps, warp w has the chunks that are w modulo W, wherever launches begin and end. Collective.
GRAMPUS_ENTRY Place next_place(const QueryHead& head, Place from, u32 tile_log2, u32 chunk_log2);

GRAMPUS_DEVICE constexpr u32 log2_of(u32 v) { return v <= 1 ? 0 : 1 + log2_of(v / 2); }

// Walks a warp through its tiles of a launch. A tile within a run needs only row numbers; the step between runs is out
// of line.
template <u32 TILE_ROWS, u32 CHUNK>
class Tiles {
    static_assert((TILE_ROWS & (TILE_ROWS - 1)) == 0 && (CHUNK & (CHUNK - 1)) == 0, "powers of two");
    const QueryHead& head;
    Place at;

  public:
    GRAMPUS_DEVICE explicit Tiles(const QueryHead& launch) : head(launch), at{0, 0, ~0u, 0} {}
    Tiles(const Tiles&) = delete;

    // The row behind the run's last, of the tile that was taken last.
    GRAMPUS_DEVICE u64 stop() const { return at.stop; }

    // The next tile: `rows` rows from `row` on. False: the launch has no more.
    GRAMPUS_DEVICE bool take(u64& row, u32& rows) {
        if (at.row >= at.stop) {
            at = far_call(&next_place)(head, at, log2_of(TILE_ROWS), log2_of(CHUNK));
            if (at.row >= at.stop) return false;
        }
        row = at.row;
        rows = at.stop - row < TILE_ROWS ? (u32)(at.stop - row) : TILE_ROWS;
        if (CHUNK == 1 || --at.left == 0) {
            at.row += (u64)((launch_warps() - 1) * CHUNK + 1) * TILE_ROWS;
            at.left = CHUNK;
        } else {
            at.row += TILE_ROWS;
        }
        return true;
    }

    // The next rows, of consecutive tiles: `rows` from `row` on. False: the launch has no more.
    GRAMPUS_DEVICE bool take_chunk(u64& row, u64& rows) {
        if (at.row >= at.stop) {
            at = far_call(&next_place)(head, at, log2_of(TILE_ROWS), log2_of(CHUNK));
            if (at.row >= at.stop) return false;
        }
        u64 most = (u64)at.left * TILE_ROWS;
        row = at.row;
        rows = at.stop - row < most ? at.stop - row : most;
        // The chunk may go on in the next run.
        u32 taken = (u32)((rows + TILE_ROWS - 1) / TILE_ROWS);
        at.row += (u64)taken * TILE_ROWS;
        at.left -= taken;
        if (at.left == 0) {
            at.row += (u64)(launch_warps() - 1) * CHUNK * TILE_ROWS;
            at.left = CHUNK;
        }
        return true;
    }
};

// Rows that lie in one extent of each of several arrays.
struct Stretch {
    u64 begin, end;

    // The number of whole tiles from `row` on, of the rows before `most`.
    template <u32 TILE_ROWS>
    GRAMPUS_DEVICE u32 tiles(u64 row, u64 most) const {
        u64 stop = end < most ? end : most;
        return row >= begin && row < stop ? (u32)((stop - row) / TILE_ROWS) : 0;
    }
};
// The stretch around a row, in the columns of `which` and the validity of those of `nullable`. origin[i]: the address
// of row 0, or the place of its bit, in the i-th of these arrays, if its extent reached back to it; the columns come
// first. Each lane searches one array. No rows: an array lacks the row. Collective.
GRAMPUS_ENTRY Stretch find_stretch(const ColumnDesc* columns, u64 which, const ColumnDesc* valid, u64 nullable, u64 row,
                                   u64* origin);

// ---- values by address --------------------------------------------------------------------------------------

// The extent of a warp's last value of a column, in the form by which values are located.
struct Nearby {
    u64 row_begin, row_end;
    u64 origin;  // address of row 0, or the place of its bit, if the extent reached back to it
    u64 size;    // bytes of a value; 0: a bit
};
// Fills `near` for the columns of `which`, lowest first. In shared memory.
GRAMPUS_ENTRY void fill_near(const ColumnDesc* columns, u64 which, Nearby* near);
// bits[i]: the value of the i-th column of `which` at the active lanes' rows, zero for other lanes; of validity, the
// lowest bit counts. `bits` has space for a multiple of four. All columns' places are found before the first load of a
// value, four at a time, so that the loads are in flight together. `near` has the columns of `at_hand`. Out of line,
// for all types. Collective. False: a status is up.
GRAMPUS_ENTRY bool fetch_columns(const IoStack& io, const ColumnDesc* columns, u64 which, Nearby* near, u64 at_hand,
                                 bool active, u64 row, u64* bits);
// Like fetch_columns, for one column on the NVMe command path.
GRAMPUS_ENTRY FetchedBits fetch_queued(const IoStack& io, const ColumnDesc& column, bool active, u64 row);

// A value from its bits.
template <class T>
GRAMPUS_DEVICE T value_of(u64 bits) {
    return Layout<T, true>::from_bits(bits);
}

// value[i], for an `i` that is the same in all lanes: registers cannot be indexed.
template <u32 K, class T>
GRAMPUS_DEVICE T pick(const T (&value)[K], u32 i) {
    T picked = value[0];
    GRAMPUS_UNROLL
    for (u32 k = 1; k < K; k++) picked = i == k ? value[k] : picked;
    return picked;
}

// A bit for each of the lane's K values of a tile that belongs to one of `rows`.
template <u32 K>
GRAMPUS_DEVICE u32 lanes_bits(u32 rows) {
    static_assert(K < 32, "bits of a word");
    u32 mine = (rows + WARP - 1 - lane_id()) / WARP;
    return (1u << mine) - 1;
}

// Collective; all lanes get the result.
GRAMPUS_DEVICE u32 or_of_lanes(u32 v) { return or_within(FULL, v); }

// `Ring`: row numbers that passed, and facts about their rows, wait in CAPACITY entries. The arrays of entries are
// generated. The oldest entries leave first: requests on their behalf have had the most time. In shared memory.
template <u32 CAPACITY>
struct Ring {
    static_assert((CAPACITY & (CAPACITY - 1)) == 0, "a power of two");
    u32 first, held;

    // The place of this lane's entry, if it has one; the ring must have space. Collective; the entries may be read
    // after sync_warp().
    GRAMPUS_DEVICE u32 put(bool mine) {
        u32 votes = ballot(mine), before = held, at = (first + before + count_bits(votes & lanes_below())) % CAPACITY;
        sync_warp();
        if (lane_id() == 0) held = before + count_bits(votes);
        return at;
    }
    // The place from which this lane takes an entry. False: no entry for this lane. Collective; the arrays may be read
    // until the next put().
    GRAMPUS_DEVICE bool take(u32& at) {
        u32 begin = first, before = held, taken = before < WARP ? before : WARP;
        bool mine = lane_id() < taken;
        at = (begin + lane_id()) % CAPACITY;
        sync_warp();
        if (lane_id() == 0) {
            first = (begin + taken) % CAPACITY;
            held = before - taken;
        }
        sync_warp();
        return mine;
    }
};

// Counts the active lanes. In shared memory, by lane 0. Collective.
GRAMPUS_DEVICE void tally(u32& counter, bool active) {
    u32 votes = ballot(active);
    if (lane_id() == 0) counter += count_bits(votes);
}

// Refuses the query: the device cannot answer it. Any lane may call.
GRAMPUS_SLOW void refuse(const QueryHead& head, u32 why) { cas_relaxed_gpu(head.refused, 0u, why); }
// Whether a lane has refused. Collective.
GRAMPUS_DEVICE bool leaves(const QueryHead& head, bool refused) {
    if (!any(refused)) return false;
    refuse(head, REFUSED_VALUE);
    return true;
}
// Whether the query is refused, the same for all lanes: another warp may refuse between two lanes' loads, so the lanes
// vote. Collective.
GRAMPUS_DEVICE bool is_refused(const QueryHead& head) { return any(load_relaxed_gpu(head.refused) != 0); }

// Copies words, by the whole warp. Collective.
GRAMPUS_DEVICE void copy_words_together(u64* to, const u64* from, u32 count) {
    GRAMPUS_NO_UNROLL
    for (u32 i = lane_id(); i < count; i += WARP) to[i] = from[i];
}
// The number of words in a struct of whole words.
template <class T>
GRAMPUS_DEVICE constexpr u32 words_in() {
    static_assert(sizeof(T) % 8 == 0, "whole words");
    return sizeof(T) / 8;
}

// Collective; lane 0 gets the result.
GRAMPUS_DEVICE u32 sum_of_lanes(u32 v) {
    GRAMPUS_UNROLL
    for (u32 by = WARP / 2; by > 0; by /= 2) v += shuffle_down(v, by);
    return v;
}

// Saves what a warp shares and what each lane has, in words, for the next launch, or restores both. Collective.
GRAMPUS_ENTRY void keep(const QueryHead& head, const u64* shared, u32 shared_words, const u64* lane, u32 lane_words);
GRAMPUS_ENTRY void resume(const QueryHead& head, u64* shared, u32 shared_words, u64* lane, u32 lane_words);

// Begin and end of a launch of a query with stages. `tally` begins as zeros. `counted` is added to the warp's counters,
// behind the count of rows looked at. In the last launch the warp leaves `partial`. Collective.
GRAMPUS_ENTRY void begin_warp(const QueryHead& head, u64* shared, u32 shared_words, u64* tally, u32 tally_words);
GRAMPUS_ENTRY void end_warp(const QueryHead& head, const u64* shared, u32 shared_words, u32* counted, u32 steps,
                            u32 looked, const u64* partial, u32 partial_words, u32 partial_bytes);

}  // namespace grampus
