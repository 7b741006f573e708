// Cache lines of file bytes in device memory: finding, pinning, validating, replacing and publishing them.
#pragma once
#include "completion.cuh"

namespace grampus {

constexpr u32 NO_LINE = ~0u;

// Eviction policies, fixed at compile time. `spares(state, pass)`: whether the hand passes over this unpinned line.
struct Clock {
    static constexpr bool NOTES_USE = true;  // readers set LINE_REF
    GRAMPUS_DEVICE static bool spares(u64 state, u32 pass) { return pass == 0 && (state & LINE_REF) != 0; }
};
struct Fifo {
    static constexpr bool NOTES_USE = false;
    GRAMPUS_DEVICE static bool spares(u64, u32) { return false; }
};

// ---- placement ---------------------------------------------------------------------------------------

GRAMPUS_DEVICE u32 set_of(const CacheDesc& c, u64 key) {
    u32 group = (u32)(key >> c.group_log2) % c.groups;
    return group << c.group_log2 | ((u32)key & ((1u << c.group_log2) - 1));
}

// A line in the cache is named by its metadata index, set * WAYS + way.
template <u32 WAYS>
GRAMPUS_DEVICE u32 slot_of(const CacheDesc& c, u32 meta) {
    return meta % WAYS * c.set_count + meta / WAYS;
}
template <u32 WAYS>
GRAMPUS_DEVICE u32 meta_of(const CacheDesc& c, u32 slot) {
    return slot % c.set_count * WAYS + slot / c.set_count;
}
template <u32 WAYS>
GRAMPUS_DEVICE u8* bytes_of(const CacheDesc& c, u32 meta) {
    return c.data + ((u64)slot_of<WAYS>(c, meta) << LINE_LOG2);
}

GRAMPUS_DEVICE u32 sectors_per_line(const CacheDesc& c) { return LINE_BYTES >> c.sector_log2; }
GRAMPUS_DEVICE u32 all_sectors(const CacheDesc& c) { return (u32)((2ull << (sectors_per_line(c) - 1)) - 1); }
// Sectors that hold bytes first .. last of a line.
GRAMPUS_DEVICE u32 sectors_of(const CacheDesc& c, u32 first, u32 last) {
    u32 from = first >> c.sector_log2, to = last >> c.sector_log2;
    return (u32)((2ull << to) - (1ull << from));
}
GRAMPUS_DEVICE u32 valid_sectors(u64 state) { return (u32)(state >> LINE_VALID_SHIFT); }

// ---- lookup ------------------------------------------------------------------------------------------

// Where the key's tag stands now, or NO_LINE. The result is a hint: pin or validate the line before use.
template <u32 WAYS>
GRAMPUS_DEVICE u32 find(const CacheDesc& c, u64 key) {
    GRAMPUS_STEP(find);
    u32 first = set_of(c, key) * WAYS, way = WAYS;
    u64x2 tags[WAYS / 2];
    GRAMPUS_UNROLL
    for (u32 i = 0; i < WAYS / 2; i++) tags[i] = load_pair_relaxed_gpu(&c.tags[first + 2 * i]);
    GRAMPUS_UNROLL
    for (u32 i = 0; i < WAYS / 2; i++) {
        if (tags[i].x == key) way = 2 * i;
        if (tags[i].y == key) way = 2 * i + 1;
    }
    return way == WAYS ? NO_LINE : first + way;
}

GRAMPUS_DEVICE void unpin(const CacheDesc& c, u32 meta) {
    GRAMPUS_STEP(unpin);
    add_release_gpu(&c.state[meta], 0ull - LINE_PIN);
}

// A reader may note its use late, while the line is BUSY with another key. So no addition to a state touches REF.
template <class Policy>
GRAMPUS_DEVICE void note_use(const CacheDesc& c, u32 meta, u64 state) {
    if (!Policy::NOTES_USE || (state & LINE_REF) != 0) return;
    GRAMPUS_STEP(note_use);
    fetch_or_relaxed_gpu(&c.state[meta], (u64)LINE_REF);
}

// Pins the line if it is in the cache: the line keeps its place and its key until unpin. NO_LINE: not in the cache. The
// acquire pairs with install's release of the state, and with publish_line's.
template <class Policy, u32 WAYS>
GRAMPUS_DEVICE u32 pin(const CacheDesc& c, u64 key) {
    u32 meta = find<WAYS>(c, key);
    if (meta == NO_LINE) return NO_LINE;
    GRAMPUS_STEP(pin);
    u64 state = fetch_add_acquire_gpu(&c.state[meta], (u64)LINE_PIN);
    GRAMPUS_STEP(pinned);
    if (GRAMPUS_MUTANT != MUTANT_NO_TAG_CHECK && ((state & LINE_BUSY) != 0 || load_relaxed_gpu(&c.tags[meta]) != key)) {
        unpin(c, meta);
        return NO_LINE;
    }
    note_use<Policy>(c, meta, state);
    return meta;
}

// Begins an optimistic read: returns the state to validate against. False: not in the cache. The acquire pairs with
// install's release, and with publish_line's.
template <class Policy, u32 WAYS>
GRAMPUS_DEVICE bool observe(const CacheDesc& c, u64 key, u32& meta, u64& state) {
    meta = find<WAYS>(c, key);
    if (meta == NO_LINE) return false;
    GRAMPUS_STEP(observe);
    state = load_acquire_gpu(&c.state[meta]);
    GRAMPUS_STEP(observed);
    if ((state & LINE_BUSY) != 0 || load_relaxed_gpu(&c.tags[meta]) != key) return false;
    note_use<Policy>(c, meta, state);
    return true;
}

// Ends an optimistic read: whether the line stayed the same. Comes after fence_after_optimistic_loads() of the lanes
// that have read: docs/PROTOCOL.md has the argument (O).
GRAMPUS_DEVICE bool validate(const CacheDesc& c, u32 meta, u64 state) {
    GRAMPUS_STEP(validate);
    u64 again = load_relaxed_gpu(&c.state[meta]);
    return GRAMPUS_MUTANT == MUTANT_NO_VERSION_CHECK || ((again ^ state) & (LINE_VERSION | LINE_BUSY)) == 0;
}

// ---- replacement -------------------------------------------------------------------------------------

enum Install : u32 { INSTALL_DONE, INSTALL_PRESENT, INSTALL_LOCKED, INSTALL_FULL };

// Takes the line from its key, unless the line is pinned, and marks it used for its next key. The caller holds the
// set's lock. The acquire pairs with unpin's release: the readers' loads are before the line's reuse.
template <class Policy>
GRAMPUS_DEVICE bool seize(const CacheDesc& c, u32 meta, u32 pass) {
    u64 state = load_relaxed_gpu(&c.state[meta]);
    if ((state & (LINE_PINS | LINE_BUSY)) != 0) return false;
    if (Policy::spares(state, pass)) {
        fetch_and_relaxed_gpu(&c.state[meta], ~(u64)LINE_REF);
        return false;
    }
    GRAMPUS_STEP(seize);
    u64 busy = (((state & LINE_VERSION) + LINE_VERSION_ONE) & LINE_VERSION) | LINE_BUSY | LINE_REF;
    return cas_acq_rel_gpu(&c.state[meta], state, busy) == state;
}

// Gives the key a line, without valid sectors and pinned once. One attempt without waiting: one of the lanes that want
// a set gets its lock, the others see INSTALL_LOCKED and look again. `prefer`: the way to take if possible; WAYS: any
// way.
template <class Policy, u32 WAYS>
GRAMPUS_DEVICE Install install(const IoStack& io, u64 key, u32 prefer, u32& meta) {
    const CacheDesc& c = io.cache;
    u32 set = set_of(c, key);
    GRAMPUS_STEP(set_lock);
    if (load_relaxed_gpu(&c.sets[set].lock) != 0 || cas_acquire_gpu(&c.sets[set].lock, 0u, 1u) != 0)
        return INSTALL_LOCKED;
    Install result = INSTALL_FULL;
    if (find<WAYS>(c, key) != NO_LINE) {
        result = INSTALL_PRESENT;
    } else {
        u32 hand = load_relaxed_gpu(&c.sets[set].hand);
        bool got = prefer < WAYS && seize<Policy>(c, meta = set * WAYS + prefer, 1);
        GRAMPUS_NO_UNROLL
        for (u32 i = 0; i < 2 * WAYS && !got; i++) {
            meta = set * WAYS + hand % WAYS;
            hand++;
            got = seize<Policy>(c, meta, i / WAYS);
        }
        if (got) {
            store_relaxed_gpu(&c.sets[set].hand, prefer < WAYS ? meta % WAYS + 1 : hand % WAYS);
            u64 old = load_relaxed_gpu(&c.tags[meta]);
            GRAMPUS_STEP(retag);
            store_relaxed_gpu(&c.tags[meta], key);
            store_relaxed_gpu(&c.requested[meta], 0u);
            GRAMPUS_STEP(installed);
            // BUSY is set, and no other lane clears it: the sum changes no other field, whatever readers do meanwhile.
            u64 used = GRAMPUS_MUTANT == MUTANT_REF_BY_ADDITION ? LINE_REF : 0;
            add_release_gpu(&c.state[meta], LINE_PIN + used - LINE_BUSY);
            count(&io.stats->installs, 1);
            if (old != TAG_NONE) count(&io.stats->evictions, 1);
            result = INSTALL_DONE;
        } else {
            count(&io.stats->full_sets, 1);
        }
    }
    GRAMPUS_STEP(set_unlock);
    store_release_gpu(&c.sets[set].lock, 0u);
    return result;
}

// Pins the line, and installs it if necessary. One attempt. On failure the lane holds no pin.
template <class Policy, u32 WAYS>
GRAMPUS_SLOW u32 pin_or_install(const IoStack& io, u64 key, u32 prefer) {
    u32 meta = pin<Policy, WAYS>(io.cache, key);
    if (meta != NO_LINE) return meta;
    Install result = install<Policy, WAYS>(io, key, prefer, meta);
    if (result == INSTALL_DONE) return meta;
    if (result == INSTALL_PRESENT) return pin<Policy, WAYS>(io.cache, key);
    return NO_LINE;
}

// ---- sectors -----------------------------------------------------------------------------------------

// Whether the pinned line holds the bytes of all the sectors. The acquire pairs with publish_line's release: the bytes
// of valid sectors are visible.
GRAMPUS_DEVICE bool holds(const CacheDesc& c, u32 meta, u32 sectors) {
    return (sectors & ~valid_sectors(load_acquire_gpu(&c.state[meta]))) == 0;
}

// Sectors with the other sectors of their blocks. `unit`: sectors of a block, a power of two.
GRAMPUS_DEVICE u32 whole_blocks(u32 sectors, u32 unit) {
    for (u32 by = 1; by < unit; by *= 2) {
        u32 low = 0xFFFFFFFFu / ((1u << by) | 1u);  // 0x5555…, 0x3333…: the lower half of each pair of runs
        sectors |= (sectors & low) << by | (sectors >> by & low);
    }
    return sectors;
}

// Returns those of a pinned line's `sectors` that no lane has requested yet: the caller must load them. `unit`: the
// smallest power-of-two number of sectors that a command carries.
GRAMPUS_DEVICE u32 request(const CacheDesc& c, u32 meta, u32 sectors, u32 unit) {
    GRAMPUS_STEP(request);
    sectors = whole_blocks(sectors, unit);
    sectors &= ~valid_sectors(load_acquire_gpu(&c.state[meta]));
    if (sectors == 0) return 0;
    return sectors & ~fetch_or_relaxed_gpu(&c.requested[meta], sectors);
}

// Those of a pinned line's sectors whose request a failed prefetch has taken back, requested anew: the caller must
// load them. The acquire pairs with take_back's release: what the failed command wrote comes before what the next one
// writes.
GRAMPUS_DEVICE u32 request_again(const CacheDesc& c, u32 meta, u32 sectors, u32 unit) {
    if (GRAMPUS_MUTANT == MUTANT_KEEP_REQUEST) return 0;
    return (sectors & ~load_acquire_gpu(&c.requested[meta])) != 0 ? request(c, meta, sectors, unit) : 0;
}

// Removes the lowest run of set bits from `sectors` and returns it.
GRAMPUS_DEVICE u32 take_run(u32& sectors) {
    u32 from = lowest_bit(sectors), length = lowest_bit(~(sectors >> from));
    u32 run = length >= 32 ? sectors : ((1u << length) - 1) << from;
    sectors &= ~run;
    return run;
}

GRAMPUS_DEVICE void pin_for_command(const CacheDesc& c, u32 meta) {
    if (GRAMPUS_MUTANT != MUTANT_NO_COMMAND_PIN) add_relaxed_gpu(&c.state[meta], (u64)LINE_PIN);
}

// V: makes sectors valid and drops one pin, in one addition. Follows fence_acq_rel_gpu(), which makes the addition a
// release; the acquires in pin, observe and holds pair with it.
GRAMPUS_DEVICE void publish_line(const CacheDesc& c, u32 meta, u32 sectors) {
    u64 pin = GRAMPUS_MUTANT != MUTANT_NO_COMMAND_PIN ? LINE_PIN : 0;
    add_after_fence_gpu(&c.state[meta], ((u64)sectors << LINE_VALID_SHIFT) - pin);
}

// `Finish` of a fill: where its bytes go, and how its sectors are published.
template <u32 WAYS>
struct FillFinish {
    static constexpr bool WRITES = false;
    const CacheDesc& c;

    GRAMPUS_DEVICE explicit FillFinish(const CacheDesc& cache) : c(cache) {}

    GRAMPUS_DEVICE u8* destination(const CommandRecord& r) const {
        u32 skip = r.lines == 1 ? lowest_bit(r.sectors) << c.sector_log2 : 0;
        return c.data + ((u64)r.slot << LINE_LOG2) + skip;
    }

    // Takes back the requests of failed prefetches, so that the next reader requests the sectors anew. Comes before
    // publish(), which drops the pin: the line keeps its key until then. Collective.
    GRAMPUS_SLOW void take_back(const IoStack& io, const CommandRecord& r, bool failed) const {
        GRAMPUS_STEP(take_back);
        fence_acq_rel_gpu();  // makes the changes of `requested` releases
        u32 todo = ballot(failed);
        if (lane_id() == 0) count(&io.stats->failed_prefetches, count_bits(todo));
        for (; todo != 0 && GRAMPUS_MUTANT != MUTANT_KEEP_REQUEST; todo &= todo - 1) {
            u32 from = lowest_bit(todo);
            u32 slot = shuffle(r.slot, from), lines = shuffle(r.lines, from), some = shuffle(r.sectors, from);
            u32 sectors = lines == 1 ? some : all_sectors(c);
            for (u32 i = lane_id(); i < lines; i += WARP)
                and_after_fence_gpu(&c.requested[meta_of<WAYS>(c, slot + i)], ~sectors);
        }
    }

    // Collective: the whole warp publishes the lanes' long fills.
    GRAMPUS_DEVICE void publish(const CommandRecord& r, bool ok, bool active) const {
        GRAMPUS_STEP(publish);
        fence_acq_rel_gpu();
        if (active && r.lines == 1) publish_line(c, meta_of<WAYS>(c, r.slot), ok ? r.sectors : 0);
        u32 todo = ballot(active && r.lines > 1);
        while (todo != 0) {
            u32 from = lowest_bit(todo);
            todo &= todo - 1;
            u32 slot = shuffle(r.slot, from), lines = shuffle(r.lines, from);
            u32 sectors = shuffle(ok ? 1u : 0u, from) != 0 ? all_sectors(c) : 0;
            for (u32 i = lane_id(); i < lines; i += WARP) publish_line(c, meta_of<WAYS>(c, slot + i), sectors);
        }
    }
};

}  // namespace grampus
