//! Compression chunks: the 3-byte `ChunkHeader`, and whole sections (footers, indexes) at once. Stream decoders walk
//! chunks themselves and use the same header.
//!
//! ```text
//! little-endian 24 bits: (length << 1) | original      then `length` bytes, compressed or as they are
//! ```

use bytes::Bytes;

use crate::codec::{self, Codec, Compression};
use crate::error::{Result, Section};

/// Bytes of a chunk header.
pub(crate) const HEADER_BYTES: usize = 3;

/// Header of every chunk of a compressed file (ORC v1, "Compression").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    /// Bytes of the chunk as stored, without this header; at most [`codec::MAX_BLOCK_BYTES`].
    pub(crate) length: u32,
    /// Stored uncompressed: compression did not make the chunk smaller, or the writer wanted its values in place.
    pub(crate) original: bool,
}

impl ChunkHeader {
    /// Parses a header. Every three bytes are a valid one.
    pub(crate) fn parse(bytes: [u8; HEADER_BYTES]) -> Self {
        let value = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
        Self {
            length: value >> 1,
            original: value & 1 == 1,
        }
    }

    /// The header at the start of `bytes`, if there are three bytes.
    pub(crate) fn first_of(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().map(|&header| Self::parse(header))
    }

    /// The header as stored.
    pub(crate) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let [a, b, c, _] = ((self.length << 1) | u32::from(self.original)).to_le_bytes();
        [a, b, c]
    }
}

/// Appends `input` (at most [`codec::MAX_BLOCK_BYTES`]) to `out` as one chunk with its header. An empty input appends
/// nothing. The chunk holds original bytes if `codec` is `None`, or if compression saves less than a tenth: that is not
/// worth the time to decompress it.
///
/// # Errors
/// The codec's message.
pub fn append_chunk(codec: Option<Codec>, input: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    debug_assert!(input.len() <= codec::MAX_BLOCK_BYTES);
    if input.is_empty() {
        return Ok(());
    }
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    let body = start + HEADER_BYTES;
    if let Some(codec) = codec {
        codec::compress_chunk(codec, input, out)?;
    }
    let original = codec.is_none() || (out.len() - body).saturating_mul(10) > input.len().saturating_mul(9);
    if original {
        out.truncate(body);
        out.extend_from_slice(input);
    }
    let header = ChunkHeader {
        length: (out.len() - body) as u32,
        original,
    };
    out[start..body].copy_from_slice(&header.to_bytes());
    Ok(())
}

/// The uncompressed bytes of a whole section. Nothing is copied if the file is not compressed or the section is a
/// single original chunk.
///
/// # Errors
/// `Corrupt` if chunks overrun the section, do not decompress, or decompress to more than `limit_bytes`.
pub(crate) fn decompress_all(
    place: Section<'_>,
    compression: Option<Compression>,
    bytes: &Bytes,
    limit_bytes: usize,
) -> Result<Bytes> {
    let Some(compression) = compression else {
        return Ok(bytes.clone());
    };
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let body = at + HEADER_BYTES;
        let header =
            ChunkHeader::first_of(&bytes[at..]).ok_or_else(|| place.corrupt(at as u64, "a chunk header is cut off"))?;
        let end = body + header.length as usize;
        let chunk = bytes.get(body..end).ok_or_else(|| {
            let (length, left) = (header.length, bytes.len() - body);
            place.corrupt(at as u64, format!("a chunk of {length} bytes with {left} bytes left"))
        })?;
        if header.original {
            if at == 0 && end == bytes.len() {
                return Ok(bytes.slice(body..));
            }
            out.extend_from_slice(chunk);
        } else {
            codec::decompress_chunk(compression.codec, compression.block_size(), chunk, &mut out)
                .map_err(|reason| place.corrupt(at as u64, reason))?;
        }
        if out.len() > limit_bytes {
            return Err(place.corrupt(at as u64, format!("decompresses to more than {limit_bytes} bytes")));
        }
        at = end;
    }
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn place(file: &Arc<str>) -> Section<'_> {
        Section {
            file,
            offset: 100,
            name: "footer",
        }
    }

    const ZLIB: Compression = Compression {
        codec: Codec::Zlib,
        block_size_bytes: 1000,
    };

    #[test]
    fn headers_are_little_endian_with_the_flag_below() {
        // The specification's two examples: 100,000 bytes compressed, 5 bytes original.
        let compressed = ChunkHeader::parse([0x40, 0x0d, 0x03]);
        assert_eq!((compressed.length, compressed.original), (100_000, false));
        let original = ChunkHeader::parse([0x0b, 0, 0]);
        assert_eq!((original.length, original.original), (5, true));
        assert_eq!(original.to_bytes(), [0x0b, 0, 0]);
        assert_eq!(compressed.to_bytes(), [0x40, 0x0d, 0x03]);
    }

    #[test]
    fn sections_of_several_chunks_come_back_whole() {
        let mut stored = vec![];
        append_chunk(Some(Codec::Zlib), &[7; 1000], &mut stored).unwrap();
        assert!(stored.len() < 100);
        append_chunk(Some(Codec::Zlib), b"incompressible", &mut stored).unwrap();
        append_chunk(None, &[7; 100], &mut stored).unwrap();
        let file: Arc<str> = "f".into();
        let whole = decompress_all(place(&file), Some(ZLIB), &stored.into(), 2000).unwrap();
        let expected: Vec<u8> = [&[7; 1000][..], b"incompressible", &[7; 100]].concat();
        assert_eq!(whole, expected);
    }

    #[test]
    fn chunks_that_save_less_than_a_tenth_are_original() {
        let is_original = |zeros: usize| {
            // Bytes that no codec shortens, and zeros that each shortens to almost nothing.
            let mut input: Vec<u8> = (0..1000_u64)
                .map(|at| (at.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
                .collect();
            input.truncate(1000 - zeros);
            input.resize(1000, 0);
            let mut stored = vec![];
            append_chunk(Some(Codec::Snappy), &input, &mut stored).unwrap();
            ChunkHeader::first_of(&stored).unwrap().original
        };
        assert!(is_original(0) && is_original(80));
        assert!(!is_original(150) && !is_original(900));
    }

    #[test]
    fn sections_that_overrun_or_explode_name_their_place() {
        let file: Arc<str> = "f".into();
        let mut stored = vec![];
        for _ in 0..3 {
            append_chunk(Some(Codec::Zlib), &[7; 1000], &mut stored).unwrap();
        }
        let error = decompress_all(place(&file), Some(ZLIB), &stored.clone().into(), 2500).unwrap_err();
        assert!(error.to_string().contains("more than 2500"), "{error}");
        let cut = Bytes::from(stored.clone()).slice(..stored.len() - 1);
        let error = decompress_all(place(&file), Some(ZLIB), &cut, 3000).unwrap_err();
        let third = 100 + stored.len() / 3 * 2;
        assert!(
            error.to_string().contains(&format!("at byte {third} (footer)")),
            "{error}"
        );
    }
}
