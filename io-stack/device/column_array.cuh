// A column as kernels see it: row in, value out, at any byte alignment, from either backing. `tile` for runs of rows,
// `fetch` for scattered ones, `prefetch` and `ahead` to have bytes on their way before they are asked for.
#pragma once
#include "backing.cuh"

namespace grampus {

// One or two neighbouring words of a line, by value, so that the hot path's registers need no addresses.
struct Words {
    bool ok;  // false: a status is up
    u64 low, high;
};

template <class Backing>
GRAMPUS_DEVICE bool wait_for_ways(const IoStack& io, Wait& wait, u64 key) {
    u32 queue = io.queue_count > 0 ? shuffle(wait.tries, 0) % io.queue_count : 0;
    u32 done = Backing::help(io, queue);
    return all(done > 0 || wait.go_on(io, STATUS_CACHE_FULL, ~0u, key));
}

// The word(s) at byte `at` of each active lane's line, under a pin, sent for if need be. Lanes with one line share the
// work. Collective.
template <class Backing>
GRAMPUS_SLOW Words words_slowly(const IoStack& io, const Extent& e, bool active, u64 key, u32 at, bool two) {
    Words got = {true, 0, 0};
    u32 sectors = sectors_of(io.cache, at & ~7u, two ? (at & ~7u) + 15 : at | 7);
    Wait wait;
    while (any(active)) {
        u32 peers = match(active ? key : ~0ull);
        u32 leader = lowest_bit(peers), wanted = or_within(peers, sectors);
        bool leads = active && lane_id() == leader;
        Ensured line = ensure<Backing>(io, e, leads, key, wanted, true);
        if (!line.ok) return Words{false, 0, 0};
        u32 meta = shuffle(line.meta, leader);
        bool here = active && meta != NO_LINE;
        if (here) {
            const u64* p = (const u64*)(bytes_of<Backing::WAYS>(io.cache, meta) + (at & ~7u));
            GRAMPUS_STEP(read_pinned);
            got.low = load_line_pinned(p);
            if (two) got.high = load_line_pinned(p + 1);
            active = false;
        }
        sync_warp();
        if (leads && line.meta != NO_LINE) unpin(io.cache, line.meta);
        // Nobody: every way is pinned, or the sets are being changed. We hold nothing, so others get on.
        if (!any(here) && !wait_for_ways<Backing>(io, wait, key)) return Words{false, 0, 0};
    }
    return got;
}

// Waits until lines first .. last were there, whole, at some time; asks for a warp's width of the extent's `lines` from
// `first` meanwhile. Best effort: they may be gone again. Collective. False: a status is up.
template <class Backing>
GRAMPUS_SLOW bool bring(const IoStack& io, const Extent& e, u64 first, u64 last, u64 lines) {
    if constexpr (Backing::QUEUED) {
        u64 most = last - first + 1 > WARP ? last - first + 1 : WARP;
        if (!fetch_ahead<Backing>(io, e, first, lines < most ? lines : most)) return false;
    }
    for (; first <= last; first += WARP) {
        u64 key = first + lane_id();
        Ensured line = ensure<Backing>(io, e, key <= last, key, all_sectors(io.cache), true);
        if (line.meta != NO_LINE) unpin(io.cache, line.meta);
        if (!line.ok) return false;
    }
    return true;
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

// All member functions are collective: the whole warp calls, lanes without a row pass active = false. Those that return bool
// return false to all lanes when a status is up: leave the kernel. ALIGNED: every extent's values start at a multiple
// of their size.
template <class T, class Backing, bool ALIGNED = false>
class ColumnArray {
    const IoStack& io;
    const ColumnDesc& column;
    const Extent* extent;  // the one used last

    // Window of lines for tile(): lane i knows line window_key + i. NO_LINE: not whole, or not there.
    u64 window_key;
    u32 window_meta;
    u32 window_state;  // low half: version and BUSY

    // Line that this lane's last fetch() found, and its state then.
    u64 last_key;
    u64 last_state;
    u32 last_meta;

    static constexpr u32 SIZE = sizeof(T);
    static constexpr u32 STRIDE = WARP * SIZE;  // from a lane's value of a tile to its next
    static constexpr u64 NO_KEY = ~0ull;

  public:
    GRAMPUS_DEVICE ColumnArray(const IoStack& stack, const ColumnDesc& desc)
        : io(stack), column(desc), extent(desc.extents), window_key(NO_KEY), window_meta(NO_LINE), window_state(0),
          last_key(NO_KEY), last_state(0), last_meta(NO_LINE) {}

    // value[i] = column[row + i * WARP + lane], for those below row + rows; rows <= K * WARP. The other values are zero.
    template <u32 K>
    GRAMPUS_DEVICE bool tile(u64 row, u32 rows, T (&value)[K]) {
        if (rows == 0 || !locate(row) || row - extent->first_row + rows > extent->rows)
            return one_by_one<K>(row, rows, value);
        u64 byte = byte_of(row);
        u64 word[K], tail = 0;
        if constexpr (!Backing::CACHED) {
            const u8* base = extent->mapped + byte + lane_id() * SIZE;
            u32 mine = words_of_lane(rows);
            GRAMPUS_UNROLL
            for (u32 i = 0; i < K; i++) word[i] = i < mine ? mapped_bits(base + i * STRIDE) : 0;
            GRAMPUS_UNROLL
            for (u32 i = 0; i < K; i++) value[i] = from_bits(word[i]);
            return true;
        } else {
            u64 first = extent->first_line + (byte >> LINE_LOG2);
            u64 last = extent->first_line + ((byte + (u64)rows * SIZE - 1) >> LINE_LOG2);
            if (first - window_key >= WARP || last - window_key >= WARP) open_window(first);
            bool hit = last - window_key < WARP && read_tile<K>(byte, rows, word, tail);
            if (hit) {
                combine<K>(byte, rows, word, tail, value);
                return true;
            }
            u64 lines = ((extent->first_byte + extent->rows * SIZE + LINE_BYTES - 1) >> LINE_LOG2) - (byte >> LINE_LOG2);
            bool good = bring<Backing>(io, *extent, first, last, lines);
            forget();
            return good && one_by_one<K>(row, rows, value);
        }
    }

    // value = column[row] for active lanes; zero for the others.
    GRAMPUS_DEVICE bool fetch(bool active, u64 row, T& value) {
        value = from_bits(0);
        if (bool there = !active || locate(row); !all(there)) return out_of_range(io, !there, row);
        u64 byte = active ? byte_of(row) : 0;
        if constexpr (!Backing::CACHED) {
            if (active) value = from_bits(mapped_bits(extent->mapped + byte));
            return true;
        } else {
            u64 key = extent->first_line + (byte >> LINE_LOG2);
            u32 at = (u32)byte & (LINE_BYTES - 1);
            bool two = spans_words(at), straddles = two && at + SIZE > LINE_BYTES;
            Words got = words(active, key, at, two && !straddles);
            if (!ALIGNED && any(active && straddles)) {
                Words next = words_slowly<Backing>(io, *extent, active && straddles, key + 1, 0, false);
                got.ok = got.ok && next.ok;
                if (straddles) got.high = next.low;
            }
            if (active) value = from_bits(join(got.low, got.high, at));
            return got.ok;
        }
    }

    // Sends for the lines of the active lanes' rows, without waiting for data. Best effort.
    GRAMPUS_DEVICE bool prefetch(bool active, u64 row) {
        if constexpr (Backing::CACHED) {
            if (bool there = !active || locate(row); !all(there)) return out_of_range(io, !there, row);
            u64 byte = active ? byte_of(row) : 0;
            u64 key = extent->first_line + (byte >> LINE_LOG2);
            u32 at = (u32)byte & (LINE_BYTES - 1), end = at + SIZE - 1;
            if (!send_for(active, key, at, end < LINE_BYTES ? end : LINE_BYTES - 1)) return false;
            if (!ALIGNED && any(active && end >= LINE_BYTES)) return send_for(active && end >= LINE_BYTES, key + 1, 0, 0);
        }
        return true;
    }

    // Sends for all lines of rows row .. row + rows - 1 (of one extent) in long commands. Best effort.
    GRAMPUS_DEVICE bool ahead(u64 row, u64 rows) {
        if constexpr (Backing::CACHED) {
            if constexpr (Backing::QUEUED) {
                if (!locate(row)) return out_of_range(io, true, row);
                u64 left = extent->rows - (row - extent->first_row);
                u64 byte = byte_of(row), end = byte + (rows < left ? rows : left) * SIZE;
                u64 first = byte >> LINE_LOG2, lines = ((end + LINE_BYTES - 1) >> LINE_LOG2) - first;
                return fetch_ahead<Backing>(io, *extent, extent->first_line + first, lines);
            }
        }
        return true;
    }

  private:
    // After a call out of line nothing is taken to be known: what need not survive the call costs the hot path no
    // register, and no spill.
    GRAMPUS_DEVICE void forget() {
        extent = column.extents;
        last_key = window_key = NO_KEY;
        last_meta = window_meta = NO_LINE;
        last_state = window_state = 0;
    }

    // ---- rows to bytes ------------------------------------------------------------------------------

    // Finds the row's extent. False: no extent has it.
    GRAMPUS_DEVICE bool locate(u64 row) {
        if (row - extent->first_row < extent->rows) return true;
        u32 low = 0, high = column.extent_count;
        while (high - low > 1) {
            u32 middle = (low + high) / 2;
            if (column.extents[middle].first_row <= row) low = middle; else high = middle;
        }
        extent = column.extents + low;
        return row - extent->first_row < extent->rows;
    }

    // Byte of a located row, counted from the start of the extent's first line.
    GRAMPUS_DEVICE u64 byte_of(u64 row) const { return extent->first_byte + (row - extent->first_row) * SIZE; }

    // ---- words to values ----------------------------------------------------------------------------

    static GRAMPUS_DEVICE bool spans_words(u32 at) { return !ALIGNED && (at & 7) + SIZE > 8; }

    static GRAMPUS_DEVICE u64 join(u64 low, u64 high, u32 at) {
        u32 shift = (at & 7) * 8;
        if (SIZE == 8 && ALIGNED) return low;
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

    static GRAMPUS_DEVICE u64 mapped_bits(const u8* p) {
        u32 at = ALIGNED && SIZE == 8 ? 0 : (u32)(u64)p & 7;
        const u64* word = (const u64*)(p - at);
        u64 low = load_mapped(word), high = spans_words(at) ? load_mapped(word + 1) : 0;
        return join(low, high, at);
    }

    // ---- scattered rows -----------------------------------------------------------------------------

    // The word(s) at byte `at` of each active lane's line: a hit here, or the slow way.
    GRAMPUS_DEVICE Words words(bool active, u64 key, u32 at, bool two) {
        Words got = {true, 0, 0};
        u32 sectors = sectors_of(io.cache, at & ~7u, two ? (at & ~7u) + 15 : at | 7);
        bool hit = !active;
        if (active) {
            bool known = key == last_key;
            if (!known && observe<typename Backing::Policy, Backing::WAYS>(io.cache, key, last_meta, last_state)) {
                last_key = key;
                known = true;
            }
            if (known && (sectors & ~valid_sectors(last_state)) == 0) {
                const u64* p = (const u64*)(bytes_of<Backing::WAYS>(io.cache, last_meta) + (at & ~7u));
                got.low = load_line_optimistic(p);
                if (two) got.high = load_line_optimistic(p + 1);
                hit = validate(io.cache, last_meta, last_state, got.low | got.high);
            }
        }
        if (all(hit)) return got;
        Words slow = words_slowly<Backing>(io, *extent, !hit, key, at, two);
        forget();
        return !hit || !slow.ok ? slow : got;
    }

    GRAMPUS_DEVICE bool send_for(bool active, u64 key, u32 first, u32 last) {
        u32 peers = match(active ? key : NO_KEY);
        u32 sectors = or_within(peers, sectors_of(io.cache, first, last));
        bool leads = active && lane_id() == lowest_bit(peers);
        Ensured line = ensure<Backing>(io, *extent, leads, key, sectors, false);
        if (line.meta != NO_LINE) unpin(io.cache, line.meta);
        return line.ok;
    }

    // ---- tiles --------------------------------------------------------------------------------------
    // A tile is read as aligned 8-byte words: word i of a lane is the one that its value i starts in.

    // A tile over the end of an extent, or whose lines were not all there.
    template <u32 K>
    GRAMPUS_DEVICE bool one_by_one(u64 row, u32 rows, T (&value)[K]) {
        T slow[K];
        bool good = true;
        GRAMPUS_NO_UNROLL
        for (u32 i = 0; i < K; i++) {
            u32 n = i * WARP + lane_id();
            Single got = single(io, column, n < rows, row + n);
            good = good && got.ok;
            slow[i] = got.value;
        }
        GRAMPUS_UNROLL
        for (u32 i = 0; i < K; i++) value[i] = slow[i];
        return good;
    }
    struct Single {
        bool ok;
        T value;
    };
    static GRAMPUS_SLOW Single single(const IoStack& io, const ColumnDesc& column, bool active, u64 row) {
        ColumnArray array(io, column);
        Single got;
        got.ok = array.fetch(active, row, got.value);
        return got;
    }

    // Looks up the WARP lines from `key`, each lane one.
    GRAMPUS_DEVICE void open_window(u64 key) {
        window_key = key;
        u64 state = 0;
        bool there = observe<typename Backing::Policy, Backing::WAYS>(io.cache, key + lane_id(), window_meta, state) &&
                     valid_sectors(state) == all_sectors(io.cache);
        if (!there) window_meta = NO_LINE;
        window_state = (u32)state;
    }

    // How many of a tile's values are this lane's.
    static GRAMPUS_DEVICE u32 words_of_lane(u32 rows) { return (rows + WARP - 1 - lane_id()) / WARP; }

    // The aligned word in which byte `at + i * STRIDE` lies.
    static GRAMPUS_DEVICE const u64* word_at(const u8* line, u32 at, u32 i) {
        if (ALIGNED && SIZE == 8) return (const u64*)(line + at) + i * (STRIDE / 8);
        return (const u64*)(line + (STRIDE % 8 == 0 ? (at & ~7u) + i * STRIDE : (at + i * STRIDE) & ~7u));
    }

    // Whether this lane loads one more word (`tail`), in which the tile's last value ends, and where it is.
    static GRAMPUS_DEVICE bool needs_tail(u64 byte, u32 rows, u64& at) {
        at = (byte + (u64)rows * SIZE) & ~7ull;
        return lane_id() == 0 && spans_words((u32)(byte + (u64)(rows - 1) * SIZE));
    }

    // Values from words. A value that spans two words ends in the one that the next row's value starts in.
    template <u32 K>
    static GRAMPUS_DEVICE void combine(u64 byte, u32 rows, const u64 (&word)[K], u64 tail, T (&value)[K]) {
        u64 last = ALIGNED ? 0 : shuffle(tail, 0);
        GRAMPUS_UNROLL
        for (u32 i = 0; i < K; i++) {
            u32 n = i * WARP + lane_id(), at = (u32)(byte + (u64)n * SIZE);
            u64 high = 0;
            if (!ALIGNED) {
                u64 next = shuffle(word[i], (lane_id() + 1) % WARP);
                u64 wrap = i + 1 < K ? shuffle(word[i + 1 < K ? i + 1 : i], 0) : 0;
                if (spans_words(at)) high = n + 1 == rows ? last : lane_id() == WARP - 1 ? wrap : next;
            }
            value[i] = from_bits(n < rows ? join(word[i], high, at) : 0);
        }
    }

    template <u32 K>
    GRAMPUS_DEVICE bool read_tile(u64 byte, u32 rows, u64 (&word)[K], u64& tail) const {
        static_assert(K * WARP * SIZE <= LINE_BYTES, "a tile lies in at most two lines");
        u64 first = window_key - extent->first_line;  // line of the window's lane 0, within the extent
        u32 from = (u32)((byte >> LINE_LOG2) - first), to = (u32)(((byte + (u64)rows * SIZE - 1) >> LINE_LOG2) - first);
        if (!all(lane_id() < from || lane_id() > to || window_meta != NO_LINE)) return false;
        // The lane's first `below` words lie in the first line, the others in the second; both are addressed from the first's start.
        const u8* line = bytes_of<Backing::WAYS>(io.cache, shuffle(window_meta, from));
        const u8* next = bytes_of<Backing::WAYS>(io.cache, shuffle(window_meta, to)) - LINE_BYTES;
        u32 at = ((u32)byte & (LINE_BYTES - 1)) + lane_id() * SIZE;
        u32 mine = words_of_lane(rows), below = at < LINE_BYTES ? (LINE_BYTES - at + STRIDE - 1) / STRIDE : 0;
        if (below > mine) below = mine;
        GRAMPUS_UNROLL
        for (u32 i = 0; i < K; i++) {
            word[i] = 0;
            if (i < below) word[i] = load_line_optimistic(word_at(line, at, i));
            else if (i < mine) word[i] = load_line_optimistic(word_at(next, at, i));
        }
        u64 values = 0, tail_byte = 0;
        if (!ALIGNED) {
            if (needs_tail(byte, rows, tail_byte))
                tail = load_line_optimistic((const u64*)((tail_byte >> LINE_LOG2 == byte >> LINE_LOG2 ? line : next + LINE_BYTES) +
                                                         ((u32)tail_byte & (LINE_BYTES - 1))));
            values = tail;
        }
        GRAMPUS_UNROLL
        for (u32 i = 0; i < K; i++) values |= word[i];
        // Each lane checks its own line of the window, after every lane's loads.
        u32 loaded = or_within(FULL, (u32)values | (u32)(values >> 32));
        bool same = lane_id() < from || lane_id() > to || validate(io.cache, window_meta, window_state, loaded);
        return all(same);
    }
};

}  // namespace grampus
