//! `Codec`: a codec's number for the kernel, and another implementation of it.

use grampus_gpu_exec::abi::decompress::{CODEC_LZ4, CODEC_SNAPPY};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    Snappy,
    Lz4,
}

impl Codec {
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Snappy => CODEC_SNAPPY,
            Self::Lz4 => CODEC_LZ4,
        }
    }

    pub(crate) fn compress(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Snappy => snap::raw::Encoder::new()
                .compress_vec(bytes)
                .expect("any bytes compress"),
            Self::Lz4 => lz4_flex::block::compress(bytes),
        }
    }

    /// The bytes of a chunk by the other implementation, if there are at most `space`.
    pub(crate) fn by_peer(self, stored: &[u8], space: usize) -> Option<Vec<u8>> {
        let mut out = vec![0; space];
        let bytes = match self {
            Self::Snappy => snap::raw::Decoder::new().decompress(stored, &mut out).ok()?,
            Self::Lz4 => lz4_flex::block::decompress_into(stored, &mut out).ok()?,
        };
        out.truncate(bytes);
        Some(out)
    }
}
