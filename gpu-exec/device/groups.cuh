// Group tables: a warp's own table for the first few groups that it meets, and a hash table in device memory for all
// others. Both begin as zeroed memory.
#pragma once
#include "aggregates.cuh"

namespace grampus {

// Combines into words that all warps add to. Sums of floats depend on the order of the warps.
template <class Words>
GRAMPUS_DEVICE void combine_atomically(u64* into, const u64* from) {
    GRAMPUS_UNROLL
    for (u32 i = 0; i < Words::COUNT; i++) {
        if (from[i] == 0 && Words::op(i) != OP_ADD_WIDE) continue;
        switch (Words::op(i)) {
            case OP_ADD: add_relaxed_gpu(&into[i], from[i]); break;
            case OP_ADD_FLOAT: add_float_relaxed_gpu((double*)&into[i], bits_as<double>(from[i])); break;
            case OP_ADD_WIDE: {
                u64 old = fetch_add_relaxed_gpu(&into[i], from[i]);
                u64 carry = old + from[i] < old ? 1 : 0;
                if (from[i + 1] + carry != 0) add_relaxed_gpu(&into[i + 1], from[i + 1] + carry);
                break;
            }
            case OP_WIDE_HIGH: break;
            case OP_MAX: max_relaxed_gpu(&into[i], from[i]); break;
            case OP_OR: fetch_or_relaxed_gpu(&into[i], from[i]); break;
            case OP_XOR: fetch_xor_relaxed_gpu(&into[i], from[i]); break;
            case OP_MOMENTS:
            case OP_MOMENTS_REST: break;  // combined under a lock
        }
    }
}

// ---- the table of all warps ---------------------------------------------------------------------------------

// QueryHead::group_slots: GROUP_FREE, GROUP_BUSY, or the group's number, from GROUP_FIRST on, below half of its key's
// hash. The hash tells most other keys apart without reading them. QueryHead::group_words: the groups in the order in
// which they were found, each the KEYS words of its key, then those of its aggregates.
constexpr u64 GROUP_FREE = 0;
constexpr u64 GROUP_BUSY = 1;  // a lane writes the group, or combines words (combined_under_lock)
constexpr u64 GROUP_FIRST = 2;
// A slot is busy for a few instructions, except that a host thread may lose its processor there: others give up theirs.
constexpr u32 ROUNDS_TO_PAUSE = 1024;

// Whether some words are combined while their slot is GROUP_BUSY: no atomics combine them.
template <class Words>
GRAMPUS_DEVICE constexpr bool combined_under_lock() {
    for (u32 i = 0; i < Words::COUNT; i++)
        if (Words::op(i) == OP_MOMENTS) return true;
    return false;
}

template <u32 KEYS>
GRAMPUS_DEVICE u64 hash_of(const u64 (&key)[KEYS]) {
    u64 h = 0;
    GRAMPUS_UNROLL
    for (u32 i = 0; i < KEYS; i++) {
        h = (h ^ key[i]) * 0x9E3779B97F4A7C15ull;
        h ^= h >> 32;
    }
    h *= 0xD6E8FEB86659FD93ull;
    return h ^ h >> 32;
}

template <u32 KEYS>
GRAMPUS_DEVICE bool same_key(const u64* a, const u64 (&b)[KEYS]) {
    bool same = true;
    GRAMPUS_UNROLL
    for (u32 i = 0; i < KEYS; i++) same = same && a[i] == b[i];
    return same;
}

// Writes a group that has no values yet.
template <class Words, u32 KEYS>
GRAMPUS_DEVICE void begin_group(u64* group, const u64 (&key)[KEYS]) {
    for (u32 i = 0; i < KEYS; i++) group[i] = key[i];
    for (u32 i = 0; i < Words::COUNT; i++) group[KEYS + i] = 0;
}

// Adds the active lanes' words to their keys' groups. The lanes go round together: no lane waits for another in a loop
// of its own. Collective. False: refused.
template <class Words, u32 KEYS>
GRAMPUS_SLOW bool add_to_all(const QueryHead& head, bool active, const u64 (&key)[KEYS],
                             const u64 (&word)[Words::COUNT]) {
    constexpr u64 STRIDE = KEYS + Words::COUNT;
    constexpr bool LOCKS = combined_under_lock<Words>();
    u64 mask = (1ull << head.group_slots_log2) - 1, hash = hash_of(key), at = hash & mask;
    u64 tag = hash >> 32 << 32;
    u32 probes = 0;
    bool open = active, full = false;
    GRAMPUS_NO_UNROLL
    for (u32 round = 0; any(open); round++) {
        u64* slot = &head.group_slots[at];
        bool mine = false, stranger = false, begins = false;
        if (open) {
            GRAMPUS_STEP(find_group);
            u64 seen = load_acquire_gpu(slot);
            if (seen == GROUP_FREE) {
                begins = cas_acquire_gpu(slot, GROUP_FREE, GROUP_BUSY) == GROUP_FREE;
            } else if (seen != GROUP_BUSY) {
                u64* group = head.group_words + (u32)(seen - GROUP_FIRST) * STRIDE;
                mine = (seen ^ tag) >> 32 == 0 && same_key(group, key);
                stranger = !mine;
                if constexpr (LOCKS) {
                    // Another lane may hold the lock: the next round tries again.
                    mine = mine && cas_acquire_gpu(slot, seen, GROUP_BUSY) == seen;
                    if (mine) {
                        combine<Words>(group + KEYS, word);
                        store_release_gpu(slot, seen);
                    }
                } else if (mine) {
                    combine_atomically<Words>(group + KEYS, word);
                }
            }
        }
        // The warp's new groups are numbered together.
        u32 beginners = ballot(begins), first = 0;
        if (beginners != 0) {
            u32 leader = lowest_bit(beginners);
            if (lane_id() == leader) first = fetch_add_relaxed_gpu(head.group_count, count_bits(beginners));
            first = shuffle(first, leader);
        }
        if (begins) {
            u64 number = first + count_bits(beginners & lanes_below());
            full = number >= head.group_capacity;
            if (!full) {
                u64* group = head.group_words + number * STRIDE;
                begin_group<Words>(group, key);
                if constexpr (LOCKS) combine<Words>(group + KEYS, word);
                store_release_gpu(slot, tag | (number + GROUP_FIRST));
                if constexpr (!LOCKS) combine_atomically<Words>(group + KEYS, word);
                mine = true;
            } else {
                store_release_gpu(slot, GROUP_FREE);
            }
        }
        if (stranger) {
            at = (at + 1) & mask;
            full = ++probes > mask;
        }
        if (round % ROUNDS_TO_PAUSE == ROUNDS_TO_PAUSE - 1) pause_ns(1000);
        open = open && !mine && !full;
    }
    if (any(full)) {
        refuse(head, REFUSED_GROUPS);
        return false;
    }
    return true;
}

// ---- the table of one warp ------------------------------------------------------------------------------------

template <class Words, u32 KEYS, u32 GROUPS>
struct OwnGroups {
    u64 used;
    u64 key[GROUPS][KEYS];
    u64 word[GROUPS][Words::COUNT];
};

// The key's place in a warp's own table. A new key gets a place while the table has one; GROUPS: the table is full. All
// lanes hold the key.
template <class Words, u32 KEYS, u32 GROUPS>
GRAMPUS_DEVICE u32 place_of(OwnGroups<Words, KEYS, GROUPS>& own, const u64 (&key)[KEYS]) {
    u32 used = (u32)own.used;
    GRAMPUS_NO_UNROLL
    for (u32 base = 0; base < used; base += WARP) {
        u32 at = base + lane_id(), there = ballot(at < used && same_key(own.key[at < used ? at : 0], key));
        if (there != 0) return base + lowest_bit(there);
    }
    if (used == GROUPS) return GROUPS;
    sync_warp();
    if (lane_id() == 0) {
        own.used = used + 1;
        for (u32 i = 0; i < KEYS; i++) own.key[used][i] = key[i];
        for (u32 i = 0; i < Words::COUNT; i++) own.word[used][i] = 0;
    }
    sync_warp();
    return used;
}

// Adds the active lanes' words to their keys, one key after the other. Keys without a place go to the table of all
// warps. Collective. False: refused.
template <class Words, u32 KEYS, u32 GROUPS>
GRAMPUS_SLOW bool add_to_own(const QueryHead& head, OwnGroups<Words, KEYS, GROUPS>& own, bool active,
                             const u64 (&key)[KEYS], const u64 (&word)[Words::COUNT]) {
    bool strange = false;
    u32 todo = ballot(active);
    GRAMPUS_NO_UNROLL
    while (todo != 0) {
        u32 leader = lowest_bit(todo);
        u64 leaders[KEYS];
        GRAMPUS_UNROLL
        for (u32 i = 0; i < KEYS; i++) leaders[i] = shuffle(key[i], leader);
        bool peer = active && same_key(key, leaders);
        todo &= ~ballot(peer);
        u32 at = place_of(own, leaders);
        if (at == GROUPS) {
            strange = strange || peer;
            continue;
        }
        u64 sum[Words::COUNT];
        GRAMPUS_UNROLL
        for (u32 i = 0; i < Words::COUNT; i++) sum[i] = peer ? word[i] : 0;
        combine_lanes<Words>(sum);
        if (lane_id() == 0) combine<Words>(own.word[at], sum);
        sync_warp();
    }
    return !any(strange) || add_to_all<Words>(head, strange, key, word);
}

}  // namespace grampus
