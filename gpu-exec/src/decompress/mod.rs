//! The kernels that decompress chunks and those around nvCOMP, and decompression without a query.
//!
//! ```text
//! mod             sources of the kernels
//! chunk_table     tables of chunks, divided into launches
//! library_memory  device memory in which nvCOMP works
//! library         chunks that nvCOMP decompresses
//! standalone      chunks without a query
//! ```

pub mod chunk_table;
pub mod library;
pub(crate) mod library_memory;
pub mod standalone;

use grampus_io_stack::device_headers;

use crate::abi;

/// The kernel's `extern "C"` name.
pub const ENTRY: &str = "grampus_decompress";

/// In dependency order.
const HEADERS: [(&str, &str); 8] = [
    ("decode.h", include_str!("../../device/decode.h")),
    ("decompress.h", include_str!("../../device/decompress.h")),
    ("stream_bytes.cuh", include_str!("../../device/stream_bytes.cuh")),
    ("byte_copy.cuh", include_str!("../../device/byte_copy.cuh")),
    ("short_elements.cuh", include_str!("../../device/short_elements.cuh")),
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

/// In dependency order.
const LIBRARY_HEADERS: [(&str, &str); 4] = [
    ("decompress.h", include_str!("../../device/decompress.h")),
    ("library_chunks.h", include_str!("../../device/library_chunks.h")),
    ("byte_copy.cuh", include_str!("../../device/byte_copy.cuh")),
    ("library_chunks.cuh", include_str!("../../device/library_chunks.cuh")),
];

/// The complete translation unit of the kernels around nvCOMP: [`library::PREPARE`] and [`library::TAKE`].
pub fn library_translation_unit() -> String {
    let mut text = device_headers::target_prelude();
    text.push_str(&device_headers::flattened(LIBRARY_HEADERS));
    text.push_str("#line 1 \"grampus/library_layout_asserts\"\n");
    text.push_str(&abi::decompress::static_asserts());
    text.push_str(&abi::library_chunks::static_asserts());
    text.push_str(&device_headers::flattened([(
        "library_chunks.cu",
        include_str!("../../device/library_chunks.cu"),
    )]));
    text
}
