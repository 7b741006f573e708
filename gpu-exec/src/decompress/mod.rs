//! The kernels that decompress chunks and those around nvCOMP, and decompression without a query.
//!
//! ```text
//! mod             `ChunkKernel`, and sources of the kernels
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
use grampus_orc_layout::codec::Codec;

use crate::abi;
use crate::codegen::BLOCK_THREADS;

/// A kernel that decompresses chunks, each by a warp. All take original chunks too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChunkKernel {
    /// Snappy and LZ4.
    Elements,
    /// zlib, whose chunks are raw deflate in ORC files.
    Deflate,
    /// Zstandard.
    Zstd,
}

impl ChunkKernel {
    /// All kernels.
    pub const ALL: [Self; 3] = [Self::Elements, Self::Deflate, Self::Zstd];

    /// The kernel for a codec; `None`: there is none, and nvCOMP does not know it either.
    pub fn of(codec: Codec) -> Option<Self> {
        match codec {
            Codec::Snappy | Codec::Lz4 => Some(Self::Elements),
            Codec::Zlib => Some(Self::Deflate),
            Codec::Zstd => Some(Self::Zstd),
            _ => None,
        }
    }

    /// The kernel's `extern "C"` name.
    pub fn entry(self) -> &'static str {
        match self {
            Self::Elements => "grampus_decompress",
            Self::Deflate => "grampus_decompress_deflate",
            Self::Zstd => "grampus_decompress_zstd",
        }
    }

    /// Threads of a block, at most. Their warps share the block's memory.
    pub fn block_threads(self) -> u32 {
        match self {
            Self::Elements => BLOCK_THREADS,
            Self::Deflate | Self::Zstd => 128,
        }
    }

    /// The complete translation unit.
    pub fn translation_unit(self) -> String {
        let mut text = device_headers::target_prelude();
        text.push_str(&device_headers::flattened(HEADERS));
        match self {
            Self::Elements => {}
            Self::Deflate => text.push_str(&device_headers::flattened(DEFLATE_HEADERS)),
            Self::Zstd => text.push_str(&device_headers::flattened(ZSTD_HEADERS)),
        }
        text.push_str("#line 1 \"grampus/decompress_layout_asserts\"\n");
        text.push_str(&abi::decompress::static_asserts());
        text.push_str(&device_headers::flattened([match self {
            Self::Elements => ("decompress.cu", include_str!("../../device/decompress.cu")),
            Self::Deflate => ("deflate.cu", include_str!("../../device/deflate.cu")),
            Self::Zstd => ("zstd.cu", include_str!("../../device/zstd.cu")),
        }]));
        text
    }
}

/// In dependency order.
const HEADERS: [(&str, &str); 9] = [
    ("decode.h", include_str!("../../device/decode.h")),
    ("decompress.h", include_str!("../../device/decompress.h")),
    ("stream_bytes.cuh", include_str!("../../device/stream_bytes.cuh")),
    ("byte_copy.cuh", include_str!("../../device/byte_copy.cuh")),
    ("element_batch.cuh", include_str!("../../device/element_batch.cuh")),
    ("short_elements.cuh", include_str!("../../device/short_elements.cuh")),
    ("snappy.cuh", include_str!("../../device/snappy.cuh")),
    ("lz4.cuh", include_str!("../../device/lz4.cuh")),
    ("decompress.cuh", include_str!("../../device/decompress.cuh")),
];

/// In dependency order, behind [`HEADERS`].
const DEFLATE_HEADERS: [(&str, &str); 3] = [
    ("bit_window.cuh", include_str!("../../device/bit_window.cuh")),
    ("prefix_code.cuh", include_str!("../../device/prefix_code.cuh")),
    ("deflate.cuh", include_str!("../../device/deflate.cuh")),
];

/// In dependency order, behind [`HEADERS`].
const ZSTD_HEADERS: [(&str, &str); 6] = [
    ("bit_window.cuh", include_str!("../../device/bit_window.cuh")),
    ("backward_bits.cuh", include_str!("../../device/backward_bits.cuh")),
    ("fse_table.cuh", include_str!("../../device/fse_table.cuh")),
    ("xxhash.cuh", include_str!("../../device/xxhash.cuh")),
    ("zstd_literals.cuh", include_str!("../../device/zstd_literals.cuh")),
    ("zstd.cuh", include_str!("../../device/zstd.cuh")),
];

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::nvcomp_codec;

    #[test]
    fn kernels_and_nvcomp_know_the_same_codecs() {
        for codec in [Codec::Zlib, Codec::Snappy, Codec::Lzo, Codec::Lz4, Codec::Zstd] {
            assert_eq!(
                ChunkKernel::of(codec).is_some(),
                nvcomp_codec(codec).is_some(),
                "{codec:?}"
            );
        }
    }
}
