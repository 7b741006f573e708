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

// QueryHead::group_locks: a slot's words are the KEYS words of its key, then those of the aggregates.
constexpr u32 GROUP_FREE = 0;
constexpr u32 GROUP_BUSY = 1;   // a lane writes its key, or its words (combined_under_lock)
// bit 1; the other bits are of the key's hash, and tell most other keys apart without reading them
constexpr u32 GROUP_READY = 2;
constexpr u32 MOST_PROBES = 4096;
constexpr u32 MOST_ROUNDS = 1u << 20;  // a slot is busy for a few instructions: no query reaches this bound

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

// Adds the active lanes' words to their keys' slots. The lanes go round together: no lane waits for another in a loop
// of its own. Collective. False: refused.
template <class Words, u32 KEYS>
GRAMPUS_SLOW bool add_to_all(const QueryHead& head, bool active, const u64 (&key)[KEYS],
                             const u64 (&word)[Words::COUNT]) {
    constexpr u64 STRIDE = KEYS + Words::COUNT;
    constexpr bool LOCKS = combined_under_lock<Words>();
    u64 mask = (1ull << head.group_slots_log2) - 1, hash = hash_of(key), at = hash & mask;
    u32 ready = (u32)(hash >> 32) | GROUP_READY, probes = 0;
    bool open = active, full = false;
    GRAMPUS_NO_UNROLL
    for (u32 round = 0; any(open); round++) {
        if (open) {
            GRAMPUS_STEP(find_group);
            u64* slot = head.group_words + at * STRIDE;
            u32 lock = load_acquire_gpu(&head.group_locks[at]);
            if (lock == GROUP_FREE) lock = cas_acquire_gpu(&head.group_locks[at], GROUP_FREE, GROUP_BUSY);
            bool mine = false, stranger = false;
            if (lock == GROUP_FREE) {
                for (u32 i = 0; i < KEYS; i++) slot[i] = key[i];
                if constexpr (LOCKS) combine<Words>(slot + KEYS, word);
                store_release_gpu(&head.group_locks[at], ready);
                mine = true;
            } else if (LOCKS && lock == ready) {
                // Another lane may hold the lock: the next round tries again.
                if (cas_acquire_gpu(&head.group_locks[at], ready, GROUP_BUSY) == ready) {
                    mine = same_key(slot, key);
                    stranger = !mine;
                    if (mine) combine<Words>(slot + KEYS, word);
                    store_release_gpu(&head.group_locks[at], ready);
                }
            } else if (lock != GROUP_BUSY) {
                // After the acquire, which pairs with the release of `ready`. A lock that the swap has seen is loaded
                // again: the failed swap did not acquire.
                mine = lock == ready && load_acquire_gpu(&head.group_locks[at]) == ready && same_key(slot, key);
                stranger = !mine;
            }
            if constexpr (!LOCKS) {
                if (mine) combine_atomically<Words>(slot + KEYS, word);
            }
            if (stranger) {
                at = (at + 1) & mask;
                full = ++probes > MOST_PROBES || probes > mask;
            }
            full = full || round > MOST_ROUNDS;
            open = !mine && !full;
        }
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
