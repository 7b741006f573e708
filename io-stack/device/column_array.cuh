// A column as kernels see it: row in, value out, at any byte alignment, from either backing. `tile` for runs of rows,
// `fetch` for scattered ones, `prefetch` and `ahead` to have bytes on their way before they are asked for.
#pragma once
#include "column_layout.cuh"

namespace grampus {

// All member functions are collective: the whole warp calls, lanes without a row pass active = false. Those that return bool
// return false to all lanes when a status is up: leave the kernel. ALIGNED: every extent's values start at a multiple
// of their size. Pass IoStack and ColumnDesc to the kernel as `const __grid_constant__` parameters, and bound its
// registers (`__launch_bounds__(256, 4)`: 64), else the functions out of line decide how many it takes.
template <class T, class Backing, bool ALIGNED = false>
class ColumnArray {
    typedef Layout<T, ALIGNED> In;
    static constexpr u32 SIZE = sizeof(T);
    static constexpr u32 STRIDE = WARP * SIZE;  // from a lane's value of a tile to its next
    static constexpr u64 NO_KEY = ~0ull;

    const IoStack& io;
    const ColumnDesc& column;

    // The extent used last: rows row_begin .. row_end - 1, and where row 0 would begin if it were in it, as a byte of the key space
    // (line key * 4096 + byte) or, mapped, as an address.
    u64 row_begin, row_end, origin;

    // Window of lines for tile(): lane i knows line window_key + i (and i + WARP ...), below window_lines. NO_LINE: not whole, or
    // not there.
    static constexpr u32 WINDOW = WARP * LINES_PER_LANE;
    u64 window_key;
    u32 window_lines;
    u32 window_meta[LINES_PER_LANE];
    u32 window_state[LINES_PER_LANE];  // low half: version and BUSY

    // Line that this lane's last fetch() found, and its state then: reused as long as rows stay in it.
    u64 last_key;
    u64 last_state;
    u32 last_meta;

  public:
    GRAMPUS_DEVICE ColumnArray(const IoStack& stack, const ColumnDesc& desc) : io(stack), column(desc) { forget(); }
    ColumnArray(const ColumnArray&) = delete;

    // value[i] = column[row + i * WARP + lane], for those below row + rows; 0 < rows <= K * WARP, all in one extent. The other
    // values are zero. `row` and `rows` are the same in all lanes. SEQUENTIAL: the next tiles will follow this one, so 32 lines are
    // looked up, and sent for, at once.
    template <u32 K, bool SEQUENTIAL = true>
    GRAMPUS_DEVICE bool tile(u64 row, u32 rows, T (&value)[K]) {
        static_assert(K * WARP * SIZE <= LINE_BYTES, "a tile lies in at most two lines");
        if constexpr (!Backing::CACHED) {
            if (!has_rows(row, rows)) return out_of_range(io, true, row);
            if (rows < K * WARP) return tile_across<K>(row, rows, value);
            load_tile<K>(row, value);
        } else {
            u64 word[K], tail;
            u32 pinned = 0;
            while (!read_tile<K, SEQUENTIAL>(row, rows, word, tail)) {  // a second time only after hold(), and then for sure
                Held held = far_call(&hold<Backing>)(io, column, row, rows, SIZE, SEQUENTIAL ? window_lines : 0);
                forget();
                if (!held.ok) {
                    GRAMPUS_UNROLL
                    for (u32 i = 0; i < K; i++) value[i] = In::from_bits(0);  // as in read_tile()
                    return false;
                }
                use(held);
                pinned = 1;
            }
            if (pinned != 0) let_go();
            combine<K, false>((u32)place_of(row), rows, word, tail, value);
        }
        return true;
    }

    // As tile(), for rows of any extents. Slow: for the few tiles at an extent's or a run's end.
    template <u32 K>
    GRAMPUS_DEVICE bool tile_across(u64 row, u32 rows, T (&value)[K]) {
        u64 slow[K];
        bool good = far_call(&tile_slowly<Backing>)(io, column, row, rows, SIZE, K, slow);
        forget();
        GRAMPUS_UNROLL
        for (u32 i = 0; i < K; i++) value[i] = In::from_bits(slow[i]);
        return good;
    }

    // As tile(), or as tile_across() where an extent ends in the tile.
    template <u32 K, bool SEQUENTIAL = true>
    GRAMPUS_DEVICE bool tile_anywhere(u64 row, u32 rows, T (&value)[K]) {
        if constexpr (Backing::CACHED) {
            return has_rows(row, rows) ? tile<K, SEQUENTIAL>(row, rows, value) : tile_across<K>(row, rows, value);
        } else {
            // Of whole tiles nothing has to be looked at value by value.
            if (rows < K * WARP || !has_rows(row, K * WARP)) return tile_across<K>(row, rows, value);
            load_tile<K>(row, value);
            return true;
        }
    }

    // value = column[row] for active lanes; zero for the others.
    GRAMPUS_DEVICE bool fetch(bool active, u64 row, T& value) {
        u64 bits = 0;
        bool hit = !active || (has_rows(row, 1) && find_bits(place_of(row), bits));
        value = In::from_bits(bits);
        if (all(hit)) return true;
        auto slowly = &fetch_slowly<Backing>;
        FetchedBits slow = (Backing::CACHED ? far_call(slowly) : slowly)(io, column, active, row, SIZE);
        forget();
        value = In::from_bits(active ? slow.bits : 0);
        return slow.ok;
    }

    // Sends for the lines of the active lanes' rows, without waiting for data. Best effort.
    GRAMPUS_DEVICE bool prefetch(bool active, u64 row) {
        if constexpr (Backing::CACHED) {
            return far_call(&prefetch_slowly<Backing>)(io, column, active, row, SIZE);
        }
        return true;
    }

    // Sends for all lines of rows row .. row + rows - 1 (to the extent's end at most) in long commands. Best effort.
    // `row` and `rows` are the same in all lanes.
    GRAMPUS_DEVICE bool ahead(u64 row, u64 rows) {
        if constexpr (Backing::CACHED) {
            if constexpr (Backing::QUEUED) {
                return far_call(&ahead_slowly<Backing>)(io, column, row, rows, SIZE);
            }
        }
        return true;
    }

  private:
    // After a call out of line nothing is taken to be known: what need not survive the call costs the hot path no
    // register, and no spill.
    GRAMPUS_DEVICE void forget() {
        row_begin = row_end = origin = 0;
        last_key = window_key = NO_KEY;
        last_meta = NO_LINE;
        last_state = 0;
        window_lines = 0;
        for (u32 i = 0; i < LINES_PER_LANE; i++) window_meta[i] = NO_LINE;
    }

    // Whether the rows are in the extent used last, or in another, which becomes that.
    GRAMPUS_DEVICE bool has_rows(u64 row, u32 rows) {
        if (row >= row_begin && row + rows <= row_end) return true;
        if constexpr (Backing::CACHED) {
            // In line: what else is at hand about a cache leaves no register across a call.
            const Extent& e = *extent_of(column, row);
            if (!has_row(e, row)) return false;
            row_begin = e.first_row;
            row_end = e.first_row + e.rows;
            origin = (e.first_line << LINE_LOG2) + e.first_byte - e.first_row * SIZE;
        } else {
            InExtent found = far_call(&extent_at)(column, row, SIZE, false);
            row_begin = found.row_begin;
            row_end = found.row_end;
            origin = found.origin;
        }
        return row >= row_begin && row + rows <= row_end;
    }

    // Where the value of a row of this extent begins: byte of the key space, or address.
    GRAMPUS_DEVICE u64 place_of(u64 row) const { return origin + row * SIZE; }

    // ---- one value of this lane ---------------------------------------------------------------------

    // The value at a place, if it is at hand.
    GRAMPUS_DEVICE bool find_bits(u64 place, u64& bits) {
        if constexpr (!Backing::CACHED) {
            bits = In::mapped_bits((const u8*)place);
            return true;
        } else {
            u64 key = place >> LINE_LOG2;
            u32 at = (u32)place & (LINE_BYTES - 1);
            if (In::spans_words(at) && at + SIZE > LINE_BYTES) return false;
            if (key != last_key) {
                last_key = NO_KEY;
                if (!observe<typename Backing::Policy, Backing::WAYS>(io.cache, key, last_meta, last_state)) return false;
                last_key = key;
            }
            if ((sectors_of(io.cache, at, at + SIZE - 1) & ~valid_sectors(last_state)) != 0) {
                last_key = NO_KEY;  // they may be valid by now
                return false;
            }
            const u64* p = (const u64*)(bytes_of<Backing::WAYS>(io.cache, last_meta) + (at & ~7u));
            u64 low = load_line_optimistic(p), high = In::spans_words(at) ? load_line_optimistic(p + 1) : 0;
            bits = In::join(low, high, at);
            if (validate(io.cache, last_meta, last_state, low | high)) return true;
            last_key = NO_KEY;
            return false;
        }
    }

    // A whole tile of a mapping, in the extent used last.
    template <u32 K>
    GRAMPUS_DEVICE void load_tile(u64 row, T (&value)[K]) {
        if constexpr (ALIGNED) {
            const u8* base = (const u8*)(place_of(row) + lane_id() * SIZE);
            GRAMPUS_UNROLL
            for (u32 i = 0; i < K; i++) value[i] = In::from_bits(In::mapped_bits(base + i * STRIDE));
        } else {
            // Each word once, its second half from the next lane: asked for again it would cost another request over PCIe.
            u64 place = place_of(row);
            u32 at = (u32)place & 7, end = at + K * STRIDE;
            const u8* line = (const u8*)(place - at);
            u64 word[K], tail = load_mapped_if(needs_tail(at, K * WARP), (const u64*)(line + (end & ~7u)));
            GRAMPUS_UNROLL
            for (u32 i = 0; i < K; i++) word[i] = load_mapped(word_at(line, at + lane_id() * SIZE, i));
            combine<K, true>(at, K * WARP, word, tail, value);
        }
    }

    // ---- tiles --------------------------------------------------------------------------------------
    // A tile is read as aligned 8-byte words: word i of a lane is the one that its value i starts in.

    // Looks up lines from `key` on, each lane its own: one instruction for 32 lines.
    GRAMPUS_DEVICE void open_window(u64 key, u32 lines) {
        window_lines = lines;
        window_key = key;
        for (u32 i = 0; i < LINES_PER_LANE; i++) {
            u64 state = 0;
            u32 mine = i * WARP + lane_id(), meta = NO_LINE;
            if (mine < lines) {
                bool there = observe<typename Backing::Policy, Backing::WAYS>(io.cache, key + mine, meta, state);
                if (!there || valid_sectors(state) != all_sectors(io.cache)) meta = NO_LINE;
            }
            window_meta[i] = meta;
            window_state[i] = (u32)state;
        }
        sync_warp();  // each lane's acquire is before all lanes' loads
    }
    // The window made of pinned lines: they cannot change.
    GRAMPUS_DEVICE void use(const Held& held) {
        window_key = held.first;
        window_lines = 2;
        for (u32 i = 0; i < LINES_PER_LANE; i++) {
            window_meta[i] = held.meta[i];
            window_state[i] = held.state[i];
        }
    }
    GRAMPUS_DEVICE void let_go() {
        for (u32 i = 0; i < LINES_PER_LANE; i++) {
            if (window_meta[i] != NO_LINE) unpin(io.cache, window_meta[i]);
            window_meta[i] = NO_LINE;
        }
        window_lines = 0;  // looked up again by the next tile
    }
    // The window's entry for its `at`-th line, from the lane that has it.
    GRAMPUS_DEVICE u32 meta_at(u32 at) const { return shuffle(window_meta[LINES_PER_LANE > 1 ? at / WARP : 0], at % WARP); }

    // How many of a tile's values are this lane's.
    static GRAMPUS_DEVICE u32 words_of_lane(u32 rows) { return (rows + WARP - 1 - lane_id()) / WARP; }

    // The aligned word in which byte `at + i * STRIDE` lies.
    static GRAMPUS_DEVICE const u64* word_at(const u8* line, u32 at, u32 i) {
        if (ALIGNED && SIZE == 8) return (const u64*)(line + at) + i * (STRIDE / 8);
        return (const u64*)(line + (STRIDE % 8 == 0 ? (at & ~7u) + i * STRIDE : (at + i * STRIDE) & ~7u));
    }

    // Whether this lane loads one more word (`tail`), in which the tile's last value ends: the one after the last row's word.
    static GRAMPUS_DEVICE bool needs_tail(u32 byte, u32 rows) {
        return lane_id() == 0 && In::spans_words(byte + (rows - 1) * SIZE);
    }

    // Values from words. A value that spans two words ends in the one that the next row's value starts in: the next lane's, and for
    // the last lane the first one's next. WHOLE: there are K * WARP rows.
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
                if (!WHOLE && n + 1 == rows) high = last;
                if (!In::spans_words(at)) high = 0;
            }
            // Words that were not loaded are zero.
            value[i] = In::from_bits(WHOLE || (ALIGNED && SIZE == 8) || n < rows ? In::join(word[i], high, at) : 0);
        }
    }

    // Reads the tile's words if its lines are in the window and stay there.
    template <u32 K, bool SEQUENTIAL>
    GRAMPUS_DEVICE bool read_tile(u64 row, u32 rows, u64 (&word)[K], u64& tail) {
        bool there = has_rows(row, rows);
        u64 place = place_of(row), key = place >> LINE_LOG2;
        u32 at = (u32)place & (LINE_BYTES - 1);
        u32 more = (at + rows * SIZE - 1) >> LINE_LOG2;  // lines after the first: 0 or 1
        bool known = key - window_key < window_lines && key + more - window_key < window_lines;
        if (there && !known) open_window(key, SEQUENTIAL ? WINDOW : more + 1);
        u32 from = (u32)(key - window_key), to = from + more;
        for (u32 i = 0; i < LINES_PER_LANE; i++) {
            u32 mine = lane_id() + i * WARP;
            if (mine >= from && mine <= to && window_meta[i] == NO_LINE) there = false;
        }
        // From here on there is no branch: words that some path leaves undefined would be kept twice, and in memory.
        there = all(there);
        // The lane's first `below` words lie in the first line, the others in the next; both are addressed from the first's start.
        const u8* line = bytes_of<Backing::WAYS>(io.cache, meta_at(from));
        const u8* next = bytes_of<Backing::WAYS>(io.cache, meta_at(to)) - LINE_BYTES;
        u32 end = at + rows * SIZE;
        tail = load_line_optimistic_if(0, there && needs_tail(at, rows) ? 1 : 0, (const u64*)((end < LINE_BYTES ? line : next) + (end & ~7u)));
        u64 values = tail;
        at += lane_id() * SIZE;
        u32 mine = !there ? 0 : rows == K * WARP ? K : words_of_lane(rows), below = at < LINE_BYTES ? (LINE_BYTES - at + STRIDE - 1) / STRIDE : 0;
        GRAMPUS_UNROLL
        for (u32 i = 0; i < K; i++)
            word[i] = load_line_optimistic_if(i, mine, word_at(i < below ? line : next, at, i));
        GRAMPUS_UNROLL
        for (u32 i = 0; i < K; i++) values |= word[i];
        // Each lane checks its own line of the window, after every lane's loads.
        u32 loaded = or_within(FULL, (u32)values | (u32)(values >> 32));
        bool same = there;
        for (u32 i = 0; i < LINES_PER_LANE; i++) {
            u32 mine = lane_id() + i * WARP;
            if (there && mine >= from && mine <= to && !validate(io.cache, window_meta[i], window_state[i], loaded)) same = false;
        }
        return all(same);
    }
};

}  // namespace grampus
