//! `Codec`: a codec's number for the kernels, and another implementation of it.

use grampus_gpu_exec::abi::decompress::{CODEC_DEFLATE, CODEC_LZ4, CODEC_SNAPPY, CODEC_ZSTD};
use grampus_gpu_exec::decompress::ChunkKernel;
use zstd::zstd_safe::CParameter;

/// A number that depends on all bytes.
fn number_of(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(1, |sum: u32, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte)))
        >> 8
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    Snappy,
    Lz4,
    Deflate,
    Zstd,
}

impl Codec {
    pub(crate) const ALL: [Self; 4] = [Self::Snappy, Self::Lz4, Self::Deflate, Self::Zstd];

    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Snappy => CODEC_SNAPPY,
            Self::Lz4 => CODEC_LZ4,
            Self::Deflate => CODEC_DEFLATE,
            Self::Zstd => CODEC_ZSTD,
        }
    }

    /// The kernel that decompresses it.
    pub(crate) fn kernel(self) -> ChunkKernel {
        match self {
            Self::Snappy | Self::Lz4 => ChunkKernel::Elements,
            Self::Deflate => ChunkKernel::Deflate,
            Self::Zstd => ChunkKernel::Zstd,
        }
    }

    pub(crate) fn compress(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Snappy => snap::raw::Encoder::new()
                .compress_vec(bytes)
                .expect("any bytes compress"),
            Self::Lz4 => lz4_flex::block::compress(bytes),
            Self::Deflate => {
                // Of all levels: 0 stores the bytes, 1 to 12 compress better and better.
                let level = number_of(bytes) as i32 % 13;
                let level = libdeflater::CompressionLvl::new(level).expect("a level");
                let mut compressor = libdeflater::Compressor::new(level);
                let mut out = vec![0; compressor.deflate_compress_bound(bytes.len())];
                let length = compressor.deflate_compress(bytes, &mut out).expect("there is space");
                out.truncate(length);
                out
            }
            Self::Zstd => {
                // Of any level, with and without a checksum and a length.
                let number = number_of(bytes);
                let mut compressor = zstd::bulk::Compressor::new(number as i32 % 28 - 8).expect("a level");
                for (flag, bit) in [
                    (CParameter::ChecksumFlag(number & 64 != 0), 64),
                    (CParameter::ContentSizeFlag(number & 128 != 0), 128),
                ] {
                    compressor.set_parameter(flag).unwrap_or_else(|e| panic!("{bit}: {e}"));
                }
                compressor.compress(bytes).expect("any bytes compress")
            }
        }
    }

    /// The bytes of a chunk by the other implementation, if there are at most `space`.
    pub(crate) fn by_peer(self, stored: &[u8], space: usize) -> Option<Vec<u8>> {
        let mut out = vec![0; space];
        let bytes = match self {
            Self::Snappy => snap::raw::Decoder::new().decompress(stored, &mut out).ok()?,
            Self::Lz4 => lz4_flex::block::decompress_into(stored, &mut out).ok()?,
            Self::Deflate => libdeflater::Decompressor::new()
                .deflate_decompress(stored, &mut out)
                .ok()?,
            Self::Zstd => zstd::bulk::Decompressor::new()
                .expect("memory")
                .decompress_to_buffer(stored, &mut out)
                .ok()?,
        };
        out.truncate(bytes);
        Some(out)
    }
}
