// `decompress_short_elements`: many elements of a Snappy or LZ4 chunk at once, by one warp.
//
// An element is a Snappy element or an LZ4 sequence: literal bytes, then a copy of earlier output; one of both may be
// empty. Elements of compressed numbers have a few bytes. One by one, each costs a warp the latency of a load.
//
// 1. Lane i parses an element at byte i of the next WARP input bytes, as if one began there (`Codec::short_element`).
// 2. Pointer doubling over the lengths gives lane k the k-th element that really begins there.
// 3. A prefix sum gives each element its place in the output. Elements up to the first invalid one form the batch.
// 4. Each lane finds the element of its output bytes, and their source: an input byte, output of before the batch, or
//    an earlier byte of the batch. Pointer doubling in shared memory replaces the third kind by the other two.
// 5. The lanes store all bytes of the batch.
//
// **Invariant:** only bytes of the chunk are read, and only bytes of the output, before `bytes`, are written.
#pragma once
#include "decompress.h"
#include "stream_bytes.cuh"

namespace grampus {

// Output bytes of an element. Longer ones are left to the warp's copies of whole words.
constexpr u32 MAX_SHORT_ELEMENT = 32;
// Output bytes of a batch.
constexpr u32 MAX_BATCH = 128;
// A lane has every WARP-th of them.
constexpr u32 BATCH_PARTS = MAX_BATCH / WARP;

// Of a warp, in shared memory: for each output byte of the batch.
struct ShortElementBatch {
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

// The literal bytes begin at the element's second byte.
struct ShortElement {
    u32 length;    // in the input; 0: no short element that lies in the chunk begins here
    u32 literals;  // bytes
    u32 copies;    // bytes behind the literal ones; together 1 to MAX_SHORT_ELEMENT
    u32 offset;    // from a copied byte to its source; not checked
};

// The beginning of the element after `lane_id()` others, of elements that begin at byte 0 and of which `length` is the
// one at each lane's byte; at least WARP if that is no beginning in the window. Collective.
GRAMPUS_DEVICE u32 nth_beginning(u32 length) {
    u32 lane = lane_id(), next = length == 0 ? WARP : lane + length, at = 0;
    GRAMPUS_UNROLL
    for (u32 by = 1; by < WARP; by *= 2) {
        u32 stepped = shuffle(next, at % WARP), doubled = shuffle(next, next % WARP);
        if ((lane & by) != 0 && at < WARP) at = stepped;
        if (next < WARP) next = doubled;
    }
    return at;
}

// Decompresses the short elements at `in.at`, to `to` from `at` on, and moves both positions behind the batch. False
// if no valid short element begins there. The lanes see all bytes before `at`, and afterwards all bytes. Collective.
template <class Codec>
GRAMPUS_DEVICE bool decompress_short_elements(StreamBytes& in, u8* to, u32& at, u32 bytes, ShortElementBatch& batch) {
    const u32 lane = lane_id();
    ShortElement mine = {0, 0, 0, 0};
    if (lane < in.length - in.at) mine = Codec::short_element(in, in.at + lane);
    if (shuffle(mine.length, 0) == 0) return false;

    const u32 place = nth_beginning(mine.length);
    const u32 shape = shuffle(mine.length | mine.literals << 8 | mine.copies << 16, place % WARP);
    const u32 offset = shuffle(mine.offset, place % WARP);
    const u32 length = shape & 0xFF, literals = shape >> 8 & 0xFF, copies = shape >> 16;
    const bool here = place < WARP && length != 0;
    u32 end = here ? literals + copies : 0;
    GRAMPUS_UNROLL
    for (u32 by = 1; by < WARP; by *= 2) {
        u32 below = shuffle_up(end, by);
        if (lane >= by) end += below;
    }
    const u32 begin = end - literals - copies;
    const bool source_exists = copies == 0 || (offset != 0 && offset <= at + begin + literals);
    const u32 count = leading_lanes(here && source_exists && end <= MAX_BATCH && end <= bytes - at);
    if (count == 0) return false;
    const u32 total = shuffle(end, count - 1), consumed = shuffle(place + length, count - 1);

    const u32 element = begin | literals << 8 | place << 16;
    LaneBytes source;
    u32 value[BATCH_PARTS], before = 0;  // a register for each value: no load waits for another
    bool unresolved = false;
    GRAMPUS_UNROLL
    for (u32 part = 0; part < BATCH_PARTS && part * WARP < total; part++) {
        const u32 i = part * WARP + lane;
        // Bit b: an element begins at byte b of this part.
        const u32 begins = or_within(FULL, lane < count && begin / WARP == part ? 1u << begin % WARP : 0);
        const u32 owner = before + count_bits(begins & (lanes_below() | 1u << lane)) - 1;
        before += count_bits(begins);
        const u32 e = shuffle(element, owner), distance = shuffle(offset, owner);
        const u32 nth = i - (e & 0xFF), direct = e >> 8 & 0xFF;
        if (i >= total) continue;
        u32 from = i;
        if (nth < direct) value[part] = in.byte(in.at + (e >> 16) + 1 + nth);
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
    in.at += consumed;
    at += total;
    return true;
}

}  // namespace grampus
