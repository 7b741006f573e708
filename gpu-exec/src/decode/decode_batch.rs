//! `DecodeBatch`: consecutive rows of a stripe's column as they are copied to the device.
//!
//! A batch holds a table of tasks, a lookup table for the tasks, a table of chunks, and each stream's stored bytes:
//!
//! ```text
//! tasks (one per row group) │ dictionary codes or zone changes │ chunks │ PRESENT … │ DATA … │ SECONDARY …
//! ```
//!
//! Behind these, which are copied, lies the space for the bytes of compressed streams once decompressed. Each part
//! begins at a multiple of 8 bytes. Chunks are copied as they lie in the file, with their headers between them.

use std::ops::Range;

use grampus_io_stack::abi::Bytes;

use crate::abi::decode::{
    CODING_BITS, CODING_BYTES, CODING_INTEGERS_1, CODING_INTEGERS_2, CODING_RAW, DECODE_CODES, DECODE_INTEGERS,
    DECODE_PLAIN, DECODE_TIMESTAMPS, DecodeStream, DecodeTask, ZoneChange,
};
use crate::abi::decompress::{CODEC_ORIGINAL, StoredChunk};
use crate::decompress::chunk_table::{ChunkTable, codec_number};
use crate::input::encoded_column::{EncodedColumn, EncodedStream, Runs, Values};

/// Alignment of the parts of a batch: kernels read whole words.
const BATCH_GRAIN_BYTES: usize = 8;
/// Decompressed bytes of a batch, in multiples of the bytes that are copied at most.
const MAX_EXPANSION: usize = 8;

/// Source and target ranges of a batch's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeBatch {
    /// Rows of the stripe that are decoded.
    pub rows: Range<u64>,
    /// Row groups that hold the rows.
    groups: Range<usize>,
    /// Bytes that are copied.
    pub bytes: usize,
    /// Bytes of the whole batch, with the space for decompressed ones.
    pub space: usize,
    /// For each stream, the offset in the batch of its first byte, and its range of the file.
    pub parts: Vec<(usize, Range<u64>)>,
    /// Offset in the batch of the table of chunks.
    chunks_at: usize,
    /// For each stream.
    places: Vec<StreamPlace>,
}

/// The place of a stream's bytes where the decode kernel reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StreamPlace {
    /// Offset in the batch.
    at: usize,
    /// The byte of the decompressed stream that lies there.
    start: u64,
    /// Chunks that are decompressed to there.
    chunks: Range<usize>,
}

/// Device addresses for a batch's tasks.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// Address of the batch's first byte.
    pub batch: u64,
    /// Address of the first row's value.
    pub values: u64,
    /// Address of the first row's validity.
    pub valid: Option<u64>,
}

/// Divides rows of a column into batches of at most `max_bytes`. `None`: a row group is larger.
pub fn batches(encoded: &EncodedColumn, rows: Range<u64>, max_bytes: usize) -> Option<Vec<DecodeBatch>> {
    let mut batches: Vec<DecodeBatch> = Vec::new();
    let mut next = rows.start;
    while next < rows.end {
        let first = (next / encoded.group_rows) as usize;
        let after = rows.end.div_ceil(encoded.group_rows) as usize;
        let fits = |end: usize| {
            let layout = layout(encoded, first..end);
            layout.bytes <= max_bytes && layout.space - layout.bytes <= MAX_EXPANSION * max_bytes
        };
        if !fits(first + 1) {
            return None;
        }
        // The size grows with the number of groups, so the last group that fits is found by bisection.
        let (mut end, mut above) = (first + 1, after + 1);
        while above - end > 1 {
            let middle = end + (above - end) / 2;
            if fits(middle) {
                end = middle;
            } else {
                above = middle;
            }
        }
        let last = rows.end.min(end as u64 * encoded.group_rows);
        batches.push(DecodeBatch {
            rows: next..last,
            groups: first..end,
            ..layout(encoded, first..end)
        });
        next = last;
    }
    Some(batches)
}

fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(BATCH_GRAIN_BYTES)
}

fn table_bytes(values: &Values) -> usize {
    match values {
        Values::Codes(_, codes) => *codes as usize * 4,
        Values::Timestamps(_, clock) => clock.zone.as_ref().map_or(0, |z| z.len() * size_of::<ZoneChange>()),
        Values::Raw | Values::Booleans | Values::Bytes | Values::Integers(_) => 0,
    }
}

/// A batch of some row groups, without their rows.
fn layout(encoded: &EncodedColumn, groups: Range<usize>) -> DecodeBatch {
    let spans: Vec<Range<u64>> = encoded.streams().map(|stream| span(stream, &groups)).collect();
    let chunks_of = |(stream, span): (&EncodedStream, &Range<u64>)| match &stream.chunks {
        Some(list) => list.covering(span),
        None => 0..0,
    };
    let chunks: Vec<Range<usize>> = encoded.streams().zip(&spans).map(chunks_of).collect();
    let chunks_at = padded(groups.len() * size_of::<DecodeTask>()) + padded(table_bytes(&encoded.values));
    let mut at = chunks_at + chunks.iter().map(ExactSizeIterator::len).sum::<usize>() * size_of::<StoredChunk>();
    let (mut parts, mut places) = (Vec::with_capacity(3), Vec::with_capacity(3));
    for ((stream, span), chunks) in encoded.streams().zip(&spans).zip(&chunks) {
        let stored = match &stream.chunks {
            None => stream.offset + span.start..stream.offset + span.end,
            Some(list) => match &list.chunks[chunks.clone()] {
                [] => stream.offset..stream.offset,
                [first, .., last] => first.offset..last.offset + u64::from(last.length),
                [only] => only.offset..only.offset + u64::from(only.length),
            },
        };
        let length = (stored.end - stored.start) as usize;
        parts.push((at, stored));
        places.push(StreamPlace {
            at,
            start: span.start,
            chunks: chunks.clone(),
        });
        at += padded(length);
    }
    let bytes = at;
    for ((stream, span), place) in encoded.streams().zip(&spans).zip(&mut places) {
        if let (Some(list), Some(last)) = (&stream.chunks, place.chunks.clone().last()) {
            let start = list.chunks[place.chunks.start].start;
            (place.at, place.start) = (at, start);
            at += padded((list.end_of(last, stream.bytes).max(span.end) - start) as usize);
        }
    }
    DecodeBatch {
        rows: 0..0,
        groups,
        bytes,
        space: at,
        parts,
        chunks_at,
        places,
    }
}

/// Range of the stream that holds some row groups.
fn span(stream: &EncodedStream, groups: &Range<usize>) -> Range<u64> {
    let entries = &stream.entries[groups.clone()];
    let start = entries.first().map_or(0, |e| e.at);
    start..entries.iter().map(|e| e.end).max().unwrap_or(0).max(start)
}

impl DecodeBatch {
    /// Bytes of the file in the batch.
    pub fn stored_bytes(&self) -> u64 {
        self.parts.iter().map(|(_, bytes)| bytes.end - bytes.start).sum()
    }

    /// Number of tasks.
    pub fn tasks(&self) -> usize {
        self.groups.len()
    }

    /// The table of chunks of a batch at `batch`; `None`: the column is not compressed.
    pub fn chunk_table(&self, encoded: &EncodedColumn, batch: u64) -> Option<ChunkTable> {
        let mut table = ChunkTable::new(encoded.codec()?, batch + self.chunks_at as u64);
        for (stream, place) in encoded.streams().zip(&self.places) {
            let Some(list) = &stream.chunks else { continue };
            for at in place.chunks.clone() {
                let chunk = &list.chunks[at];
                let bytes = list.end_of(at, stream.bytes) - chunk.start;
                table.add(chunk.original, chunk.length, bytes as u32);
            }
        }
        Some(table)
    }

    /// Writes tasks and tables to `out`. The caller copies the streams' bytes to the places in [`parts`](Self::parts).
    ///
    /// `codes` has a code for each entry of a dictionary. The kernel reports `label` if it cannot decode a stream.
    pub fn describe(
        &self,
        encoded: &EncodedColumn,
        width: u32,
        codes: &[u32],
        at: Addresses,
        label: u32,
        out: &mut [u8],
    ) {
        let table_at = padded(self.tasks() * size_of::<DecodeTask>());
        let table_length = write_table(&encoded.values, codes, &mut out[table_at..]);
        let (kind, coding, epoch) = kind_of(&encoded.values);
        for (k, group) in self.groups.clone().enumerate() {
            let group_start = group as u64 * encoded.group_rows;
            let rows = self.rows.start.max(group_start)..self.rows.end.min(group_start + encoded.group_rows);
            let row = rows.start - self.rows.start;
            let mut streams = encoded.streams().zip(&self.places).map(|(stream, place)| {
                let entry = stream.entries[group];
                DecodeStream {
                    bytes: at.batch + place.at as u64 + (entry.at - place.start),
                    length: (entry.end - entry.at) as u32,
                    skip: entry.skip,
                }
            });
            let mut next = |there: bool| if there { streams.next() } else { None }.unwrap_or_default();
            let task = DecodeTask {
                present: next(encoded.present.is_some()),
                data: next(true),
                fraction: next(encoded.fraction.is_some()),
                values: at.values + row * u64::from(width),
                valid: at.valid.map_or(0, |valid| valid + row),
                table: at.batch + table_at as u64,
                epoch: epoch as u64,
                table_length,
                skip_rows: (rows.start - group_start) as u32,
                rows: (rows.end - rows.start) as u32,
                kind,
                coding,
                width,
                label,
                unused: 0,
            };
            task.write_to(&mut out[k * size_of::<DecodeTask>()..][..size_of::<DecodeTask>()]);
        }
        self.describe_chunks(encoded, at.batch, label, &mut out[self.chunks_at..]);
    }

    /// Writes the table of chunks to `out`: the compressed ones, then the original ones.
    fn describe_chunks(&self, encoded: &EncodedColumn, batch: u64, label: u32, out: &mut [u8]) {
        let mut out = out.chunks_exact_mut(size_of::<StoredChunk>());
        for original in [false, true] {
            for ((stream, place), (part, stored)) in encoded.streams().zip(&self.places).zip(&self.parts) {
                let Some(list) = &stream.chunks else { continue };
                let codec = if original {
                    CODEC_ORIGINAL
                } else {
                    codec_number(list.codec)
                };
                let chosen = place.chunks.clone().filter(|at| list.chunks[*at].original == original);
                for (at, out) in chosen.zip(&mut out) {
                    let chunk = &list.chunks[at];
                    let described = StoredChunk {
                        from: batch + *part as u64 + (chunk.offset - stored.start),
                        to: batch + place.at as u64 + (chunk.start - place.start),
                        length: chunk.length,
                        bytes: (list.end_of(at, stream.bytes) - chunk.start) as u32,
                        codec,
                        label,
                    };
                    described.write_to(out);
                }
            }
        }
    }
}

/// Writes the table and returns its number of entries.
fn write_table(values: &Values, codes: &[u32], out: &mut [u8]) -> u32 {
    match values {
        Values::Codes(_, count) => {
            let codes = &codes[..codes.len().min(*count as usize)];
            for (number, out) in codes.iter().zip(out.chunks_exact_mut(4)) {
                number.write_to(out);
            }
            codes.len() as u32
        }
        Values::Timestamps(_, clock) => {
            let zone = clock.zone.as_deref().unwrap_or(&[]);
            for (change, out) in zone.iter().zip(out.chunks_exact_mut(size_of::<ZoneChange>())) {
                let change = ZoneChange {
                    from: change.from as u64,
                    offset: change.offset as u64,
                };
                change.write_to(out);
            }
            zone.len() as u32
        }
        Values::Raw | Values::Booleans | Values::Bytes | Values::Integers(_) => 0,
    }
}

/// Kind, coding and epoch of a task.
fn kind_of(values: &Values) -> (u32, u32, i64) {
    let integers = |runs: &Runs| match runs {
        Runs::V1 => CODING_INTEGERS_1,
        Runs::V2 => CODING_INTEGERS_2,
    };
    match values {
        Values::Raw => (DECODE_PLAIN, CODING_RAW, 0),
        Values::Booleans => (DECODE_PLAIN, CODING_BITS, 0),
        Values::Bytes => (DECODE_PLAIN, CODING_BYTES, 0),
        Values::Integers(runs) => (DECODE_INTEGERS, integers(runs), 0),
        Values::Codes(runs, _) => (DECODE_CODES, integers(runs), 0),
        Values::Timestamps(runs, clock) => (DECODE_TIMESTAMPS, integers(runs), clock.epoch),
    }
}
