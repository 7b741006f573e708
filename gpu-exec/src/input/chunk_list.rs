//! `ChunkList`: the compression chunks of a stream, as they lie in the file.

use std::ops::Range;

/// Stored and decompressed bytes of a chunk are fewer: a chunk's header has 23 bits for its length.
const MAX_CHUNK_BYTES: u64 = 1 << 23;

/// Codecs that a device can decompress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Raw Snappy.
    Snappy,
    /// LZ4 blocks.
    Lz4,
    /// Zstandard frames.
    Zstd,
    /// Raw deflate: ORC's ZLIB.
    Deflate,
}

/// A chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Offset in the file of its bytes, behind its header.
    pub offset: u64,
    /// Stored bytes, without the header.
    pub length: u32,
    /// Stored as it is, without compression.
    pub original: bool,
    /// Offset of its first byte in the decompressed stream. The next chunk's, or the stream's end, says how many bytes
    /// must come out.
    pub start: u64,
}

/// The chunks of a stream, one behind the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkList {
    /// Codec of the chunks that are not original.
    pub codec: Codec,
    /// Not empty; none of them is empty.
    pub chunks: Vec<Chunk>,
}

impl ChunkList {
    /// Whether the chunks make up a stream of so many bytes, and lie in a file of `file_bytes`.
    pub(crate) fn fits(&self, stream_bytes: u64, file_bytes: u64) -> bool {
        let mut ends = self.chunks.iter().skip(1).map(|next| (next.start, next.offset));
        self.chunks.first().is_some_and(|first| first.start == 0)
            && self.chunks.iter().all(|chunk| {
                let (end, stored_end) = ends.next().unwrap_or((stream_bytes, file_bytes));
                let bytes = end.saturating_sub(chunk.start);
                (1..MAX_CHUNK_BYTES).contains(&bytes)
                    && (1..MAX_CHUNK_BYTES).contains(&u64::from(chunk.length))
                    && chunk
                        .offset
                        .checked_add(u64::from(chunk.length))
                        .is_some_and(|end| end <= stored_end)
            })
    }

    /// The chunks that hold these bytes of the decompressed stream.
    pub(crate) fn covering(&self, bytes: &Range<u64>) -> Range<usize> {
        if bytes.is_empty() {
            return 0..0;
        }
        let first = self.chunks.partition_point(|chunk| chunk.start <= bytes.start);
        let end = self.chunks.partition_point(|chunk| chunk.start < bytes.end);
        first.saturating_sub(1)..end
    }

    /// End of a chunk in a decompressed stream of so many bytes.
    pub(crate) fn end_of(&self, chunk: usize, stream_bytes: u64) -> u64 {
        self.chunks.get(chunk + 1).map_or(stream_bytes, |next| next.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> ChunkList {
        let chunk = |offset, start| Chunk {
            offset,
            length: 10,
            original: false,
            start,
        };
        ChunkList {
            codec: Codec::Lz4,
            chunks: vec![chunk(103, 0), chunk(116, 1000), chunk(129, 1500)],
        }
    }

    #[test]
    fn chunks_cover_the_bytes_of_a_stream() {
        let list = list();
        assert_eq!(list.covering(&(0..1)), 0..1);
        assert_eq!(list.covering(&(999..1001)), 0..2);
        assert_eq!(list.covering(&(1000..1500)), 1..2);
        assert_eq!(list.covering(&(1499..1502)), 1..3);
        assert_eq!(list.covering(&(1200..1200)), 0..0);
        assert_eq!((list.end_of(0, 1700), list.end_of(2, 1700)), (1000, 1700));
    }

    #[test]
    fn chunks_out_of_order_or_of_the_file_do_not_fit() {
        let fits = |change: &dyn Fn(&mut ChunkList)| {
            let mut list = list();
            change(&mut list);
            list.fits(1700, 139)
        };
        assert!(fits(&|_| {}));
        assert!(!list().fits(1500, 139) && !list().fits(1700, 138) && !list().fits(1500 + (1 << 23), 139));
        assert!(!fits(&|l| l.chunks.clear()));
        assert!(!fits(&|l| l.chunks[0].start = 1));
        assert!(!fits(&|l| l.chunks[1].start = 1500));
        assert!(!fits(&|l| l.chunks[1].start = 1501));
        assert!(!fits(&|l| l.chunks[1].length = 0));
        assert!(!fits(&|l| l.chunks[1].length = 14));
        assert!(!fits(&|l| l.chunks[2].offset = u64::MAX));
    }
}
