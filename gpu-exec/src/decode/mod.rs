//! The decoding kernel: its source, and the layout of encoded row groups for it.
//!
//! ```text
//! mod           source of the decoding kernel
//! encoded_run   streams of consecutive row groups: stored bytes, chunks and tasks
//! straight_run  chunks of raw values, which need no decoding
//! lookup_table  the table that a column's tasks look values up in
//! decode_batch  encoded bytes of consecutive rows, and a task for each row group
//! group_gather  encoded bytes of row groups of any columns
//! standalone    decoding without a query
//! ```

pub mod decode_batch;
pub(crate) mod encoded_run;
pub(crate) mod group_gather;
pub(crate) mod lookup_table;
pub mod standalone;
pub(crate) mod straight_run;

use grampus_io_stack::device_headers;

use crate::abi;

/// The kernel's `extern "C"` name.
pub const ENTRY: &str = "grampus_decode";

/// In dependency order.
const HEADERS: [(&str, &str); 5] = [
    ("decode.h", include_str!("../../device/decode.h")),
    ("stream_bytes.cuh", include_str!("../../device/stream_bytes.cuh")),
    ("bit_runs.cuh", include_str!("../../device/bit_runs.cuh")),
    ("value_runs.cuh", include_str!("../../device/value_runs.cuh")),
    ("decode.cuh", include_str!("../../device/decode.cuh")),
];

/// The complete translation unit.
pub fn translation_unit() -> String {
    let mut text = device_headers::target_prelude();
    text.push_str(&device_headers::flattened(HEADERS));
    text.push_str("#line 1 \"grampus/decode_layout_asserts\"\n");
    text.push_str(&abi::decode::static_asserts());
    text.push_str(&device_headers::flattened([(
        "decode.cu",
        include_str!("../../device/decode.cu"),
    )]));
    text
}
