// `ValueRuns`: runs of values, decoded by a warp: integers (ORC v1, "Run Length Encoding version 1" and "version 2"),
// bytes ("Byte Run Length Encoding"), raw values and varints. All lanes know the run; each lane makes its own values of
// it.
//
// **Invariant:** every run takes at least one byte, whatever the bytes are.
//
//   version 1   0..127: 3 + control values, signed byte delta, varint base;  128..255: 256 - control varints
//   version 2   00 WWW CCC                      short repeat: W+1 bytes big-endian, C+3 times
//               01 wwwww L  LLLLLLLL            direct: L+1 values of w bits
//               10 wwwww L  LLLLLLLL  BBB ppppp  ggg PPPPP   patched base: B+1 base bytes, L+1 values of w bits,
//                                               P patches of a gap of g+1 bits and p bits that go above the value
//               11 wwwww L  LLLLLLLL            delta: varint base, signed varint delta, L-1 more distances of w bits
#pragma once
#include "stream_bytes.cuh"

namespace grampus {

GRAMPUS_DEVICE u64 unzigzag(u64 v) { return v >> 1 ^ (0 - (v & 1)); }

// The width that a header's five bits stand for.
GRAMPUS_DEVICE u32 width_of_code(u32 code) { return code < 24 ? code + 1 : code < 28 ? 2 * code - 22 : 8 * code - 184; }

// The narrowest width in which values of so many bits are packed.
GRAMPUS_DEVICE u32 closest_width(u32 bits) {
    return bits <= 24 ? bits : bits <= 32 ? (bits + 1) / 2 * 2 : bits <= 64 ? (bits + 7) / 8 * 8 : 64;
}

// The place of the k-th set bit, which `bits` has.
GRAMPUS_DEVICE u32 place_of_bit(u32 word, u32 k) {
    u32 place = 0;
    GRAMPUS_UNROLL
    for (u32 step = 16; step > 0; step /= 2) {
        u32 below = count_bits(word & ((1u << step) - 1));
        if (below <= k) {
            k -= below;
            place += step;
            word >>= step;
        }
    }
    return place;
}

class ValueRuns {
    enum Kind { SEQUENCE, PACKED, RAW, DELTA, PATCHED, VARINTS };

    StreamBytes in;
    u32 coding, raw_width;
    bool is_signed;
    // The current run: values `used` to `length - 1` are to come.
    u32 kind, length, used;
    u32 body;         // its first packed byte
    u32 width;        // bits of packed values, bytes of raw ones
    u64 base, delta;  // DELTA: value used - 1, and the first distance
    // PATCHED: the next patch, and the value that it belongs to.
    u32 patch, patches, patch_width, entry_width, patched;

    GRAMPUS_DEVICE u64 signed_or_not(u64 v) const { return is_signed ? unzigzag(v) : v; }
    GRAMPUS_DEVICE u32 patch_list() const { return body + packed_bytes(length, width); }
    GRAMPUS_DEVICE u64 entry(u32 k) const { return in.packed(patch_list(), entry_width, k); }

    GRAMPUS_DEVICE u64 take_big_endian(u32 count) {
        u64 v = 0;
        GRAMPUS_NO_UNROLL
        for (u32 i = 0; i < count; i++) v = v << 8 | in.take();
        return v;
    }
    GRAMPUS_DEVICE void start_packed(u32 new_kind, u32 new_width, u32 bytes) {
        kind = new_kind;
        width = new_width;
        body = in.at;
        in.skip(bytes);
    }

    GRAMPUS_DEVICE void start_patched(u32 new_width) {
        u32 third = in.take(), fourth = in.take();
        u32 base_bits = ((third >> 5) + 1) * 8;
        u32 gap_width = (fourth >> 5) + 1;
        patch_width = width_of_code(third & 31);
        patches = fourth & 31;
        if (patch_width + gap_width > 64) {
            in.failed = true;
            return;
        }
        entry_width = closest_width(patch_width + gap_width);
        // The base's highest bit is its sign; the rest its magnitude.
        u64 magnitude = take_big_endian(base_bits / 8), sign = 1ull << (base_bits - 1);
        base = magnitude & sign ? 0 - (magnitude & ~sign) : magnitude;
        start_packed(PATCHED, new_width, packed_bytes(length, new_width) + packed_bytes(patches, entry_width));
        if (in.failed) return;
        patch = 0;
        patched = 0;
        u32 place = 0;
        GRAMPUS_NO_UNROLL
        for (u32 k = 0; k < patches; k++) {
            u64 e = entry(k);
            place += (u32)(e >> patch_width);
            if (k == 0) patched = place;
            // A gap too wide for its field consists of entries with an empty patch.
            if (e << (64 - patch_width) != 0 && (place >= length || new_width >= 64)) in.failed = true;
        }
    }

    GRAMPUS_DEVICE void start_2() {
        u32 first = in.take();
        if (first < 0x40) {
            base = signed_or_not(take_big_endian((first >> 3 & 7) + 1));
            delta = 0;
            kind = SEQUENCE;
            length = (first & 7) + 3;
            return;
        }
        u32 code = first >> 1 & 31, way = first >> 6;
        length = ((first & 1) << 8 | in.take()) + 1;
        if (way == 1) {
            start_packed(PACKED, width_of_code(code), packed_bytes(length, width_of_code(code)));
        } else if (way == 2) {
            start_patched(width_of_code(code));
        } else {
            base = signed_or_not(in.varint());
            delta = unzigzag(in.varint());
            kind = SEQUENCE;
            if (code != 0) {
                u32 bytes = packed_bytes(length > 2 ? length - 2 : 0, width_of_code(code));
                start_packed(DELTA, width_of_code(code), bytes);
            }
        }
    }

    GRAMPUS_DEVICE void start_1() {
        u32 control = in.take();
        kind = VARINTS;
        length = 256 - control;
        if (control >= 0x80) return;
        delta = (u64)(i64)(signed char)in.take();
        base = signed_or_not(in.varint());
        kind = SEQUENCE;
        length = control + 3;
    }

    GRAMPUS_DEVICE void start_bytes() {
        u32 control = in.take();
        if (control < 0x80) {
            base = in.take();
            delta = 0;
            kind = SEQUENCE;
            length = control + 3;
        } else {
            length = 256 - control;
            start_packed(RAW, 1, length);
        }
    }

    // One run for all values: only the header costs time.
    GRAMPUS_DEVICE void start_raw() {
        length = (in.length - in.at) / raw_width;
        start_packed(RAW, raw_width, length * raw_width);
        if (length == 0) in.failed = true;
    }

    // One run for all values, which take a byte or more each.
    GRAMPUS_DEVICE void start_varints() {
        kind = VARINTS;
        length = in.length - in.at;
        if (length == 0) in.failed = true;
    }

    GRAMPUS_SLOW void start_run() {
        used = 0;
        length = 0;
        if (coding == CODING_INTEGERS_2) start_2();
        else if (coding == CODING_INTEGERS_1) start_1();
        else if (coding == CODING_BYTES) start_bytes();
        else if (coding == CODING_VARINTS) start_varints();
        else start_raw();
    }

    // The next `count` varints, lane `first`'s the first. Collective.
    GRAMPUS_DEVICE u64 take_varints(u32 first, u32 count) {
        u64 mine = 0;
        if (WARP < 16) {  // no varint surely ends among the bytes that the lanes see
            for (u32 i = 0; i < count; i++) {
                u64 v = in.varint();
                if (lane_id() == first + i) mine = v;
            }
            return signed_or_not(mine);
        }
        GRAMPUS_NO_UNROLL
        while (count > 0 && !in.failed) {
            u32 i = in.at + lane_id();
            u32 ends = ballot(i < in.length && in.byte(i) < 0x80);
            u32 whole = count_bits(ends);
            if (whole > count) whole = count;
            if (whole == 0) {
                in.failed = true;
                break;
            }
            u32 k = lane_id() - first;
            bool long_one = false;
            if (k < whole) {
                u32 end = place_of_bit(ends, k), begin = k == 0 ? 0 : place_of_bit(ends, k - 1) + 1;
                // The tenth byte holds the highest of 64 bits.
                long_one = end - begin >= 10 || (end - begin == 9 && in.byte(in.at + end) > 1);
                u64 v = 0;
                GRAMPUS_NO_UNROLL
                for (u32 b = 0; b <= end - begin && b < 10; b++) v |= (u64)(in.byte(in.at + begin + b) & 0x7F) << 7 * b;
                mine = v;
            }
            if (any(long_one)) in.failed = true;
            in.at += place_of_bit(ends, whole - 1) + 1;
            first += whole;
            count -= whole;
        }
        return signed_or_not(mine);
    }
    // Moves over varints of any length. Collective.
    GRAMPUS_DEVICE void skip_varints(u32 count) {
        GRAMPUS_NO_UNROLL
        while (count > 0 && !in.failed) {
            u32 i = in.at + lane_id();
            u32 ends = ballot(i < in.length && in.byte(i) < 0x80), whole = count_bits(ends);
            u32 seen = in.length - in.at < WARP ? in.length - in.at : WARP;
            if (seen == 0) in.failed = true;
            in.at += whole < count ? seen : place_of_bit(ends, count - 1) + 1;
            count -= whole < count ? whole : count;
        }
    }

    // Puts the patches of values `used` to `used + part - 1` above the low bits of these values. `index` is the lane's
    // own value.
    GRAMPUS_DEVICE u64 with_patches(u64 v, u32 index, u32 part) {
        GRAMPUS_NO_UNROLL
        while (patch < patches && patched < used + part) {
            u64 bits = entry(patch) << (64 - patch_width) >> (64 - patch_width);
            if (bits != 0 && index == patched) v |= bits << width;
            patch++;
            if (patch < patches) patched += (u32)(entry(patch) >> patch_width);
        }
        return v;
    }

    // Distances to values. Collective.
    GRAMPUS_DEVICE u64 sum_up(bool on, u32 index, u32 first, u32 part) {
        u64 d = 0;
        if (on && index < 2) d = index == 0 ? base : delta;
        // The sign of the first distance holds for all of them.
        if (on && index >= 2)
            d = (i64)delta < 0 ? 0 - in.packed(body, width, index - 2) : in.packed(body, width, index - 2);
        GRAMPUS_UNROLL
        for (u32 by = 1; by < WARP; by *= 2) {
            u64 below = shuffle_up(d, by);
            if (lane_id() >= by) d += below;
        }
        if (used > 0) d += base;
        base = shuffle(d, first + part - 1);
        return d;
    }

    // The next `part` values of the run, lane `first`'s the first. Collective.
    GRAMPUS_DEVICE u64 of_run(u32 first, u32 part) {
        u32 k = lane_id() - first, index = used + k;
        bool on = k < part;
        switch (kind) {
        case SEQUENCE: return base + delta * index;
        case PACKED: return on ? signed_or_not(in.packed(body, width, index)) : 0;
        case RAW: return on ? in.word(body + index * width) & ~0ull >> (64 - 8 * width) : 0;
        case DELTA: return sum_up(on, index, first, part);
        case PATCHED: return with_patches(on ? in.packed(body, width, index) : 0, index, part) + base;
        default: return take_varints(first, part);
        }
    }

  public:
    GRAMPUS_DEVICE ValueRuns(const DecodeStream& stream, u32 coded, u32 value_width, bool with_sign)
        : in(stream), coding(coded), raw_width(value_width), is_signed(with_sign), kind(SEQUENCE), length(0), used(0),
          body(0), width(0), base(0), delta(0), patch(0), patches(0), patch_width(1), entry_width(1), patched(0) {}

    GRAMPUS_DEVICE bool failed() const { return in.failed; }

    // Moves over `count` values. With `wanted`, these are at most WARP values, and lane k gets the k-th. Collective.
    GRAMPUS_DEVICE u64 next(u32 count, bool wanted) {
        u64 mine = 0;
        u32 have = 0;
        GRAMPUS_NO_UNROLL
        while (have < count && !in.failed) {
            if (used == length) {
                start_run();
                continue;
            }
            u32 part = count - have < length - used ? count - have : length - used;
            // Values of this kind of run are sums of those before them.
            bool passed_one_by_one = !wanted && kind == DELTA && part < length - used;
            if (passed_one_by_one && part > WARP) part = WARP;
            if (wanted || passed_one_by_one) {
                u32 first = wanted ? have : 0;
                u64 v = of_run(first, part);
                if (lane_id() - first < part) mine = v;
            } else if (kind == VARINTS) {
                skip_varints(part);
            }
            used += part;
            have += part;
        }
        return mine;
    }
};

}  // namespace grampus
