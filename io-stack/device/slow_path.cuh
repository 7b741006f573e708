// The slow path of column arrays: the entries that column_layout.cuh declares, for values that are not resident.
// slow_path.cu makes a unit of it.
#pragma once
#include "backing.cuh"
#include "column_layout.cuh"

namespace grampus {

GRAMPUS_ENTRY InExtent extent_at(const ColumnDesc& column, u64 row, u32 size, bool cached) {
    const Extent& e = *extent_of(column, row);
    if (!has_row(e, row)) return InExtent{0, 0, 0};
    return InExtent{e.first_row, e.first_row + e.rows,
                    (cached ? e.first_line << LINE_LOG2 : (u64)e.mapped) + e.first_byte - e.first_row * size};
}

// ---- missing lines ----------------------------------------------------------------------------

// One or two neighbouring words of a line.
struct Words {
    bool ok;  // false: a status is up
    u64 low, high;
};

// One round of waiting until other warps unpin lines. Collective. False: a status is up.
template <class Backing>
GRAMPUS_SLOW bool wait_for_ways(const IoStack& io, Wait& wait, u64 key) {
    u32 queue = io.queue_count > 0 ? shuffle(wait.tries, 0) % io.queue_count : 0;
    u32 done = Backing::help(io, lane_id() == 0, queue);
    StatusCode code = STATUS_CACHE_FULL;
    for (u32 i = 0; wait.due() && Backing::QUEUED && i < io.queue_count; i++) code = cause(queue_at(io, i), wait, code);
    return all(done > 0 || wait.go_on(io, code, ~0u, key));
}

// A word of a pinned line. Lanes may store to other values of the word, in a cache that kernels store to.
template <class Backing>
GRAMPUS_DEVICE u64 load_pinned(const u64* p) {
    if constexpr (Backing::WRITES) return load_line_optimistic(p);
    else return load_line_pinned(p);
}

// The word or words at byte `at` of each active lane's line, read under a pin and loaded if missing. Lanes with the
// same line share the work. Collective.
template <class Backing>
GRAMPUS_SLOW Words words_slowly(const IoStack& io, const Extent& e, bool active, u64 key, u32 at, bool two) {
    Words got = {true, 0, 0};
    u32 sectors = sectors_of(io.cache, at & ~7u, two ? (at & ~7u) + 15 : at | 7);
    [[maybe_unused]] bool noted = false;
    Wait wait;
    while (any(active)) {
        u32 peers = match(active ? key : ~0ull);
        u32 leader = lowest_bit(peers), wanted = or_within(peers, sectors);
        bool leads = active && lane_id() == leader;
        Ensured line = ensure<Backing>(io, e, leads, key, wanted, CMD_FILL, true);
        if (!line.ok) return Words{false, 0, 0};
        u32 meta = shuffle(line.meta, leader);
        if (GRAMPUS_MUTANT != MUTANT_NO_SYNC_WARP) sync_warp();  // the leader's acquire is before our loads
        bool here = active && meta != NO_LINE;
        if constexpr (Backing::WRITES) {
            if (active) Backing::note_wait(io, key, !here, noted);
        }
        if (here) {
            const u64* p = (const u64*)(bytes_of<Backing::WAYS>(io.cache, meta) + (at & ~7u));
            GRAMPUS_STEP(read_pinned);
            got.low = load_pinned<Backing>(p);
            if (two) got.high = load_pinned<Backing>(p + 1);
            active = false;
        }
        sync_warp();
        if (leads && line.meta != NO_LINE) unpin(io.cache, line.meta);
        // No lane got a line: every way is pinned, or the sets are being changed. This warp holds no pin, so others
        // proceed.
        bool none = !any(here);
        if constexpr (Backing::WRITES) {
            if (none && !Backing::make_room(io, active, key)) return Words{false, 0, 0};
        }
        if (none && !wait_for_ways<Backing>(io, wait, key)) return Words{false, 0, 0};
    }
    return got;
}

template <class Backing>
GRAMPUS_ENTRY Held hold(const IoStack& io, const ColumnDesc& column, u64 row, u32 rows, u32 size, u32 most) {
    Held held = {};
    const Extent& e = *extent_of(column, row);
    if (!has_row(e, row) || row - e.first_row + rows > e.rows) {
        out_of_range(io, true, row);
        return held;
    }
    u64 byte = byte_of(e, row, size), end = byte_of(e, e.first_row + e.rows, size);
    u64 last = e.first_line + ((byte + rows * size - 1) >> LINE_LOG2);
    held.first = e.first_line + (byte >> LINE_LOG2);
    if constexpr (Backing::QUEUED) {
        u64 lines = ((end + LINE_BYTES - 1) >> LINE_LOG2) - (byte >> LINE_LOG2);
        if (most > 0 && !fetch_ahead<Backing>(io, e, held.first, lines < most ? lines : most)) return held;
    }
    [[maybe_unused]] bool noted[LINES_PER_LANE] = {};
    Wait wait;
    for (;;) {
        bool got = true;
        for (u32 i = 0; i < LINES_PER_LANE; i++) {
            u64 key = held.first + i * WARP + lane_id();
            Ensured line = ensure<Backing>(io, e, key <= last, key, all_sectors(io.cache), CMD_FILL, false);
            held.meta[i] = line.meta;
            if (!line.ok) return held;
            got = got && (key > last || line.meta != NO_LINE);
            if constexpr (Backing::WRITES) {
                if (key <= last) Backing::note_wait(io, key, line.meta == NO_LINE, noted[i]);
            }
        }
        if (all(got)) break;
        // Some line is missing: unpins all. Two warps with one pinned line each would wait for each other.
        for (u32 i = 0; i < LINES_PER_LANE; i++)
            if (held.meta[i] != NO_LINE) unpin(io.cache, held.meta[i]);
        if constexpr (Backing::WRITES) {
            for (u32 i = 0; i < LINES_PER_LANE; i++) {
                u64 key = held.first + i * WARP + lane_id();
                if (!Backing::make_room(io, key <= last, key)) return held;
            }
        }
        if (!wait_for_ways<Backing>(io, wait, held.first)) return held;
    }
    for (u32 i = 0; i < LINES_PER_LANE; i++) {
        if (!await<Backing>(io, e, held.first + i * WARP + lane_id(), held.meta[i], all_sectors(io.cache))) return held;
        if (held.meta[i] != NO_LINE) held.state[i] = (u32)load_acquire_gpu(&io.cache.state[held.meta[i]]);
    }
    held.ok = true;
    sync_warp();  // each lane's acquire is before all lanes' loads
    return held;
}

template <class Backing>
GRAMPUS_ENTRY FetchedBits fetch_slowly(const IoStack& io, const ColumnDesc& column, bool active, u64 row, u32 size) {
    const Extent& e = *extent_of(column, row);
    FetchedBits got = {false, 0};
    bool there = !active || has_row(e, row);
    if (!all(there)) {
        out_of_range(io, !there, row);
        return got;
    }
    u64 byte = active ? byte_of(e, row, size) : 0;
    // In device memory a column may begin at any address: the words are those of the address.
    if (!Backing::CACHED && active) byte += (u64)e.mapped;
    u32 at = (u32)byte & (LINE_BYTES - 1), in_word = at & 7, shift = in_word * 8;
    bool two = in_word + size > 8;  // two words
    got.ok = true;
    Words words = {true, 0, 0};
    if constexpr (!Backing::CACHED) {
        const u64* word = (const u64*)(byte & ~7ull);
        if (active) words.low = load_mapped(word);
        if (active && two) words.high = load_mapped(word + 1);
    } else {
        u64 key = e.first_line + (byte >> LINE_LOG2);
        bool straddles = two && at + size > LINE_BYTES;
        words = words_slowly<Backing>(io, e, active, key, at, two && !straddles);
        got.ok = words.ok;
        if (got.ok && any(active && straddles)) {  // the value ends in the next line
            Words next = words_slowly<Backing>(io, e, active && straddles, key + 1, 0, false);
            got.ok = next.ok;
            if (straddles) words.high = next.low;
        }
    }
    got.bits = words.low >> shift;
    if (two) got.bits |= words.high << (64 - shift);
    return got;
}

template <class Backing>
GRAMPUS_ENTRY bool tile_slowly(const IoStack& io, const ColumnDesc& column, u64 row, u32 rows, u32 size, u32 k,
                               u64* bits) {
    bool good = true;
    GRAMPUS_NO_UNROLL
    for (u32 i = 0; i < k && good; i++) {
        u32 n = i * WARP + lane_id();
        FetchedBits got = fetch_slowly<Backing>(io, column, n < rows, row + n, size);
        good = got.ok;
        bits[i] = n < rows ? got.bits : 0;
    }
    return good;
}

// Requests bytes first .. last of each active lane's line, without waiting. Collective.
template <class Backing>
GRAMPUS_DEVICE bool send_for(const IoStack& io, const Extent& e, bool active, u64 key, u32 first, u32 last) {
    u32 peers = match(active ? key : ~0ull);
    u32 sectors = or_within(peers, sectors_of(io.cache, first, last));
    bool leads = active && lane_id() == lowest_bit(peers);
    Ensured line = ensure<Backing>(io, e, leads, key, sectors, CMD_PREFETCH, false);
    if (line.meta != NO_LINE) unpin(io.cache, line.meta);
    return line.ok;
}

template <class Backing>
GRAMPUS_ENTRY bool prefetch_slowly(const IoStack& io, const ColumnDesc& column, bool active, u64 row, u32 size) {
    const Extent& e = *extent_of(column, row);
    bool there = !active || has_row(e, row);
    if (!all(there)) return out_of_range(io, !there, row);
    u64 byte = active ? byte_of(e, row, size) : 0, key = e.first_line + (byte >> LINE_LOG2);
    u32 at = (u32)byte & (LINE_BYTES - 1), end = at + size - 1;
    bool straddles = active && end >= LINE_BYTES;
    if (!send_for<Backing>(io, e, active, key, at, straddles ? LINE_BYTES - 1 : end)) return false;
    return !any(straddles) || send_for<Backing>(io, e, straddles, key + 1, 0, 0);
}

template <class Backing>
GRAMPUS_ENTRY bool ahead_slowly(const IoStack& io, const ColumnDesc& column, u64 row, u64 rows, u32 size) {
    const Extent& e = *extent_of(column, row);
    if (!has_row(e, row)) return out_of_range(io, true, row);
    u64 left = e.rows - (row - e.first_row), byte = byte_of(e, row, size);
    u64 end = byte + (rows < left ? rows : left) * size, first = byte >> LINE_LOG2;
    return fetch_ahead<Backing>(io, e, e.first_line + first, ((end + LINE_BYTES - 1) >> LINE_LOG2) - first);
}

}  // namespace grampus
