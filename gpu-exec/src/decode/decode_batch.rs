//! `DecodeBatch`: consecutive rows of a stripe's column as they are copied to the device.
//!
//! A batch holds a table of tasks, a lookup table for the tasks, and each stream's bytes of the row groups:
//!
//! ```text
//! tasks (one per row group) │ dictionary codes or zone changes │ PRESENT … │ DATA … │ SECONDARY …
//! ```
//!
//! Each part begins at a multiple of 8 bytes.

use std::ops::Range;

use grampus_io_stack::abi::Bytes;

use crate::abi::decode::{
    CODING_BITS, CODING_BYTES, CODING_INTEGERS_1, CODING_INTEGERS_2, CODING_RAW, DECODE_CODES, DECODE_INTEGERS,
    DECODE_PLAIN, DECODE_TIMESTAMPS, DecodeStream, DecodeTask, ZoneChange,
};
use crate::input::encoded_column::{EncodedColumn, EncodedStream, Runs, Values};

/// Alignment of the parts of a batch: kernels read whole words.
const BATCH_GRAIN_BYTES: usize = 8;

/// Source and target ranges of a batch's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeBatch {
    /// Rows of the stripe that are decoded.
    pub rows: Range<u64>,
    /// Row groups that hold the rows.
    groups: Range<usize>,
    /// Bytes of the whole batch.
    pub bytes: usize,
    /// For each stream, the offset in the batch of its first byte, and its range of the file.
    pub parts: Vec<(usize, Range<u64>)>,
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
        let fits = |end: usize| layout(encoded, first..end).0 <= max_bytes;
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
        let (bytes, parts) = layout(encoded, first..end);
        batches.push(DecodeBatch {
            rows: next..last,
            groups: first..end,
            bytes,
            parts,
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

/// Size of a batch of some row groups, and its streams' parts.
fn layout(encoded: &EncodedColumn, groups: Range<usize>) -> (usize, Vec<(usize, Range<u64>)>) {
    let mut at = padded(groups.len() * size_of::<DecodeTask>()) + padded(table_bytes(&encoded.values));
    let mut parts = Vec::with_capacity(3);
    for stream in encoded.streams() {
        let bytes = span(stream, &groups);
        let len = (bytes.end - bytes.start) as usize;
        parts.push((at, stream.offset + bytes.start..stream.offset + bytes.end));
        at += padded(len);
    }
    (at, parts)
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

    /// Writes tasks and table to `out`. The caller copies the streams' bytes to the places in [`parts`](Self::parts).
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
            let mut streams = encoded.streams().zip(&self.parts).map(|(stream, (part, bytes))| {
                let entry = stream.entries[group];
                let offset = stream.offset + entry.at - bytes.start;
                DecodeStream {
                    bytes: at.batch + *part as u64 + offset,
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
