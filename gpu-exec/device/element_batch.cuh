// `store_elements`: the output of up to WARP elements at once, by one warp.
//
// An element is some literal bytes, then a copy of earlier output; one of both may be empty. Of compressed numbers,
// elements have a few bytes. One by one, each would cost a warp the latency of a load.
//
// 1. Each lane finds the element of its output bytes, and their source: a literal byte, output of before the batch, or
//    an earlier byte of the batch. Pointer doubling in shared memory replaces the third kind by the other two.
// 2. The lanes store all bytes of the batch.
//
// **Invariant:** only bytes of the output are written.
#pragma once
#include "target.cuh"

namespace grampus {

// Output bytes of an element. Longer ones are left to the warp's copies of whole words.
constexpr u32 MAX_SHORT_ELEMENT = 32;
// Output bytes of a batch.
constexpr u32 MAX_BATCH = 128;
// A lane has every WARP-th of them.
constexpr u32 BATCH_PARTS = MAX_BATCH / WARP;

// Of a warp, in shared memory: for each output byte of the batch.
struct ElementBatch {
    u8 source[MAX_BATCH];  // an earlier byte of the batch with the same value, or the byte itself
    u8 value[MAX_BATCH];   // of bytes that are their own source
};

// A byte for each part of the batch. On a GPU the four bytes take one register.
class LaneBytes {
    u32 words[(BATCH_PARTS + 3) / 4];

  public:
    GRAMPUS_DEVICE LaneBytes() {
        GRAMPUS_UNROLL
        for (u32 i = 0; i < (BATCH_PARTS + 3) / 4; i++) words[i] = 0;
    }
    // Sets a byte that is zero.
    GRAMPUS_DEVICE void set(u32 part, u32 byte) { words[part / 4] |= byte << part % 4 * 8; }
    GRAMPUS_DEVICE u32 get(u32 part) const { return words[part / 4] >> part % 4 * 8 & 0xFF; }
};

// Where an element of a batch begins in its output, its literal bytes, and what `literal` gets.
GRAMPUS_DEVICE u32 packed_element(u32 begin, u32 literals, u32 of_literal) {
    return begin | literals << 8 | of_literal << 16;
}

// Stores `total` bytes, 1 to MAX_BATCH, to `to` from `at` on: those of the elements of the first `count` lanes, which
// are in order and not empty. `element`: packed_element(). `offset`: from a copied byte to its source, which exists.
// `literal(of_literal, nth)`: a literal byte. The lanes see all bytes before `at`, and afterwards all bytes.
// Collective.
template <class Literal>
GRAMPUS_DEVICE void store_elements(u8* to, u32 at, u32 count, u32 total, u32 element, u32 offset,
                                   const Literal& literal, ElementBatch& batch) {
    const u32 lane = lane_id();
    LaneBytes source;
    u32 value[BATCH_PARTS], before = 0;  // a register for each value: no load waits for another
    bool unresolved = false;
    GRAMPUS_UNROLL
    for (u32 part = 0; part < BATCH_PARTS && part * WARP < total; part++) {
        const u32 i = part * WARP + lane;
        // Bit b: an element begins at byte b of this part.
        const bool is_here = lane < count && (element & 0xFF) / WARP == part;
        const u32 begins = or_within(FULL, is_here ? 1u << element % WARP : 0);
        const u32 owner = before + count_bits(begins & (lanes_below() | 1u << lane)) - 1;
        before += count_bits(begins);
        const u32 e = shuffle(element, owner), distance = shuffle(offset, owner);
        const u32 nth = i - (e & 0xFF), direct = e >> 8 & 0xFF;
        if (i >= total) continue;
        u32 from = i;
        if (nth < direct) value[part] = literal(e >> 16, nth);
        else if (distance > i) value[part] = to[at + i - distance];
        else from = i - distance;
        source.set(part, from);
        batch.source[i] = (u8)from;
        unresolved |= from != i;
    }
    // A source lies before its byte, so each chain ends at a byte with a value, and doubling finds the end.
    GRAMPUS_NO_UNROLL
    while (any(unresolved)) {
        sync_warp();
        LaneBytes further;
        GRAMPUS_UNROLL
        for (u32 part = 0; part < BATCH_PARTS && part * WARP < total; part++)
            if (part * WARP + lane < total) further.set(part, batch.source[source.get(part)]);
        sync_warp();
        unresolved = false;
        GRAMPUS_UNROLL
        for (u32 part = 0; part < BATCH_PARTS && part * WARP < total; part++) {
            if (part * WARP + lane >= total) continue;
            unresolved |= further.get(part) != source.get(part);
            batch.source[part * WARP + lane] = (u8)further.get(part);
        }
        source = further;
    }
    GRAMPUS_UNROLL
    for (u32 part = 0; part < BATCH_PARTS && part * WARP < total; part++) {
        const u32 i = part * WARP + lane;
        if (i < total && source.get(part) == i) batch.value[i] = (u8)value[part];
    }
    sync_warp();
    GRAMPUS_UNROLL
    for (u32 part = 0; part < BATCH_PARTS && part * WARP < total; part++) {
        const u32 i = part * WARP + lane;
        if (i < total) to[at + i] = batch.value[source.get(part)];
    }
    sync_warp();
}

}  // namespace grampus
