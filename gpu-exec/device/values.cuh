// SQL's values, to the letter of DataFusion's (arrow's) kernels: the order of floats, integers that wrap, casts that
// may refuse.
//
// NULL is handled outside: generated code carries it beside a value, and calls these functions with an arbitrary value
// in its place.
#pragma once
#include "query.h"
#include "target.cuh"

namespace grampus {

typedef signed char i8;
typedef short i16;

// A sum of decimals: 128 bits, two's complement.
struct Wide {
    u64 low, high;
};

// ---- bits -----------------------------------------------------------------------------------------------

template <class To, class From>
GRAMPUS_DEVICE To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "same bits, other type");
    union {
        From from;
        To to;
    } both;
    both.from = from;
    return both.to;
}

// The unsigned type in which an integer wraps; small ones wrap when cast back.
template <u32 SIZE>
struct WrapsAs {
    typedef u32 type;
};
template <>
struct WrapsAs<8> {
    typedef u64 type;
};

template <class T>
struct IsFloat {
    static constexpr bool value = false;
};
template <>
struct IsFloat<float> {
    static constexpr bool value = true;
};
template <>
struct IsFloat<double> {
    static constexpr bool value = true;
};

// ---- order ------------------------------------------------------------------------------------------------

// An integer that orders as the value does. Floats have their total order (-NaN < -inf < ... < -0 < 0 < ... < inf <
// NaN).
GRAMPUS_DEVICE i64 order_of(double v) {
    i64 bits = bits_as<i64>(v);
    return bits ^ (i64)((u64)(bits >> 63) >> 1);
}
GRAMPUS_DEVICE i64 order_of(float v) {
    i32 bits = bits_as<i32>(v);
    return bits ^ (i32)((u32)(bits >> 31) >> 1);
}
GRAMPUS_DEVICE i64 order_of(i64 v) { return v; }
GRAMPUS_DEVICE i64 order_of(i32 v) { return v; }
GRAMPUS_DEVICE i64 order_of(i16 v) { return v; }
GRAMPUS_DEVICE i64 order_of(i8 v) { return v; }
GRAMPUS_DEVICE i64 order_of(bool v) { return v; }

// Comparisons: total order, except that the zeros are equal. Floats are compared as integers, without a branch:
// multiprocessors have few units for doubles, and NaNs need no second look. One operand decides how the bits of both
// are turned. If that operand is the same for a whole tile, the compiler finds the turn once, and a value costs two
// operations and the comparison.
template <class T>
struct SignBit {
    typedef typename WrapsAs<sizeof(T)>::type Bits;
    static constexpr Bits value = (Bits)1 << (8 * sizeof(T) - 1);
};
// a < b, where b may be constant for a tile. Above zero the bits order as signed integers, below it as unsigned ones in
// reverse.
template <class T>
GRAMPUS_DEVICE bool less(T a, T b) {
    if constexpr (IsFloat<T>::value) {
        typedef typename SignBit<T>::Bits Bits;
        constexpr Bits SIGN = SignBit<T>::value;
        Bits fixed = bits_as<Bits>(b);
        bool turned = fixed == 0 || (fixed & SIGN) != 0;
        Bits flip = turned ? ~(Bits)0 : SIGN;
        return (bits_as<Bits>(a) ^ flip) < ((turned ? fixed | SIGN : fixed) ^ flip);
    } else {
        return a < b;
    }
}
// a > b, where b may be constant for a tile.
template <class T>
GRAMPUS_DEVICE bool more(T a, T b) {
    if constexpr (IsFloat<T>::value) {
        typedef typename SignBit<T>::Bits Bits;
        constexpr Bits SIGN = SignBit<T>::value;
        Bits fixed = bits_as<Bits>(b);
        if (fixed == SIGN) fixed = 0;
        bool turned = (fixed & SIGN) != 0;
        Bits flip = turned ? ~(Bits)0 : SIGN;
        return (bits_as<Bits>(a) ^ flip) > (fixed ^ flip);
    } else {
        return a > b;
    }
}
template <class T>
GRAMPUS_DEVICE bool equal(T a, T b) {
    if constexpr (IsFloat<T>::value)
        return (a == b) | (bits_as<typename SignBit<T>::Bits>(a) == bits_as<typename SignBit<T>::Bits>(b));
    else return a == b;
}

// Equality of bits: the zeros differ. DataFusion's IN compares floats so.
template <class T>
GRAMPUS_DEVICE bool identical(T a, T b) {
    if constexpr (IsFloat<T>::value) return order_of(a) == order_of(b);
    else return a == b;
}
// A group's key as a word: the zeros are one group, and each bit pattern of NaN is one.
GRAMPUS_DEVICE u64 key_word(double v) { return v == 0 ? 0 : bits_as<u64>(v); }
GRAMPUS_DEVICE u64 key_word(float v) { return v == 0 ? 0 : bits_as<u32>(v); }
template <class T>
GRAMPUS_DEVICE u64 key_word(T v) {
    return (u64)(i64)v;
}

// Words for MIN and MAX: unsigned, in the order of the values by strict total order (as arrow's aggregates, -0 < 0).
// MIN's words are inverted: for both, any other word beats 0, and zeroed memory is an empty aggregate.
template <class T>
GRAMPUS_DEVICE u64 word_for_max(T v) {
    return (u64)order_of(v) ^ 1ull << 63;
}
template <class T>
GRAMPUS_DEVICE u64 word_for_min(T v) {
    return ~word_for_max(v);
}
GRAMPUS_DEVICE u64 greater_word(u64 a, u64 b) { return a > b ? a : b; }

// ---- arithmetic -------------------------------------------------------------------------------------------

// NaNs have signs, and the order of floats depends on them. Which sign an operation's NaN has differs between a GPU and
// the CPU, so settle_nan follows the CPU that runs the CPU plan. A NaN operand is the result; without one,
// DEFAULT_NAN_SIGN (generated) decides.
GRAMPUS_DEVICE double quiet_nan(u64 bits) { return bits_as<double>(bits | 0x7FF8000000000000ull); }
GRAMPUS_DEVICE float quiet_nan(u32 bits) { return bits_as<float>(bits | 0x7FC00000u); }
GRAMPUS_DEVICE u64 bits_of(double v) { return bits_as<u64>(v); }
GRAMPUS_DEVICE u32 bits_of(float v) { return bits_as<u32>(v); }
template <class T>
GRAMPUS_DEVICE T settle_nan(T result, T a, T b) {
    typedef typename WrapsAs<sizeof(T)>::type Bits;
    constexpr Bits SIGN = (Bits)DEFAULT_NAN_SIGN << (8 * sizeof(T) - 1);
    if (result == result) return result;
    return quiet_nan(a != a ? bits_of(a) : b != b ? bits_of(b) : SIGN);
}

#define GRAMPUS_ARITHMETIC(name, op)                                                        \
    template <class T>                                                                      \
    GRAMPUS_DEVICE T name(T a, T b) {                                                       \
        typedef typename WrapsAs<sizeof(T)>::type Unsigned;                                 \
        if constexpr (IsFloat<T>::value) return settle_nan((T)(a op b), a, b);              \
        else return (T)((Unsigned)a op (Unsigned)b);                                        \
    }
GRAMPUS_ARITHMETIC(add, +)
GRAMPUS_ARITHMETIC(subtract, -)
GRAMPUS_ARITHMETIC(multiply, *)

template <class T>
GRAMPUS_DEVICE T negate(T a) {
    if constexpr (IsFloat<T>::value) {
        typedef typename WrapsAs<sizeof(T)>::type Bits;
        return bits_as<T>(bits_of(a) ^ (Bits)1 << (8 * sizeof(T) - 1));
    } else {
        return subtract((T)0, a);
    }
}

// Functions of floats.
template <class T>
GRAMPUS_DEVICE T floor_of(T a) {
    return settle_nan(float_floor(a), a, a);
}
template <class T>
GRAMPUS_DEVICE T ceil_of(T a) {
    return settle_nan(float_ceil(a), a, a);
}
template <class T>
GRAMPUS_DEVICE T sqrt_of(T a, bool& refused) {
    refused = refused || a < 0;
    return settle_nan(float_sqrt(a), a, a);
}
template <class T>
GRAMPUS_DEVICE T abs_of(T a) {
    typedef typename WrapsAs<sizeof(T)>::type Bits;
    return bits_as<T>((Bits)(bits_of(a) & ~((Bits)1 << (8 * sizeof(T) - 1))));
}

// Whether an integer division has an answer.
template <class T>
GRAMPUS_DEVICE bool divides(T a, T b) {
    constexpr T LEAST = (T)(1ull << (8 * sizeof(T) - 1));
    return b != 0 && !(b == (T)-1 && a == LEAST);
}
// `refused` is set if the division has no answer; the result is then meaningless.
template <class T>
GRAMPUS_DEVICE T divide(T a, T b, bool& refused) {
    bool good = divides(a, b);
    refused |= !good;
    return good ? (T)(a / b) : (T)0;
}
template <class T>
GRAMPUS_DEVICE T modulo(T a, T b, bool& refused) {
    bool good = divides(a, b);
    refused |= !good;
    return good ? (T)(a % b) : (T)0;
}
// Division of floats always has an answer. Those of doubles are long, and out of line.
GRAMPUS_ENTRY double quotient(double a, double b);
GRAMPUS_ENTRY double remainder(double a, double b);
template <class T>
GRAMPUS_DEVICE T divide(T a, T b) {
    if constexpr (sizeof(T) == 8) return far_call(&quotient)(a, b);
    else return settle_nan((T)(a / b), a, b);
}
template <class T>
GRAMPUS_DEVICE T modulo(T a, T b) {
    if constexpr (sizeof(T) == 8) return far_call(&remainder)(a, b);
    else return settle_nan(float_modulo(a, b), a, b);
}

// Sums, differences and products of decimals; refuse if the result does not fit the type.
template <class T>
GRAMPUS_DEVICE T add_checked(T a, T b, bool& refused) {
    T sum = add(a, b);
    refused |= ((a ^ sum) & (b ^ sum)) < 0;
    return sum;
}
template <class T>
GRAMPUS_DEVICE T subtract_checked(T a, T b, bool& refused) {
    T difference = subtract(a, b);
    refused |= ((a ^ b) & (a ^ difference)) < 0;
    return difference;
}
GRAMPUS_DEVICE i64 multiply_checked(i64 a, i64 b, bool& refused) {
    i64 product = multiply(a, b);
    refused |= multiply_high(a, b) != product >> 63;
    return product;
}
// The quotient rounded half away from zero; `b` is a power of ten.
template <class T>
GRAMPUS_DEVICE T round_divide(T a, T b) {
    T quotient = a / b, rest = a % b, half = b / 2;
    return quotient + (rest >= half ? 1 : rest <= -half ? -1 : 0);
}
// The value; refuses if it is not between -bound and bound.
template <class T>
GRAMPUS_DEVICE T within(T v, T bound, bool& refused) {
    refused |= v <= -bound || v >= bound;
    return v;
}

GRAMPUS_DEVICE Wide widen(i64 v) { return Wide{(u64)v, (u64)(v >> 63)}; }
GRAMPUS_DEVICE Wide add(Wide a, Wide b) {
    u64 low = a.low + b.low;
    return Wide{low, a.high + b.high + (low < a.low ? 1 : 0)};
}

// ---- casts ------------------------------------------------------------------------------------------------

// Casts of floats keep a NaN's sign, and those of its other bits that fit.
GRAMPUS_DEVICE double to_double(float v) {
    u64 bits = bits_as<u32>(v);
    return v == v ? (double)v : quiet_nan((bits >> 31) << 63 | (bits & 0x7FFFFF) << 29);
}
GRAMPUS_DEVICE float to_float(double v) {
    u64 bits = bits_as<u64>(v);
    return v == v ? (float)v : quiet_nan((u32)(bits >> 63) << 31 | ((u32)(bits >> 29) & 0x7FFFFF));
}

// Casts to an integer of fewer bits.
template <class To, class From>
GRAMPUS_DEVICE To narrow(From from, bool& refused) {
    To to = (To)from;
    refused |= (From)to != from;
    return to;
}

// Casts towards zero; NaN and values that do not fit refuse. The bounds are powers of two, exact in both types.
template <class To, class From>
GRAMPUS_DEVICE To truncate(From from, bool& refused) {
    constexpr u32 BITS = 8 * sizeof(To);
    constexpr From BEYOND = (From)(1ull << (BITS - 1));
    // Small integers: the bound is the value below the least one that still has the least integer as its integer part.
    // For wider integers no such value exists.
    constexpr bool EXACT_BELOW = BITS < (sizeof(From) == 8 ? 53 : 24);
    bool good = from < BEYOND && (EXACT_BELOW ? from > -BEYOND - 1 : from >= -BEYOND);
    refused |= !good;
    return good ? (To)from : (To)0;
}

// The unscaled decimal of value * power, rounded half away from zero; refuses beyond `bound`, 10^18 at most.
GRAMPUS_DEVICE i64 decimal_of(double value, double power, i64 bound, bool& refused) {
    double scaled = value * power;
    i64 whole = truncate<i64>(scaled, refused);
    double rest = scaled - (double)whole;  // exact: numbers of 2^53 and more have no fraction
    return within(whole + (rest >= 0.5 ? 1 : 0) - (rest <= -0.5 ? 1 : 0), bound, refused);
}

// A literal: integers are sign-extended, floats are doubles.
template <class T>
GRAMPUS_DEVICE T argument_of(u64 bits) {
    if constexpr (!IsFloat<T>::value) return (T)(i64)bits;
    else if constexpr (sizeof(T) == 4) return to_float(bits_as<double>(bits));
    else return bits_as<double>(bits);
}
template <class T>
GRAMPUS_DEVICE T argument(const QueryHead& head, u32 at) {
    return argument_of<T>(load_constant(&head.arguments[at]));
}

}  // namespace grampus
