//! `DecodeBatch`: consecutive rows of a stripe's column as they are copied to the device.
//!
//! A batch holds a table of tasks, a lookup table for the tasks, a table of chunks, and each stream's stored bytes:
//!
//! ```text
//! tasks (one per row group) │ dictionary codes or zone changes │ chunks │ PRESENT … │ DATA … │ SECONDARY …
//! ```
//!
//! Behind these, which are copied, lies the space for the bytes of compressed streams once decompressed. Chunks of raw
//! values that are decompressed to their places (`StraightRun`) need neither tasks nor space.

use std::ops::Range;

use grampus_io_stack::abi::Bytes;
use grampus_orc_layout::encoded_column::EncodedColumn;

use super::encoded_run::{EncodedRun, RunAddresses, RunTarget, padded};
use super::lookup_table::{table_bytes, write_table};
use super::straight_run::StraightRun;
use crate::abi::decode::DecodeTask;
use crate::abi::decompress::StoredChunk;
use crate::decompress::chunk_table::ChunkTable;
use crate::program::Stored;

/// Decompressed bytes of a batch, in multiples of the bytes that are copied at most.
pub(crate) const MAX_EXPANSION: usize = 8;

/// Source and target ranges of a batch's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeBatch {
    /// Rows of the stripe that are decoded.
    pub rows: Range<u64>,
    /// Bytes that are copied.
    pub bytes: usize,
    /// Bytes of the whole batch, with the space for decompressed ones.
    pub space: usize,
    /// For each stream, the offset in the batch of its first byte, and its range of the file.
    pub parts: Vec<(usize, Range<u64>)>,
    /// What holds the rows.
    run: Run,
    /// Offset in the batch of the table of chunks.
    chunks_at: usize,
    /// Offset in the batch of the run's stored bytes.
    stored_at: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Run {
    /// Row groups, which are decoded.
    Groups(EncodedRun),
    /// Chunks, which need only be decompressed.
    Straight(StraightRun),
}

/// Device addresses for a batch's tasks.
#[derive(Debug, Clone, Copy)]
pub struct Addresses {
    /// Address of the batch's first byte.
    pub batch: u64,
    /// Address of the first row's value.
    pub values: u64,
    /// Address of the byte of validity whose bit 0 is the first row's.
    pub valid: Option<u64>,
}

/// Divides rows of a column into batches of at most `max_bytes`. `None`: a row group is larger. `width`: bytes of a
/// value, if it has no validity.
pub fn batches(
    encoded: &EncodedColumn,
    rows: Range<u64>,
    max_bytes: usize,
    width: Option<u32>,
) -> Option<Vec<DecodeBatch>> {
    let straight = width.and_then(|width| straight_batches(encoded, &rows, max_bytes, width));
    if straight.is_some() {
        return straight;
    }
    let mut batches: Vec<DecodeBatch> = Vec::new();
    let mut next = rows.start;
    while next < rows.end {
        let first = (next / encoded.group_rows) as usize;
        let after = rows.end.div_ceil(encoded.group_rows) as usize;
        let fits = |end: usize| {
            let layout = layout(encoded, first..end);
            layout.bytes <= max_bytes && layout.space - layout.bytes <= MAX_EXPANSION * max_bytes
        };
        let end = last_that_fits(first..after, fits)?;
        let last = rows.end.min(end as u64 * encoded.group_rows);
        batches.push(DecodeBatch {
            rows: next..last,
            ..layout(encoded, first..end)
        });
        next = last;
    }
    Some(batches)
}

/// The same for rows that fill their chunks. `None`: they do not, or a chunk is larger.
fn straight_batches(
    encoded: &EncodedColumn,
    rows: &Range<u64>,
    max_bytes: usize,
    width: u32,
) -> Option<Vec<DecodeBatch>> {
    let mut left = StraightRun::of(encoded, rows, width)?.chunks;
    let mut batches = Vec::new();
    while !left.is_empty() {
        let batch = |end: usize| Some(straight_layout(StraightRun::over(encoded, left.start..end)?, width));
        let end = last_that_fits(left.clone(), |end| {
            batch(end).is_some_and(|batch| batch.bytes <= max_bytes)
        })?;
        batches.push(batch(end)?);
        left.start = end;
    }
    Some(batches)
}

/// A batch of chunks that are decompressed to the places of their values.
fn straight_layout(run: StraightRun, width: u32) -> DecodeBatch {
    let stored_at = run.chunks.len() * size_of::<StoredChunk>();
    let bytes = stored_at + padded((run.stored.end - run.stored.start) as usize);
    let row = |byte: u64| byte / u64::from(width);
    DecodeBatch {
        rows: row(run.bytes.start)..row(run.bytes.end),
        bytes,
        space: bytes,
        parts: vec![(stored_at, run.stored.clone())],
        run: Run::Straight(run),
        chunks_at: 0,
        stored_at,
    }
}

/// The end of the longest run of groups, or chunks, that fits. Its size grows with their number. `None`: not even the
/// first one fits.
fn last_that_fits(groups: Range<usize>, fits: impl Fn(usize) -> bool) -> Option<usize> {
    if fits(groups.end) {
        return Some(groups.end); // mostly
    }
    if !fits(groups.start + 1) {
        return None;
    }
    let (mut end, mut above) = (groups.start + 1, groups.end);
    while above - end > 1 {
        let middle = end + (above - end) / 2;
        if fits(middle) {
            end = middle;
        } else {
            above = middle;
        }
    }
    Some(end)
}

/// A batch of some row groups, without their rows.
fn layout(encoded: &EncodedColumn, groups: Range<usize>) -> DecodeBatch {
    let run = EncodedRun::new(encoded, groups);
    let chunks_at = padded(run.groups.len() * size_of::<DecodeTask>()) + padded(table_bytes(&encoded.values));
    let stored_at = chunks_at + run.chunks() * size_of::<StoredChunk>();
    let parts = run.parts.iter().map(|(at, bytes)| (stored_at + at, bytes.clone()));
    DecodeBatch {
        rows: 0..0,
        bytes: stored_at + run.stored,
        space: stored_at + run.stored + run.expanded,
        parts: parts.collect(),
        chunks_at,
        stored_at,
        run: Run::Groups(run),
    }
}

impl DecodeBatch {
    /// Bytes of the file in the batch.
    pub fn stored_bytes(&self) -> u64 {
        self.parts.iter().map(|(_, bytes)| bytes.end - bytes.start).sum()
    }

    /// Number of tasks.
    pub fn tasks(&self) -> usize {
        match &self.run {
            Run::Groups(run) => run.groups.len(),
            Run::Straight(_) => 0,
        }
    }

    /// The table of chunks of a batch at `batch`; `None`: the column is not compressed.
    pub fn chunk_table(&self, encoded: &EncodedColumn, batch: u64) -> Option<ChunkTable> {
        let mut table = ChunkTable::new(encoded.codec()?, batch + self.chunks_at as u64);
        match &self.run {
            Run::Groups(run) => run.count_chunks(encoded, &mut table),
            Run::Straight(run) => run.count_chunks(encoded, &mut table),
        }
        Some(table)
    }

    /// Writes tasks and tables to `out`. The caller copies the streams' bytes to the places in [`parts`](Self::parts).
    ///
    /// `codes` has a code for each entry of a dictionary. The kernel reports `label` if it cannot decode a stream.
    pub fn describe(
        &self,
        encoded: &EncodedColumn,
        stored: Stored,
        codes: &[u32],
        at: Addresses,
        label: u32,
        out: &mut [u8],
    ) {
        let run = match &self.run {
            Run::Groups(run) => run,
            Run::Straight(run) => {
                let at = (at.batch + self.stored_at as u64, at.values);
                return write_chunks(out, |original| run.stored_chunks(encoded, at, label, original));
            }
        };
        let table_at = padded(self.tasks() * size_of::<DecodeTask>());
        let target = RunTarget {
            rows: self.rows.clone(),
            values: at.values,
            valid: at.valid,
            stored,
            table: at.batch + table_at as u64,
            table_length: write_table(&encoded.values, codes, &mut out[table_at..]),
            label,
        };
        let addresses = RunAddresses {
            stored: at.batch + self.stored_at as u64,
            expanded: at.batch + self.bytes as u64,
        };
        let tasks = out.chunks_exact_mut(size_of::<DecodeTask>());
        for (group, out) in run.groups.clone().zip(tasks) {
            run.task(encoded, group, addresses, &target).write_to(out);
        }
        write_chunks(&mut out[self.chunks_at..], |original| {
            run.stored_chunks(encoded, addresses, label, original)
        });
    }
}

/// Writes a table: the compressed chunks, then the original ones.
fn write_chunks<I: Iterator<Item = StoredChunk>>(out: &mut [u8], chunks: impl Fn(bool) -> I) {
    let mut out = out.chunks_exact_mut(size_of::<StoredChunk>());
    for original in [false, true] {
        for (chunk, out) in chunks(original).zip(&mut out) {
            chunk.write_to(out);
        }
    }
}
