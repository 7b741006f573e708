// How values lie in bytes, words and lines, and the out-of-line entries of column arrays.
//
// The entries take and return values, so that the hot path around a call keeps its registers. slow_path.cuh defines
// them.
#pragma once
#include "status.cuh"

namespace grampus {

// ---- rows, bytes, words, values --------------------------------------------------------------------------

// Byte of a row, counted from the start of the extent's first line.
GRAMPUS_DEVICE u64 byte_of(const Extent& e, u64 row, u32 size) { return e.first_byte + (row - e.first_row) * size; }

GRAMPUS_DEVICE bool has_row(const Extent& e, u64 row) { return row - e.first_row < e.rows; }

// The extent that has the row; an arbitrary one if no extent has the row.
GRAMPUS_DEVICE const Extent* extent_of(const ColumnDesc& column, u64 row) {
    u32 low = 0, high = column.extent_count;
    GRAMPUS_NO_UNROLL
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (column.extents[middle].first_row <= row) low = middle; else high = middle;
    }
    return column.extents + low;
}

// How a value of T lies in aligned 8-byte words, from byte `at` on. ALIGNED: `at` is a multiple of the value's size.
template <class T, bool ALIGNED>
struct Layout {
    static constexpr u32 SIZE = sizeof(T);

    static GRAMPUS_DEVICE bool spans_words(u32 at) { return !ALIGNED && (at & 7) + SIZE > 8; }

    static GRAMPUS_DEVICE u64 join(u64 low, u64 high, u32 at) {
        if (SIZE == 8 && ALIGNED) return low;
        u32 shift = (at & 7) * 8;
        u64 bits = low >> shift;
        if (!ALIGNED && shift != 0) bits |= high << (64 - shift);
        return bits;
    }

    static GRAMPUS_DEVICE T from_bits(u64 bits) {
        union {
            u64 bits;
            T value;
        } both;
        both.bits = bits;
        return both.value;
    }

    static GRAMPUS_DEVICE u64 to_bits(T value) {
        union {
            u64 bits;
            T value;
        } both = {0};
        both.value = value;
        return both.bits;
    }

    // The bits of the value at `p` in a mapping. The words around a value that is not aligned are in the mapping too: a
    // mapping ends at a page's end.
    static GRAMPUS_DEVICE u64 mapped_bits(const u8* p) {
        // A signed value of one or two bytes takes the way of words: ptxas 13.0 drops the sign extension when it
        // negates a 16-bit load.
        if constexpr (ALIGNED && (SIZE >= 4 || (T)-1 > (T)0)) return load_mapped_value<SIZE>(p);
        u32 at = (u32)(u64)p & 7;
        const u64* word = (const u64*)(p - at);
        u64 low = load_mapped(word), high = spans_words(at) ? load_mapped(word + 1) : 0;
        return join(low, high, at);
    }
};

// A tile as aligned 8-byte words. Value i of a lane is the value of row i * WARP + lane. Word i is the word in which
// that value starts.
template <class T, bool ALIGNED>
struct TileWords {
    typedef Layout<T, ALIGNED> In;
    static constexpr u32 SIZE = sizeof(T);
    static constexpr u32 STRIDE = WARP * SIZE;  // bytes from a lane's value to its next

    // The aligned word in which byte `at + i * STRIDE` lies.
    static GRAMPUS_DEVICE const u64* word_at(const u8* line, u32 at, u32 i) {
        if (ALIGNED && SIZE == 8) return (const u64*)(line + at) + i * (STRIDE / 8);
        return (const u64*)(line + (STRIDE % 8 == 0 ? (at & ~7u) + i * STRIDE : (at + i * STRIDE) & ~7u));
    }

    // Whether this lane loads one more word (`tail`): the one in which the tile's last value ends, behind the last
    // row's word.
    static GRAMPUS_DEVICE bool needs_tail(u32 byte, u32 rows) {
        return lane_id() == 0 && In::spans_words(byte + (rows - 1) * SIZE);
    }

    // Values from words. A value that spans two words ends in the word in which the next row's value starts. The next
    // lane has that word; for the last lane, the first lane's next word. WHOLE: the tile has K * WARP rows.
    template <u32 K, bool WHOLE>
    static GRAMPUS_DEVICE void combine(u32 byte, u32 rows, const u64 (&word)[K], u64 tail, T (&value)[K]) {
        u64 last = ALIGNED || WHOLE ? 0 : shuffle(tail, 0);
        GRAMPUS_UNROLL
        for (u32 i = 0; i < K; i++) {
            u32 n = i * WARP + lane_id(), at = byte + n * SIZE;
            u64 high = 0;
            if (!ALIGNED) {
                u64 given = lane_id() > 0 ? word[i] : i + 1 < K ? word[i + 1 < K ? i + 1 : i] : tail;
                high = shuffle(given, (lane_id() + 1) % WARP);
                if constexpr (WHOLE && SIZE == 8) {
                    // All values begin at the same byte of their words: a short form for the GPU and for the compiler.
                    const u32 shift = (byte & 7) * 8;
                    value[i] = In::from_bits(word[i] >> shift | high << 1 << (63 - shift));
                    continue;
                }
                if (!WHOLE && n + 1 == rows) high = last;
                if (!In::spans_words(at)) high = 0;
            }
            // Words that no lane loaded are zero.
            value[i] = In::from_bits(WHOLE || (ALIGNED && SIZE == 8) || n < rows ? In::join(word[i], high, at) : 0);
        }
    }
};

// ---- backings ----------------------------------------------------------------------------------------------

// Loads values from a registered mapping or from device memory. backing.cuh has the backings with a cache.
struct Mapped {
    static constexpr bool CACHED = false;
    static constexpr bool WRITES = false;
};

// No row at which a sequence of tiles ends is known.
constexpr u64 NO_STOP = ~0ull;

// A column of T: mapped_array.cuh and column_array.cuh define it. ALIGNED: every extent's values start at a multiple of
// their size.
template <class T, class Backing, bool ALIGNED = false>
class ColumnArray;

// ---- out-of-line entries -----------------------------------------------------------------------------------
// The entries know a value's size, not its type: one text serves all columns of a kernel, and kernels are linked with
// it.

// The pinned lines of a tile, at most two: lane j has line j. With one lane per warp, the lane has both.
constexpr u32 LINES_PER_LANE = WARP < 2 ? 2 : 1;
struct Held {
    bool ok;  // false: a status is up
    u64 first;  // key of the first line
    u32 meta[LINES_PER_LANE];
    u32 state[LINES_PER_LANE];
};

// A value's bits.
struct FetchedBits {
    bool ok;  // false: a status is up
    u64 bits;
};

// An extent's rows, and the place of row 0 if the extent reached back to it. No rows: no extent has the row.
struct InExtent {
    u64 row_begin, row_end, origin;
};
// The extent of a row. `cached`: the place is a byte of the key space, else an address.
GRAMPUS_ENTRY InExtent extent_at(const ColumnDesc& column, u64 row, u32 size, bool cached);
// Pins the lines of a tile, complete with all sectors. Requests `most` lines from the first on, for the tiles that
// follow (0: the tile's own lines only). Collective. The caller unpins.
template <class Backing>
GRAMPUS_ENTRY Held hold(const IoStack& io, const ColumnDesc& column, u64 row, u32 rows, u32 size, u32 most);
// column[row] for active lanes, however many commands that takes. Collective.
template <class Backing>
GRAMPUS_ENTRY FetchedBits fetch_slowly(const IoStack& io, const ColumnDesc& column, bool active, u64 row, u32 size);
// bits[i]: the bits of column[row + i * WARP + lane] below row + rows, across extents. Collective.
template <class Backing>
GRAMPUS_ENTRY bool tile_slowly(const IoStack& io, const ColumnDesc& column, u64 row, u32 rows, u32 size, u32 k,
                               u64* bits);
// Requests the lines of the active lanes' values. Collective.
template <class Backing>
GRAMPUS_ENTRY bool prefetch_slowly(const IoStack& io, const ColumnDesc& column, bool active, u64 row, u32 size);
// Requests all lines of `rows` rows from `row` on in long commands, as far as the extent reaches. Collective.
template <class Backing>
GRAMPUS_ENTRY bool ahead_slowly(const IoStack& io, const ColumnDesc& column, u64 row, u64 rows, u32 size);

// column[row] = the value of these bits, for active lanes. Collective. store.cuh.
template <class Backing>
GRAMPUS_ENTRY bool store_slowly(const IoStack& io, const ColumnDesc& column, bool active, u64 row, u32 size, u64 bits);
// column[row + i * WARP + lane] = the value of bits[i], below row + rows. Collective. store.cuh.
template <class Backing>
GRAMPUS_ENTRY bool store_tile_slowly(const IoStack& io, const ColumnDesc& column, u64 row, u32 rows, u32 size, u32 k,
                                     const u64* bits);

// value[i] = column[row + i * WARP + lane] below row + rows, across extents. Slow: for the few tiles at an extent's or
// a run's end.
template <class Backing, class T, u32 K>
GRAMPUS_DEVICE bool tile_value_by_value(const IoStack& io, const ColumnDesc& column, u64 row, u32 rows, T (&value)[K]) {
    u64 slow[K];
    bool good = far_call(&tile_slowly<Backing>)(io, column, row, rows, sizeof(T), K, slow);
    GRAMPUS_UNROLL
    for (u32 i = 0; i < K; i++) value[i] = Layout<T, true>::from_bits(slow[i]);
    return good;
}

GRAMPUS_SLOW bool out_of_range(const IoStack& io, bool mine, u64 row) {
    if (!mine) return false;
    Status what = {};
    what.code = STATUS_RANGE;
    what.queue = what.cid = ~0u;
    what.lba = row;
    what.line = ~0ull;
    raise(io, what);
    return false;
}

}  // namespace grampus
