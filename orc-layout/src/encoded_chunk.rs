//! [`EncodedChunk`], a compression chunk of a stream as stored, for a device that decompresses it.
//!
//! A device must know beforehand how many bytes come out of each chunk. Original chunks and Snappy state it, and so do
//! most chunks of Zstandard. Of chunks that do not, the first and the last one are measured. Those between have the
//! length of the first, as writers make them. The device checks each length.

use std::ops::Range;

use bytes::Bytes;

use crate::chunk::{ChunkHeader, HEADER_BYTES};
use crate::codec::{Codec, Compression, decompressed_length, stated_length, stated_length_bytes};
use crate::source::ByteSource;
use crate::streams::Stream;

/// A chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodedChunk {
    /// Absolute offset of its bytes, behind its header.
    pub offset: u64,
    /// Stored bytes, without the header.
    pub length: u32,
    /// Stored uncompressed.
    pub original: bool,
    /// Offset of its first byte in the decompressed stream.
    pub start: u64,
}

/// The chunks of a compressed stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedChunks {
    /// Codec of the chunks that are not original: any but LZO.
    pub codec: Codec,
    /// The chunks, one behind the other. None of them is empty.
    pub chunks: Vec<EncodedChunk>,
    /// Bytes of the decompressed stream.
    pub bytes: u64,
}

/// Whether there are devices that decompress chunks of this codec.
pub(crate) fn is_for_devices(codec: Codec) -> bool {
    match codec {
        Codec::Zlib | Codec::Snappy | Codec::Lz4 | Codec::Zstd => true,
        Codec::Lzo => false,
    }
}

impl EncodedChunks {
    /// The chunks that hold these bytes of the decompressed stream.
    pub fn covering(&self, bytes: &Range<u64>) -> Range<usize> {
        if bytes.is_empty() {
            return 0..0;
        }
        let first = self.chunks.partition_point(|chunk| chunk.start <= bytes.start);
        let end = self.chunks.partition_point(|chunk| chunk.start < bytes.end);
        first.saturating_sub(1)..end
    }

    /// End of a chunk in the decompressed stream.
    pub fn end_of(&self, chunk: usize) -> u64 {
        self.chunks.get(chunk + 1).map_or(self.bytes, |next| next.start)
    }

    /// The chunks of a stream, by their headers. `None`: a header makes no sense, the length of a chunk is not known,
    /// or the source cannot be read.
    pub(crate) fn of(stream: &Stream, compression: Compression, source: &dyn ByteSource) -> Option<Self> {
        if !is_for_devices(compression.codec) {
            return None;
        }
        let end = stream.offset.checked_add(stream.length)?;
        let (mut chunks, mut lengths) = (Vec::new(), Vec::new());
        let mut headers = HeaderReader::new(source, end);
        let mut at = stream.offset;
        while at < end {
            let (chunk, stated) = chunk_at(at, compression, &mut headers)?;
            at = chunk.offset + u64::from(chunk.length);
            lengths.push(stated);
            chunks.push(chunk);
        }
        measure(compression, &chunks, &mut lengths, source)?;
        let mut bytes = 0u64;
        for (chunk, length) in chunks.iter_mut().zip(lengths) {
            let length = length.filter(|length| (1..=compression.block_size() as u64).contains(length))?;
            chunk.start = bytes;
            bytes += length;
        }
        Some(Self {
            codec: compression.codec,
            chunks,
            bytes,
        })
    }

    /// Offset in the decompressed stream of a row-index position: the chunk whose header begins `header` bytes behind
    /// the stream's start, and a byte of it. `None`: no chunk begins there, or it is shorter.
    pub(crate) fn offset_of(&self, stream: &Stream, header: u64, byte: u64) -> Option<u64> {
        if header == stream.length {
            return (byte == 0).then_some(self.bytes);
        }
        let body = stream.offset.checked_add(header)? + HEADER_BYTES as u64;
        let at = self.chunks.binary_search_by_key(&body, |chunk| chunk.offset).ok()?;
        let end = self.chunks.get(at + 1).map_or(self.bytes, |next| next.start);
        let offset = self.chunks[at].start + byte;
        (offset <= end).then_some(offset)
    }
}

/// The first chunk of a stream: the bytes that come out of it, and whether there are others. `None`: as for
/// [`EncodedChunks`].
pub(crate) fn first_chunk(stream: &Stream, compression: Compression, source: &dyn ByteSource) -> Option<(u64, bool)> {
    if !is_for_devices(compression.codec) {
        return None;
    }
    let end = stream.offset.checked_add(stream.length)?;
    let mut headers = HeaderReader::new(source, end);
    let (chunk, stated) = chunk_at(stream.offset, compression, &mut headers)?;
    let chunk_end = chunk.offset + u64::from(chunk.length);
    let bytes = match stated {
        Some(bytes) => bytes,
        None => decompressed_length(compression, &source.read(chunk.offset..chunk_end).ok()?)?,
    };
    (1..=compression.block_size() as u64)
        .contains(&bytes)
        .then_some((bytes, chunk_end < end))
}

/// Bytes that are read at once for the headers of short chunks. Of long chunks only the headers are read.
const HEADER_STEP_BYTES: u64 = 64 << 10;
/// Stored bytes of a short chunk: to read them takes no longer than a second call of the system.
const MAX_SHORT_CHUNK_BYTES: u64 = 4096;

/// Reads of the few bytes at the beginnings of a stream's chunks.
struct HeaderReader<'a> {
    source: &'a dyn ByteSource,
    /// End of the stream.
    end: u64,
    /// Bytes that are read at once, at least. It follows from the last chunk's length.
    step: u64,
    start: u64,
    bytes: Bytes,
}

impl<'a> HeaderReader<'a> {
    fn new(source: &'a dyn ByteSource, end: u64) -> Self {
        Self {
            source,
            end,
            step: 0,
            start: 0,
            bytes: Bytes::new(),
        }
    }

    /// The bytes of a range, as far as the stream has them. `None`: they cannot be read.
    fn read(&mut self, range: Range<u64>) -> Option<&[u8]> {
        let end = range.end.min(self.end);
        if range.start < self.start || end > self.start + self.bytes.len() as u64 {
            let step_end = range.start.saturating_add(self.step).min(self.end).max(end);
            self.bytes = self.source.read(range.start..step_end).ok()?;
            self.start = range.start;
        }
        let at = |offset: u64| (offset - self.start) as usize;
        self.bytes.get(at(range.start)..at(end))
    }
}

/// The chunk whose header is at `at`, and the decompressed bytes that it states.
fn chunk_at(at: u64, compression: Compression, headers: &mut HeaderReader<'_>) -> Option<(EncodedChunk, Option<u64>)> {
    let stated_end = at + HEADER_BYTES as u64 + stated_length_bytes(compression.codec) as u64;
    let end = headers.end;
    let bytes = headers.read(at..stated_end)?;
    let ChunkHeader { length, original } = ChunkHeader::first_of(bytes)?;
    let offset = at + HEADER_BYTES as u64;
    if length == 0 || offset + u64::from(length) > end {
        return None;
    }
    let stated = &bytes[HEADER_BYTES..bytes.len().min(HEADER_BYTES + length as usize)];
    let stated = match original {
        true => Some(u64::from(length)),
        false => stated_length(compression.codec, stated),
    };
    headers.step = match u64::from(length) <= MAX_SHORT_CHUNK_BYTES {
        true => HEADER_STEP_BYTES,
        false => 0,
    };
    let chunk = EncodedChunk {
        offset,
        length,
        original,
        start: 0,
    };
    Some((chunk, stated))
}

/// Fills in the lengths of chunks that do not state theirs. Snappy states each.
fn measure(
    compression: Compression,
    chunks: &[EncodedChunk],
    lengths: &mut [Option<u64>],
    source: &dyn ByteSource,
) -> Option<()> {
    let measured = |chunk: &EncodedChunk| {
        let bytes = source.read(chunk.offset..chunk.offset + u64::from(chunk.length)).ok()?;
        decompressed_length(compression, &bytes)
    };
    let last = chunks.len().checked_sub(1)?;
    if lengths[last].is_none() {
        lengths[last] = Some(measured(&chunks[last])?);
    }
    let Some(first) = lengths.iter().position(Option::is_none) else {
        return Some(());
    };
    let length = measured(&chunks[first])?;
    for unknown in lengths.iter_mut().filter(|length| length.is_none()) {
        *unknown = Some(length);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use bytes::Bytes;

    use super::*;
    use crate::chunk::append_chunk;
    use crate::error::Result;
    use crate::proto::stream::Kind;

    struct Memory(Bytes);

    impl ByteSource for Memory {
        fn read(&self, range: Range<u64>) -> Result<Bytes> {
            Ok(self.0.slice(range.start as usize..range.end as usize))
        }
    }

    const DEVICE_CODECS: [Codec; 4] = [Codec::Zlib, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    /// A stream of these chunks at byte 5, some of them stored as they are.
    fn stored(codec: Codec, chunks: &[(&[u8], bool)]) -> (Stream, Memory) {
        let mut bytes = vec![0; 5];
        for (chunk, original) in chunks {
            let codec = (!original).then_some(codec);
            append_chunk(codec, chunk, &mut bytes).unwrap();
        }
        let stream = Stream {
            column: 1,
            kind: Kind::Data,
            offset: 5,
            length: bytes.len() as u64 - 5,
        };
        (stream, Memory(bytes.into()))
    }

    fn compression(codec: Codec) -> Compression {
        Compression {
            codec,
            block_size_bytes: 1000,
        }
    }

    #[test]
    fn chunks_have_their_place_in_the_decompressed_stream() {
        for codec in DEVICE_CODECS {
            let chunks: [(&[u8], bool); 4] = [
                (&[1; 900], false),
                (&[2; 900], false),
                (&[3; 900], true),
                (&[4; 77], false),
            ];
            let (stream, source) = stored(codec, &chunks);
            let found = EncodedChunks::of(&stream, compression(codec), &source).unwrap();
            let starts: Vec<u64> = found.chunks.iter().map(|chunk| chunk.start).collect();
            assert_eq!((starts, found.bytes), (vec![0, 900, 1800, 2700], 2777), "{codec:?}");
            assert_eq!(found.chunks[2].length, 900);
            let second = found.chunks[1].offset - 3 - stream.offset;
            assert_eq!(found.offset_of(&stream, second, 5), Some(905));
            assert_eq!(found.offset_of(&stream, second, 900), Some(1800));
            assert_eq!(found.offset_of(&stream, second, 901), None);
            assert_eq!(found.offset_of(&stream, second + 1, 0), None);
            assert_eq!(found.offset_of(&stream, stream.length, 0), Some(2777));
        }
    }

    #[test]
    fn first_chunk_tells_its_length_and_whether_it_is_alone() {
        for codec in DEVICE_CODECS {
            let first = |chunks: &[(&[u8], bool)]| {
                let (stream, source) = stored(codec, chunks);
                first_chunk(&stream, compression(codec), &source)
            };
            assert_eq!(
                first(&[(&[1; 900], false), (&[2; 77], true)]),
                Some((900, true)),
                "{codec:?}"
            );
            assert_eq!(first(&[(&[1; 900], true)]), Some((900, false)), "{codec:?}");
            assert_eq!(first(&[(&[1; 1001], false)]), None, "{codec:?}: more than a block");
            assert_eq!(first(&[]), None, "{codec:?}: no chunk");
        }
        let (stream, source) = stored(Codec::Zlib, &[(&[1; 900], false)]);
        assert_eq!(first_chunk(&stream, compression(Codec::Lzo), &source), None);
    }

    #[test]
    fn streams_with_strange_chunks_are_left_to_the_cpu() {
        let of = |codec, stream: &Stream, source: &Memory| EncodedChunks::of(stream, compression(codec), source);
        for codec in DEVICE_CODECS {
            let (stream, source) = stored(codec, &[(&[1; 1001], false)]);
            assert_eq!(of(codec, &stream, &source), None, "more than a block");
            let (mut stream, source) = stored(codec, &[(&[1; 900], false)]);
            stream.length -= 1;
            assert_eq!(of(codec, &stream, &source), None, "cut off");
            stream.length = 2;
            assert_eq!(of(codec, &stream, &source), None, "a header that is cut off");
            let (mut stream, source) = stored(codec, &[(&[1; 900], false)]);
            let bytes = [&source.0[..], &[1, 0, 0]].concat();
            stream.length += 3;
            assert_eq!(of(codec, &stream, &Memory(bytes.into())), None, "an empty chunk");
        }
        let (stream, source) = stored(Codec::Zlib, &[(&[1; 900], false)]);
        assert_eq!(of(Codec::Lzo, &stream, &source), None);
        assert!(of(Codec::Zlib, &stream, &source).is_some());
        let mut bytes = source.0.to_vec();
        bytes[8..].fill(255);
        assert_eq!(of(Codec::Zlib, &stream, &Memory(bytes.into())), None, "not deflate");
    }

    #[test]
    fn lengths_that_zstandard_leaves_out_are_measured() {
        let mut encoder = zstd::bulk::Compressor::new(1).unwrap();
        encoder
            .set_parameter(zstd::zstd_safe::CParameter::ContentSizeFlag(false))
            .unwrap();
        let mut bytes = vec![0; 5];
        for length in [900, 900, 77] {
            let body = encoder.compress(&vec![b'x'; length]).unwrap();
            assert_eq!(stated_length(Codec::Zstd, &body), None);
            bytes.extend(&(2 * body.len() as u32).to_le_bytes()[..3]);
            bytes.extend(body);
        }
        let stream = Stream {
            column: 1,
            kind: Kind::Data,
            offset: 5,
            length: bytes.len() as u64 - 5,
        };
        let found = EncodedChunks::of(&stream, compression(Codec::Zstd), &Memory(bytes.into())).unwrap();
        let starts: Vec<u64> = found.chunks.iter().map(|chunk| chunk.start).collect();
        assert_eq!((starts, found.bytes), (vec![0, 900, 1800], 1877));
    }

    fn three_chunks() -> EncodedChunks {
        let chunk = |offset, start| EncodedChunk {
            offset,
            length: 10,
            original: false,
            start,
        };
        EncodedChunks {
            codec: Codec::Lz4,
            bytes: 1700,
            chunks: vec![chunk(103, 0), chunk(116, 1000), chunk(129, 1500)],
        }
    }

    #[test]
    fn chunks_cover_the_bytes_of_a_stream() {
        let list = three_chunks();
        assert_eq!(list.covering(&(0..1)), 0..1);
        assert_eq!(list.covering(&(999..1001)), 0..2);
        assert_eq!(list.covering(&(1000..1500)), 1..2);
        assert_eq!(list.covering(&(1499..1502)), 1..3);
        assert_eq!(list.covering(&(1200..1200)), 0..0);
        assert_eq!((list.end_of(0), list.end_of(2)), (1000, 1700));
    }
}
