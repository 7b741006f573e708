// `DecodeLaunch`: the parameter of the decoding kernel, and the constants of both sides.
//
// gpu-exec mirrors this header in Rust, proves the layouts equal and says what writes the fields.
#pragma once
#include "types.h"

namespace grampus {

// DecodeTask::coding and secondary_coding, of the streams of values
constexpr u32 CODING_BITS = 1;        // bits in byte runs
constexpr u32 CODING_BYTES = 2;       // byte runs
constexpr u32 CODING_INTEGERS_1 = 3;  // integer runs, version 1
constexpr u32 CODING_INTEGERS_2 = 4;  // integer runs, version 2
constexpr u32 CODING_RAW = 5;         // values of as many bytes as the kind says, one after the other
constexpr u32 CODING_VARINTS = 6;     // varints, one after the other

// DecodeTask::kind
constexpr u32 DECODE_PLAIN = 1;       // the low bytes of the stored value; raw ones have `width` bytes
constexpr u32 DECODE_INTEGERS = 2;    // signed values that must fit
constexpr u32 DECODE_CODES = 3;       // indexes into a table of dictionary codes
constexpr u32 DECODE_TIMESTAMPS = 4;  // seconds in `data`, nanoseconds in `secondary`
constexpr u32 DECODE_DECIMALS = 5;    // unscaled values in `data`, scales in `secondary`
constexpr u32 DECODE_DOUBLES = 6;     // doubles that must be whole numbers that fit
constexpr u32 DECODE_FLOATS = 7;      // the same of four bytes

// Bytes of a stream from a place at which decoding can start. Kernels read aligned words of 8 bytes that hold at least
// one of these bytes.
struct DecodeStream {
    const u8* bytes;  // any alignment
    u32 length;
    u32 skip;         // values (bits, bytes) from there on that belong to rows before the task's first
};

// From `from` on, in seconds, a zone's clock is `offset` seconds ahead of UTC. The last entry of a table only ends it.
struct ZoneChange {
    u64 from;    // i64
    u64 offset;  // i64
};

// Rows of one column that one warp decodes: a row group, or a part of it.
struct DecodeTask {
    DecodeStream present;    // without bytes: every row has a value
    DecodeStream data;
    DecodeStream secondary;  // DECODE_TIMESTAMPS, DECODE_DECIMALS
    u8* values;              // of the first decoded row
    u8* valid;               // one bit for each row, likewise; null: a missing value is an error
    const u8* table;         // u32 codes, or ZoneChange; 8-byte aligned
    u64 epoch;               // i64: seconds from 1970 to the zero of the stored seconds
    u32 table_length;        // entries; no zone: 0
    u32 skip_rows;           // rows before the first decoded row
    u32 rows;
    u32 kind;
    u32 coding;              // of `data`
    u32 secondary_coding;
    u32 width;               // bytes of a value; all of its values must fit
    u32 scale;               // of decoded decimals
    u32 label;               // for `failed`
    u32 is_signed;           // a value's highest bit is its sign
};

// Tasks whose streams were transferred together.
struct DecodeJob {
    const DecodeTask* tasks;
    u32 first;  // counted over the launch
    u32 count;
};

constexpr u32 DECODE_JOBS = 128;

struct DecodeLaunch {
    u32* failed;  // 0 at first; then 1 + the label of a task with invalid streams
    u32 jobs;
    u32 tasks;    // of all jobs
    DecodeJob job[DECODE_JOBS];
};

}  // namespace grampus
