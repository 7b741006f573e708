//! `StraightRun`: chunks of raw values of which none is missing. They are decompressed to where query kernels read the
//! values: nothing is left to decode.
//!
//! **Invariant:** what comes out of the chunks is exactly the values of the run's rows. The kernel checks the length of
//! each chunk.

use std::ops::Range;

use grampus_orc_layout::encoded_chunk::EncodedChunks;
use grampus_orc_layout::encoded_column::{EncodedColumn, EncodedValues};

use crate::abi::decompress::{CODEC_ORIGINAL, StoredChunk};
use crate::decompress::chunk_table::{ChunkTable, codec_number};

/// The chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StraightRun {
    /// Of the column's data.
    pub(crate) chunks: Range<usize>,
    /// The part of the file that they lie in, with the headers between them.
    pub(crate) stored: Range<u64>,
    /// The bytes that come out, in the decompressed stream.
    pub(crate) bytes: Range<u64>,
}

/// The chunks of a column whose values can be decompressed to their places.
fn straight_chunks(encoded: &EncodedColumn) -> Option<&EncodedChunks> {
    let is_raw = encoded.values == EncodedValues::Floats && encoded.present.is_none();
    encoded.data.chunks.as_ref().filter(|_| is_raw)
}

/// Rows of each chunk of a column with values of `width` bytes; the last chunk may have fewer. `None`: the values have
/// to be decoded, or lie in two chunks.
pub(crate) fn straight_chunk_rows(encoded: &EncodedColumn, width: u32) -> Option<u64> {
    let list = straight_chunks(encoded)?;
    let bytes = list.end_of(0);
    let starts = list.chunks.iter().enumerate();
    let is_even = starts.into_iter().all(|(at, chunk)| chunk.start == at as u64 * bytes);
    let rows = bytes / u64::from(width);
    (is_even && rows > 0 && rows * u64::from(width) == bytes).then_some(rows)
}

impl StraightRun {
    /// The chunks with exactly these rows of a column with values of `width` bytes. `None`: no chunks have just these,
    /// or the values have to be decoded.
    pub(crate) fn of(encoded: &EncodedColumn, rows: &Range<u64>, width: u32) -> Option<Self> {
        let list = straight_chunks(encoded)?;
        let byte = |row: u64| row.checked_mul(u64::from(width));
        let bytes = byte(rows.start)?..byte(rows.end)?;
        let run = Self::over(encoded, list.covering(&bytes))?;
        (run.bytes == bytes).then_some(run)
    }

    /// The run over some of a column's chunks. `None`: there is none.
    pub(crate) fn over(encoded: &EncodedColumn, chunks: Range<usize>) -> Option<Self> {
        let list = straight_chunks(encoded)?;
        let (first, last) = (list.chunks.get(chunks.start)?, list.chunks[chunks.clone()].last()?);
        Some(Self {
            stored: first.offset..last.offset + u64::from(last.length),
            bytes: first.start..list.end_of(chunks.end - 1),
            chunks,
        })
    }

    /// Counts the chunks in a table.
    pub(crate) fn count_chunks(&self, encoded: &EncodedColumn, table: &mut ChunkTable) {
        let Some(list) = straight_chunks(encoded) else { return };
        for at in self.chunks.clone() {
            let chunk = &list.chunks[at];
            let bytes = list.end_of(at) - chunk.start;
            table.add(chunk.original, chunk.length, bytes as u32);
        }
    }

    /// The chunks for the decompression kernel: the original ones, or the compressed ones. Their stored bytes lie at
    /// `stored`, and their values go to `values`.
    pub(crate) fn stored_chunks<'a>(
        &'a self,
        encoded: &'a EncodedColumn,
        (stored, values): (u64, u64),
        label: u32,
        original: bool,
    ) -> impl Iterator<Item = StoredChunk> + 'a {
        let of_list = move |list: &'a EncodedChunks| {
            let codec = match original {
                true => CODEC_ORIGINAL,
                false => codec_number(list.codec),
            };
            let chosen = self
                .chunks
                .clone()
                .filter(move |at| list.chunks[*at].original == original);
            chosen.map(move |at| {
                let chunk = &list.chunks[at];
                StoredChunk {
                    from: stored + (chunk.offset - self.stored.start),
                    to: values + (chunk.start - self.bytes.start),
                    length: chunk.length,
                    bytes: (list.end_of(at) - chunk.start) as u32,
                    codec,
                    label,
                }
            })
        };
        straight_chunks(encoded).into_iter().flat_map(of_list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grampus_orc_layout::codec::Codec;
    use grampus_orc_layout::encoded_chunk::EncodedChunk;
    use grampus_orc_layout::encoded_column::EncodedStream;

    /// Raw values in chunks of so many bytes, each stored in 10 behind a header of 3.
    fn column(lengths: &[u64]) -> EncodedColumn {
        let mut start = 0;
        let chunk = |(at, bytes): (usize, &u64)| {
            start += bytes;
            EncodedChunk {
                offset: 103 + 13 * at as u64,
                length: 10,
                original: at == 1,
                start: start - bytes,
            }
        };
        let chunks = lengths.iter().enumerate().map(chunk).collect();
        EncodedColumn {
            values: EncodedValues::Floats,
            group_rows: 1000,
            present: None,
            data: EncodedStream {
                offset: 100,
                length: lengths.iter().sum(),
                entries: Vec::new(),
                chunks: Some(EncodedChunks {
                    codec: Codec::Snappy,
                    bytes: lengths.iter().sum(),
                    chunks,
                }),
            },
            secondary: None,
        }
    }

    #[test]
    fn rows_that_fill_their_chunks_are_straight() {
        let column = column(&[64, 64, 64, 24]);
        assert_eq!(straight_chunk_rows(&column, 8), Some(8));
        let run = StraightRun::of(&column, &(8..27), 8).unwrap();
        assert_eq!((run.chunks.clone(), run.stored.clone()), (1..4, 116..152));
        let compressed: Vec<_> = run.stored_chunks(&column, (1000, 5000), 7, false).collect();
        let places: Vec<_> = compressed.iter().map(|c| (c.from, c.to, c.length, c.bytes)).collect();
        assert_eq!(places, [(1013, 5064, 10, 64), (1026, 5128, 10, 24)]);
        let original: Vec<_> = run.stored_chunks(&column, (1000, 5000), 7, true).collect();
        assert_eq!(
            (original[0].from, original[0].to, original[0].codec),
            (1000, 5000, CODEC_ORIGINAL)
        );
        assert!(StraightRun::of(&column, &(8..16), 8).is_some());
        for rows in [0..7, 4..16, 8..26, 8..28, 27..27] {
            assert_eq!(StraightRun::of(&column, &rows, 8), None, "{rows:?}");
        }
    }

    #[test]
    fn values_in_two_chunks_and_missing_values_are_not_straight() {
        assert_eq!(straight_chunk_rows(&column(&[64, 60, 64]), 8), None);
        assert_eq!(straight_chunk_rows(&column(&[60, 60]), 8), None);
        assert_eq!(straight_chunk_rows(&column(&[60, 60]), 4), Some(15));
        let mut nullable = column(&[64]);
        nullable.present = Some(nullable.data.clone());
        assert_eq!(straight_chunk_rows(&nullable, 8), None);
        assert_eq!(StraightRun::of(&nullable, &(0..8), 8), None);
    }
}
