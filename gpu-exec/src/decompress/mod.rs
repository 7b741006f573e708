//! The decompression kernel: its source, and decompression without a query.
//!
//! ```text
//! mod         source of the decompression kernel
//! standalone  chunks without a query
//! ```

pub mod standalone;

use grampus_io_stack::device_headers;

use crate::abi;

/// The kernel's `extern "C"` name.
pub const ENTRY: &str = "grampus_decompress";

/// In dependency order.
const HEADERS: [(&str, &str); 7] = [
    ("decode.h", include_str!("../../device/decode.h")),
    ("decompress.h", include_str!("../../device/decompress.h")),
    ("stream_bytes.cuh", include_str!("../../device/stream_bytes.cuh")),
    ("byte_copy.cuh", include_str!("../../device/byte_copy.cuh")),
    ("snappy.cuh", include_str!("../../device/snappy.cuh")),
    ("lz4.cuh", include_str!("../../device/lz4.cuh")),
    ("decompress.cuh", include_str!("../../device/decompress.cuh")),
];

/// The complete translation unit.
pub fn translation_unit() -> String {
    let mut text = device_headers::target_prelude();
    text.push_str(&device_headers::flattened(HEADERS));
    text.push_str("#line 1 \"grampus/decompress_layout_asserts\"\n");
    text.push_str(&abi::decompress::static_asserts());
    text.push_str(&device_headers::flattened([(
        "decompress.cu",
        include_str!("../../device/decompress.cu"),
    )]));
    text
}
