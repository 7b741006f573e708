// `decompress_zstd`: a chunk of Zstandard frames, by one warp (RFC 8878).
//
// - The Huffman code's four streams of literal bytes are decoded by four lanes, to the end of the chunk's output: the
//   sequences' bytes never overtake the literal bytes that are left.
// - All lanes decode the same sequences, one after the other, and lane i keeps the i-th of a batch. The lanes store the
//   bytes of many short ones at once. Long copies are stored one by one, whole words at a time.
//
// What the RFC leaves open is as in the library zstd, which decompresses on the CPU. Dictionaries are refused.
#pragma once
#include "backward_bits.cuh"
#include "byte_copy.cuh"
#include "decompress.h"
#include "element_batch.cuh"
#include "fse_table.cuh"
#include "stream_bytes.cuh"
#include "xxhash.cuh"
#include "zstd_literals.cuh"

namespace grampus {

constexpr u32 ZSTD_MAGIC = 0xFD2FB528, ZSTD_SKIPPABLE = 0x184D2A50;
constexpr u32 MAX_ZSTD_BLOCK = 128 << 10, MAX_WINDOW_LOG = 31;
// Bytes of a sequence that is stored with others.
constexpr u32 MAX_SHORT_SEQUENCE = 64;

// The codes of a sequence: its literal bytes, its offset, and its copied bytes. A symbol means a base, to which further
// bits are added (section 3.1.1.3.2.1). A table that no block states has these shares (section 3.1.1.3.2.2).
enum SequenceCode : u32 { OF_LITERALS, OF_OFFSET, OF_COPY };
constexpr u32 SEQUENCE_CODES = 3, MAX_SEQUENCE_LOG = 9, MAX_SEQUENCE_SYMBOLS = 53;

GRAMPUS_DEVICE u32 code_symbols(u32 code) { return code == OF_LITERALS ? 36 : code == OF_OFFSET ? 32 : 53; }
GRAMPUS_DEVICE u32 max_log(u32 code) { return code == OF_OFFSET ? 8 : 9; }
GRAMPUS_DEVICE u32 unstated_symbols(u32 code) { return code == OF_LITERALS ? 36 : code == OF_OFFSET ? 29 : 53; }
GRAMPUS_DEVICE u32 unstated_log(u32 code) { return code == OF_OFFSET ? 5 : 6; }
GRAMPUS_DEVICE i32 unstated_share(u32 code, u32 i) {
    if (code == OF_LITERALS)
        return i == 0 ? 4 : i == 1 || i == 25 ? 3 : i < 13 || (i >= 16 && i < 27) ? 2 : i < 32 ? 1 : -1;
    if (code == OF_OFFSET) return i >= 24 ? -1 : i >= 6 && i < 9 ? 2 : 1;
    return i == 1 ? 4 : i == 2 ? 3 : i >= 3 && i < 9 ? 2 : i < 46 ? 1 : -1;
}
GRAMPUS_DEVICE u32 further_of(u32 code, u32 i) {
    if (code == OF_OFFSET) return i;
    if (code == OF_LITERALS) return i < 16 ? 0 : i < 24 ? 0x33221111u >> 4 * (i - 16) & 15 : i == 24 ? 4 : i - 19;
    return i < 32 ? 0 : i < 40 ? 0x33221111u >> 4 * (i - 32) & 15 : i < 43 ? 0x544u >> 4 * (i - 40) & 15 : i - 36;
}
GRAMPUS_DEVICE u32 base_of(u32 code, u32 i) {
    if (code == OF_OFFSET) return 1u << i;
    if (code == OF_LITERALS) {
        if (i < 16) return i;
        return i < 24 ? (u32)(0x28201C1816141210ull >> 8 * (i - 16)) & 0xFF : i == 24 ? 48 : 1u << (i - 19);
    }
    if (i < 32) return i + 3;
    if (i < 40) return (u32)(0x3B332F2B29272523ull >> 8 * (i - 32)) & 0xFF;
    return i < 43 ? 0x635343u >> 8 * (i - 40) & 0xFF : (1u << (i - 36)) + 3;
}

// Of a warp, in shared memory.
struct ZstdState {
    HuffmanCode huffman;
    u32 literals[1 << MAX_SEQUENCE_LOG], copies[1 << MAX_SEQUENCE_LOG], offsets[1 << (MAX_SEQUENCE_LOG - 1)];
    u32 base[SEQUENCE_CODES][MAX_SEQUENCE_SYMBOLS];
    u8 further[SEQUENCE_CODES][MAX_SEQUENCE_SYMBOLS];
    union {
        HuffmanWeights weights;
        FseShares shares;
        ElementBatch batch;
        u64 sums[4];
    };
};

constexpr u32 NO_TABLE = ~0u;

// Makes a code's states by their mode. Returns their log, 0 for one of a symbol alone; NO_TABLE: they make no sense.
// `log` is the one of the block before. Collective.
GRAMPUS_SLOW u32 read_states(BitWindow& in, u32 code, u32 mode, u32 log, u32* states, ZstdState& state) {
    const u32 lane = lane_id();
    const u8* const further = state.further[code];
    u32 symbols = unstated_symbols(code), stated = unstated_log(code);
    sync_warp();
    switch (mode) {
    case 0:
        for (u32 i = lane; i < symbols; i += WARP) state.shares.of[i] = (short)unstated_share(code, i);
        sync_warp();
        break;
    case 1:
        in.refill();
        symbols = in.take(8);
        if (symbols >= code_symbols(code)) return NO_TABLE;
        if (lane == 0) states[0] = single_state(symbols, further[symbols]);
        sync_warp();
        return 0;
    case 2:
        stated = read_fse_shares(in, code_symbols(code), max_log(code), state.shares, symbols);
        if (stated == 0) return NO_TABLE;
        break;
    default: return log;
    }
    make_states(states, stated, state.shares, symbols, further);
    return stated;
}

// The last three offsets (section 3.1.1.5).
struct RecentOffsets {
    u32 first, second, third;

    // The last ones after `count` new ones, of which `offset` is each lane's, behind those of the lanes before `lane`.
    GRAMPUS_DEVICE RecentOffsets after(u32 offset, u32 lane, u32 count) const {
        const u32 last = shuffle(offset, (lane + count - 1) % WARP);
        const u32 second_last = shuffle(offset, (lane + count - 2) % WARP);
        const u32 third_last = shuffle(offset, (lane + count - 3) % WARP);
        if (count == 0) return *this;
        const u32 behind = count > 1 ? first : second;
        return RecentOffsets{last, count > 1 ? second_last : first, count > 2 ? third_last : behind};
    }
};

// A frame that is decompressed. The state is the same in all lanes.
struct ZstdFrame {
    u8* to;
    u32 bytes;      // space
    u32 begin;      // the frame's first byte
    u32 at;         // bytes that are stored
    u32 most;       // bytes of a block
    RecentOffsets recent;
    u32 literal_log, offset_log, copy_log;  // of the tables of the block before
};

// Literal bytes that no sequence has taken. Those of a Huffman code lie in the output.
struct LiteralBytes {
    const u8* from;
    u32 left;
    bool is_single;  // all are the one byte

    GRAMPUS_DEVICE void skip(u32 count) {
        if (!is_single) from += count;
        left -= count;
    }
    // Stores the next bytes to `to`, which may overlap them if it lies before them. Collective.
    GRAMPUS_DEVICE void move(u8* to, u32 count) {
        if (is_single) {
            const u8 byte = *from;
            for (u32 i = lane_id(); i < count; i += WARP) to[i] = byte;
        } else if (to != from) {
            const u64 apart = from > to ? (u64)(from - to) : ~0ull;
            if (apart >= count + 8ull) {
                copy_bytes<FromOutput>(to, from, count);
            } else {
                GRAMPUS_NO_UNROLL
                for (u32 i = 0; i < count; i += WARP) {
                    const u8 byte = i + lane_id() < count ? from[i + lane_id()] : 0;
                    sync_warp();
                    if (i + lane_id() < count) to[i + lane_id()] = byte;
                    sync_warp();
                }
            }
        }
        sync_warp();
        skip(count);
    }
};

// Stores `count` sequences, of which each lane has one: literal bytes, copied bytes, and the copy's offset. Returns a
// CHUNK_…. Collective.
GRAMPUS_DEVICE u32 store_sequences(ZstdFrame& frame, LiteralBytes& literals, u32 count, u32 literal, u32 copied,
                                   u32 offset, ElementBatch& batch) {
    const u32 lane = lane_id();
    if (lane >= count) literal = copied = 0;
    u32 end = literal + copied, literal_end = literal;
    GRAMPUS_UNROLL
    for (u32 by = 1; by < WARP; by *= 2) {
        const u32 below = shuffle_up(end, by), literal_below = shuffle_up(literal_end, by);
        if (lane >= by) end += below, literal_end += literal_below;
    }
    // What comes out behind the batch are the literal bytes that are left, at least.
    const u32 all = shuffle(end, WARP - 1), all_literals = shuffle(literal_end, WARP - 1);
    if (all_literals > literals.left) return CHUNK_CORRUPT;
    if (any(lane < count && (offset == 0 || offset > frame.at - frame.begin + end - copied))) return CHUNK_CORRUPT;
    if (all > frame.bytes - frame.at || literals.left - all_literals > frame.bytes - frame.at - all)
        return CHUNK_TOO_LONG;
    GRAMPUS_NO_UNROLL
    for (u32 first = 0; first < count;) {
        const u32 begin = shuffle(end - literal - copied, first), literal_begin = shuffle(literal_end - literal, first);
        const bool is_short = lane < count && literal + copied <= MAX_SHORT_SEQUENCE && end - begin <= MAX_BATCH;
        const u32 number = lowest_bit(~(ballot(is_short) >> first));
        if (number == 0) {
            const u32 bytes = shuffle(copied, first);
            const u32 direct = shuffle(literal, first), distance = shuffle(offset, first);
            literals.move(frame.to + frame.at, direct);
            frame.at += direct;
            repeat_bytes(frame.to, frame.at, distance, bytes);
            frame.at += bytes;
            first++;
            continue;
        }
        const u32 source = (first + lane) % WARP;
        const u32 mine = packed_element(end - literal - copied - begin, literal, literal_end - literal - literal_begin);
        const u32 element = shuffle(mine, source), distance = shuffle(offset, source);
        const u32 total = shuffle(end, first + number - 1) - begin;
        const u8* const from = literals.from;
        const bool is_single = literals.is_single;
        store_elements(
            frame.to, frame.at, number, total, element, distance,
            [from, is_single](u32 of_element, u32 nth) { return (u32)from[is_single ? 0 : of_element + nth]; }, batch);
        literals.skip(shuffle(literal_end, first + number - 1) - literal_begin);
        frame.at += total;
        first += number;
    }
    return CHUNK_OK;
}

// Replaces offset values by offsets: values up to 3 name one of the last ones, and those of `count` lanes become the
// last ones. Collective.
GRAMPUS_DEVICE u32 resolved_offset(RecentOffsets& recent, u32 value, u32 literal, u32 count) {
    u32 offset = value - 3, from = 0;
    const u32 without_literals = ballot(literal == 0);
    u32 named = ballot(lane_id() < count && value <= 3);
    GRAMPUS_NO_UNROLL
    for (; named != 0; named &= named - 1) {
        const u32 lane = lowest_bit(named), which = shuffle(value, lane) - 1 + (without_literals >> lane & 1);
        recent = recent.after(offset, from, lane - from);
        u32 named_offset = recent.first - 1;
        if (which < 3) named_offset = which == 0 ? recent.first : which == 1 ? recent.second : recent.third;
        if (lane_id() == lane) offset = named_offset;
        if (which > 1) recent.third = recent.second;
        if (which > 0) recent.second = recent.first;
        recent.first = named_offset;
        from = lane + 1;
    }
    recent = recent.after(offset, from, count - from);
    return offset;
}

// What states say of a sequence: its literal bytes, its copied bytes, and the offset value.
struct Sequence {
    u32 literal, copied, value;
};
struct SequenceStates {
    u32 literal, offset, copy;
    i32 at;  // the further bits are those before

    // The sequence. May differ by lane.
    GRAMPUS_DEVICE Sequence read(const BackwardStream& in, const ZstdState& state) const {
        u64 bits = (u64)in.before(at) << 32 | in.before(at - 32);
        const auto take = [&](u32 count) {
            const u32 v = highest_bits((u32)(bits >> 32), count);
            bits <<= count;
            return v;
        };
        const u32 value = (1u << further_bits(offset)) + take(further_bits(offset));
        const u32 copied = state.base[OF_COPY][state_symbol(copy)] + take(further_bits(copy));
        return Sequence{state.base[OF_LITERALS][state_symbol(literal)] + take(further_bits(literal)), copied, value};
    }
};

// Decodes and stores `count` sequences (section 3.1.1.3.2). States and their bits lead from a sequence to the next one.
// What they say is read when a batch is complete, by all lanes at once. Returns a CHUNK_…. Collective.
GRAMPUS_DEVICE u32 decompress_sequences(ZstdFrame& frame, LiteralBytes& literals, const u8* from, u32 length, u32 count,
                                        ZstdState& state) {
    BackwardStream in;
    if (!in.begin(from, length)) return CHUNK_CORRUPT;
    i32 at = in.bits;
    const auto take = [&](u32 bits) {
        const u32 v = highest_bits(in.before(at), bits);
        at -= (i32)bits;
        return v;
    };
    u32 literal_state = take(frame.literal_log), offset_state = take(frame.offset_log);
    u32 copy_state = take(frame.copy_log), kept = 0;
    SequenceStates mine = {0, 0, 0, 0};
    GRAMPUS_NO_UNROLL
    for (u32 left = count; left > 0;) {
        const u32 literal = state.literals[literal_state], offset = state.offsets[offset_state];
        const u32 copy = state.copies[copy_state], sum = literal + offset + copy;
        if (lane_id() == kept) mine = SequenceStates{literal, offset, copy, at};
        kept++;
        left--;
        at -= (i32)further_bits(sum);
        if (left > 0) {
            const u32 bits = take(next_bits(sum)), of_offset = next_bits(offset), of_copy = next_bits(copy);
            literal_state = next_base(literal) + (bits >> (of_offset + of_copy));
            copy_state = next_base(copy) + (bits >> of_offset & ~(~0u << of_copy));
            offset_state = next_base(offset) + (bits & ~(~0u << of_offset));
            if (kept < WARP) continue;
        }
        if (at < 0) return CHUNK_CORRUPT;
        const Sequence sequence = mine.read(in, state);
        const u32 distance = resolved_offset(frame.recent, sequence.value, sequence.literal, kept);
        const u32 status =
            store_sequences(frame, literals, kept, sequence.literal, sequence.copied, distance, state.batch);
        if (status != CHUNK_OK) return status;
        kept = 0;
    }
    return at == 0 ? CHUNK_OK : CHUNK_CORRUPT;
}

// Reads a block's literal bytes (section 3.1.1.3.1), and moves `in` behind them. Returns a CHUNK_…. Collective.
GRAMPUS_DEVICE u32 read_literals(const ZstdFrame& frame, StreamBytes& in, const u8* block, LiteralBytes& literals,
                                 ZstdState& state) {
    const u32 head = in.at < in.length ? in.byte(in.at) : 0, kind = head & 3, form = head >> 2 & 3;
    // Sizes of as many bits follow the four bits of the kind and form, or of the kind and its first bit.
    const u32 head_bytes = kind < 2 ? (form == 1 ? 2 : form == 3 ? 3 : 1) : form < 2 ? 3 : form + 2;
    if (head_bytes > in.length - in.at) return CHUNK_CORRUPT;
    u64 bits = 0;
    GRAMPUS_NO_UNROLL
    for (u32 i = 0; i < head_bytes; i++) bits |= (u64)in.take() << 8 * i;
    const u8* const behind = block + in.at;
    if (kind < 2) {
        const u32 size = (u32)(bits >> (form % 2 == 0 ? 3 : 4)), stored = kind == 0 ? size : 1;
        if (size > frame.most || stored > in.length - in.at) return CHUNK_CORRUPT;
        literals = LiteralBytes{behind, size, kind == 1};
        in.at += stored;
        return CHUNK_OK;
    }
    const u32 width = form < 2 ? 10 : form == 2 ? 14 : 18, mask = (1u << width) - 1;
    const u32 size = (u32)(bits >> 4) & mask, stored = (u32)(bits >> (4 + width)) & mask;
    if (size > frame.most || stored > in.length - in.at || (form != 0 && size < 6)) return CHUNK_CORRUPT;
    if (size > frame.bytes - frame.at) return CHUNK_TOO_LONG;
    u32 code_bytes = 0;
    if (kind == 2) {
        code_bytes = read_huffman_code(behind, stored, state.huffman, state.weights);
        if (code_bytes == 0) return CHUNK_CORRUPT;
    } else if (state.huffman.log == 0) {
        return CHUNK_CORRUPT;
    }
    u8* const to = frame.to + frame.bytes - size;
    if (!decode_literals(behind + code_bytes, stored - code_bytes, form != 0, state.huffman, to, size))
        return CHUNK_CORRUPT;
    literals = LiteralBytes{to, size, false};
    in.at += stored;
    return CHUNK_OK;
}

// A compressed block of `length` bytes. Returns a CHUNK_…. Collective.
GRAMPUS_DEVICE u32 decompress_block(ZstdFrame& frame, const u8* block, u32 length, ZstdState& state) {
    StreamBytes in(DecodeStream{block, length, 0});
    LiteralBytes literals = {block, 0, false};
    u32 status = read_literals(frame, in, block, literals, state);
    if (status != CHUNK_OK) return status;
    u32 count = in.take();
    if (count == 255) count = 0x7F00 + in.take(), count += in.take() << 8;
    else if (count > 127) count = (count - 128) << 8, count += in.take();
    if (in.failed || (count == 0 && in.at != length)) return CHUNK_CORRUPT;
    if (count > 0) {
        const u32 modes = in.take();
        if (in.failed || (modes & 3) != 0) return CHUNK_CORRUPT;
        BitWindow tables(block, length);
        tables.seek(in.at * 8);
        const u32 literal_log = read_states(tables, OF_LITERALS, modes >> 6, frame.literal_log, state.literals, state);
        if (literal_log == NO_TABLE) return CHUNK_CORRUPT;
        const u32 offset_log = read_states(tables, OF_OFFSET, modes >> 4 & 3, frame.offset_log, state.offsets, state);
        if (offset_log == NO_TABLE) return CHUNK_CORRUPT;
        const u32 copy_log = read_states(tables, OF_COPY, modes >> 2 & 3, frame.copy_log, state.copies, state);
        if (copy_log == NO_TABLE || tables.is_overrun()) return CHUNK_CORRUPT;
        frame.literal_log = literal_log;
        frame.offset_log = offset_log;
        frame.copy_log = copy_log;
        const u32 at = tables.position() / 8;
        status = decompress_sequences(frame, literals, block + at, length - at, count, state);
        if (status != CHUNK_OK) return status;
    }
    if (literals.left > frame.bytes - frame.at) return CHUNK_TOO_LONG;
    const u32 rest = literals.left;
    literals.move(frame.to + frame.at, rest);
    frame.at += rest;
    return CHUNK_OK;
}

// A frame behind its magic number (section 3.1.1). `in` moves behind it. Returns a CHUNK_…. Collective.
GRAMPUS_DEVICE u32 decompress_frame(const StoredChunk& chunk, StreamBytes& in, u32& at, ZstdState& state) {
    const u32 head = in.take(), size_bytes = head >> 6 == 0 ? head >> 5 & 1 : 1u << (head >> 6);
    u64 window = 0, size = 0, dictionary = 0;
    if ((head & 8) != 0) return CHUNK_CORRUPT;
    if ((head & 32) == 0) {
        const u32 byte = in.take(), log = (byte >> 3) + 10;
        if (log > MAX_WINDOW_LOG) return CHUNK_CORRUPT;
        window = (1ull << log) + (1ull << log) / 8 * (byte & 7);
    }
    const u32 dictionary_bytes = (head & 3) == 3 ? 4 : head & 3;
    for (u32 i = 0; i < dictionary_bytes; i++) dictionary |= (u64)in.take() << 8 * i;
    for (u32 i = 0; i < size_bytes; i++) size |= (u64)in.take() << 8 * i;
    if (size_bytes == 2) size += 256;
    if ((head & 32) != 0) window = size;
    if (in.failed || dictionary != 0) return CHUNK_CORRUPT;
    ZstdFrame frame = {chunk.to, chunk.bytes, at, at, window < MAX_ZSTD_BLOCK ? (u32)window : MAX_ZSTD_BLOCK,
                       {1, 4, 8}, NO_TABLE, NO_TABLE, NO_TABLE};
    sync_warp();
    if (lane_id() == 0) state.huffman.log = 0;
    GRAMPUS_NO_UNROLL
    for (u32 i = lane_id(); i < SEQUENCE_CODES * MAX_SEQUENCE_SYMBOLS; i += WARP) {
        const u32 code = i / MAX_SEQUENCE_SYMBOLS, symbol = i % MAX_SEQUENCE_SYMBOLS;
        if (symbol >= code_symbols(code)) continue;
        state.base[code][symbol] = base_of(code, symbol);
        state.further[code][symbol] = (u8)further_of(code, symbol);
    }
    sync_warp();
    u32 last;
    GRAMPUS_NO_UNROLL
    do {
        const u32 low = in.take(), middle = in.take(), block_head = low | middle << 8 | in.take() << 16;
        last = block_head & 1;
        const u32 kind = block_head >> 1 & 3, length = block_head >> 3, stored = kind == 1 ? 1 : length;
        if (in.failed || kind == 3 || stored > in.length - in.at) return CHUNK_CORRUPT;
        const u8* const block = chunk.from + in.at;
        if (kind == 2) {
            if (length > frame.most) return CHUNK_CORRUPT;
            const u32 status = decompress_block(frame, block, length, state);
            if (status != CHUNK_OK) return status;
        } else {
            if (length > frame.bytes - frame.at) return CHUNK_TOO_LONG;
            LiteralBytes bytes = {block, length, kind == 1};
            bytes.move(frame.to + frame.at, length);
            frame.at += length;
        }
        in.at += stored;
    } while (last == 0);
    if (size_bytes != 0 && size != frame.at - at) return CHUNK_CORRUPT;
    if ((head & 4) != 0) {
        const u64 hash = xxhash64(chunk.to + at, frame.at - at, state.sums);
        GRAMPUS_NO_UNROLL
        for (u32 i = 0; i < 4; i++)
            if (in.take() != (hash >> 8 * i & 0xFF) || in.failed) return CHUNK_CORRUPT;
    }
    at = frame.at;
    return CHUNK_OK;
}

// Collective; all lanes get the result.
GRAMPUS_DEVICE ChunkResult decompress_zstd(const StoredChunk& chunk, ZstdState& state) {
    StreamBytes in(DecodeStream{chunk.from, chunk.length, 0});
    u32 at = 0;
    GRAMPUS_NO_UNROLL
    while (in.at < in.length) {
        u32 magic = 0;
        for (u32 i = 0; i < 4; i++) magic |= in.take() << 8 * i;
        u32 status = CHUNK_OK;
        if (in.failed) return ChunkResult{CHUNK_CORRUPT, 0};
        if (magic == ZSTD_MAGIC) {
            status = decompress_frame(chunk, in, at, state);
        } else if ((magic & ~15u) == ZSTD_SKIPPABLE) {
            u32 size = 0;
            for (u32 i = 0; i < 4; i++) size |= in.take() << 8 * i;
            in.skip(size);
            if (in.failed) status = CHUNK_CORRUPT;
        } else {
            status = CHUNK_CORRUPT;
        }
        if (status != CHUNK_OK) return ChunkResult{status, 0};
        sync_warp();
    }
    return ChunkResult{CHUNK_OK, at};
}

}  // namespace grampus
