// `decompress_short_elements`: many elements of a Snappy or LZ4 chunk at once, by one warp.
//
// An element is a Snappy element or an LZ4 sequence.
//
// 1. Lane i parses an element at byte i of the next WARP input bytes, as if one began there (`Codec::short_element`).
// 2. Pointer doubling over the lengths gives lane k the k-th element that really begins there.
// 3. A prefix sum gives each element its place in the output. Elements up to the first invalid one form the batch.
// 4. `store_elements` stores the bytes of the batch.
//
// **Invariant:** only bytes of the chunk are read, and only bytes of the output, before `bytes`, are written.
#pragma once
#include "decompress.h"
#include "element_batch.cuh"
#include "stream_bytes.cuh"

namespace grampus {

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
GRAMPUS_DEVICE bool decompress_short_elements(StreamBytes& in, u8* to, u32& at, u32 bytes, ElementBatch& batch) {
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

    const u32 from = in.at + 1;
    store_elements(to, at, count, total, packed_element(begin, literals, place), offset,
                   [&](u32 of_element, u32 nth) { return in.byte(from + of_element + nth); }, batch);
    in.at += consumed;
    at += total;
    return true;
}

}  // namespace grampus
