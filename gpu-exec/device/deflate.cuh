// `decompress_deflate`: a raw deflate chunk, by one warp (RFC 1951).
//
// Symbols have no places of their own in the input: each begins where the last one ends. Lane i decodes those of the
// i-th of WARP segments of the input, as if one began at its first bit. Then each lane that began elsewhere than the
// lane before it ended decodes again from there, until all agree. Prefix codes fall into step after a few symbols,
// whatever they began with (Weißenberger and Schmidt, "Massively Parallel Huffman Decoding on GPUs", ICPP 2018), so
// four or five turns are usual. In the last turn the lanes note their symbols, and the warp stores the bytes of many.
//
// What the RFC leaves open is as in libdeflate, which decompresses on the CPU: length symbols 286 and 287 are 285, and
// distance symbols 30 and 31 are 29.
#pragma once
#include "bit_window.cuh"
#include "byte_copy.cuh"
#include "decompress.h"
#include "element_batch.cuh"
#include "prefix_code.cuh"

namespace grampus {

constexpr u32 LENGTH_SYMBOLS = 288, DISTANCE_SYMBOLS = 32, END_OF_BLOCK = 256;
// Of the input, for each lane.
constexpr u32 SEGMENT_BITS = 128;
// A symbol with its further bits, and a copy's distance: 15 + 5 + 15 + 13 bits.
constexpr u32 MAX_SYMBOL_BITS = 48;
// Words of a segment and of a symbol that begins in its last bit.
constexpr u32 SEGMENT_WORDS = (SEGMENT_BITS + MAX_SYMBOL_BITS + 31) / 32;
// Symbols that the warp notes at a time: at least those of one segment.
constexpr u32 MAX_NOTED = 384;

// What a code means: a value to which further bits are added. Bits 0 to 4: of the code and the further ones together;
// bits 5 to 8: of the code; bit 9: a copy's length or distance; bit 10: the end; from bit 16 on: the value.
struct CodeEntry {
    u32 word;
    GRAMPUS_DEVICE u32 bits() const { return word & 31; }
    GRAMPUS_DEVICE bool is_copy() const { return (word >> 9 & 1) != 0; }
    GRAMPUS_DEVICE bool is_end() const { return (word >> 10 & 1) != 0; }
    // With the further bits of those that the code begins.
    GRAMPUS_DEVICE u32 value(u32 bits) const {
        return (word >> 16) + ((bits & ~(~0u << (word & 31))) >> (word >> 5 & 15));
    }
};
GRAMPUS_DEVICE u32 copy_entry(u32 value, u32 code_bits, u32 further_bits) {
    return value << 16 | 1 << 9 | code_bits << 5 | (code_bits + further_bits);
}
// Literal bytes, the end, and lengths.
struct LengthEntry {
    GRAMPUS_DEVICE static u32 of(u32 symbol, u32 bits) {
        if (symbol <= END_OF_BLOCK) return symbol << 16 | (symbol == END_OF_BLOCK ? 1 << 10 : 0) | bits << 5 | bits;
        if (symbol < 265) return copy_entry(symbol - 254, bits, 0);
        if (symbol >= 285) return copy_entry(258, bits, 0);
        const u32 further = (symbol - 261) / 4;
        return copy_entry(((4 + (symbol - 261) % 4) << further) + 3, bits, further);
    }
};
struct DistanceEntry {
    GRAMPUS_DEVICE static u32 of(u32 symbol, u32 bits) {
        if (symbol < 4) return copy_entry(symbol + 1, bits, 0);
        const u32 last = symbol < 29 ? symbol : 29, further = last / 2 - 1;
        return copy_entry(((2 + last % 2) << further) + 1, bits, further);
    }
};
// The symbols of the code of the codes' lengths.
struct PlainEntry {
    GRAMPUS_DEVICE static u32 of(u32 symbol, u32 bits) { return symbol << 16 | bits << 5 | bits; }
};

// Of a warp, in shared memory.
struct DeflateState {
    PrefixCode<LengthEntry, 10, LENGTH_SYMBOLS> symbols;
    PrefixCode<DistanceEntry, 8, DISTANCE_SYMBOLS> distances;
    union {
        u32 noted[MAX_NOTED];  // a literal byte, or a copy's length << 16 | its distance - 1
        struct {
            PrefixCode<PlainEntry, 7, 19> code;
            u8 of[LENGTH_SYMBOLS + DISTANCE_SYMBOLS];
        } lengths;  // of both codes
    };
    ElementBatch batch;
};

// The symbols whose lengths stand first in a block with codes of its own, in that order: five bits each.
GRAMPUS_DEVICE u32 length_code_symbol(u32 i) {
    constexpr u64 FIRST = 16 | 17 << 5 | 18 << 10 | 0 << 15 | 8 << 20 | 7 << 25 | 9ull << 30 | 6ull << 35 |
                          10ull << 40 | 5ull << 45 | 11ull << 50 | 4ull << 55;
    constexpr u64 REST = 12 | 3 << 5 | 13 << 10 | 2 << 15 | 14 << 20 | 1 << 25 | 15ull << 30;
    return (u32)((i < 12 ? FIRST >> 5 * i : REST >> 5 * (i - 12)) & 31);
}

// The codes that a block states (section 3.2.7). False: they make no sense. Collective.
GRAMPUS_SLOW bool read_codes(BitWindow& in, DeflateState& state) {
    const u32 lane = lane_id();
    u8* const lengths = state.lengths.of;
    in.refill();
    const u32 symbols = 257 + in.take(5), all = symbols + 1 + in.take(5), stated = 4 + in.take(4);
    sync_warp();
    for (u32 i = lane; i < 19; i += WARP) lengths[i] = 0;
    sync_warp();
    GRAMPUS_NO_UNROLL
    for (u32 i = 0; i < stated; i++) {
        in.refill();
        const u32 length = in.take(3);
        if (lane == 0) lengths[length_code_symbol(i)] = (u8)length;
    }
    if (!state.lengths.code.make(lengths, 19)) return false;
    u32 last = 0, count;
    GRAMPUS_NO_UNROLL
    for (u32 i = 0; i < all; i += count) {
        in.refill();
        const CodeEntry entry = {state.lengths.code.entry((u32)in.bits)};
        const u32 symbol = entry.word >> 16;
        in.drop(entry.bits());
        count = 1;
        if (symbol == 16) count = 3 + in.take(2);
        else if (symbol == 17) count = 3 + in.take(3);
        else if (symbol == 18) count = 11 + in.take(7);
        if (count > all - i || (symbol == 16 && i == 0) || in.is_overrun()) return false;
        if (symbol != 16) last = symbol < 16 ? symbol : 0;
        GRAMPUS_NO_UNROLL
        for (u32 k = lane; k < count; k += WARP) lengths[i + k] = (u8)last;
    }
    return state.symbols.make(lengths, symbols) && state.distances.make(lengths + symbols, all - symbols);
}

// The codes of section 3.2.6. Collective.
GRAMPUS_SLOW void fixed_codes(DeflateState& state) {
    u8* const lengths = state.lengths.of;
    sync_warp();
    for (u32 i = lane_id(); i < LENGTH_SYMBOLS + DISTANCE_SYMBOLS; i += WARP)
        lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : i < LENGTH_SYMBOLS ? 8 : 5;
    state.symbols.make(lengths, LENGTH_SYMBOLS);
    state.distances.make(lengths + LENGTH_SYMBOLS, DISTANCE_SYMBOLS);
}

// Bits of a lane, up to those of a segment and a symbol.
struct LaneBits {
    u32 words[SEGMENT_WORDS];

    // Moves over up to 31 bits.
    GRAMPUS_DEVICE void drop(u32 count) {
        GRAMPUS_UNROLL
        for (u32 i = 0; i + 1 < SEGMENT_WORDS; i++) words[i] = funnel(words[i], words[i + 1], count);
        words[SEGMENT_WORDS - 1] >>= count;
    }
};

// A lane's symbols: those that begin in its segment, from `begin` on. Bits are counted from the segment's first one.
struct SegmentSymbols {
    static constexpr u32 NONE = ~0u;     // `begin` and `end`: a lane before has reached the end of the block
    static constexpr u32 ENDED = 1 << 31;  // `end`: the end of the block was a symbol

    u32 begin, end;
    u32 count;  // symbols without the end
    u32 bytes;  // that they make

    // Decodes the symbols; `each(nth, noted)` gets them as DeflateState::noted has them.
    template <class Each>
    GRAMPUS_DEVICE void decode(LaneBits bits, DeflateState& state, const Each& each) {
        u32 at = begin;
        count = bytes = 0;
        end = NONE;
        if (begin == NONE) return;
        if (begin >= 32) bits.drop(31), bits.drop(begin - 31);
        else bits.drop(begin);
        bool ended = false;
        GRAMPUS_NO_UNROLL
        while (at < SEGMENT_BITS && !ended) {
            const CodeEntry symbol = {state.symbols.entry(bits.words[0])};
            const u32 value = symbol.value(bits.words[0]);
            at += symbol.bits();
            bits.drop(symbol.bits());
            ended = symbol.is_end();
            if (symbol.is_copy()) {
                const CodeEntry distance = {state.distances.entry(bits.words[0])};
                each(count, value << 16 | (distance.value(bits.words[0]) - 1));
                at += distance.bits();
                bits.drop(distance.bits());
                bytes += value;
            } else if (!ended) {
                each(count, value);
                bytes++;
            }
            if (!ended) count++;
        }
        end = ended ? ENDED | at : at - SEGMENT_BITS;
    }
};

// The sum over the lanes up to this one. Collective.
GRAMPUS_DEVICE u32 sum_up_to(u32 v) {
    GRAMPUS_UNROLL
    for (u32 by = 1; by < WARP; by *= 2) {
        const u32 below = shuffle_up(v, by);
        if (lane_id() >= by) v += below;
    }
    return v;
}

// Stores the bytes of `count` noted symbols to the chunk's output from `at` on. Returns a CHUNK_…. Collective.
GRAMPUS_DEVICE u32 store_noted(const StoredChunk& chunk, u32& at, u32 count, DeflateState& state) {
    const u32 lane = lane_id();
    GRAMPUS_NO_UNROLL
    for (u32 first = 0; first < count;) {
        const u32 first_copied = state.noted[first] >> 16;
        if (first_copied > MAX_SHORT_ELEMENT) {
            const u32 distance = (state.noted[first] & 0xFFFF) + 1;
            if (distance > at) return CHUNK_CORRUPT;
            if (first_copied > chunk.bytes - at) return CHUNK_TOO_LONG;
            repeat_bytes(chunk.to, at, distance, first_copied);
            first++;
            at += first_copied;
            continue;
        }
        const bool is_here = first + lane < count;
        const u32 noted = is_here ? state.noted[first + lane] : 0, copied = noted >> 16;
        const u32 distance = copied == 0 ? 0 : (noted & 0xFFFF) + 1, bytes = copied == 0 ? 1 : copied;
        const u32 end = sum_up_to(bytes), begin = end - bytes;
        const u32 batch = leading_lanes(is_here && copied <= MAX_SHORT_ELEMENT && end <= MAX_BATCH);
        if (any(lane < batch && distance > at + begin)) return CHUNK_CORRUPT;
        const u32 total = shuffle(end, batch - 1);
        if (total > chunk.bytes - at) return CHUNK_TOO_LONG;
        if (any(lane < batch && copied != 0)) {
            const u32 element = packed_element(begin, copied == 0 ? 1 : 0, noted & 0xFF);
            store_elements(chunk.to, at, batch, total, element, distance, [](u32 byte, u32) { return byte; },
                           state.batch);
        } else {
            if (lane < batch) chunk.to[at + lane] = (u8)noted;
            sync_warp();
        }
        first += batch;
        at += total;
    }
    return CHUNK_OK;
}

// A block of symbols up to its end. Returns a CHUNK_…. Collective.
GRAMPUS_DEVICE u32 decompress_symbols(BitWindow& in, DeflateState& state, const StoredChunk& chunk, u32& at) {
    const u32 lane = lane_id();
    u32 from = in.position();
    GRAMPUS_NO_UNROLL
    for (;;) {
        LaneBits bits;
        in.words_at(from + lane * SEGMENT_BITS, bits.words);
        SegmentSymbols mine = {0, 0, 0, 0};
        bool again = true;
        GRAMPUS_NO_UNROLL
        while (any(again)) {
            if (again) mine.decode(bits, state, [](u32, u32) {});
            const u32 before = shuffle_up(mine.end, 1);
            const u32 begin = before >= SegmentSymbols::ENDED ? SegmentSymbols::NONE : before;
            again = lane > 0 && begin != mine.begin;
            if (again) mine.begin = begin;
        }
        const u32 noted_end = sum_up_to(mine.count);
        u32 lanes = leading_lanes(noted_end <= MAX_NOTED);
        const u32 ending = leading_lanes(mine.end < SegmentSymbols::ENDED);
        const bool is_last = ending < lanes;
        if (is_last) lanes = ending + 1;
        if (lane < lanes) {
            u32* const to = state.noted + (noted_end - mine.count);
            mine.decode(bits, state, [to](u32 nth, u32 noted) { to[nth] = noted; });
        }
        sync_warp();
        const u32 end = shuffle(mine.end & ~SegmentSymbols::ENDED, lanes - 1);
        from += is_last ? (lanes - 1) * SEGMENT_BITS + end : lanes * SEGMENT_BITS + end;
        if (from > chunk.length * 8) return CHUNK_CORRUPT;
        const u32 status = store_noted(chunk, at, shuffle(noted_end, lanes - 1), state);
        if (status != CHUNK_OK) return status;
        sync_warp();
        if (is_last) break;
    }
    in.seek(from);
    return CHUNK_OK;
}

// A block of bytes as they are. Returns a CHUNK_…. Collective.
GRAMPUS_DEVICE u32 copy_stored(BitWindow& in, const StoredChunk& chunk, u32& at) {
    in.align();
    in.refill();
    const u32 length = in.take(16), check = in.take(16), from = in.align();
    if (in.is_overrun() || length != (check ^ 0xFFFF) || length > chunk.length - from) return CHUNK_CORRUPT;
    if (length > chunk.bytes - at) return CHUNK_TOO_LONG;
    copy_bytes<FromInput>(chunk.to + at, chunk.from + from, length);
    sync_warp();
    at += length;
    in.seek((from + length) * 8);
    return CHUNK_OK;
}

// Collective; all lanes get the result.
GRAMPUS_DEVICE ChunkResult decompress_deflate(const StoredChunk& chunk, DeflateState& state) {
    BitWindow in(chunk.from, chunk.length);
    u32 last, at = 0, status = CHUNK_OK;
    GRAMPUS_NO_UNROLL
    do {
        in.refill();
        last = in.take(1);
        const u32 kind = in.take(2);
        if (in.is_overrun() || kind == 3) return ChunkResult{CHUNK_CORRUPT, 0};
        if (kind == 0) {
            status = copy_stored(in, chunk, at);
        } else {
            if (kind == 1) fixed_codes(state);
            else if (!read_codes(in, state)) return ChunkResult{CHUNK_CORRUPT, 0};
            status = decompress_symbols(in, state, chunk, at);
        }
    } while (status == CHUNK_OK && last == 0);
    return status == CHUNK_OK ? ChunkResult{CHUNK_OK, at} : ChunkResult{status, 0};
}

}  // namespace grampus
