// Group tables by code, in the shared memory of a block. A code is a small number that stands for a group's keys.
//
// Three tables: one for each lane (LaneGroups), one for each warp (WarpGroups), one for each block (BlockGroups). The
// first two add up in an order that the warp's rows determine. At the end each leaves its words in
// GroupCodes::partials, and merge_groups() combines these in a fixed order.
//
// **Invariant:** a group's number is below GroupCodes::groups for each row that is added.
#pragma once
#include "groups.cuh"

namespace grampus {

// ---- codes --------------------------------------------------------------------------------------------------

// The code of a key's value. Clears `inside` if the value has none; the code is then any number.
GRAMPUS_DEVICE u32 code_of(i64 v, const KeyCodes& key, bool& inside) {
    u64 code = (u64)v - key.first;
    inside = inside && code < key.codes;
    return (u32)code;
}
GRAMPUS_DEVICE u32 code_of(i32 v, const KeyCodes& key, bool& inside) {
    u32 code = (u32)v - (u32)key.first;
    inside = inside && code < key.codes;
    return code;
}
GRAMPUS_DEVICE u32 code_of(u32 v, const KeyCodes& key, bool& inside) { return code_of((i32)v, key, inside); }
GRAMPUS_DEVICE u32 code_of(i16 v, const KeyCodes& key, bool& inside) { return code_of((i32)v, key, inside); }
GRAMPUS_DEVICE u32 code_of(i8 v, const KeyCodes& key, bool& inside) { return code_of((i32)v, key, inside); }
GRAMPUS_DEVICE u32 code_of(bool v, const KeyCodes& key, bool& inside) { return code_of((i32)v, key, inside); }
// Of floats, whole numbers have codes, and -0 has that of 0.
GRAMPUS_DEVICE u32 code_of(double v, const KeyCodes& key, bool& inside) {
    i32 whole = float_to_int(v);
    inside = inside && (double)whole == v;
    return code_of(whole, key, inside);
}
GRAMPUS_DEVICE u32 code_of(float v, const KeyCodes& key, bool& inside) { return code_of((double)v, key, inside); }
// Of decimals of 128 bits, those that fit in 64 bits have codes.
template <class T>
GRAMPUS_DEVICE u32 code_of_wide(T v, const KeyCodes& key, bool& inside) {
    inside = inside && (T)(i64)v == v;
    return code_of((i64)v, key, inside);
}
// Codes of times that are `first` and a multiple of UNIT.
template <i64 UNIT>
GRAMPUS_DEVICE u32 code_of_unit(i64 v, const KeyCodes& key, bool& inside) {
    u64 above = (u64)v - key.first, code = above / (u64)UNIT;
    inside = inside && code < key.codes && code * (u64)UNIT == above;
    return (u32)code;
}

// ---- a table for each lane --------------------------------------------------------------------------------

// Words by group, word and lane, so that no two lanes share a bank.
template <class Words>
struct LaneGroups {
    u64* cells;  // of this lane
    BlockPlace place;

    static GRAMPUS_DEVICE u32 words_of_warp(const GroupCodes& codes) { return codes.groups * Words::COUNT * WARP; }
    GRAMPUS_DEVICE LaneGroups(u64* memory, const GroupCodes& codes)
        : cells(memory + block_warp() * words_of_warp(codes) + lane_id()), place(block_place(cells)) {}

    // Collective.
    GRAMPUS_DEVICE void add(const GroupCodes&, bool inside, u32 group, u64 (&word)[Words::COUNT]) {
        constexpr u32 STEP = WARP * 8;  // bytes from a word to the next
        BlockPlace cell = place + group * (Words::COUNT * STEP);
        u64 sum[Words::COUNT];
        GRAMPUS_UNROLL
        for (u32 i = 0; i < Words::COUNT; i++) sum[i] = load_in_block_if(inside, cell + i * STEP);
        combine<Words>(sum, word);
        GRAMPUS_UNROLL
        for (u32 i = 0; i < Words::COUNT; i++) store_in_block_if(inside, cell + i * STEP, sum[i]);
    }

    // Leaves the warp's words. Collective.
    GRAMPUS_DEVICE void leave(const GroupCodes& codes, u64* to) {
        GRAMPUS_NO_UNROLL
        for (u32 group = 0; group < codes.groups; group++) {
            u64 word[Words::COUNT];
            GRAMPUS_UNROLL
            for (u32 i = 0; i < Words::COUNT; i++) word[i] = cells[(group * Words::COUNT + i) * WARP];
            combine_lanes<Words>(word);
            if (lane_id() != 0) continue;
            GRAMPUS_UNROLL
            for (u32 i = 0; i < Words::COUNT; i++) to[group * Words::COUNT + i] = word[i];
        }
    }
};

// ---- a table for each warp --------------------------------------------------------------------------------

// Combines the words of the active lanes of each group into those of the group's lowest lane, in an order that the
// lanes' groups alone determine. True for that lane. Collective.
template <class Words>
GRAMPUS_DEVICE bool combine_peers(bool active, u32 group, u64 (&word)[Words::COUNT]) {
    u32 peers = match(active ? group : ~0u), below = peers & lanes_below();
    u32 rank = count_bits(below), above = active ? peers & ~below & ~(1u << lane_id()) : 0;
    GRAMPUS_NO_UNROLL
    while (any(above != 0)) {
        u32 next = above != 0 ? lowest_bit(above) : lane_id();
        u64 other[Words::COUNT];
        GRAMPUS_UNROLL
        for (u32 i = 0; i < Words::COUNT; i++) other[i] = shuffle(word[i], next);
        if (above != 0) combine<Words>(word, other);
        // What lanes of odd rank have is in the lane before them now.
        above &= ballot(rank % 2 == 0);
        rank /= 2;
    }
    return active && below == 0;
}

template <class Words>
struct WarpGroups {
    u64* words;  // of this warp, by group and word

    static GRAMPUS_DEVICE u32 words_of_warp(const GroupCodes& codes) { return codes.groups * Words::COUNT; }
    GRAMPUS_DEVICE WarpGroups(u64* memory, const GroupCodes& codes)
        : words(memory + block_warp() * words_of_warp(codes)) {}

    // Collective.
    GRAMPUS_DEVICE void add(const GroupCodes&, bool inside, u32 group, u64 (&word)[Words::COUNT]) {
        if (combine_peers<Words>(inside, group, word)) combine<Words>(words + group * Words::COUNT, word);
        sync_warp();
    }

    // Collective.
    GRAMPUS_DEVICE void leave(const GroupCodes& codes, u64* to) {
        copy_words_together(to, words, words_of_warp(codes));
    }
};

// Begins a launch: the warp's table is that of the previous launch, or zeros. Collective.
template <class Groups>
GRAMPUS_DEVICE void begin_groups(const QueryHead& head, const GroupCodes& codes, u64* memory) {
    u32 count = Groups::words_of_warp(codes);
    u64* mine = memory + block_warp() * count;
    if ((head.flags & LAUNCH_FIRST) == 0) {
        copy_words_together(mine, (const u64*)head.state + (u64)launch_warp() * count, count);
    } else {
        GRAMPUS_NO_UNROLL
        for (u32 i = lane_id(); i < count; i += WARP) mine[i] = 0;
    }
    sync_warp();
}

// Ends a launch: the table is kept for the next one, or its words are left. Collective.
template <class Words, class Groups>
GRAMPUS_DEVICE void end_groups(const QueryHead& head, const GroupCodes& codes, u64* memory) {
    u32 count = Groups::words_of_warp(codes);
    sync_warp();
    if ((head.flags & LAUNCH_LAST) == 0) {
        copy_words_together((u64*)head.state + (u64)launch_warp() * count, memory + block_warp() * count, count);
    } else {
        Groups(memory, codes).leave(codes, codes.partials + (u64)launch_warp() * codes.groups * Words::COUNT);
    }
}

// ---- a table for each block -------------------------------------------------------------------------------

// Adds to a 64-bit word by native additions of 32 bits. The carry is added in its turn, so that the word is right when
// all additions have ended. Returns the carry out of the word.
GRAMPUS_DEVICE u32 add_halves(u32* half, u64 v) {
    u32 low = (u32)v;
    u64 high = (v >> 32) + (fetch_add_in_block(half, low) > ~low ? 1 : 0);
    u32 rest = (u32)high, carry = (u32)(high >> 32);
    if (rest != 0 && fetch_add_in_block(half + 1, rest) > ~rest) carry = 1;
    return carry;
}

// Slots of 32 bits: one for a count of rows, two for any other word. Each word has an array over the groups.
template <class Words>
struct BlockGroups {
    u32* slots;
    BlockPlace place;
    u32 room;  // groups of an array: even, so that words of 64 bits are aligned

    static GRAMPUS_DEVICE constexpr u32 width_of(u32 word) { return Words::is_count(word) ? 1 : 2; }
    static GRAMPUS_DEVICE constexpr u32 place_of(u32 word) {
        u32 place = 0;
        for (u32 i = 0; i < word; i++) place += width_of(i);
        return place;
    }
    GRAMPUS_DEVICE BlockGroups(u64* memory, const GroupCodes& codes)
        : slots((u32*)memory), place(block_place(memory)), room((codes.groups + 1) & ~1u) {}

    template <u32 AT>
    GRAMPUS_DEVICE u32* slot(u32 group) {
        constexpr u32 PLACE = place_of(AT), WIDTH = width_of(AT);
        return slots + PLACE * room + group * WIDTH;
    }

    GRAMPUS_DEVICE void add(const GroupCodes&, bool inside, u32 group, u64 (&word)[Words::COUNT]) {
        count_rows<0>(inside, group, word);
        if constexpr (!counts_alone(0)) {
            if (inside) add_words<0>(group, word);
        }
    }
    static GRAMPUS_DEVICE constexpr bool counts_alone(u32 from) {
        for (u32 i = from; i < Words::COUNT; i++)
            if (!Words::is_count(i)) return false;
        return true;
    }

    template <u32 AT>
    GRAMPUS_DEVICE void count_rows(bool inside, u32 group, const u64* word) {
        if constexpr (AT < Words::COUNT) {
            if constexpr (Words::is_count(AT))
                count_in_block_if(inside && word[AT] != 0, place + (place_of(AT) * room + group) * 4);
            count_rows<AT + 1>(inside, group, word);
        }
    }

    template <u32 AT>
    GRAMPUS_DEVICE void add_words(u32 group, const u64* word) {
        if constexpr (AT < Words::COUNT) {
            constexpr Op OP = Words::op(AT);
            u64 v = word[AT];
            if constexpr (Words::is_count(AT)) {
                // count_rows() has added it.
            } else if constexpr (OP == OP_ADD) {
                if (v != 0) add_halves(slot<AT>(group), v);
            } else if constexpr (OP == OP_ADD_FLOAT) {
                if (v != 0) add_float_in_block((double*)slot<AT>(group), bits_as<double>(v));
            } else if constexpr (OP == OP_ADD_WIDE) {
                u64 high = word[AT + 1] + add_halves(slot<AT>(group), v);
                if (high != 0) add_halves(slot<AT + 1>(group), high);
            } else if constexpr (OP == OP_MAX) {
                if (v != 0) max_in_block((u64*)slot<AT>(group), v);
            } else if constexpr (OP == OP_OR) {
                if ((u32)v != 0) or_in_block(slot<AT>(group), (u32)v);
                if (v >> 32 != 0) or_in_block(slot<AT>(group) + 1, (u32)(v >> 32));
            } else if constexpr (OP == OP_XOR) {
                if ((u32)v != 0) xor_in_block(slot<AT>(group), (u32)v);
                if (v >> 32 != 0) xor_in_block(slot<AT>(group) + 1, (u32)(v >> 32));
            }
            add_words<AT + 1>(group, word);
        }
    }

    template <u32 AT>
    GRAMPUS_DEVICE void read(u32 group, u64 (&word)[Words::COUNT]) {
        if constexpr (AT < Words::COUNT) {
            u32* at = slot<AT>(group);
            word[AT] = Words::is_count(AT) ? *at : *(const u64*)at;
            read<AT + 1>(group, word);
        }
    }
};

// Begins a launch with an empty table. All warps of the block.
template <class Words>
GRAMPUS_DEVICE void begin_block(const GroupCodes& codes, u64* memory) {
    BlockGroups<Words> table(memory, codes);
    constexpr u32 WIDTH = BlockGroups<Words>::place_of(Words::COUNT);
    GRAMPUS_NO_UNROLL
    for (u32 i = block_warp() * WARP + lane_id(); i < WIDTH * table.room; i += block_warps() * WARP) table.slots[i] = 0;
    sync_block();
}

// Ends a launch: adds the table to the block's partial, so that no count exceeds the rows of a launch. All warps of the
// block.
template <class Words>
GRAMPUS_DEVICE void end_block(const QueryHead& head, const GroupCodes& codes, u64* memory) {
    BlockGroups<Words> table(memory, codes);
    u64* partial = codes.partials + (u64)launch_block() * codes.groups * Words::COUNT;
    sync_block();
    GRAMPUS_NO_UNROLL
    for (u32 group = block_warp() * WARP + lane_id(); group < codes.groups; group += block_warps() * WARP) {
        u64 word[Words::COUNT], sum[Words::COUNT];
        table.template read<0>(group, word);
        u64* to = partial + (u64)group * Words::COUNT;
        GRAMPUS_UNROLL
        for (u32 i = 0; i < Words::COUNT; i++) sum[i] = (head.flags & LAUNCH_FIRST) != 0 ? 0 : to[i];
        combine<Words>(sum, word);
        GRAMPUS_UNROLL
        for (u32 i = 0; i < Words::COUNT; i++) to[i] = sum[i];
    }
}

// Adds to the warp's counters: rows looked at, which is the same in all lanes, and each lane's rows that passed.
// Collective.
GRAMPUS_DEVICE void count_rows(const QueryHead& head, u64 looked, u32 passed) {
    u64* counters = head.counters + (u64)launch_warp() * 2;
    passed = sum_of_lanes(passed);
    if (lane_id() == 0) {
        counters[0] += looked;
        counters[1] += passed;
    }
}

// ---- the result -------------------------------------------------------------------------------------------

// Combines the partials of each group, always in the same order: the lanes of a warp take them in turn.
template <class Words>
GRAMPUS_DEVICE void merge_groups(const GroupCodes& codes) {
    GRAMPUS_NO_UNROLL
    for (u32 group = launch_warp(); group < codes.groups; group += launch_warps()) {
        u64 word[Words::COUNT];
        GRAMPUS_UNROLL
        for (u32 i = 0; i < Words::COUNT; i++) word[i] = 0;
        GRAMPUS_NO_UNROLL
        for (u32 partial = lane_id(); partial < codes.partial_count; partial += WARP) {
            const u64* from = codes.partials + ((u64)partial * codes.groups + group) * Words::COUNT;
            u64 next[Words::COUNT];
            GRAMPUS_UNROLL
            for (u32 i = 0; i < Words::COUNT; i++) next[i] = from[i];
            combine<Words>(word, next);
        }
        combine_lanes<Words>(word);
        if (lane_id() != 0) continue;
        GRAMPUS_UNROLL
        for (u32 i = 0; i < Words::COUNT; i++) codes.merged[(u64)group * Words::COUNT + i] = word[i];
    }
}

}  // namespace grampus
