// Decimals of more than 18 digits: 128 bits, two's complement. Kernels hold them in registers only. Columns, literals,
// keys and extremes have 64 bits.
#pragma once
#include "values.cuh"

namespace grampus {

typedef __int128 i128;
typedef unsigned __int128 u128;

template <>
struct WrapsAs<16> {
    typedef u128 type;
};

GRAMPUS_DEVICE u128 magnitude(i128 v) { return v < 0 ? 0 - (u128)v : (u128)v; }
GRAMPUS_DEVICE i128 with_sign(u128 magnitude, bool is_negative) {
    return (i128)(is_negative ? 0 - magnitude : magnitude);
}

// Products; refuse if the magnitude takes more than 127 bits.
GRAMPUS_DEVICE i128 multiply_checked(i128 a, i64 b, bool& refused) {
    u128 x = magnitude(a);
    u64 y = b < 0 ? 0 - (u64)b : (u64)b;
    u128 low = (u128)(u64)x * y, high = (u128)(u64)(x >> 64) * y + (low >> 64);
    refused |= high >> 63 != 0;
    return with_sign(high << 64 | (u64)low, (a < 0) != (b < 0));
}
GRAMPUS_DEVICE i128 multiply_checked(i64 a, i128 b, bool& refused) { return multiply_checked(b, a, refused); }
GRAMPUS_DEVICE i128 multiply_checked(i128 a, i128 b, bool& refused) {
    u128 x = magnitude(a), y = magnitude(b);
    u64 x_high = (u64)(x >> 64), y_high = (u64)(y >> 64);
    // A product that fits has one of its two middle products at most.
    u128 middle = x_high != 0 ? (u128)x_high * (u64)y : (u128)y_high * (u64)x;
    u128 low = (u128)(u64)x * (u64)y, high = middle + (low >> 64);
    refused |= (x_high != 0 && y_high != 0) || high >> 63 != 0;
    return with_sign(high << 64 | (u64)low, (a < 0) != (b < 0));
}
// A product of which each factor has 64 bits always fits.
GRAMPUS_DEVICE i128 multiply_wide(i64 a, i64 b) { return (i128)a * b; }

// Sums wrap at 128 bits. 2^39 values of 89 bits, the sign among them, do not reach that, and no query has more rows.
// Refuse a longer one.
GRAMPUS_DEVICE i128 summand(i128 v, bool& refused) {
    const u64 from_zero = (u64)(v >> 64) + (1ull << 24);
    refused |= from_zero >> 25 != 0;
    return v;
}

GRAMPUS_DEVICE Wide widen(i128 v) { return Wide{(u64)v, (u64)((u128)v >> 64)}; }

// The nearest double, of two equally near ones the even one.
GRAMPUS_DEVICE double to_double(i128 v) {
    u128 whole = magnitude(v);
    u64 high = (u64)(whole >> 64), rest = high;
    u32 beyond = high != 0 ? 1 : 0;  // bits beyond the upper 64
    GRAMPUS_UNROLL
    for (u32 by = 32; by > 0; by /= 2) {
        if (rest >> by == 0) continue;
        rest >>= by;
        beyond += by;
    }
    // The lowest bit says whether there is any bit below it.
    u64 upper = (u64)(whole >> beyond) | ((whole & (((u128)1 << beyond) - 1)) != 0 ? 1 : 0);
    double found = (double)upper * bits_as<double>((u64)(1023 + beyond) << 52);
    return v < 0 ? -found : found;
}

}  // namespace grampus
