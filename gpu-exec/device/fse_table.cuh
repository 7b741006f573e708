// `make_states`: the states of a finite state entropy code (RFC 8878, section 4.1).
//
// A state is a symbol, and says of how many bits and which base the next state is.
#pragma once
#include "bit_window.cuh"
#include "backward_bits.cuh"
#include "target.cuh"

namespace grampus {

// Shares of symbols, in cells: -1 for one cell of a symbol that is less likely.
constexpr u32 MAX_FSE_SYMBOLS = 256;

// Of a warp, in shared memory, while a table is made.
struct FseShares {
    short of[MAX_FSE_SYMBOLS];
    u16 next[MAX_FSE_SYMBOLS];  // of a symbol: its first place in the order of cells, then the number of its next state
};

// Reads shares of at most `most` symbols, whose cells are at most 2^most_log (section 4.1.1). Returns the table's log;
// 0: they make no sense. `in` moves behind them, to the next byte; `symbols` gets their number. Collective.
GRAMPUS_SLOW u32 read_fse_shares(BitWindow& in, u32 most, u32 most_log, FseShares& shares, u32& symbols) {
    const u32 lane = lane_id();
    sync_warp();
    for (u32 i = lane; i < most; i += WARP) shares.of[i] = 0;
    sync_warp();
    in.refill();
    const u32 log = 5 + in.take(4);
    if (log > most_log) return 0;
    i32 remaining = (1 << log) + 1, threshold = 1 << log;
    u32 bits = log + 1, symbol = 0;
    bool was_zero = false;
    GRAMPUS_NO_UNROLL
    while (remaining > 1 && symbol < most) {
        in.refill();
        if (was_zero) {
            u32 zeros;
            GRAMPUS_NO_UNROLL
            do {
                in.refill();
                zeros = in.take(2);
                symbol += zeros;
            } while (zeros == 3 && symbol < most);
            if (symbol >= most) break;
            in.refill();
        }
        const i32 max = 2 * threshold - 1 - remaining, low = (i32)(in.bits & (u64)(threshold - 1));
        i32 share = low;
        if (low < max) {
            in.drop(bits - 1);
        } else {
            share = (i32)in.take(bits);
            if (share >= threshold) share -= max;
        }
        share--;
        remaining -= share < 0 ? 1 : share;
        if (lane == 0) shares.of[symbol] = (short)share;
        symbol++;
        was_zero = share == 0;
        if (remaining < threshold && remaining > 1) {
            bits = highest_bit((u32)remaining) + 1;
            threshold = 1 << (bits - 1);
        }
    }
    in.align();
    sync_warp();
    symbols = symbol;
    return remaining != 1 || symbol > most || in.is_overrun() ? 0 : log;
}

// A state: bits 0 to 7: further bits that the symbol asks for; bits 8 to 15: the next state's bits; bits 16 to 24: its
// base; from bit 25 on: the symbol, at most MAX_STATE_SYMBOL. The two lowest numbers of three states may be added.
constexpr u32 MAX_STATE_SYMBOL = 127;
GRAMPUS_DEVICE u32 further_bits(u32 state) { return state & 0xFF; }
GRAMPUS_DEVICE u32 next_bits(u32 state) { return state >> 8 & 0xFF; }
GRAMPUS_DEVICE u32 next_base(u32 state) { return state >> 16 & 0x1FF; }
GRAMPUS_DEVICE u32 state_symbol(u32 state) { return state >> 25; }
// The state of a symbol that has no other, and takes no bits.
GRAMPUS_DEVICE u32 single_state(u32 symbol, u32 further) { return symbol << 25 | further; }

// Makes the 2^log states of shares that make as many cells (section 4.1.1). `further`: by symbol the further bits, or
// null for none. All lies in shared memory. Collective.
GRAMPUS_SLOW void make_states(u32* states, u32 log, FseShares& shares, u32 symbols, const u8* further) {
    const u32 lane = lane_id(), size = 1u << log, step = (size >> 1) + (size >> 3) + 3;
    // Symbols of less than a cell have the last cells. The others have the cells before `high`.
    u32 high = size, placed = 0;
    GRAMPUS_NO_UNROLL
    for (u32 first = 0; first < symbols; first += WARP) {
        const i32 share = first + lane < symbols ? shares.of[first + lane] : 0;
        const u32 rare = ballot(share < 0), at = high - 1 - count_bits(rare & lanes_below());
        if (share < 0) states[at] = first + lane;
        high -= count_bits(rare);
        u32 end = share > 0 ? (u32)share : 0;
        const u32 own = end;
        GRAMPUS_UNROLL
        for (u32 by = 1; by < WARP; by *= 2) {
            const u32 below = shuffle_up(end, by);
            if (lane >= by) end += below;
        }
        if (first + lane < symbols) shares.next[first + lane] = (u16)(placed + end - own);
        placed += shuffle(end, WARP - 1);
    }
    sync_warp();
    // In steps over the cells, of which the last ones are left out, each symbol takes as many as it has.
    u32 before = 0;
    GRAMPUS_NO_UNROLL
    for (u32 first = 0; first < size; first += WARP) {
        const u32 cell = (first + lane) * step & (size - 1);
        const bool is_free = first + lane < size && cell < high;
        const u32 free = ballot(is_free), place = before + count_bits(free & lanes_below());
        before += count_bits(free);
        if (!is_free) continue;
        // The last symbol that begins at this place, or before.
        u32 low = 0, end = symbols;
        GRAMPUS_NO_UNROLL
        while (end - low > 1) {
            const u32 middle = (low + end) / 2;
            if (shares.next[middle] <= place) low = middle;
            else end = middle;
        }
        states[cell] = low;
    }
    sync_warp();
    for (u32 i = lane; i < symbols; i += WARP) shares.next[i] = (u16)(shares.of[i] < 0 ? 1 : shares.of[i]);
    sync_warp();
    GRAMPUS_NO_UNROLL
    for (u32 first = 0; first < size; first += WARP) {
        const bool is_here = first + lane < size;
        const u32 symbol = is_here ? states[first + lane] : ~0u, same = match(symbol);
        const u32 rank = count_bits(same & lanes_below()), number = is_here ? shares.next[symbol] + rank : 1;
        sync_warp();
        if (is_here) {
            const u32 bits = log - highest_bit(number);
            const u32 said = symbol < MAX_STATE_SYMBOL ? symbol : MAX_STATE_SYMBOL;
            const u32 asked = further == nullptr ? 0 : further[symbol];
            states[first + lane] = said << 25 | ((number << bits) - size) << 16 | bits << 8 | asked;
            if (rank == 0) shares.next[symbol] = (u16)(number + count_bits(same));
        }
        sync_warp();
    }
}

}  // namespace grampus
