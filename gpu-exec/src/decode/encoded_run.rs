//! `EncodedRun`: the streams of consecutive row groups of a column: their stored bytes, which are copied, and the
//! places where the decode kernel reads them.
//!
//! Each part begins at a multiple of 8 bytes. Chunks are copied as they lie in the file, with their headers between
//! them, and have space elsewhere for what comes out.

use std::ops::Range;

use grampus_orc_layout::encoded_column::{EncodedColumn, EncodedStream, EncodedValues, RunLength};

use crate::abi::decode::{
    CODING_BITS, CODING_BYTES, CODING_INTEGERS_1, CODING_INTEGERS_2, CODING_RAW, CODING_VARINTS, DECODE_CODES,
    DECODE_DECIMALS, DECODE_DOUBLES, DECODE_FLOATS, DECODE_INTEGERS, DECODE_PLAIN, DECODE_TIMESTAMPS, DecodeStream,
    DecodeTask,
};
use crate::abi::decompress::{CODEC_ORIGINAL, StoredChunk};
use crate::decompress::chunk_table::{ChunkTable, codec_number};
use crate::program::Stored;
use crate::validity;

/// Alignment of the parts: kernels read whole words.
const PART_GRAIN_BYTES: usize = 8;

/// Bytes that a part takes.
pub(crate) fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(PART_GRAIN_BYTES)
}

/// The row groups, by their streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EncodedRun {
    pub(crate) groups: Range<usize>,
    /// For each stream, the offset of its first byte among the run's stored bytes, and its range of the file.
    pub(crate) parts: Vec<(usize, Range<u64>)>,
    /// For each stream.
    places: Vec<StreamPlace>,
    /// Bytes of the parts.
    pub(crate) stored: usize,
    /// Bytes that come out of the chunks.
    pub(crate) expanded: usize,
}

/// The place of a stream's bytes where the decode kernel reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StreamPlace {
    /// Offset among the stored bytes, or among the expanded ones if the stream has chunks.
    at: usize,
    /// The byte of the decompressed stream that lies there.
    start: u64,
    /// Chunks that are decompressed to there.
    chunks: Range<usize>,
}

/// Device addresses of a run's bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunAddresses {
    pub(crate) stored: u64,
    pub(crate) expanded: u64,
}

/// Where decoded rows go, and the column's lookup table.
#[derive(Debug, Clone)]
pub(crate) struct RunTarget {
    /// Rows of the stripe that are decoded.
    pub(crate) rows: Range<u64>,
    /// Address of the first row's value.
    pub(crate) values: u64,
    /// Address of the byte of validity whose bit 0 is the first row's.
    pub(crate) valid: Option<u64>,
    pub(crate) stored: Stored,
    /// Address of the table.
    pub(crate) table: u64,
    /// Entries of the table.
    pub(crate) table_length: u32,
    /// What the kernel reports if it cannot decode a stream.
    pub(crate) label: u32,
}

impl EncodedRun {
    pub(crate) fn new(encoded: &EncodedColumn, groups: Range<usize>) -> Self {
        let (mut parts, mut places) = (Vec::with_capacity(3), Vec::with_capacity(3));
        let (mut stored, mut expanded) = (0, 0);
        for stream in encoded.streams() {
            let span = span(stream, &groups);
            let Some(list) = &stream.chunks else {
                let range = stream.offset + span.start..stream.offset + span.end;
                let length = (range.end - range.start) as usize;
                parts.push((stored, range));
                places.push(StreamPlace {
                    at: stored,
                    start: span.start,
                    chunks: 0..0,
                });
                stored += padded(length);
                continue;
            };
            let chunks = list.covering(&span);
            let range = match &list.chunks[chunks.clone()] {
                [] => stream.offset..stream.offset,
                [first, .., last] => first.offset..last.offset + u64::from(last.length),
                [only] => only.offset..only.offset + u64::from(only.length),
            };
            let length = (range.end - range.start) as usize;
            parts.push((stored, range));
            stored += padded(length);
            let start = list.chunks.get(chunks.start).map_or(0, |first| first.start);
            let end = chunks.clone().last().map(|last| list.end_of(last));
            places.push(StreamPlace {
                at: expanded,
                start: if chunks.is_empty() { span.start } else { start },
                chunks,
            });
            expanded += end.map_or(0, |end| padded((end.max(span.end) - start) as usize));
        }
        Self {
            groups,
            parts,
            places,
            stored,
            expanded,
        }
    }

    /// Bytes of the file.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.parts.iter().map(|(_, bytes)| bytes.end - bytes.start).sum()
    }

    /// Number of chunks.
    pub(crate) fn chunks(&self) -> usize {
        self.places.iter().map(|place| place.chunks.len()).sum()
    }

    /// Counts the chunks in a table.
    pub(crate) fn count_chunks(&self, encoded: &EncodedColumn, table: &mut ChunkTable) {
        for (stream, place) in encoded.streams().zip(&self.places) {
            let Some(list) = &stream.chunks else { continue };
            for at in place.chunks.clone() {
                let chunk = &list.chunks[at];
                let bytes = list.end_of(at) - chunk.start;
                table.add(chunk.original, chunk.length, bytes as u32);
            }
        }
    }

    /// The chunks for the decompression kernel: the original ones, or the compressed ones.
    pub(crate) fn stored_chunks<'a>(
        &'a self,
        encoded: &'a EncodedColumn,
        at: RunAddresses,
        label: u32,
        original: bool,
    ) -> impl Iterator<Item = StoredChunk> + 'a {
        let streams = encoded.streams().zip(&self.places).zip(&self.parts);
        let with_chunks = streams.filter_map(|((stream, place), part)| Some((stream.chunks.as_ref()?, place, part)));
        with_chunks.flat_map(move |(list, place, (part, stored))| {
            let codec = match original {
                true => CODEC_ORIGINAL,
                false => codec_number(list.codec),
            };
            let chosen = place
                .chunks
                .clone()
                .filter(move |chunk| list.chunks[*chunk].original == original);
            chosen.map(move |chunk| {
                let end = list.end_of(chunk);
                let chunk = &list.chunks[chunk];
                StoredChunk {
                    from: at.stored + *part as u64 + (chunk.offset - stored.start),
                    to: at.expanded + place.at as u64 + (chunk.start - place.start),
                    length: chunk.length,
                    bytes: (end - chunk.start) as u32,
                    codec,
                    label,
                }
            })
        })
    }

    /// The task that decodes a row group of the run.
    pub(crate) fn task(&self, encoded: &EncodedColumn, group: usize, at: RunAddresses, to: &RunTarget) -> DecodeTask {
        let group_start = group as u64 * encoded.group_rows;
        let rows = to.rows.start.max(group_start)..to.rows.end.min(group_start + encoded.group_rows);
        let row = rows.start - to.rows.start;
        let mut streams = encoded.streams().zip(&self.places).map(|(stream, place)| {
            let entry = stream.entries[group];
            let base = if stream.chunks.is_some() {
                at.expanded
            } else {
                at.stored
            };
            DecodeStream {
                bytes: base + place.at as u64 + (entry.at - place.start),
                length: (entry.end - entry.at) as u32,
                skip: entry.skip,
            }
        });
        let mut next = |there: bool| if there { streams.next() } else { None }.unwrap_or_default();
        let (kind, [coding, secondary_coding]) = kind_of(&encoded.values, to.stored);
        DecodeTask {
            present: next(encoded.present.is_some()),
            data: next(true),
            secondary: next(encoded.secondary.is_some()),
            values: to.values + row * u64::from(to.stored.bytes()),
            valid: to.valid.map_or(0, |valid| valid + validity::byte_of(row)),
            table: to.table,
            epoch: epoch_of(&encoded.values) as u64,
            table_length: to.table_length,
            skip_rows: (rows.start - group_start) as u32,
            rows: (rows.end - rows.start) as u32,
            kind,
            coding,
            secondary_coding,
            width: to.stored.bytes(),
            scale: scale_of(&encoded.values),
            label: to.label,
            is_signed: to.stored.is_signed().into(),
        }
    }
}

/// Range of the stream that holds some row groups.
fn span(stream: &EncodedStream, groups: &Range<usize>) -> Range<u64> {
    let entries = &stream.entries[groups.clone()];
    let start = entries.first().map_or(0, |e| e.at);
    start..entries.iter().map(|e| e.end).max().unwrap_or(0).max(start)
}

/// Kind of a task, and the codings of its streams of values: the data, and the secondary one or 0.
fn kind_of(values: &EncodedValues, stored: Stored) -> (u32, [u32; 2]) {
    let integers = |runs: &RunLength| match runs {
        RunLength::V1 => CODING_INTEGERS_1,
        RunLength::V2 => CODING_INTEGERS_2,
    };
    match values {
        EncodedValues::Floats => match stored.float_bytes() {
            None => (DECODE_PLAIN, [CODING_RAW, 0]),
            Some(8) => (DECODE_DOUBLES, [CODING_RAW, 0]),
            Some(_) => (DECODE_FLOATS, [CODING_RAW, 0]),
        },
        EncodedValues::Booleans => (DECODE_PLAIN, [CODING_BITS, 0]),
        EncodedValues::Bytes => (DECODE_PLAIN, [CODING_BYTES, 0]),
        EncodedValues::Integers(runs) => (DECODE_INTEGERS, [integers(runs), 0]),
        EncodedValues::Dictionary(runs, _) => (DECODE_CODES, [integers(runs), 0]),
        EncodedValues::Timestamps(runs, _) => (DECODE_TIMESTAMPS, [integers(runs); 2]),
        EncodedValues::Decimals(runs, _) => (DECODE_DECIMALS, [CODING_VARINTS, integers(runs)]),
    }
}

/// Seconds from 1970 to the stored second 0.
fn epoch_of(values: &EncodedValues) -> i64 {
    match values {
        EncodedValues::Timestamps(_, clock) => clock.epoch,
        _ => 0,
    }
}

/// Scale of decoded decimals.
fn scale_of(values: &EncodedValues) -> u32 {
    match values {
        EncodedValues::Decimals(_, scale) => scale.unsigned_abs().into(),
        _ => 0,
    }
}
