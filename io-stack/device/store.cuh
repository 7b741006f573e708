// The slow path of stores: the entries that column_layout.cuh declares. A store happens under its line's lock, with the
// line pinned and the sectors around it valid.
#pragma once
#include "slow_path.cuh"
#include "write_back.cuh"

namespace grampus {

// ---- bytes of a line -----------------------------------------------------------------------------------

// Stores those bits of a line's word that the mask has. Other lanes of the warp may store to other bits of the word.
GRAMPUS_DEVICE void store_bits(u64* word, u64 bits, u64 mask) {
    if (mask == ~0ull) return store_line(word, bits);
    u64 old = load_relaxed_gpu(word);
    for (;;) {
        GRAMPUS_STEP(store_bits);
        u64 seen = cas_release_gpu(word, old, (old & ~mask) | (bits & mask));
        if (seen == old) return;
        old = seen;
    }
}

// Stores the low `size` bytes of `bits`, 1 .. 8, at byte `at` of a line. They end inside the line.
GRAMPUS_DEVICE void store_bytes(u8* line, u32 at, u32 size, u64 bits) {
    u64 mask = ~0ull >> (64 - 8 * size);
    u32 shift = (at & 7) * 8;
    u64* word = (u64*)(line + (at & ~7u));
    store_bits(word, bits << shift, mask << shift);
    if ((at & 7) + size > 8) store_bits(word + 1, bits >> (64 - shift), mask >> (64 - shift));
}

// Sectors of the blocks around bytes first .. last of a line: commands write whole blocks.
GRAMPUS_DEVICE u32 blocks_of(const IoStack& io, u32 first, u32 last, u32 unit) {
    return whole_blocks(sectors_of(io.cache, first, last), unit);
}

// Whether the extent's storage and the cache take stores; raises a status if not.
GRAMPUS_SLOW bool takes_stores(const IoStack& io, const Extent& e, u64 row) {
    const SourceDesc& source = io.sources[load_constant(&e.source)];
    if (io.cache.writes != 0 && (load_constant(&source.flags) & SOURCE_WRITABLE) != 0) return true;
    Status what = {};
    what.code = STATUS_READ_ONLY;
    what.queue = what.cid = ~0u;
    what.lba = row;
    what.line = e.first_line;
    raise(io, what);
    return false;
}

// ---- scattered stores ----------------------------------------------------------------------------------

// Stores to the lanes' pinned lines, `meta`, one line after the other as their locks come. `leads`: this lane locks its
// line, and `sectors` of that line become dirty. Collective. False: a status is up.
template <class Backing>
GRAMPUS_SLOW bool store_to_lines(const IoStack& io, const Extent& e, bool active, u64 key, u32 meta, u32 leader,
                                 u32 sectors, u32 at, u32 size, u64 bits) {
    bool leads = active && lane_id() == leader;
    LineWrites* line = &io.cache.writes[active ? meta : 0];
    Wait wait;
    while (any(active)) {
        bool locked = leads && (try_lock(line) || GRAMPUS_MUTANT == MUTANT_STORE_UNLOCKED);
        bool here = shuffle(locked ? 1u : 0u, leader) != 0 && active;
        sync_warp();
        // Each lane's fence orders the line's replacement before its store: PROTOCOL.md, O, step 2.
        fence_acq_rel_gpu();
        if (here) {
            GRAMPUS_STEP(store);
            store_bytes(bytes_of<Backing::WAYS>(io.cache, meta), at, size, bits);
        }
        sync_warp();  // all lanes' stores are before the release
        if (locked) {
            mark_dirty(io, e, key, meta, sectors);
            unlock(line);
            leads = false;
        }
        active = active && !here;
        bool some = any(here);
        if (!all(some || wait.go_on(io, STATUS_TIMEOUT_COMPLETION, ~0u, key))) return false;
    }
    return true;
}

// Stores `size` bytes at byte `at` of each active lane's line, all inside it. Lanes with the same line share the work.
// Collective. False: a status is up.
template <class Backing>
GRAMPUS_SLOW bool store_part(const IoStack& io, const Extent& e, bool active, u64 key, u32 at, u32 size, u64 bits) {
    u32 sectors = active ? blocks_of(io, at, at + size - 1, Backing::unit(io, e)) : 0;
    bool noted = false;
    Wait wait;
    while (any(active)) {
        u32 peers = match(active ? key : ~0ull);
        u32 leader = lowest_bit(peers), wanted = or_within(peers, sectors);
        bool leads = active && lane_id() == leader, turn = leads && Backing::may_store(io, key, noted);
        Ensured line = ensure<Backing>(io, e, turn, key, wanted, CMD_FILL, true);
        if (turn) Backing::note_wait(io, key, line.meta == NO_LINE, noted);
        if (!line.ok) return false;
        u32 meta = shuffle(line.meta, leader);
        bool here = active && meta != NO_LINE;
        if (!store_to_lines<Backing>(io, e, here, key, meta, leader, wanted, at, size, bits)) return false;
        bool held = leads && line.meta != NO_LINE;
        if constexpr (Backing::THROUGH) {
            if (!await_written<Backing>(io, held, line.meta, wanted)) return false;
        }
        if (held) unpin(io.cache, line.meta);
        active = active && !here;
        if (any(here)) continue;
        // This warp holds no pin, so others proceed.
        if (!Backing::make_room(io, active, key) || !wait_for_ways<Backing>(io, wait, key)) return false;
    }
    return true;
}

template <class Backing>
GRAMPUS_ENTRY bool store_slowly(const IoStack& io, const ColumnDesc& column, bool active, u64 row, u32 size, u64 bits) {
    const Extent& e = *extent_of(column, row);
    bool there = !active || has_row(e, row);
    if (!all(there)) return out_of_range(io, !there, row);
    bool takes = !active || takes_stores(io, e, row);
    if (!all(takes)) return false;
    u64 byte = active ? byte_of(e, row, size) : 0, key = e.first_line + (byte >> LINE_LOG2);
    u32 at = (u32)byte & (LINE_BYTES - 1), room = LINE_BYTES - at, here = size < room ? size : room;
    if (!store_part<Backing>(io, e, active, key, at, here, bits)) return false;
    bool straddles = active && here < size;
    return !any(straddles) || store_part<Backing>(io, e, straddles, key + 1, 0, size - here, bits >> (8 * (here & 7)));
}

// ---- tiles ---------------------------------------------------------------------------------------------

// Bytes first .. end - 1 of a line, which a tile stores. Byte 0 of the tile's first value lies at `origin`, which is
// negative if the tile began in the line before.
struct LinePart {
    u64 key;
    u32 first, end;
    i32 origin;
};

// Pins the part's line for the warp's first lane, with all sectors of the part valid. `mine`: sectors that the part
// covers and no lane had requested; this warp makes them valid. Collective. False: a status is up.
template <class Backing>
GRAMPUS_SLOW Ensured line_for_tile(const IoStack& io, const Extent& e, const LinePart& part, u32 sectors, u32& mine) {
    u32 unit = Backing::unit(io, e), log2 = io.cache.sector_log2;
    u32 block = (GRAMPUS_MUTANT == MUTANT_CLAIM_PART_OF_BLOCK ? 1 : unit) << log2;
    u32 from = (part.first + block - 1) & ~(block - 1), to = part.end & ~(block - 1);
    u32 covered = to > from ? sectors_of(io.cache, from, to - 1) : 0, meta = NO_LINE;
    bool first = lane_id() == 0, noted = false;
    Wait wait;
    for (;;) {
        if (first && Backing::may_store(io, part.key, noted)) {
            meta = pin_or_install<typename Backing::Policy, Backing::WAYS>(io, part.key, Backing::WAYS);
            Backing::note_wait(io, part.key, meta == NO_LINE, noted);
        }
        if (shuffle(meta, 0) != NO_LINE) break;
        if (!Backing::make_room(io, first, part.key) || !wait_for_ways<Backing>(io, wait, part.key))
            return Ensured{false, meta};
    }
    u32 fresh = meta != NO_LINE ? request(io.cache, meta, sectors, unit) : 0;
    mine = fresh & covered;
    fresh &= ~covered;
    bool good = Backing::clean_ahead(io, mine != 0, part.key);
    if (good && any(fresh != 0)) good = Backing::get(io, e, part.key, meta, fresh, CMD_FILL);
    if (good) good = await<Backing>(io, e, part.key, meta, sectors & ~mine);
    return Ensured{good, meta};
}

// Stores the part of a tile that lies in one line. Collective. False: a status is up.
template <class Backing>
GRAMPUS_SLOW bool store_line_of_tile(const IoStack& io, const Extent& e, const LinePart& part, u32 rows, u32 size,
                                     const u64* bits) {
    u32 sectors = blocks_of(io, part.first, part.end - 1, Backing::unit(io, e)), mine = 0;
    Ensured line = line_for_tile<Backing>(io, e, part, sectors, mine);
    if (!line.ok) return false;
    u32 meta = shuffle(line.meta, 0);
    LineWrites* writes = &io.cache.writes[meta];
    Wait wait;
    for (;;) {
        bool locked = lane_id() == 0 && (try_lock(writes) || GRAMPUS_MUTANT == MUTANT_STORE_UNLOCKED);
        if (any(locked)) break;
        if (!all(wait.go_on(io, STATUS_TIMEOUT_COMPLETION, ~0u, part.key))) return false;
    }
    sync_warp();
    fence_acq_rel_gpu();  // as in store_to_lines
    u8* bytes = bytes_of<Backing::WAYS>(io.cache, meta);
    GRAMPUS_NO_UNROLL
    for (u32 n = lane_id(), i = 0; n < rows; n += WARP, i++) {
        i32 at = part.origin + (i32)(n * size), end = at + (i32)size;
        i32 from = at > (i32)part.first ? at : (i32)part.first, to = end < (i32)part.end ? end : (i32)part.end;
        if (from < to) store_bytes(bytes, (u32)from, (u32)(to - from), bits[i] >> (8 * (from - at)));
    }
    sync_warp();  // all lanes' stores are before the releases
    if (lane_id() == 0) {
        GRAMPUS_STEP(publish_stored);
        if (mine != 0) add_release_gpu(&io.cache.state[meta], (u64)mine << LINE_VALID_SHIFT);
        mark_dirty(io, e, part.key, meta, sectors);
        unlock(writes);
    }
    if constexpr (Backing::THROUGH) {
        if (!await_written<Backing>(io, lane_id() == 0, meta, sectors)) return false;
    }
    if (lane_id() == 0) unpin(io.cache, meta);
    return true;
}

template <class Backing>
GRAMPUS_ENTRY bool store_tile_slowly(const IoStack& io, const ColumnDesc& column, u64 row, u32 rows, u32 size, u32 k,
                                     const u64* bits) {
    const Extent& e = *extent_of(column, row);
    bool good = true;
    if (!has_row(e, row) || row - e.first_row + rows > e.rows) {  // across extents, or out of range
        for (u32 i = 0; i < k && good; i++) {
            u32 n = i * WARP + lane_id();
            good = store_slowly<Backing>(io, column, n < rows, row + n, size, bits[i]);
        }
        return good;
    }
    if (!takes_stores(io, e, row)) return false;
    u64 begin = byte_of(e, row, size), end = begin + (u64)rows * size;
    for (u64 line = begin >> LINE_LOG2; line << LINE_LOG2 < end && good; line++) {
        u64 base = line << LINE_LOG2, to = end < base + LINE_BYTES ? end : base + LINE_BYTES;
        LinePart part = {e.first_line + line, (u32)(begin > base ? begin - base : 0), (u32)(to - base),
                         (i32)(i64)(begin - base)};
        good = store_line_of_tile<Backing>(io, e, part, rows, size, bits);
    }
    return good;
}

}  // namespace grampus
