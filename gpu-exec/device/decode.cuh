// Decoding of encoded streams to one value for each row, one warp for each task.
//
// 1. The present stream says which rows have a value.
// 2. The data stream has the values in their order. Timestamps and decimals have a secondary stream, which is read in a
//    second pass.
// 3. Each value goes to its row.
//
// A value that makes no sense, or does not fit, fails the task; the host then has the CPU's decoder say what is wrong.
#pragma once
#include "bit_runs.cuh"
#include "value_runs.cuh"

namespace grampus {

GRAMPUS_DEVICE void store_value(u8* values, u32 width, u32 row, u64 v) {
    switch (width) {
    case 1: values[row] = (u8)v; break;
    case 2: ((u16*)values)[row] = (u16)v; break;
    case 4: ((u32*)values)[row] = (u32)v; break;
    default: ((u64*)values)[row] = v; break;
    }
}

GRAMPUS_DEVICE u64 extended(u64 v, u32 width, bool is_signed) {
    u32 above = 64 - 8 * width;
    return is_signed ? (u64)((i64)(v << above) >> above) : v << above >> above;
}

GRAMPUS_DEVICE u64 stored_value(const DecodeTask& task, u32 row) {
    switch (task.width) {
    case 1: return extended(task.values[row], 1, task.is_signed);
    case 2: return extended(((const u16*)task.values)[row], 2, task.is_signed);
    case 4: return extended(((const u32*)task.values)[row], 4, task.is_signed);
    default: return ((const u64*)task.values)[row];
    }
}

GRAMPUS_DEVICE bool fits(u64 v, const DecodeTask& task) { return extended(v, task.width, task.is_signed) == v; }

// Nanoseconds from their stored form, without trailing zeros: the low three bits hold the number of zeros less one.
// False: more than a second.
GRAMPUS_DEVICE bool unscale(u64 stored, u64& nanos) {
    u64 digits = (u64)((i64)stored >> 3), factor = 1;
    GRAMPUS_NO_UNROLL
    for (u32 zeros = (u32)(stored & 7); zeros > 0; zeros--) factor *= factor == 1 ? 100 : 10;
    nanos = digits * factor;
    return digits < 1000000000 && nanos < 1000000000;
}

// A zone clock's offset from UTC at `seconds`. False: the table does not cover that time.
GRAMPUS_DEVICE bool zone_offset(const ZoneChange* table, u32 length, i64 seconds, i64& offset) {
    if (length < 2 || seconds < (i64)load_constant(&table[0].from) ||
        seconds >= (i64)load_constant(&table[length - 1].from))
        return false;
    u32 low = 0, high = length - 1;  // the entry is one of low .. high - 1
    GRAMPUS_NO_UNROLL
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if ((i64)load_constant(&table[middle].from) <= seconds) low = middle;
        else high = middle;
    }
    offset = (i64)load_constant(&table[low].offset);
    return true;
}

// Nanoseconds since 1970 of a stored second and its fraction. False: 64 bits do not hold them, or there is no such
// time.
GRAMPUS_DEVICE bool timestamp(const DecodeTask& task, u64 stored, u64 fraction, u64& v) {
    // the seconds of the first and last 64-bit nanosecond
    constexpr i64 NANOS = 1000000000, LAST = 9223372036, FIRST = -9223372037;
    constexpr i64 MOST = 1ll << 62;
    u64 nanos;
    if (!unscale(fraction, nanos)) return false;
    // Far outside the years that nanoseconds cover: the sums below cannot overflow.
    if ((i64)stored > MOST || (i64)stored < -MOST) return false;
    i64 seconds = (i64)(stored + task.epoch);
    // Writers divide milliseconds by 1,000 towards zero. Before 1970, a fraction of a millisecond or more therefore
    // means that the second was rounded up (ORC-763).
    if (seconds < 0 && nanos > 999999) seconds--;
    if (task.table_length > 0) {
        i64 offset;
        if (!zone_offset((const ZoneChange*)task.table, task.table_length, seconds, offset)) return false;
        seconds += offset;
    }
    if (seconds > LAST || (seconds == LAST && nanos > 854775807)) return false;
    if (seconds < FIRST || (seconds == FIRST && nanos < 145224192)) return false;
    v = (u64)seconds * (u64)NANOS + nanos;
    return true;
}

// An unscaled decimal at another scale, rounded half up, away from zero. False: 64 bits do not hold it.
GRAMPUS_DEVICE bool rescale(u64 stored, i64 from, i64 to, u64& v) {
    constexpr u64 MOST = 1ull << 63;
    bool negative = (i64)stored < 0;
    u64 magnitude = negative ? 0 - stored : stored, digits = from < to ? (u64)to - (u64)from : (u64)from - (u64)to;
    if (from < to) {
        if (digits >= MOST) return false;  // orc-layout's decoder takes no such scale
        GRAMPUS_NO_UNROLL
        for (; digits > 0 && magnitude > 0; digits--) {
            // The bound is that of both signs: no product of ten is -2^63.
            if (magnitude > MOST / 10) return false;
            magnitude *= 10;
        }
    } else {
        GRAMPUS_NO_UNROLL
        for (; digits > 1 && magnitude > 0; digits--) magnitude /= 10;
        // Half or more is dropped if the first dropped digit is 5 or more.
        if (digits > 0) magnitude = (magnitude + 5) / 10;
    }
    v = negative ? 0 - magnitude : magnitude;
    return true;
}

// The whole number that a float is, by its bits, of which FRACTION are the fraction's. False: it has a fraction, is -0
// or no number, or takes more than three bytes.
template <u32 FRACTION, u32 EXPONENT>
GRAMPUS_DEVICE bool whole_number(u64 bits, u64& v) {
    constexpr u32 ONE = (1u << (EXPONENT - 1)) - 1, MOST = 22;  // the exponent of 1, and the most above it
    u32 above = ((u32)(bits >> FRACTION) & ((1u << EXPONENT) - 1)) - ONE;
    u64 fraction = bits & ((1ull << FRACTION) - 1);
    v = 0;
    if (bits == 0) return true;
    if (above > MOST || fraction << (64 - FRACTION + above) != 0) return false;
    u64 magnitude = 1ull << above | fraction >> (FRACTION - above);
    v = bits >> (FRACTION + EXPONENT) != 0 ? 0 - magnitude : magnitude;
    return true;
}

// Whether the value that the first pass has stored stays as it is. Nearly always a decimal has its column's scale.
GRAMPUS_DEVICE bool stays(const DecodeTask& task, u64 stored) {
    return task.kind == DECODE_DECIMALS && stored == task.scale;
}

// A column's value from its stored form. False: the stored form stands for no value.
GRAMPUS_DEVICE bool value_of(const DecodeTask& task, u32 row, bool second, u64& v) {
    switch (task.kind) {
    case DECODE_INTEGERS: return fits(v, task);
    case DECODE_CODES:
        if (v >= task.table_length) return false;
        v = load_constant((const u32*)task.table + v);
        return fits(task.is_signed ? extended(v, 4, true) : v, task);
    // In the second pass, the same lane has stored the first stream's value in this place.
    case DECODE_TIMESTAMPS: return !second || timestamp(task, ((const u64*)task.values)[row], v, v);
    // The unscaled value waits in the place of the decimal: it must fit too.
    case DECODE_DECIMALS: return (!second || rescale(stored_value(task, row), (i64)v, task.scale, v)) && fits(v, task);
    case DECODE_DOUBLES: return whole_number<52, 11>(v, v) && fits(v, task);
    case DECODE_FLOATS: return whole_number<23, 8>(v, v) && fits(v, task);
    default: return true;
    }
}

// Bytes of a raw value.
GRAMPUS_DEVICE u32 raw_width(const DecodeTask& task) {
    return task.kind == DECODE_DOUBLES ? 8 : task.kind == DECODE_FLOATS ? 4 : task.width;
}

// Stores which of `count` rows from `row` on have a value: bit i of `there` stands for row + i. Warps of one lane come
// here for each row. Collective.
GRAMPUS_DEVICE void store_validity(u8* valid, u32 row, u32 count, u32 there) {
    if constexpr (WARP >= 8) {
        if (lane_id() * 8 < count) valid[row / 8 + lane_id()] = (u8)(there >> lane_id() * 8);
    } else {
        u32 before = row % 8 == 0 ? 0 : valid[row / 8];
        valid[row / 8] = (u8)(before | there << row % 8);
    }
}

// Decodes one stream of values to its rows. False: the stream is invalid. Collective.
GRAMPUS_DEVICE bool decode_stream(const DecodeTask& task, bool second) {
    const DecodeStream& stream = second ? task.secondary : task.data;
    u32 coding = second ? task.secondary_coding : task.coding;
    bool some_missing = task.present.bytes != nullptr, of_bits = coding == CODING_BITS, bad = false;
    bool is_signed = task.kind != DECODE_CODES && !(second && task.kind == DECODE_TIMESTAMPS);
    BitRuns present(task.present), bits(stream);
    ValueRuns runs(stream, coding, raw_width(task), is_signed);
    u32 before = task.skip_rows, rows = task.rows, width = task.width;
    if (some_missing) {
        present.skip(task.present.skip);
        before = present.skip(before);
    }
    if (of_bits) bits.skip(stream.skip + before);
    else runs.next(stream.skip + before, false);
    GRAMPUS_NO_UNROLL
    for (u32 row = 0; row < rows && !(present.failed() || bits.failed() || runs.failed()); row += WARP) {
        u32 count = rows - row < WARP ? rows - row : WARP, lane = lane_id();
        // The first row is the highest of `count` bits.
        u64 there = some_missing ? present.take(count) : (1ull << count) - 1;
        u32 rank = lane < count ? count_bits((u32)(there >> (count - lane))) : 0;
        bool mine = lane < count && (there >> (count - 1 - lane) & 1) != 0;
        u32 values = count_bits((u32)there);
        u64 v = of_bits ? bits.take(values) >> (values - 1 - rank) % 32 & 1 : shuffle(runs.next(values, true), rank);
        if (mine && !(second && stays(task, v))) {
            if (!value_of(task, row + lane, second, v)) bad = true;
            else store_value(task.values, width, row + lane, v);
        }
        if (second) continue;
        if (lane < count && !mine) store_value(task.values, width, row + lane, 0);
        if (task.valid != nullptr) store_validity(task.valid, row, count, ballot(mine));
        else if (lane < count && !mine) bad = true;
    }
    return !(any(bad) || present.failed() || bits.failed() || runs.failed());
}

// Decodes all streams of a task. Collective.
GRAMPUS_DEVICE bool decode(const DecodeTask& task) {
    u32 streams = task.kind == DECODE_TIMESTAMPS || task.kind == DECODE_DECIMALS ? 2 : 1;
    bool well = true;
    GRAMPUS_NO_UNROLL
    for (u32 k = 0; k < streams && well; k++) well = decode_stream(task, k == 1);
    return well;
}

}  // namespace grampus
