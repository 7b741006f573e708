//! `DecodeLaunch`: the only parameter of the decoding kernel, and the tasks that it points to (mirror of
//! device/decode.h).
#![allow(missing_docs)] // fields are documented where they are declared first: in device/decode.h

/// Maximum number of jobs in one launch.
pub const DECODE_JOBS: usize = 128;

pub(crate) const CODING_BITS: u32 = 1;
pub(crate) const CODING_BYTES: u32 = 2;
pub(crate) const CODING_INTEGERS_1: u32 = 3;
pub(crate) const CODING_INTEGERS_2: u32 = 4;
pub(crate) const CODING_RAW: u32 = 5;
pub(crate) const CODING_VARINTS: u32 = 6;

pub(crate) const DECODE_PLAIN: u32 = 1;
pub(crate) const DECODE_INTEGERS: u32 = 2;
pub(crate) const DECODE_CODES: u32 = 3;
pub(crate) const DECODE_TIMESTAMPS: u32 = 4;
pub(crate) const DECODE_DECIMALS: u32 = 5;
pub(crate) const DECODE_DOUBLES: u32 = 6;
pub(crate) const DECODE_FLOATS: u32 = 7;

grampus_io_stack::shared_structs! {
    DecodeStream { bytes: u64, length: u32, skip: u32 }
    ZoneChange { from: u64, offset: u64 }
    DecodeTask {
        present: DecodeStream, data: DecodeStream, secondary: DecodeStream, values: u64, valid: u64, table: u64,
        epoch: u64, table_length: u32, skip_rows: u32, rows: u32, kind: u32, coding: u32, secondary_coding: u32,
        width: u32, scale: u32, label: u32, is_signed: u32,
    }
    DecodeJob { tasks: u64, first: u32, count: u32 }
    DecodeLaunch { failed: u64, jobs: u32, tasks: u32, job: [DecodeJob; DECODE_JOBS] }
}
