// `Writable`: a backing whose cached lines take stores, and the way of dirty sectors to their storage. docs/PROTOCOL.md
// has the argument (W).
//
// 1. A store makes sectors dirty, under the line's lock (store.cuh).
// 2. `write_back` claims a run of dirty sectors and sends a write command. The warp that sends it copies the bytes into
//    the bounce slot, under the lock again.
// 3. The warp that reaps the completion ends the write. The line may then be replaced.
// 4. `flush` does this for all lines, and then sends the storages a flush.
//
// **Invariant:** a warp that holds a line's lock waits for nothing.
#pragma once
#include "backing.cuh"

namespace grampus {

// ---- the words of a line -------------------------------------------------------------------------------

// Takes a line's lock, if no lane has it. The acquire pairs with unlock's release.
GRAMPUS_DEVICE bool try_lock(LineWrites* line) {
    GRAMPUS_STEP(line_lock);
    return load_relaxed_gpu(&line->lock) == 0 && cas_acquire_gpu(&line->lock, 0u, 1u) == 0;
}

GRAMPUS_DEVICE void unlock(LineWrites* line) {
    GRAMPUS_STEP(line_unlock);
    store_release_gpu(&line->lock, 0u);
}

// Sectors of the line that are not on the storage for certain. The lane holds the line's lock.
GRAMPUS_DEVICE u32 unwritten(const LineWrites* line) {
    return load_relaxed_gpu(&line->dirty) | load_relaxed_gpu(&line->writing);
}

// Whether all of the line is on the storage. These acquires pair with the releases of copy_out and written.
GRAMPUS_DEVICE bool is_settled(const LineWrites* line) {
    u32 dirty = load_acquire_gpu(&line->dirty);
    return dirty == 0 && load_acquire_gpu(&line->writing) == 0;
}

// Notes a store to sectors of a pinned line, whose lock the lane holds.
GRAMPUS_DEVICE void mark_dirty(const IoStack& io, const Extent& e, u64 key, u32 meta, u32 sectors) {
    LineWrites* line = &io.cache.writes[meta];
    if (unwritten(line) == 0) {
        add_relaxed_gpu(&io.cache.state[meta], (u64)LINE_PIN);
        store_relaxed_gpu(&line->source, load_constant(&e.source));
        store_relaxed_gpu(&line->storage_byte,
                          load_constant(&e.storage_byte) + ((key - load_constant(&e.first_line)) << LINE_LOG2));
    }
    GRAMPUS_STEP(mark_dirty);
    store_relaxed_gpu(&line->dirty, load_relaxed_gpu(&line->dirty) | sectors);
}

// `Finish` of a kernel that stores.
template <u32 WAYS>
struct WriteFinish : FillFinish<WAYS> {
    static constexpr bool WRITES = true;

    GRAMPUS_DEVICE explicit WriteFinish(const CacheDesc& cache) : FillFinish<WAYS>(cache) {}

    // Copies the sectors of the lanes' write commands into their bounce slots. The sectors are clean from then on: a
    // later store makes them dirty again. Collective. False: a status is up.
    GRAMPUS_SLOW bool copy_out(const IoStack& io, bool active, u32 queue, u32 slot, const Command& command) const {
        const CacheDesc& cache = io.cache;
        const QueueDesc& q = queue_at(io, queue);
        bool todo = active && command.kind == CMD_WRITE;
        u32 meta = todo ? meta_of<WAYS>(cache, command.slot) : 0, sectors = todo ? command.sectors : 0;
        LineWrites* line = &cache.writes[meta];
        u8* to = load_constant(&q.bounce) + (u64)slot * load_constant(&q.bounce_bytes);
        const u8* from = bytes_of<WAYS>(cache, meta) + (todo ? lowest_bit(sectors) << cache.sector_log2 : 0);
        Wait wait;
        while (any(todo)) {
            bool locked = todo && try_lock(line);
            sync_warp();  // the acquires are before all lanes' loads
            GRAMPUS_STEP(copy_out);
            copy_pieces<FromLine>(from, to, locked ? command.bytes / 16 : 0);
            sync_warp();  // all lanes' loads are before the releases
            if (locked && GRAMPUS_MUTANT != MUTANT_CLEAN_AFTER_COPY) clean(cache, meta, sectors);
            if (locked) unlock(line);
            if (GRAMPUS_MUTANT == MUTANT_CLEAN_AFTER_COPY) {
                GRAMPUS_STEP(clean_late);
                bool again = locked;
                while (again && !try_lock(line)) GRAMPUS_STEP(clean_late);
                if (again) clean(cache, meta, sectors);
                if (again) unlock(line);
            }
            todo = todo && !locked;
            bool some = any(locked);
            if (!all(some || wait.go_on(io, STATUS_TIMEOUT_SUBMIT, queue, ~0ull))) return false;
        }
        return true;
    }

    // Ends the lanes' writes. A failed one leaves its sectors dirty. Collective.
    GRAMPUS_SLOW void written(const IoStack& io, const CommandRecord& r, bool ok, bool active) const {
        const CacheDesc& cache = io.cache;
        u32 meta = active ? meta_of<WAYS>(cache, r.slot) : 0;
        LineWrites* line = &cache.writes[meta];
        Wait wait;
        while (any(active)) {
            bool locked = active && try_lock(line);
            bool done = false;
            if (locked) {
                if (!ok && GRAMPUS_MUTANT != MUTANT_FORGET_FAILED_WRITE)
                    store_release_gpu(&line->dirty, load_relaxed_gpu(&line->dirty) | r.sectors);
                // Release: a warp that sees the sectors written may send a flush.
                store_release_gpu(&line->writing, load_relaxed_gpu(&line->writing) & ~r.sectors);
                done = unwritten(line) == 0 && GRAMPUS_MUTANT != MUTANT_REUSE_BEFORE_WRITE;
                unlock(line);
            }
            if (done) unpin(cache, meta);
            active = active && !locked;
            bool some = any(locked);
            if (!all(some || wait.go_on(io, STATUS_TIMEOUT_COMPLETION, ~0u, ~0ull))) return;
        }
    }

  private:
    // Release: a warp that sees the sectors clean also sees that they are being written.
    GRAMPUS_DEVICE static void clean(const CacheDesc& cache, u32 meta, u32 sectors) {
        LineWrites* line = &cache.writes[meta];
        store_release_gpu(&line->dirty, load_relaxed_gpu(&line->dirty) & ~sectors);
        if (GRAMPUS_MUTANT == MUTANT_REUSE_BEFORE_WRITE && load_relaxed_gpu(&line->dirty) == 0) unpin(cache, meta);
    }
};

// ---- writes --------------------------------------------------------------------------------------------

// A write of a line's lowest run of dirty sectors, as much as a bounce slot holds. The lane holds the line's lock.
template <u32 WAYS>
GRAMPUS_DEVICE Command claim_write(const IoStack& io, u32 meta, u32& queue) {
    const CacheDesc& cache = io.cache;
    LineWrites* line = &cache.writes[meta];
    const SourceDesc& source = io.sources[load_relaxed_gpu(&line->source)];
    queue = queue_of(io, source, load_relaxed_gpu(&cache.tags[meta]));
    u32 writing = load_relaxed_gpu(&line->writing), free = load_relaxed_gpu(&line->dirty);
    if (GRAMPUS_MUTANT != MUTANT_WRITE_TWICE) free &= ~writing;
    u32 run = take_run(free), most = load_constant(&io.queues[queue].bounce_bytes) >> cache.sector_log2;
    u32 first = lowest_bit(run);
    if (count_bits(run) > most) run = ((1u << most) - 1) << first;
    store_relaxed_gpu(&line->writing, writing | run);
    u32 lba_log2 = load_constant(&source.lba_log2);
    Command c = {};
    if (run == 0) return c;
    c.kind = CMD_WRITE;
    c.slot = slot_of<WAYS>(cache, meta);
    c.lines = 1;
    c.sectors = run;
    c.bytes = count_bits(run) << cache.sector_log2;
    c.blocks = c.bytes >> lba_log2;
    c.lba = (load_relaxed_gpu(&line->storage_byte) + ((u64)first << cache.sector_log2)) >> lba_log2;
    c.nsid = load_constant(&source.nsid);
    return c;
}

// Sends a write for a run of dirty sectors of each active lane's line, without waiting for its completion. One attempt:
// lines that another lane has locked are left out. Collective. False: a status is up.
template <class Backing>
GRAMPUS_SLOW bool write_back(const IoStack& io, bool active, u32 meta) {
    typename Backing::Finish finish(io.cache);
    LineWrites* line = &io.cache.writes[active ? meta : 0];
    Command c = {};
    u32 queue = 0;
    if (active && load_relaxed_gpu(&line->dirty) != 0 && try_lock(line)) {
        c = claim_write<Backing::WAYS>(io, meta, queue);
        unlock(line);
    }
    bool wanted = c.bytes != 0;
    if (!any(wanted)) return true;
    if (wanted) {
        count(&io.stats->command_bytes, c.bytes);
        count(&io.stats->writes, 1);
    }
    return submit(io, wanted, queue, c, finish);
}

// Returns when the stores to these sectors of the active lanes' lines, all of them earlier, are on the storage. Later
// stores may make the sectors dirty again meanwhile. Collective. False: a status is up.
template <class Backing>
GRAMPUS_SLOW bool await_written(const IoStack& io, bool active, u32 meta, u32 sectors) {
    typename Backing::Finish finish(io.cache);
    const LineWrites* line = &io.cache.writes[active ? meta : 0];
    u32 uncopied = active ? sectors : 0, waiting = uncopied;
    Wait wait;
    for (;;) {
        GRAMPUS_STEP(await_written);
        if (waiting != 0) {  // these acquires pair with the releases of copy_out and written
            uncopied &= load_acquire_gpu(&line->dirty);
            waiting &= uncopied | load_acquire_gpu(&line->writing);
        }
        bool open = waiting != 0;
        if (!any(open)) {  // a failed write raises its status before it ends
            bool good = !raised(io);
            return all(good);
        }
        if (!write_back<Backing>(io, open, meta)) return false;
        u32 queue = 0;
        u64 key = ~0ull;
        if (open) {
            key = load_relaxed_gpu(&io.cache.tags[meta]);
            queue = queue_of(io, io.sources[load_relaxed_gpu(&line->source)], key);
        }
        u32 done = advance(io, open, queue, finish);
        StatusCode code = cause(queue_at(io, queue), wait, STATUS_TIMEOUT_COMPLETION);
        if (!all(done > 0 || wait.go_on(io, code, queue, key))) return false;
    }
}

// Values come from the cache and go into it. Each miss becomes a command, and each dirty line one when its set needs
// room. THROUGH: a store returns when its sectors are on the storage.
//
// All arrays and servers of a launch that stores have this backing: any of its warps may reap a write.
template <class EvictionPolicy = Clock, u32 CACHE_WAYS_ = CACHE_WAYS, bool THROUGH_ = false>
struct Writable : Queued<EvictionPolicy, CACHE_WAYS_> {
    static constexpr bool WRITES = true;
    static constexpr bool THROUGH = THROUGH_;
    static constexpr u32 WAYS = CACHE_WAYS_;
    typedef WriteFinish<WAYS> Finish;

    GRAMPUS_SLOW static bool get(const IoStack& io, const Extent& e, u64 key, u32 meta, u32 fresh, u32 kind) {
        return clean_ahead(io, fresh != 0, key) && send_fills<Writable>(io, e, key, meta, fresh, kind);
    }
    GRAMPUS_DEVICE static u32 help(const IoStack& io, bool open, u32 queue) {
        return advance(io, open, queue, Finish(io.cache));
    }

    // Sends writes for the dirty lines of the active lanes' sets, so that the lines can be replaced. Collective.
    GRAMPUS_SLOW static bool make_room(const IoStack& io, bool active, u64 key) {
        active = active && io.cache.writes != 0;
        u32 first = active ? set_of(io.cache, key) * WAYS : 0;
        bool good = true;
        for (u32 way = 0; way < WAYS && good; way++) good = write_back<Writable>(io, active, first + way);
        return good;
    }

    // Notes that a lane begins or ends to wait for a way of its key's set. Meanwhile no store begins in the set: stores
    // to hot lines would keep all ways dirty.
    GRAMPUS_DEVICE static void note_wait(const IoStack& io, u64 key, bool waits, bool& noted) {
        if (waits == noted || io.cache.writes == 0) return;
        noted = waits;
        GRAMPUS_STEP(note_wait);
        fetch_add_relaxed_gpu(&io.cache.writes[set_of(io.cache, key) * WAYS].wanted, waits ? 1u : ~0u);
    }
    // Whether a store may begin in the key's set. `noted`: this lane itself waits.
    GRAMPUS_DEVICE static bool may_store(const IoStack& io, u64 key, bool noted) {
        return noted || load_relaxed_gpu(&io.cache.writes[set_of(io.cache, key) * WAYS].wanted) == 0;
    }

    // The same for sets of which more than half of the ways are dirty. A set without clean ways would make readers
    // wait. Collective.
    GRAMPUS_SLOW static bool clean_ahead(const IoStack& io, bool active, u64 key) {
        active = active && io.cache.writes != 0;
        u32 first = active ? set_of(io.cache, key) * WAYS : 0, dirty = 0;
        for (u32 way = 0; way < WAYS && active; way++)
            dirty += load_relaxed_gpu(&io.cache.writes[first + way].dirty) != 0;
        bool crowded = dirty > WAYS / 2;
        return !any(crowded) || make_room(io, crowded, key);
    }
};

// ---- flush ---------------------------------------------------------------------------------------------

// Sends each storage that takes writes an NVMe flush, and waits for its completion. Collective.
template <class Backing>
GRAMPUS_SLOW bool flush_sources(const IoStack& io) {
    typename Backing::Finish finish(io.cache);
    for (u32 first = 0; first < io.source_count; first += WARP) {
        u32 index = first + lane_id();
        bool wanted = index < io.source_count;
        const SourceDesc& source = io.sources[wanted ? index : 0];
        wanted = wanted && (load_constant(&source.flags) & SOURCE_WRITABLE) != 0;
        Command c = {};
        c.kind = CMD_FLUSH;
        c.blocks = 1;  // the entry's fields for blocks stay zero
        c.nsid = load_constant(&source.nsid);
        if (wanted) count(&io.stats->flushes, 1);
        if (!run_raw(io, wanted, load_constant(&source.first_queue), c, finish)) return false;
    }
    return true;
}

// Writes back the dirty sectors of every `shares`-th 32 lines, and waits for the writes. Then it adds this warp to
// `arrived`, a word that starts as zero. The last of `shares` warps sends the storages a flush, and waits for it. When
// all have returned true, all stores before are durable. No warp stores meanwhile: the warps are a launch of their own.
// Collective.
template <class Backing>
GRAMPUS_SLOW bool flush(const IoStack& io, u32 share, u32 shares, u32* arrived) {
    const CacheDesc& cache = io.cache;
    u32 lines = cache.writes != 0 ? cache.set_count * Backing::WAYS : 0;
    for (u32 pass = 0; pass < 2; pass++) {  // the first pass sends, the second one waits, and sends what is left
        for (u64 first = (u64)share * WARP; first < lines; first += (u64)shares * WARP) {
            u32 meta = (u32)first + lane_id();
            bool here = meta < lines && !is_settled(&cache.writes[meta]);
            if (!any(here)) continue;
            if (pass == 0 || GRAMPUS_MUTANT == MUTANT_FLUSH_BEFORE_DATA) {
                if (!write_back<Backing>(io, here, meta)) return false;
            } else if (!await_written<Backing>(io, here, meta, all_sectors(cache))) {
                return false;
            }
        }
    }
    u32 before = 0;
    sync_warp();  // each lane's acquires are before the release
    if (lane_id() == 0) before = fetch_add_acq_rel_gpu(arrived, 1u);
    before = shuffle(before, 0);
    sync_warp();
    return before + 1 < shares || flush_sources<Backing>(io);
}

}  // namespace grampus
