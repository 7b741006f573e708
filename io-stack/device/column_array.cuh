// `ColumnArray`: a column as kernels read it, row in, value out, at any byte alignment, from any backing.
//
// 1. `tile` reads runs of rows; `fetch` reads scattered rows.
// 2. `prefetch` and `ahead` request bytes before they are needed.
// 3. `store` and `store_tile` change values, with the backing `Writable`. write_back.cuh has `flush`.
#pragma once
#include "backing.cuh"
#include "mapped_array.cuh"

namespace grampus {

// All member functions are collective: the whole warp calls them, and lanes without a row pass active = false. Those
// that return bool return false to all lanes when a status is up: the kernel must end.
//
// Kernels take IoStack and ColumnDesc as `const __grid_constant__` parameters. They bound their registers to 64
// (`__launch_bounds__(256, 4)`); without the bound, the out-of-line functions decide how many registers a kernel takes.
template <class T, class Backing, bool ALIGNED>
class ColumnArray {
    typedef Layout<T, ALIGNED> In;
    typedef TileWords<T, ALIGNED> Tile;
    static constexpr u32 SIZE = sizeof(T);
    static constexpr u32 STRIDE = Tile::STRIDE;
    static constexpr u64 NO_KEY = ~0ull;

    const IoStack& io;
    const ColumnDesc& column;

    // The extent used last: rows row_begin .. row_end - 1. `origin`: the place of row 0 if the extent reached back to
    // it. Places are bytes of the key space (line key * 4096 + byte).
    u64 row_begin, row_end, origin;

    // Window of lines for tile(): lane i knows line window_key + i (and i + WARP ...), below window_lines. NO_LINE: the
    // line is missing, or some of its sectors are.
    static constexpr u32 WINDOW = WARP * LINES_PER_LANE;
    u64 window_key;
    u32 window_lines;
    u32 window_meta[LINES_PER_LANE];
    u32 window_state[LINES_PER_LANE];  // low half: version and BUSY

    // The line of this lane's last fetch() and its state then, reused while rows stay in the line.
    u64 last_key;
    u64 last_state;
    u32 last_meta;

  public:
    GRAMPUS_DEVICE ColumnArray(const IoStack& stack, const ColumnDesc& desc) : io(stack), column(desc) { forget(); }
    ColumnArray(const ColumnArray&) = delete;

    // value[i] = column[row + i * WARP + lane] for rows below row + rows, and zero for the others. 0 < rows <= K *
    // WARP, all in one extent. `row` and `rows` are the same in all lanes. SEQUENTIAL: further tiles follow this one,
    // up to the row `stop`; 32 lines are looked up, and those before `stop` requested, at once.
    template <u32 K, bool SEQUENTIAL = true>
    GRAMPUS_DEVICE bool tile(u64 row, u32 rows, T (&value)[K], u64 stop = NO_STOP) {
        static_assert(K * WARP * SIZE <= LINE_BYTES, "a tile lies in at most two lines");
        u64 word[K], tail;
        u32 pinned = 0;
        // repeats once at most: after hold() the lines are pinned
        while (!read_tile<K, SEQUENTIAL>(row, rows, word, tail)) {
            u32 most = SEQUENTIAL ? lines_ahead(row, stop) : 0;
            Held held = far_call(&hold<Backing>)(io, column, row, rows, SIZE, most);
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
        Tile::template combine<K, false>((u32)place_of(row), rows, word, tail, value);
        return true;
    }

    // Like tile(), for rows of several extents. Slow: for the few tiles at an extent's or a run's end.
    template <u32 K>
    GRAMPUS_DEVICE bool tile_across(u64 row, u32 rows, T (&value)[K]) {
        bool good = tile_value_by_value<Backing>(io, column, row, rows, value);
        forget();
        return good;
    }

    // Like tile(), or like tile_across() for a tile in which an extent ends.
    template <u32 K, bool SEQUENTIAL = true>
    GRAMPUS_DEVICE bool tile_anywhere(u64 row, u32 rows, T (&value)[K], u64 stop = NO_STOP) {
        return has_rows(row, rows) ? tile<K, SEQUENTIAL>(row, rows, value, stop) : tile_across<K>(row, rows, value);
    }

    // value = column[row] for active lanes; zero for the others.
    GRAMPUS_DEVICE bool fetch(bool active, u64 row, T& value) {
        u64 bits = 0;
        bool hit = !active || (has_rows(row, 1) && find_bits(place_of(row), bits));
        value = In::from_bits(bits);
        if (all(hit)) return true;
        FetchedBits slow = far_call(&fetch_slowly<Backing>)(io, column, active, row, SIZE);
        forget();
        value = In::from_bits(active ? slow.bits : 0);
        return slow.ok;
    }

    // Requests the lines of the active lanes' rows, without waiting for data. Best effort.
    GRAMPUS_DEVICE bool prefetch(bool active, u64 row) {
        return far_call(&prefetch_slowly<Backing>)(io, column, active, row, SIZE);
    }

    // Requests all lines of rows row .. row + rows - 1 in long commands, as far as the extent reaches. Best effort.
    // `row` and `rows` are the same in all lanes.
    GRAMPUS_DEVICE bool ahead(u64 row, u64 rows) {
        if constexpr (Backing::QUEUED) return far_call(&ahead_slowly<Backing>)(io, column, row, rows, SIZE);
        return true;
    }

    // column[row] = value for active lanes, whose rows differ. Other warps see the value from now on, in the cache; the
    // storage has it for certain after a flush().
    GRAMPUS_DEVICE bool store(bool active, u64 row, T value) {
        static_assert(Backing::WRITES, "stores need the backing Writable");
        bool good = far_call(&store_slowly<Backing>)(io, column, active, row, SIZE, In::to_bits(value));
        forget();
        return good;
    }

    // column[row + i * WARP + lane] = value[i] for rows below row + rows; 0 < rows <= K * WARP. Sectors that the tile
    // covers are not fetched. `row` and `rows` are the same in all lanes.
    template <u32 K>
    GRAMPUS_DEVICE bool store_tile(u64 row, u32 rows, const T (&value)[K]) {
        static_assert(Backing::WRITES, "stores need the backing Writable");
        u64 bits[K];
        GRAMPUS_UNROLL
        for (u32 i = 0; i < K; i++) bits[i] = In::to_bits(value[i]);
        bool good = far_call(&store_tile_slowly<Backing>)(io, column, row, rows, SIZE, K, bits);
        forget();
        return good;
    }

  private:
    // After an out-of-line call the array starts afresh: state that need not survive the call costs the hot path no
    // register and no spill.
    GRAMPUS_DEVICE void forget() {
        row_begin = row_end = origin = 0;
        last_key = window_key = NO_KEY;
        last_meta = NO_LINE;
        last_state = 0;
        window_lines = 0;
        for (u32 i = 0; i < LINES_PER_LANE; i++) window_meta[i] = NO_LINE;
    }

    // Whether the rows are in the extent used last. If not, the first row's extent becomes that one.
    GRAMPUS_DEVICE bool has_rows(u64 row, u32 rows) {
        if (row >= row_begin && row + rows <= row_end) return true;
        // Inlined: the state of the cache lookup leaves no register free across a call.
        const Extent& e = *extent_of(column, row);
        if (!has_row(e, row)) return false;
        row_begin = e.first_row;
        row_end = e.first_row + e.rows;
        origin = (e.first_line << LINE_LOG2) + e.first_byte - e.first_row * SIZE;
        return row >= row_begin && row + rows <= row_end;
    }

    // Where the value of a row of this extent begins, as a byte of the key space.
    GRAMPUS_DEVICE u64 place_of(u64 row) const { return origin + row * SIZE; }

    // Lines that are worth requesting from a row on.
    GRAMPUS_DEVICE u32 lines_ahead(u64 row, u64 stop) const {
        if (stop == NO_STOP) return window_lines;
        u64 lines = ((place_of(stop) - 1) >> LINE_LOG2) - (place_of(row) >> LINE_LOG2) + 1;
        return lines < window_lines ? (u32)lines : window_lines;
    }

    // ---- one value of this lane ---------------------------------------------------------------------

    // The bits of the value at a place, if its sectors are resident.
    GRAMPUS_DEVICE bool find_bits(u64 place, u64& bits) {
        u64 key = place >> LINE_LOG2;
        u32 at = (u32)place & (LINE_BYTES - 1);
        if (In::spans_words(at) && at + SIZE > LINE_BYTES) return false;
        if (key != last_key) {
            last_key = NO_KEY;
            if (!observe<typename Backing::Policy, Backing::WAYS>(io.cache, key, last_meta, last_state)) return false;
            last_key = key;
        }
        if ((sectors_of(io.cache, at, at + SIZE - 1) & ~valid_sectors(last_state)) != 0) {
            last_key = NO_KEY;  // the sectors may be valid by the next look
            return false;
        }
        const u64* p = (const u64*)(bytes_of<Backing::WAYS>(io.cache, last_meta) + (at & ~7u));
        bool early = GRAMPUS_MUTANT == MUTANT_VALIDATE_EARLY && validate(io.cache, last_meta, last_state);
        GRAMPUS_STEP(read_line);
        u64 low = load_line_optimistic(p), high = In::spans_words(at) ? load_line_optimistic(p + 1) : 0;
        bits = In::join(low, high, at);
        fence_after_optimistic_loads();
        if (early || validate(io.cache, last_meta, last_state)) return true;
        last_key = NO_KEY;
        return false;
    }

    // ---- tiles --------------------------------------------------------------------------------------
    // Looks up lines from `key` on, one for each lane: one instruction for 32 lines.
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
    // Makes a window of pinned lines, which cannot change.
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
        window_lines = 0;  // the next tile looks them up again
    }
    // The window's entry for its `at`-th line, from the lane that holds the entry.
    GRAMPUS_DEVICE u32 meta_at(u32 at) const {
        return shuffle(window_meta[LINES_PER_LANE > 1 ? at / WARP : 0], at % WARP);
    }

    // Number of a tile's values that this lane holds.
    static GRAMPUS_DEVICE u32 words_of_lane(u32 rows) { return (rows + WARP - 1 - lane_id()) / WARP; }

    // Reads the tile's words if its lines are in the window and stay unchanged.
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
        // No branch from here on: the compiler would keep words that some path leaves undefined twice, in local memory.
        there = all(there);
        // The lane's first `below` words lie in the first line, the others in the next. Both are addressed from the
        // first line's start.
        const u8* line = bytes_of<Backing::WAYS>(io.cache, meta_at(from));
        const u8* next = bytes_of<Backing::WAYS>(io.cache, meta_at(to)) - LINE_BYTES;
        u32 end = at + rows * SIZE;
        tail = load_line_optimistic_if(0, there && Tile::needs_tail(at, rows) ? 1 : 0,
                                       (const u64*)((end < LINE_BYTES ? line : next) + (end & ~7u)));
        at += lane_id() * SIZE;
        u32 mine = !there ? 0 : rows == K * WARP ? K : words_of_lane(rows);
        u32 below = at < LINE_BYTES ? (LINE_BYTES - at + STRIDE - 1) / STRIDE : 0;
        GRAMPUS_UNROLL
        for (u32 i = 0; i < K; i++)
            word[i] = load_line_optimistic_if(i, mine, Tile::word_at(i < below ? line : next, at, i));
        // Each lane validates its own line of the window, after the loads of all lanes.
        fence_after_optimistic_loads();
        sync_warp();
        bool same = there;
        for (u32 i = 0; i < LINES_PER_LANE; i++) {
            u32 mine = lane_id() + i * WARP;
            if (there && mine >= from && mine <= to && !validate(io.cache, window_meta[i], window_state[i]))
                same = false;
        }
        return all(same);
    }
};

}  // namespace grampus
