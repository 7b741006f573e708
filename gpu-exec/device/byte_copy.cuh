// Copies of bytes by a warp, at any alignment: `copy_bytes` from elsewhere, `repeat_bytes` from behind.
//
// **Invariant:** no byte outside of the target is written, and no word is read that holds no byte of the source.
#pragma once
#include "target.cuh"

namespace grampus {

// Fewer bytes are copied one by one: each lane has two of them.
constexpr u32 MIN_WORD_COPY = 2 * 32;

// Bytes of a stream that no kernel writes, and bytes that this kernel has written.
struct FromInput {
    template <class T> GRAMPUS_DEVICE static T load(const T* p) { return load_constant(p); }
};
struct FromOutput {
    template <class T> GRAMPUS_DEVICE static T load(const T* p) { return *p; }
};

// Copies bytes that lie apart from their target, whole words of the target at a time. Collective.
template <class From>
GRAMPUS_DEVICE void copy_words(u8* to, const u8* from, u32 count) {
    u32 head = (u32)(0 - (u64)to) & 7, lane = lane_id();
    if (head > count) head = count;
    u32 words = (count - head) / 8, tail = head + words * 8;
    for (u32 i = lane; i < head; i += WARP) to[i] = From::load(from + i);
    for (u32 i = tail + lane; i < count; i += WARP) to[i] = From::load(from + i);
    u64 start = (u64)(from + head);
    const u64* source = (const u64*)(start & ~7ull);
    u64* target = (u64*)(to + head);
    u32 shift = (u32)(start & 7) * 8;
    GRAMPUS_NO_UNROLL
    for (u32 i = lane; i < words; i += WARP) {
        u64 v = From::load(source + i);
        if (shift != 0) v = v >> shift | From::load(source + i + 1) << (64 - shift);
        target[i] = v;
    }
}

// Copies bytes that lie apart from their target. Collective.
template <class From>
GRAMPUS_DEVICE void copy_bytes(u8* to, const u8* from, u32 count) {
    if (count >= MIN_WORD_COPY) {
        copy_words<From>(to, from, count);
        return;
    }
    GRAMPUS_NO_UNROLL
    for (u32 i = lane_id(); i < count; i += WARP) to[i] = From::load(from + i);
}

// Appends `count` bytes to begin[0 .. at - 1]: its last `offset` bytes, again and again. 0 < offset <= at. The lanes
// see all bytes before `at`, and afterwards all bytes. Collective.
GRAMPUS_DEVICE void repeat_bytes(u8* begin, u32 at, u32 offset, u32 count) {
    u32 span = offset;  // bytes that repeat: a multiple of the offset
    if (offset < MIN_WORD_COPY && count > offset) {
        // Of a short pattern each lane knows its bytes: no lane waits for another.
        u32 most = 2 * MIN_WORD_COPY / offset * offset, n = count < most ? count : most;
        u32 from = lane_id() % offset, step = WARP % offset;
        GRAMPUS_NO_UNROLL
        for (u32 i = lane_id(); i < n; i += WARP) {
            begin[at + i] = begin[at - offset + from];
            from += step;
            if (from >= offset) from -= offset;
        }
        sync_warp();
        at += n;
        count -= n;
        span += n;  // if bytes are left, n is a multiple of the offset
    }
    GRAMPUS_NO_UNROLL
    while (count > 0) {
        // Whole words are read only where all of their bytes are written: not in the last word before `at`.
        u8* from = begin + (at - span);
        u32 n = span >= MIN_WORD_COPY ? span - 7 : span;
        if (n > count) n = count;
        bool inside = n >= MIN_WORD_COPY && ((u64)from & ~7ull) >= (u64)begin;
        if (inside) copy_words<FromOutput>(begin + at, from, n);
        else
            for (u32 i = lane_id(); i < n; i += WARP) begin[at + i] = from[i];
        sync_warp();
        at += n;
        count -= n;
        span += n / offset * offset;
    }
}

}  // namespace grampus
