// Backings with a cache: how the missing sectors of pinned lines are loaded. `Queued` sends commands; `MappedCached`
// copies from a registered mapping within the warp. Both leave the line in the same states. `Mapped`
// (column_layout.cuh) has no cache. `Writable` (write_back.cuh) is `Queued` with stores.
#pragma once
#include "cache.cuh"

namespace grampus {

GRAMPUS_DEVICE u32 queue_of(const IoStack& io, const SourceDesc& source, u64 key) {
    return load_constant(&source.first_queue) + (u32)(key >> io.cache.group_log2) % load_constant(&source.queue_count);
}

// A command for whole lines or, with one line, for a run of its sectors. `kind`: CMD_FILL or CMD_PREFETCH.
template <u32 WAYS>
GRAMPUS_DEVICE Command fill_command(const IoStack& io, const Extent& e, u64 key, u32 meta, u32 lines, u32 sectors,
                                    u32 kind) {
    const CacheDesc& cache = io.cache;
    const SourceDesc& source = io.sources[load_constant(&e.source)];
    u32 skip = lines == 1 ? lowest_bit(sectors) << cache.sector_log2 : 0;
    Command c;
    c.kind = kind;
    c.slot = slot_of<WAYS>(cache, meta);
    c.lines = lines;
    c.sectors = sectors;
    c.bytes = lines == 1 ? count_bits(sectors) << cache.sector_log2 : lines << LINE_LOG2;
    u32 lba_log2 = load_constant(&source.lba_log2);
    c.blocks = c.bytes >> lba_log2;
    c.lba = (load_constant(&e.storage_byte) + ((key - load_constant(&e.first_line)) << LINE_LOG2) + skip) >> lba_log2;
    c.nsid = load_constant(&source.nsid);
    c.bus = (u64)cache.data + ((u64)c.slot << LINE_LOG2) + skip +
            load_constant(&io.queues[queue_of(io, source, key)].data_bus);
    c.target = 0;
    return c;
}

// Sends commands of a kind for the `fresh` sectors of each lane's pinned line. Collective. False: a status is up.
template <class Backing>
GRAMPUS_DEVICE bool send_fills(const IoStack& io, const Extent& e, u64 key, u32 meta, u32 fresh, u32 kind) {
    typename Backing::Finish finish(io.cache);
    while (any(fresh != 0)) {
        bool wanted = fresh != 0;
        Command c = {};
        u32 at = 0;
        if (wanted) {
            c = fill_command<Backing::WAYS>(io, e, key, meta, 1, take_run(fresh), kind);
            at = Backing::queue(io, e, key);
            pin_for_command(io.cache, meta);
            count(&io.stats->command_bytes, c.bytes);
        }
        if (!submit(io, wanted, at, c, finish)) return false;
    }
    return true;
}

// Values come from the cache; each miss becomes a command.
template <class EvictionPolicy = Clock, u32 CACHE_WAYS_ = CACHE_WAYS>
struct Queued {
    static constexpr bool CACHED = true;
    static constexpr bool QUEUED = true;
    static constexpr bool WRITES = false;
    static constexpr u32 WAYS = CACHE_WAYS_;
    typedef EvictionPolicy Policy;
    typedef FillFinish<WAYS> Finish;

    // The smallest number of sectors that one command carries.
    GRAMPUS_DEVICE static u32 unit(const IoStack& io, const Extent& e) {
        u32 lba_log2 = load_constant(&io.sources[load_constant(&e.source)].lba_log2);
        u32 sector_log2 = io.cache.sector_log2;
        return lba_log2 > sector_log2 ? 1u << (lba_log2 - sector_log2) : 1;
    }
    GRAMPUS_DEVICE static u32 queue(const IoStack& io, const Extent& e, u64 key) {
        return queue_of(io, io.sources[load_constant(&e.source)], key);
    }

    // Sends commands of a kind for the `fresh` sectors of each lane's pinned line, without waiting for the data.
    // Collective. False: a status is up.
    GRAMPUS_SLOW static bool get(const IoStack& io, const Extent& e, u64 key, u32 meta, u32 fresh, u32 kind) {
        return send_fills<Queued>(io, e, key, meta, fresh, kind);
    }

    // Finishes the completions on the open lanes' queues. Collective.
    GRAMPUS_DEVICE static u32 help(const IoStack& io, bool open, u32 queue) {
        return advance(io, open, queue, FillFinish<WAYS>(io.cache));
    }
};

// Values come from the cache; the warp that finds a miss copies the bytes from a registered mapping.
template <class EvictionPolicy = Clock, u32 CACHE_WAYS_ = CACHE_WAYS>
struct MappedCached {
    static constexpr bool CACHED = true;
    static constexpr bool QUEUED = false;
    static constexpr bool WRITES = false;
    static constexpr u32 WAYS = CACHE_WAYS_;
    typedef EvictionPolicy Policy;

    GRAMPUS_DEVICE static u32 unit(const IoStack&, const Extent&) { return 1; }
    GRAMPUS_DEVICE static u32 queue(const IoStack&, const Extent&, u64) { return 0; }

    GRAMPUS_SLOW static bool get(const IoStack& io, const Extent& e, u64 key, u32 meta, u32 fresh, u32) {
        const CacheDesc& cache = io.cache;
        while (any(fresh != 0)) {
            u32 run = take_run(fresh), skip = run != 0 ? lowest_bit(run) << cache.sector_log2 : 0;
            u32 bytes = count_bits(run) << cache.sector_log2;
            const u8* from = e.mapped + ((key - e.first_line) << LINE_LOG2) + skip;
            u8* to = run != 0 ? bytes_of<WAYS>(cache, meta) + skip : (u8*)0;
            // Every lane's fence orders the replacement, which some lane's acquire has seen, before its own stores: an
            // optimistic reader that sees these bytes also sees that the line was replaced.
            sync_warp();
            fence_acq_rel_gpu();
            if (GRAMPUS_MUTANT == MUTANT_PUBLISH_BEFORE_WRITE && run != 0)
                add_release_gpu(&cache.state[meta], (u64)run << LINE_VALID_SHIFT);
            GRAMPUS_STEP(copy_mapped);
            copy_pieces<FromMapped>(from, to, bytes / 16);
            sync_warp();
            if (GRAMPUS_MUTANT != MUTANT_PUBLISH_BEFORE_WRITE && run != 0)
                add_release_gpu(&cache.state[meta], (u64)run << LINE_VALID_SHIFT);
            if (run != 0) count(&io.stats->mapped_fill_bytes, bytes);
        }
        return true;
    }
    GRAMPUS_DEVICE static u32 help(const IoStack&, bool, u32) { return 0; }
};

// Returned by value, so that the hot path needs no addresses of its registers.
struct Ensured {
    bool ok;   // false: a status is up
    u32 meta;  // the pinned line; NO_LINE: no line was free, the lane holds no pin
};

// A waiter leaves a line to the servers for so many looks, some 200 us, before it helps itself.
constexpr u32 PATIENCE = 64;

// Waits until the lanes' pinned lines hold the sectors, which some warp has requested. If that was a prefetch and it
// fails, the waiting warp sends a fill. Collective. False: a status is up.
template <class Backing>
GRAMPUS_SLOW bool await(const IoStack& io, const Extent& e, u64 key, u32 meta, u32 sectors) {
    Wait wait;
    for (;;) {
        bool open = meta != NO_LINE && !holds(io.cache, meta, sectors);
        u32 waiting = ballot(open);
        if (waiting == 0) return true;
        if constexpr (Backing::QUEUED) {
            u32 fresh = open ? request_again(io.cache, meta, sectors, Backing::unit(io, e)) : 0;
            if (any(fresh != 0) && !Backing::get(io, e, key, meta, fresh, CMD_FILL)) return false;
        }
        u32 from = lowest_bit(waiting);
        bool others = Backing::QUEUED && io.servers > 0 && shuffle(wait.tries, 0) < PATIENCE;  // left to the servers
        u32 mine = open ? Backing::queue(io, e, key) : 0u, queue = shuffle(mine, from);
        u32 done = others ? 0 : Backing::help(io, open, mine);
        u64 line = shuffle(key, from);
        StatusCode code = STATUS_TIMEOUT_COMPLETION;
        if (Backing::QUEUED) code = cause(queue_at(io, queue), wait, code);
        if (!all(done > 0 || wait.go_on(io, code, queue, line))) return false;
    }
}

// Pins each active lane's line and requests the missing ones of its `sectors`, by commands of a kind. The lanes' keys
// differ. With `wait`, returns when the sectors are resident. Collective.
template <class Backing>
GRAMPUS_SLOW Ensured ensure(const IoStack& io, const Extent& e, bool active, u64 key, u32 sectors, u32 kind,
                            bool wait) {
    u32 meta = NO_LINE;
    // A few attempts: another lane may hold the set's lock for a moment. No wait for ways here: other warps' pins may
    // depend on ours.
    for (u32 i = 0; i < 4 && any(active && meta == NO_LINE); i++)
        if (active && meta == NO_LINE)
            meta = pin_or_install<typename Backing::Policy, Backing::WAYS>(io, key, Backing::WAYS);
    bool held = meta != NO_LINE;
    u32 fresh = held ? request(io.cache, meta, sectors, Backing::unit(io, e)) : 0;
    if (any(fresh != 0) && !Backing::get(io, e, key, meta, fresh, kind)) return Ensured{false, meta};
    return Ensured{!wait || await<Backing>(io, e, key, meta, sectors), meta};
}

// Requests lines key .. key + lines - 1 of an extent, in the longest possible commands. The warp waits for command
// slots, never for data or ways; lines that get no way are left out. Collective. False: a status is up.
template <class Backing>
GRAMPUS_SLOW bool fetch_ahead(const IoStack& io, const Extent& e, u64 key, u64 lines) {
    constexpr u32 WAYS = Backing::WAYS;
    const CacheDesc& cache = io.cache;
    typename Backing::Finish finish(cache);
    u32 group_mask = (1u << cache.group_log2) - 1, max_lines = io.sources[e.source].max_lines;
    u64 run_key = key;
    // lines of a growing command: installed by this warp, contiguous, in one group and one way
    u32 run_meta = 0, run = 0;
    for (;;) {
        u32 batch = lines < WARP ? (u32)lines : WARP;
        u32 left = group_mask + 1 - ((u32)key & group_mask);
        if (batch > left) batch = left;
        bool in = lane_id() < batch;
        u32 meta = NO_LINE, fresh = 0;
        if (batch > 0) {
            u32 way = run > 0 ? run_meta % WAYS : WAYS;
            if (run == 0) {  // the first line's way holds for all lanes
                if (lane_id() == 0) meta = pin_or_install<typename Backing::Policy, WAYS>(io, key, way);
                u32 first = shuffle(meta, 0);
                way = first == NO_LINE ? WAYS : first % WAYS;
            }
            if (in && meta == NO_LINE)
                meta = pin_or_install<typename Backing::Policy, WAYS>(io, key + lane_id(), way);
            if (meta != NO_LINE) fresh = request(cache, meta, all_sectors(cache), 1);
        }
        u32 first = shuffle(meta, 0);
        bool whole = batch > 0 && all(!in || (meta == first + lane_id() * WAYS && fresh == all_sectors(cache)));
        if (run > 0 && !(whole && first == run_meta + run * WAYS && (key & group_mask) != 0)) {
            // The run ends. Each lane takes one piece of at most max_lines; the pins of the piece's lines become the
            // command's.
            u32 pieces = (run + max_lines - 1) / max_lines;
            for (u32 base = 0; base < pieces; base += WARP) {
                u32 piece = base + lane_id(), at = piece * max_lines;
                Command c = {};
                u32 queue = queue_of(io, io.sources[e.source], run_key);
                if (piece < pieces) {
                    u32 length = run - at < max_lines ? run - at : max_lines;
                    c = fill_command<WAYS>(io, e, run_key + at, run_meta + at * WAYS, length, all_sectors(cache),
                                           CMD_PREFETCH);
                    count(&io.stats->command_bytes, c.bytes);
                }
                if (!submit(io, piece < pieces, queue, c, finish)) return false;
            }
            run = 0;
        }
        if (batch == 0) return true;
        if (whole) {
            if (run == 0) {
                run_key = key;
                run_meta = first;
            }
            run += batch;
        } else {
            if (!Backing::get(io, e, key + lane_id(), meta, fresh, CMD_PREFETCH)) return false;
            if (meta != NO_LINE) unpin(cache, meta);
        }
        key += batch;
        lines -= batch;
    }
}

}  // namespace grampus
