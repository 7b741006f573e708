//! `GroupGather`: row groups of any columns as they are copied to the device together.
//!
//! ```text
//! tasks (one per row group) │ chunks │ lookup tables (one per column) │ stored bytes of the first run │ …
//! ```
//!
//! Behind these, which are copied, lies the space for the bytes of compressed streams once decompressed. Consecutive
//! row groups of a column are one run ([`EncodedRun`]): chunks that they share are copied once. All columns have one
//! codec, or none is compressed.

use std::ops::Range;
use std::sync::Arc;

use grampus_io_stack::abi::Bytes;
use grampus_orc_layout::encoded_column::EncodedColumn;

use super::encoded_run::{EncodedRun, RunAddresses, RunTarget, padded};
use super::lookup_table::{table_bytes, write_table};
use crate::abi::decode::DecodeTask;
use crate::abi::decompress::StoredChunk;
use crate::decompress::chunk_table::ChunkTable;
use crate::program::Stored;

/// A stripe's column of which row groups are gathered.
#[derive(Debug, Clone)]
pub(crate) struct GatheredColumn {
    pub(crate) encoded: Arc<EncodedColumn>,
    /// A code for each entry of a dictionary.
    pub(crate) codes: Arc<[u32]>,
    /// Rows of the stripe.
    pub(crate) rows: u64,
    /// Address of the stripe's first value.
    pub(crate) values: u64,
    /// Address of the stripe's validity, a bit for each row.
    pub(crate) valid: Option<u64>,
    pub(crate) stored: Stored,
    /// What the kernel reports if it cannot decode the column.
    pub(crate) label: u32,
}

/// Bytes of a gather, at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GatherLimits {
    /// Bytes that are copied.
    pub(crate) bytes: usize,
    /// Bytes with the space for decompressed ones.
    pub(crate) space: usize,
}

/// Consecutive row groups of one of the columns.
#[derive(Debug)]
struct ColumnRun {
    column: usize,
    run: EncodedRun,
}

/// The row groups, and the layout of their bytes.
#[derive(Debug, Default)]
pub(crate) struct GroupGather {
    columns: Vec<GatheredColumn>,
    runs: Vec<ColumnRun>,
    /// Bytes of the tables of all columns that have a run.
    tables: usize,
    tasks: usize,
    chunks: usize,
    stored: usize,
    expanded: usize,
}

impl GroupGather {
    /// The first of `groups`, as many as the limits allow: none if the first one is too large. Each is a column, by
    /// position, and the number of its row group; ascending.
    pub(crate) fn new(columns: Vec<GatheredColumn>, groups: &[(usize, usize)], limits: GatherLimits) -> Self {
        let mut gather = Self {
            columns,
            ..Self::default()
        };
        for &(column, group) in groups {
            if !gather.add(column, group, limits) {
                break;
            }
        }
        gather
    }

    /// Adds a row group. False: it does not fit, or has another codec.
    fn add(&mut self, column: usize, group: usize, limits: GatherLimits) -> bool {
        let encoded = &self.columns[column].encoded;
        let last = self.runs.last();
        if last.is_some_and(|last| self.columns[last.column].encoded.codec() != encoded.codec()) {
            return false;
        }
        let is_new_column = last.is_none_or(|last| last.column != column);
        let before = last.filter(|last| last.column == column && last.run.groups.end == group);
        let first = before.map_or(group, |before| before.run.groups.start);
        let run = EncodedRun::new(encoded, first..group + 1);
        let without = |all: usize, of: fn(&EncodedRun) -> usize| all - before.map_or(0, |before| of(&before.run));
        let table = if is_new_column {
            padded(table_bytes(&encoded.values))
        } else {
            0
        };
        let sizes = Self {
            tables: self.tables + table,
            tasks: self.tasks + 1,
            chunks: without(self.chunks, EncodedRun::chunks) + run.chunks(),
            stored: without(self.stored, |run| run.stored) + run.stored,
            expanded: without(self.expanded, |run| run.expanded) + run.expanded,
            ..Self::default()
        };
        if sizes.bytes() > limits.bytes || sizes.space() > limits.space {
            return false;
        }
        if before.is_some() {
            self.runs.pop();
        }
        self.runs.push(ColumnRun { column, run });
        (self.tables, self.tasks, self.chunks) = (sizes.tables, sizes.tasks, sizes.chunks);
        (self.stored, self.expanded) = (sizes.stored, sizes.expanded);
        true
    }

    /// Number of row groups, and of tasks.
    pub(crate) fn tasks(&self) -> usize {
        self.tasks
    }

    fn chunks_at(&self) -> usize {
        padded(self.tasks * size_of::<DecodeTask>())
    }

    fn tables_at(&self) -> usize {
        self.chunks_at() + self.chunks * size_of::<StoredChunk>()
    }

    fn stored_at(&self) -> usize {
        self.tables_at() + self.tables
    }

    /// Bytes that are copied.
    pub(crate) fn bytes(&self) -> usize {
        self.stored_at() + self.stored
    }

    /// Bytes of the gather, with the space for decompressed ones.
    pub(crate) fn space(&self) -> usize {
        self.bytes() + self.expanded
    }

    /// Bytes of the file in the gather.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.runs.iter().map(|of| of.run.stored_bytes()).sum()
    }

    /// The ranges of the columns' files, each with its column and the offset in the gather of its first byte.
    pub(crate) fn parts(&self) -> Vec<(usize, usize, Range<u64>)> {
        let mut at = self.stored_at();
        let mut parts = Vec::with_capacity(self.runs.len());
        for ColumnRun { column, run } in &self.runs {
            parts.extend(
                run.parts
                    .iter()
                    .map(|(offset, bytes)| (*column, at + offset, bytes.clone())),
            );
            at += run.stored;
        }
        parts
    }

    /// The table of chunks of a gather at `at`; `None`: nothing is compressed.
    pub(crate) fn chunk_table(&self, at: u64) -> Option<ChunkTable> {
        let encoded = |of: &ColumnRun| &self.columns[of.column].encoded;
        let codec = encoded(self.runs.first()?).codec()?;
        let mut table = ChunkTable::new(codec, at + self.chunks_at() as u64);
        self.runs
            .iter()
            .for_each(|of| of.run.count_chunks(encoded(of), &mut table));
        Some(table)
    }

    /// Writes tasks and tables to `out`, for a gather at the device address `at`.
    pub(crate) fn describe(&self, at: u64, out: &mut [u8]) {
        let places = self.places(at);
        let mut table_at = self.tables_at();
        let mut target: Option<(usize, RunTarget)> = None;
        let (tasks, rest) = out.split_at_mut(self.chunks_at());
        let rest_at = self.chunks_at();
        let mut tasks = tasks.chunks_exact_mut(size_of::<DecodeTask>());
        for (of, place) in self.runs.iter().zip(&places) {
            let column = &self.columns[of.column];
            let to = match target.take().filter(|(last, _)| *last == of.column) {
                Some((_, to)) => to,
                None => {
                    let here = table_at;
                    table_at += padded(table_bytes(&column.encoded.values));
                    let table = &mut rest[here - rest_at..table_at - rest_at];
                    RunTarget {
                        rows: 0..column.rows,
                        values: column.values,
                        valid: column.valid,
                        stored: column.stored,
                        table: at + here as u64,
                        table_length: write_table(&column.encoded.values, &column.codes, table),
                        label: column.label,
                    }
                }
            };
            for (group, out) in of.run.groups.clone().zip(&mut tasks) {
                of.run.task(&column.encoded, group, *place, &to).write_to(out);
            }
            target = Some((of.column, to));
        }
        // The compressed chunks of all runs, then the original ones.
        let mut out = rest.chunks_exact_mut(size_of::<StoredChunk>());
        for original in [false, true] {
            for (of, place) in self.runs.iter().zip(&places) {
                let column = &self.columns[of.column];
                let chunks = of.run.stored_chunks(&column.encoded, *place, column.label, original);
                for (chunk, out) in chunks.zip(&mut out) {
                    chunk.write_to(out);
                }
            }
        }
    }

    /// For each run, the addresses of its bytes.
    fn places(&self, at: u64) -> Vec<RunAddresses> {
        let mut stored = at + self.stored_at() as u64;
        let mut expanded = at + self.bytes() as u64;
        let place = |of: &ColumnRun| {
            let place = RunAddresses { stored, expanded };
            stored += of.run.stored as u64;
            expanded += of.run.expanded as u64;
            place
        };
        self.runs.iter().map(place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Type;
    use grampus_orc_layout::codec::Codec;
    use grampus_orc_layout::encoded_chunk::{EncodedChunk, EncodedChunks};
    use grampus_orc_layout::encoded_column::{EncodedEntry, EncodedStream, EncodedValues};

    /// Ten row groups of 100 bytes in chunks of 250 bytes, each stored in 60 bytes behind a header of 3.
    fn column(codec: Codec) -> GatheredColumn {
        let entry = |group: u64| EncodedEntry {
            at: group * 100,
            skip: 0,
            end: (group + 1) * 100,
        };
        let chunk = |at: u64| EncodedChunk {
            offset: 1003 + 63 * at,
            length: 60,
            original: at == 1,
            start: 250 * at,
        };
        let encoded = EncodedColumn {
            values: EncodedValues::Floats,
            group_rows: 25,
            present: None,
            data: EncodedStream {
                offset: 1000,
                length: 1000,
                entries: (0..10).map(entry).collect(),
                chunks: Some(EncodedChunks {
                    codec,
                    bytes: 1000,
                    chunks: (0..4).map(chunk).collect(),
                }),
            },
            secondary: None,
        };
        GatheredColumn {
            encoded: Arc::new(encoded),
            codes: Arc::default(),
            rows: 250,
            values: 1 << 20,
            valid: None,
            stored: Stored::of(Type::Float32),
            label: 7,
        }
    }

    const ENOUGH: GatherLimits = GatherLimits {
        bytes: 1 << 20,
        space: 1 << 20,
    };

    #[test]
    fn neighbours_share_their_chunks_and_others_do_not() {
        let of = |groups: &[(usize, usize)]| GroupGather::new(vec![column(Codec::Lz4)], groups, ENOUGH);
        // Groups 1 and 2 lie in the chunks 0 and 1, which are read at once; group 9 in the last one.
        let gather = of(&[(0, 1), (0, 2), (0, 9)]);
        let ranges: Vec<Range<u64>> = gather.parts().into_iter().map(|(_, _, range)| range).collect();
        assert_eq!(ranges, [1003..1126, 1192..1252]);
        assert_eq!((gather.tasks(), gather.chunks, gather.stored_bytes()), (3, 3, 123 + 60));
        let table = gather.chunk_table(0).unwrap();
        assert_eq!((table.compressed, table.originals), (2, 1));
        // 500 and 250 bytes come out, each in whole words.
        assert_eq!(gather.space() - gather.bytes(), 504 + 256);
        assert_eq!(of(&[(0, 1), (0, 3)]).chunks, 2);
        assert_eq!(of(&[(0, 1), (0, 4)]).chunks, 2);
    }

    #[test]
    fn gather_ends_where_it_is_full_or_the_codec_changes() {
        let columns = vec![column(Codec::Lz4), column(Codec::Lz4), column(Codec::Snappy)];
        let groups = [(0, 0), (0, 1), (1, 5), (2, 0), (2, 1)];
        assert_eq!(GroupGather::new(columns.clone(), &groups, ENOUGH).tasks(), 3);
        let all = GroupGather::new(columns.clone(), &groups[..2], ENOUGH);
        let limits = |bytes, space| GatherLimits { bytes, space };
        let tasks = |limits| GroupGather::new(columns.clone(), &groups, limits).tasks();
        assert_eq!(tasks(limits(all.bytes(), all.space())), 2);
        assert_eq!(
            tasks(limits(all.bytes(), all.space() - 1)),
            1,
            "the first group's chunk alone"
        );
        assert_eq!(tasks(limits(all.bytes() - 1, 1 << 20)), 1);
        assert_eq!(tasks(limits(100, 1 << 20)), 0);
    }
}
