// `PrefixCode`: a Huffman code of deflate, from the lengths of its codes (RFC 1951, section 3.2.2).
//
// The codes of one length are consecutive numbers, in the order of their symbols. Compared by their first 15 bits, all
// codes of a length lie below those of the next one. So a length's limit finds a code, and its base the symbol.
#pragma once
#include "target.cuh"

namespace grampus {

constexpr u32 MAX_CODE_BITS = 15;

// The lowest 15 bits, in the opposite order.
GRAMPUS_DEVICE u32 reverse_code(u32 v) {
    v = (v & 0x5555) << 1 | (v >> 1 & 0x5555);
    v = (v & 0x3333) << 2 | (v >> 2 & 0x3333);
    v = (v & 0x0F0F) << 4 | (v >> 4 & 0x0F0F);
    v = (v & 0x00FF) << 8 | (v >> 8 & 0x00FF);
    return v >> 1 & 0x7FFF;
}

// In shared memory, for a warp.
struct CodeLengths {
    u16 limit[MAX_CODE_BITS + 1];  // the first 15 bits of this length's codes, and of shorter ones, are less
    u16 base[MAX_CODE_BITS + 1];   // what a code of this length and its symbol's place in `sorted` differ by
    u16 count[MAX_CODE_BITS + 1];  // codes of this length
    u16 next[MAX_CODE_BITS + 1];   // place in `sorted` of its next symbol, while the code is made
};

// A code's symbols in shared memory.
struct CodeSymbols {
    u16* sorted;  // by code; two at least
    CodeLengths* lengths;

    // The first code of `bits` that has at least `least` bits and at most `most`: its symbol << 4 | its bits. 0: none.
    GRAMPUS_DEVICE u32 search(u32 bits, u32 least, u32 most) const {
        const u32 code = reverse_code(bits);
        GRAMPUS_NO_UNROLL
        for (u32 length = least; length <= most; length++)
            if (code < lengths->limit[length])
                return (u32)sorted[(lengths->base[length] + (code >> (MAX_CODE_BITS - length))) & 0xFFFF] << 4 | length;
        return 0;
    }

    // Numbers the codes. False: there are more of them than bits can tell apart, or fewer. As in libdeflate, a single
    // code of one bit and no code at all are codes of which both bits mean the one symbol, or symbol 0.
    GRAMPUS_DEVICE bool number() const {
        u32 end = 0, place = 0;
        GRAMPUS_NO_UNROLL
        for (u32 length = 1; length <= MAX_CODE_BITS; length++) {
            const u32 count = lengths->count[length], step = MAX_CODE_BITS - length;
            if (lane_id() == 0) {
                lengths->base[length] = (u16)(place - (end >> step));
                lengths->next[length] = (u16)place;
            }
            end += count << step;
            place += count;
            if (end > 1u << MAX_CODE_BITS) return false;
            if (lane_id() == 0) lengths->limit[length] = (u16)end;
        }
        const bool has_all = end == 1u << MAX_CODE_BITS;
        if (!has_all && (place > 1 || place != lengths->count[1])) return false;
        sync_warp();
        if (lane_id() == 0 && !has_all) {
            lengths->limit[1] = 1u << MAX_CODE_BITS;
            if (place == 0) sorted[0] = sorted[1] = 0;
        }
        return true;
    }
};

// Numbers a code's symbols by their lengths in bits, 0 for those without a code. `lengths` lies in shared memory.
// False: they are those of no code. Collective.
GRAMPUS_SLOW bool sort_symbols(CodeSymbols code, const u8* lengths, u32 symbols) {
    const u32 lane = lane_id();
    sync_warp();
    for (u32 i = lane; i <= MAX_CODE_BITS; i += WARP) code.lengths->count[i] = 0;
    sync_warp();
    GRAMPUS_NO_UNROLL
    for (u32 first = 0; first < symbols; first += WARP) {
        const u32 length = first + lane < symbols ? lengths[first + lane] : 0, same = match(length);
        if (length != 0 && (same & lanes_below()) == 0) code.lengths->count[length] += (u16)count_bits(same);
        sync_warp();
    }
    if (!code.number()) return false;
    sync_warp();
    const bool is_alone = code.lengths->count[1] == 1 && code.lengths->limit[1] == 1u << MAX_CODE_BITS;
    GRAMPUS_NO_UNROLL
    for (u32 first = 0; first < symbols; first += WARP) {
        const u32 length = first + lane < symbols ? lengths[first + lane] : 0, same = match(length);
        const u32 rank = count_bits(same & lanes_below()), place = code.lengths->next[length] + rank;
        sync_warp();
        if (length != 0) {
            code.sorted[place] = (u16)(first + lane);
            if (rank == 0) code.lengths->next[length] = (u16)(place + count_bits(same));
            if (is_alone) code.sorted[1] = (u16)(first + lane);
        }
        sync_warp();
    }
    return true;
}

// A code of `SYMBOLS` symbols in shared memory. `Entry::of(symbol, bits)` says what a code means; it is never 0.
template <class Entry, u32 DIRECT_BITS, u32 SYMBOLS>
struct PrefixCode {
    u32 direct[1 << DIRECT_BITS];  // the entry by the bits to come; 0: the code is longer
    u16 sorted[SYMBOLS];
    CodeLengths lengths;

    // False: the lengths are those of no code. Collective.
    GRAMPUS_DEVICE bool make(const u8* symbol_lengths, u32 symbols) {
        const CodeSymbols code = {sorted, &lengths};
        if (!sort_symbols(code, symbol_lengths, symbols)) return false;
        GRAMPUS_NO_UNROLL
        for (u32 i = lane_id(); i < 1u << DIRECT_BITS; i += WARP) {
            const u32 found = code.search(i, 1, DIRECT_BITS);
            direct[i] = found == 0 ? 0 : Entry::of(found >> 4, found & 15);
        }
        sync_warp();
        return true;
    }

    // The entry of the code that begins `bits`.
    GRAMPUS_DEVICE u32 entry(u32 bits) {
        u32 found = direct[bits & ((1u << DIRECT_BITS) - 1)];
        if (found != 0) return found;
        found = CodeSymbols{sorted, &lengths}.search(bits, DIRECT_BITS + 1, MAX_CODE_BITS);
        return Entry::of(found >> 4, found & 15);
    }
};

}  // namespace grampus
