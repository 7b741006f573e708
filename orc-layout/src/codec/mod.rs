//! [`Compression`] codecs: one chunk's bytes to and from their uncompressed form, for each [`Codec`] of the
//! specification (ORC v1, "Compression").
//!
//! Each thread keeps one state per codec, so a chunk costs no allocation beyond its output.
//!
//! ```text
//! lz4  length of a block's output
//! lzo  the one codec without a suitable library
//! ```

mod lz4;
mod lzo;

use std::cell::RefCell;
use std::io::Cursor;

use self::lz4::lz4_length;
use libdeflater::{CompressionLvl, Compressor, DecompressionError, Decompressor};

/// Limit of a chunk's uncompressed bytes. A chunk's length has 23 bits, and no writer makes a chunk whose uncompressed
/// form would not fit the same field. Larger claims of a file are cut to this limit.
pub const MAX_BLOCK_BYTES: usize = (1 << 23) - 1;

/// Level of deflate: libdeflate's default.
const ZLIB_LEVEL: i32 = 6;
/// Deflate makes at most so many bytes of one.
const MAX_INFLATION: usize = 1032;
/// Level of Zstandard: the default of the reference implementation.
const ZSTD_LEVEL: i32 = 3;

/// Compression of every stream and footer of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression {
    /// The codec.
    pub codec: Codec,
    /// No chunk decompresses to more than this many bytes.
    pub block_size_bytes: u64,
}

impl Compression {
    /// [`block_size_bytes`](Self::block_size_bytes), at most [`MAX_BLOCK_BYTES`]: the limit of one decompressed chunk.
    pub(crate) fn block_size(&self) -> usize {
        usize::try_from(self.block_size_bytes).map_or(MAX_BLOCK_BYTES, |bytes| bytes.min(MAX_BLOCK_BYTES))
    }
}

/// Chunk codecs (ORC v1, "Compression").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the specification's own names
#[non_exhaustive]
pub enum Codec {
    Zlib,
    Snappy,
    Lzo,
    Lz4,
    Zstd,
}

thread_local! {
    static INFLATE: RefCell<Decompressor> = RefCell::new(Decompressor::new());
    static DEFLATE: RefCell<Option<Compressor>> = const { RefCell::new(None) };
    static UNZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
    static ZSTD: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
    static SNAPPY: RefCell<snap::raw::Encoder> = RefCell::new(snap::raw::Encoder::new());
}

/// Appends the uncompressed form of one compressed chunk (without its header) to `out`.
///
/// At most `block_size` bytes are appended (never more than [`MAX_BLOCK_BYTES`]). On error, `out` is unchanged. The
/// allocation follows the size of the input, not the claims in it.
///
/// # Errors
/// The fault of the chunk, for the caller to add file and place.
pub(crate) fn decompress_chunk(
    codec: Codec,
    block_size: usize,
    compressed: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let limit = block_size.min(MAX_BLOCK_BYTES);
    let base = out.len();
    let result = match codec {
        Codec::Zlib => inflate(limit, compressed, base, out),
        Codec::Snappy => unsnappy(limit, compressed, base, out),
        Codec::Lz4 => unlz4(limit, compressed, base, out),
        Codec::Zstd => unzstd(limit, compressed, out),
        Codec::Lzo => lzo::decompress(limit, compressed, out),
    }
    .and_then(|()| {
        let produced = out.len() - base;
        (produced <= limit).then_some(()).ok_or_else(|| too_large(limit))
    });
    if result.is_err() {
        out.truncate(base);
    }
    result
}

/// Overwrites `out` by the decompressed bytes of one chunk, given without its header. A buffer that is reused for
/// chunks of one size is not cleared in between. After an error the content of `out` is unspecified.
///
/// The result has at most `block_size` bytes, and never more than [`MAX_BLOCK_BYTES`]. The allocation follows the size
/// of the input, not the claims in it.
///
/// # Errors
/// The fault of the chunk, for the caller to add file and place.
pub fn decompress_over(codec: Codec, block_size: usize, compressed: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let limit = block_size.min(MAX_BLOCK_BYTES);
    match codec {
        Codec::Snappy => unsnappy(limit, compressed, 0, out),
        Codec::Lz4 => unlz4(limit, compressed, 0, out),
        Codec::Zlib => inflate(limit, compressed, 0, out),
        Codec::Zstd | Codec::Lzo => {
            out.clear();
            decompress_chunk(codec, block_size, compressed, out)
        }
    }
}

/// Bytes at the start of a compressed chunk that [`stated_length`] needs; 0 for codecs that do not state a length.
pub(crate) fn stated_length_bytes(codec: Codec) -> usize {
    match codec {
        Codec::Snappy => 5,
        Codec::Zstd => 18,
        Codec::Zlib | Codec::Lz4 | Codec::Lzo => 0,
    }
}

/// Uncompressed length of a chunk, as its first bytes state it; `None` if they do not. A chunk that states a wrong
/// length does not decompress.
pub(crate) fn stated_length(codec: Codec, start: &[u8]) -> Option<u64> {
    match codec {
        Codec::Snappy if !start.is_empty() => snap::raw::decompress_len(start).ok().map(|length| length as u64),
        Codec::Zstd => zstd::zstd_safe::get_frame_content_size(start).ok().flatten(),
        Codec::Snappy | Codec::Zlib | Codec::Lz4 | Codec::Lzo => None,
    }
}

/// Uncompressed length of a chunk, by decompressing it if need be; `None` if it is invalid. The tokens alone tell the
/// length of an LZ4 chunk.
pub(crate) fn decompressed_length(compression: Compression, chunk: &[u8]) -> Option<u64> {
    if compression.codec == Codec::Lz4 {
        return lz4_length(chunk);
    }
    let mut out = Vec::new();
    decompress_over(compression.codec, compression.block_size(), chunk, &mut out).ok()?;
    Some(out.len() as u64)
}

/// Appends the compressed form of one chunk (without a header) to `out`. The result may be larger than `input`.
///
/// # Errors
/// LZO, which this crate only reads; and errors of a codec's library.
pub fn compress_chunk(codec: Codec, input: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    match codec {
        Codec::Zlib => deflate(input, out),
        Codec::Snappy => SNAPPY.with_borrow_mut(|encoder| {
            let base = out.len();
            out.resize(base + snap::raw::max_compress_len(input.len()), 0);
            let length = encoder
                .compress(input, &mut out[base..])
                .map_err(|error| format!("snappy: {error}"))?;
            out.truncate(base + length);
            Ok(())
        }),
        Codec::Lz4 => {
            let base = out.len();
            out.resize(base + lz4_flex::block::get_maximum_output_size(input.len()), 0);
            let length =
                lz4_flex::block::compress_into(input, &mut out[base..]).map_err(|error| format!("lz4: {error}"))?;
            out.truncate(base + length);
            Ok(())
        }
        Codec::Zstd => ZSTD.with_borrow_mut(|state| {
            let compressor = match state {
                Some(compressor) => compressor,
                None => {
                    state.insert(zstd::bulk::Compressor::new(ZSTD_LEVEL).map_err(|error| format!("zstd: {error}"))?)
                }
            };
            let base = out.len();
            out.reserve(zstd::zstd_safe::compress_bound(input.len()));
            let mut cursor = Cursor::new(out);
            cursor.set_position(base as u64);
            compressor
                .compress_to_buffer(input, &mut cursor)
                .map_err(|error| format!("zstd: {error}"))?;
            Ok(())
        }),
        Codec::Lzo => Err("LZO is only read, not written".into()),
    }
}

fn too_large(limit: usize) -> String {
    format!("a chunk holds more than the {limit} bytes that the file allows")
}

/// Replaces the bytes of `out` from `base` on.
fn inflate(limit: usize, compressed: &[u8], base: usize, out: &mut Vec<u8>) -> Result<(), String> {
    out.resize(base + limit.min(compressed.len().saturating_mul(MAX_INFLATION)), 0);
    let result = INFLATE.with_borrow_mut(|state| state.deflate_decompress(compressed, &mut out[base..]));
    let written = result.map_err(|error| match error {
        DecompressionError::InsufficientSpace => too_large(limit),
        DecompressionError::BadData => "deflate: invalid data, or the end is missing".into(),
    })?;
    out.truncate(base + written);
    Ok(())
}

fn deflate(input: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    DEFLATE.with_borrow_mut(|state| {
        let compressor = match state {
            Some(compressor) => compressor,
            None => {
                let level = CompressionLvl::new(ZLIB_LEVEL).map_err(|_| "deflate: no such level")?;
                state.insert(Compressor::new(level))
            }
        };
        let base = out.len();
        out.resize(base + compressor.deflate_compress_bound(input.len()), 0);
        let length = compressor
            .deflate_compress(input, &mut out[base..])
            .map_err(|error| format!("deflate: {error}"))?;
        out.truncate(base + length);
        Ok(())
    })
}

/// Replaces the bytes of `out` from `base` on.
fn unsnappy(limit: usize, compressed: &[u8], base: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let length = snap::raw::decompress_len(compressed).map_err(|error| format!("snappy: {error}"))?;
    if length > limit {
        return Err(too_large(limit));
    }
    // A copy of 64 bytes takes two bytes of input at least.
    if length > compressed.len().saturating_mul(32) {
        return Err("snappy: the stated length cannot come from so few bytes".into());
    }
    out.resize(base + length, 0);
    let written = snap::raw::Decoder::new()
        .decompress(compressed, &mut out[base..])
        .map_err(|error| format!("snappy: {error}"))?;
    out.truncate(base + written);
    Ok(())
}

/// Replaces the bytes of `out` from `base` on.
fn unlz4(limit: usize, compressed: &[u8], base: usize, out: &mut Vec<u8>) -> Result<(), String> {
    // One byte of a length stands for at most 255 bytes.
    out.resize(base + limit.min(compressed.len().saturating_mul(255)), 0);
    let written =
        lz4_flex::block::decompress_into(compressed, &mut out[base..]).map_err(|error| format!("lz4: {error}"))?;
    out.truncate(base + written);
    Ok(())
}

fn unzstd(limit: usize, compressed: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    UNZSTD.with_borrow_mut(|state| {
        let decompressor = match state {
            Some(decompressor) => decompressor,
            None => state.insert(zstd::bulk::Decompressor::new().map_err(|error| format!("zstd: {error}"))?),
        };
        let stated = zstd::zstd_safe::get_frame_content_size(compressed).ok().flatten();
        let needed = match stated {
            Some(length) if length > limit as u64 => return Err(too_large(limit)),
            Some(length) => length as usize,
            None => limit,
        };
        let base = out.len();
        out.reserve(needed);
        let mut cursor = Cursor::new(out);
        cursor.set_position(base as u64);
        decompressor
            .decompress_to_buffer(compressed, &mut cursor)
            .map_err(|error| format!("zstd: {error}"))?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WRITTEN: [Codec; 4] = [Codec::Zlib, Codec::Snappy, Codec::Lz4, Codec::Zstd];
    const ALL: [Codec; 5] = [Codec::Zlib, Codec::Snappy, Codec::Lz4, Codec::Zstd, Codec::Lzo];

    fn compressible() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..3000),
            proptest::collection::vec(0u8..4, 0..6000),
            (any::<u8>(), 0usize..200_000).prop_map(|(byte, count)| vec![byte; count]),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn codecs_return_the_compressed_input(input in compressible()) {
            for codec in WRITTEN {
                let (mut packed, mut back) = (b"before".to_vec(), b"kept".to_vec());
                compress_chunk(codec, &input, &mut packed).unwrap();
                decompress_chunk(codec, input.len(), &packed[6..], &mut back).unwrap();
                let stated = stated_length(codec, &packed[6..packed.len().min(6 + stated_length_bytes(codec))]);
                prop_assert_eq!(stated, (stated_length_bytes(codec) > 0).then_some(input.len() as u64));
                let mut over = vec![9; 5000];
                decompress_over(codec, input.len(), &packed[6..], &mut over).unwrap();
                prop_assert_eq!(&over, &input);
                prop_assert_eq!(&back[..4], b"kept");
                prop_assert_eq!(&back[4..], &input[..]);
            }
            if !input.is_empty() {
                let (packed, mut back) = (lzokay_native::compress(&input).unwrap(), vec![]);
                decompress_chunk(Codec::Lzo, input.len(), &packed, &mut back).unwrap();
                prop_assert_eq!(&back, &input);
            }
        }

        #[test]
        fn chunk_larger_than_the_block_is_an_error(input in compressible()) {
            prop_assume!(!input.is_empty());
            for codec in WRITTEN {
                let (mut packed, mut back) = (vec![], vec![1]);
                compress_chunk(codec, &input, &mut packed).unwrap();
                prop_assert!(decompress_chunk(codec, input.len() - 1, &packed, &mut back).is_err(), "{:?}", codec);
                prop_assert_eq!(&back, &[1]);
            }
            let packed = lzokay_native::compress(&input).unwrap();
            prop_assert!(decompress_chunk(Codec::Lzo, input.len() - 1, &packed, &mut vec![]).is_err());
        }

        #[test]
        fn codecs_do_not_panic_on_noise(
            input in compressible(),
            noise in proptest::collection::vec(any::<u8>(), 0..200),
            flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            for codec in ALL {
                let mut packed = vec![];
                match codec {
                    Codec::Lzo if input.is_empty() => continue,
                    Codec::Lzo => packed = lzokay_native::compress(&input).unwrap(),
                    _ => compress_chunk(codec, &input, &mut packed).unwrap(),
                }
                for (at, byte) in &flips {
                    let at = at.index(packed.len());
                    packed[at] ^= byte;
                }
                for bytes in [&packed[..], &packed[..packed.len() / 2], &noise[..]] {
                    let mut out = vec![];
                    if decompress_chunk(codec, 1 << 18, bytes, &mut out).is_ok() {
                        prop_assert!(out.len() <= 1 << 18);
                    } else {
                        prop_assert!(out.is_empty());
                    }
                }
            }
        }
    }
}
