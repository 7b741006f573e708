// `read_huffman_code` and `decode_literals`: the Huffman code of a Zstandard block's literal bytes, and its streams
// (RFC 8878, sections 3.1.1.3.1 and 4.2).
//
// A symbol of weight w has a code of log + 1 - w bits. Symbols in the order of their weights, and those of one weight
// in the order of their values, have codes that ascend; by the first `log` bits each has 2^(w - 1) of them.
#pragma once
#include "backward_bits.cuh"
#include "fse_table.cuh"

namespace grampus {

// The library zstd takes codes of up to 12 bits, one more than the RFC.
constexpr u32 MAX_HUFFMAN_LOG = 12, HUFFMAN_DIRECT_LOG = 11, HUFFMAN_SYMBOLS = 256, WEIGHT_LOG = 6;

// Of a warp, in shared memory, while a code is read.
struct HuffmanWeights {
    FseShares shares;
    u32 states[1 << WEIGHT_LOG];
    u8 of[HUFFMAN_SYMBOLS];
};

// Of a warp, in shared memory.
struct HuffmanCode {
    u32 log;  // 0: none was read
    u16 direct[1 << HUFFMAN_DIRECT_LOG];  // by the first bits: a symbol << 4 | its bits
    u8 sorted[HUFFMAN_SYMBOLS];           // symbols by weight
    u16 end[MAX_HUFFMAN_LOG + 1];         // by weight: codes of its symbols, and of lighter ones, are less
    u16 place[MAX_HUFFMAN_LOG + 1];       // of its first symbol in `sorted`
    u16 count[MAX_HUFFMAN_LOG + 1];

    // The entry for a number of `log` bits.
    GRAMPUS_DEVICE u32 search(u32 bits) const {
        u32 weight = 1, begin = 0;
        GRAMPUS_NO_UNROLL
        while (bits >= end[weight]) begin = end[weight++];
        return (u32)sorted[place[weight] + ((bits - begin) >> (weight - 1))] << 4 | (log + 1 - weight);
    }
};

// Makes a code of the weights of `symbols` symbols, to which a last one is added. False: they make no code. Collective.
GRAMPUS_SLOW bool make_huffman_code(HuffmanCode& code, u8* weights, u32 symbols) {
    const u32 lane = lane_id();
    sync_warp();
    for (u32 i = lane; i <= MAX_HUFFMAN_LOG; i += WARP) code.count[i] = 0;
    sync_warp();
    bool too_heavy = false;
    GRAMPUS_NO_UNROLL
    for (u32 first = 0; first < symbols; first += WARP) {
        const u32 weight = first + lane < symbols ? weights[first + lane] : 0, same = match(weight);
        too_heavy |= weight > MAX_HUFFMAN_LOG;
        if (weight <= MAX_HUFFMAN_LOG && weight != 0 && (same & lanes_below()) == 0)
            code.count[weight] += (u16)count_bits(same);
        sync_warp();
    }
    if (any(too_heavy)) return false;
    u32 total = 0;
    GRAMPUS_NO_UNROLL
    for (u32 weight = 1; weight <= MAX_HUFFMAN_LOG; weight++) total += (u32)code.count[weight] << (weight - 1);
    if (total == 0) return false;
    // The last symbol's share makes the sum a power of two.
    const u32 log = highest_bit(total) + 1, rest = (1u << log) - total, last = highest_bit(rest) + 1;
    if (log > MAX_HUFFMAN_LOG || rest != 1u << (last - 1)) return false;
    sync_warp();
    if (lane == 0) {
        weights[symbols] = (u8)last;
        code.count[last]++;
        code.log = log;
    }
    sync_warp();
    if (code.count[1] < 2 || code.count[1] % 2 != 0) return false;
    u32 end = 0, place = 0;
    GRAMPUS_NO_UNROLL
    for (u32 weight = 1; weight <= log; weight++) {
        if (lane == 0) code.place[weight] = (u16)place;
        place += code.count[weight];
        end += (u32)code.count[weight] << (weight - 1);
        if (lane == 0) code.end[weight] = (u16)end;
    }
    sync_warp();
    GRAMPUS_NO_UNROLL
    for (u32 first = 0; first <= symbols; first += WARP) {
        const u32 weight = first + lane <= symbols ? weights[first + lane] : 0, same = match(weight);
        const u32 rank = count_bits(same & lanes_below()), to = weight == 0 ? 0 : code.place[weight] + rank;
        sync_warp();
        if (weight != 0) {
            code.sorted[to] = (u8)(first + lane);
            if (rank == 0) code.place[weight] = (u16)(to + count_bits(same));
        }
        sync_warp();
    }
    for (u32 weight = 1 + lane; weight <= log; weight += WARP) code.place[weight] -= code.count[weight];
    sync_warp();
    const u32 direct = log < HUFFMAN_DIRECT_LOG ? log : HUFFMAN_DIRECT_LOG;
    GRAMPUS_NO_UNROLL
    for (u32 i = lane; i < 1u << direct; i += WARP) code.direct[i] = (u16)code.search(i << (log - direct));
    sync_warp();
    return true;
}

// Decodes weights of two states that alternate (section 4.2.1.2). Returns their number; 0: they make no sense.
// Collective.
GRAMPUS_SLOW u32 decode_weights(const u8* from, u32 bytes, HuffmanWeights& weights) {
    BitWindow in(from, bytes);
    u32 symbols;
    const u32 log = read_fse_shares(in, MAX_FSE_SYMBOLS, WEIGHT_LOG, weights.shares, symbols);
    if (log == 0) return 0;
    make_states(weights.states, log, weights.shares, symbols, nullptr);
    const u32 head = in.position() / 8;
    BackwardBits states;
    if (!states.begin(from + head, bytes - head)) return 0;
    states.refill();
    u32 state = states.take(log), other = states.take(log), count = 0;
    if (states.left < 0) return 0;
    GRAMPUS_NO_UNROLL
    for (;;) {
        // A last symbol has no weight of its own, so there are fewer.
        if (count + 2 > HUFFMAN_SYMBOLS - 1) return 0;
        const u32 entry = weights.states[state];
        if (lane_id() == 0) weights.of[count] = (u8)state_symbol(entry);
        count++;
        states.refill();
        const u32 next = next_base(entry) + states.take(next_bits(entry));
        if (states.left < 0) {
            if (lane_id() == 0) weights.of[count] = (u8)state_symbol(weights.states[other]);
            return count + 1;
        }
        state = other;
        other = next;
    }
}

// Reads a code (section 4.2.1). Returns its bytes; 0: it makes no sense. Collective.
GRAMPUS_SLOW u32 read_huffman_code(const u8* from, u32 bytes, HuffmanCode& code, HuffmanWeights& weights) {
    if (bytes == 0) return 0;
    const u32 head = load_constant(from);
    u32 count, taken;
    sync_warp();
    if (head >= 128) {
        count = head - 127;
        taken = 1 + (count + 1) / 2;
        if (taken > bytes) return 0;
        for (u32 i = lane_id(); i < count; i += WARP)
            weights.of[i] = load_constant(from + 1 + i / 2) >> (i % 2 == 0 ? 4 : 0) & 15;
    } else {
        taken = 1 + head;
        if (taken > bytes) return 0;
        count = decode_weights(from + 1, head, weights);
        if (count == 0) return 0;
    }
    return make_huffman_code(code, weights.of, count) ? taken : 0;
}

// Decodes a stream to `to`, which has exactly its bytes. False: it makes no sense. For one lane.
GRAMPUS_DEVICE bool decode_literal_stream(const u8* from, u32 length, const HuffmanCode& code, u8* to, u32 bytes) {
    BackwardBits in;
    if (!in.begin(from, length)) return false;
    const u32 log = code.log, direct = log < HUFFMAN_DIRECT_LOG ? log : HUFFMAN_DIRECT_LOG;
    GRAMPUS_NO_UNROLL
    for (u32 i = 0; i < bytes; i++) {
        in.refill();
        const u32 high = (u32)(in.bits >> 32), entry = code.direct[high >> (32 - direct)];
        const u32 bits = entry & 15;
        to[i] = bits == MAX_HUFFMAN_LOG ? code.sorted[high >> (32 - MAX_HUFFMAN_LOG)] : (u8)(entry >> 4);
        in.drop(bits);
    }
    return in.left == 0;
}

GRAMPUS_DEVICE u32 stated_bytes(const u8* p) { return load_constant(p) | (u32)load_constant(p + 1) << 8; }

// Decodes the streams of a block, one or four, to `to`. False: they make no sense. Collective.
GRAMPUS_DEVICE bool decode_literals(const u8* from, u32 length, bool has_four, const HuffmanCode& code, u8* to,
                                    u32 bytes) {
    bool good = true;
    if (!has_four) {
        if (lane_id() == 0) good = decode_literal_stream(from, length, code, to, bytes);
    } else {
        if (length < 10 || bytes < 6) return false;
        const u32 part = (bytes + 3) / 4;
        const u32 second = 6 + stated_bytes(from), third = second + stated_bytes(from + 2);
        const u32 fourth = third + stated_bytes(from + 4);
        if (fourth > length || 3 * part > bytes) return false;
        // Lanes 0 to 3 have a stream each.
        for (u32 i = lane_id(); i < 4; i += WARP) {
            const u32 begin = i == 0 ? 6 : i == 1 ? second : i == 2 ? third : fourth;
            const u32 end = i == 0 ? second : i == 1 ? third : i == 2 ? fourth : length;
            const u32 own = i < 3 ? part : bytes - 3 * part;
            good &= decode_literal_stream(from + begin, end - begin, code, to + i * part, own);
        }
    }
    sync_warp();
    return all(good);
}

}  // namespace grampus
