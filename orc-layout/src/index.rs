//! [`ColumnIndex`], one column's row index and bloom filters in one stripe: statistics and positions by row group.

use std::ops::Range;

use bytes::Bytes;

use crate::bloom::BloomFilter;
use crate::chunk;
use crate::error::{Result, Section};
use crate::positions::ColumnPositions;
use crate::proto;
use crate::proto::stream::Kind;
use crate::schema::{ColumnId, TypeKind};
use crate::statistics::{ColumnStatistics, Level, writer};
use crate::streams::Stream;
use crate::stripe::StripeLayout;
use crate::tail::FileTail;
use crate::wire::{self, Value};

/// Row index of one column in one stripe; entry k describes row group k.
#[derive(Debug, Clone, Default)]
pub struct ColumnIndex {
    /// Statistics by row group.
    pub statistics: Vec<ColumnStatistics>,
    /// Stream positions by row group, as stored: per stream, in the order PRESENT, DATA, LENGTH/SECONDARY.
    ///
    /// A stream's numbers are `[chunk offset, byte in chunk, …]` in a compressed file and `[byte offset, …]` otherwise.
    /// Then follow the values to skip in the run (and bits, for booleans).
    pub positions: Vec<Vec<u64>>,
    /// Bloom filters by row group; empty if the column has no trusted ones.
    pub bloom_filters: Vec<BloomFilter>,
}

/// Absolute ranges of a column's index streams; `None` if the stripe lacks the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexRanges {
    /// ROW_INDEX.
    pub row_index: Option<Range<u64>>,
    /// BLOOM_FILTER_UTF8, or BLOOM_FILTER if usable.
    pub bloom_filter: Option<Range<u64>>,
}

impl IndexRanges {
    /// The index streams of `column`, without untrusted bloom filters.
    ///
    /// The index of an encrypted column is left out, because it describes masked values. So is each index of a stripe
    /// that is one row group by [`FileTail::row_group_stride`], although the file has row indexes.
    pub fn of(tail: &FileTail, stripe: &StripeLayout, column: ColumnId) -> Self {
        let is_encrypted = tail.encrypted_columns.binary_search(&column).is_ok();
        let has_too_many_groups = tail.row_index_stride.is_some() && tail.row_group_stride(&stripe.info).is_none();
        if is_encrypted || has_too_many_groups {
            return Self::default();
        }
        let range = |stream: &Stream| (stream.length > 0).then(|| stream.range());
        Self {
            row_index: stripe.stream(column, Kind::RowIndex).and_then(range),
            bloom_filter: bloom_stream(tail, stripe, column).and_then(range),
        }
    }
}

/// Limit of an index stream's uncompressed bytes.
const MAX_INDEX_BYTES: usize = 64 << 20;

/// The stream whose bloom filters exclude no value wrongly. The rules are those of the Java and C++ readers:
///
/// - Before ORC-101 (Java writer version 5), strings were hashed in the platform's character set.
/// - Decimals in the old stream were hashed inconsistently by all versions.
/// - Timestamps are hashed in the writer's zone or in UTC, as a field of the encoding says: used in files of this
///   crate's writer only, which has no zone. It has the proleptic calendar alone.
/// - ORC-1024: the C++ writer hashed wrongly before 1.6.12 and in 1.7.0 (before 1.6.11 it did not name its version).
fn bloom_stream<'a>(tail: &FileTail, stripe: &'a StripeLayout, column: ColumnId) -> Option<&'a Stream> {
    let kind = tail.schema.column(column).kind;
    let is_timestamp = matches!(kind, TypeKind::Timestamp | TypeKind::TimestampInstant);
    let has_timestamps = is_own_file(tail) && !tail.is_hybrid_calendar;
    if is_timestamp && !has_timestamps || has_bad_cpp_filters(tail) {
        return None;
    }
    let utf8 = stripe.stream(column, Kind::BloomFilterUtf8);
    let old_is_usable = match kind {
        TypeKind::Decimal { .. } => false,
        kind if kind.is_string() => tail.writer_code != writer::JAVA || tail.writer_version >= 5,
        _ => true,
    };
    utf8.or_else(|| stripe.stream(column, Kind::BloomFilter).filter(|_| old_is_usable))
}

fn is_own_file(tail: &FileTail) -> bool {
    let version = tail.software_version.as_deref().unwrap_or("");
    tail.writer_code == writer::UNREGISTERED && version.starts_with("grampus ")
}

fn has_bad_cpp_filters(tail: &FileTail) -> bool {
    if tail.writer_code != writer::CPP {
        return false;
    }
    let Some(version) = &tail.software_version else {
        return true;
    };
    let numbers: Vec<u32> = version.split(['.', '-']).map_while(|part| part.parse().ok()).collect();
    match numbers[..] {
        [1, 6, patch, ..] => patch < 12,
        [1, 7, patch, ..] => patch == 0,
        [1, minor, ..] => minor < 6,
        [major, ..] => major < 1,
        [] => true,
    }
}

impl ColumnIndex {
    /// Parses the streams that [`IndexRanges`] named.
    ///
    /// # Errors
    /// `Corrupt` if the number of entries differs from the number of row groups, or positions do not fit the streams.
    pub fn parse(
        tail: &FileTail,
        stripe: &StripeLayout,
        column: ColumnId,
        row_index: Option<&Bytes>,
        bloom_filter: Option<&Bytes>,
    ) -> Result<Self> {
        let ranges = IndexRanges::of(tail, stripe, column);
        let name = format!(
            "stripe {} column {column} ({}) ROW_INDEX stream",
            stripe.info.index,
            tail.schema.path(column)
        );
        let place = Section {
            file: &tail.file,
            offset: ranges.row_index.map_or(stripe.info.offset, |range| range.start),
            name: &name,
        };
        let groups = stripe.row_groups(tail);
        let mut index = Self::default();
        if let Some(bytes) = row_index {
            let bytes = chunk::decompress_all(place, tail.compression, bytes, MAX_INDEX_BYTES)?;
            index
                .entries(tail, stripe, column, &bytes)
                .map_err(|reason| place.corrupt(0, reason))?;
            if index.positions.len() != groups {
                let reason = format!("{} entries for {groups} row groups", index.positions.len());
                return Err(place.corrupt(0, reason));
            }
            ColumnPositions::of(tail, stripe, column, &index.positions).map_err(|reason| place.corrupt(0, reason))?;
        }
        if let Some(bytes) = bloom_filter {
            let offset = ranges.bloom_filter.map_or(stripe.info.offset, |range| range.start);
            let name = name.replace("ROW_INDEX", "BLOOM_FILTER");
            let place = Section {
                file: &tail.file,
                offset,
                name: &name,
            };
            let bytes = chunk::decompress_all(place, tail.compression, bytes, MAX_INDEX_BYTES)?;
            index.bloom_filters = bloom_filters(&bytes, groups);
        }
        Ok(index)
    }

    /// Parses a `RowIndex` message entry by entry; statistics that cannot be decoded are unknown.
    fn entries(
        &mut self,
        tail: &FileTail,
        stripe: &StripeLayout,
        column: ColumnId,
        bytes: &[u8],
    ) -> Result<(), String> {
        let kind = tail.schema.column(column).kind;
        let top_level = tail.schema.has_row_per_value(column);
        for entry in wire::fields(bytes) {
            let entry = entry?;
            let (1, Some(entry)) = (entry.number, entry.bytes()) else {
                continue;
            };
            // The claims of more entries than row groups take no memory.
            if self.positions.len() == stripe.row_groups(tail) {
                return Err(format!(
                    "more than {} entries, one for each row group",
                    self.positions.len()
                ));
            }
            let mut positions = Vec::new();
            let mut statistics = ColumnStatistics::default();
            for field in wire::fields(entry) {
                let field = field?;
                match (field.number, field.value) {
                    (1, Value::Varint(position)) => positions.push(position),
                    (1, Value::Bytes(mut packed)) => {
                        while !packed.is_empty() {
                            positions.push(wire::varint(&mut packed).ok_or("a position is cut off")?);
                        }
                    }
                    (2, Value::Bytes(stored)) => {
                        let rows = stripe.row_group_rows(tail, self.positions.len());
                        let rows = top_level.then_some(rows.end - rows.start);
                        statistics = ColumnStatistics::decode(stored, kind, tail.trust(), Level::RowGroup, rows);
                    }
                    _ => {}
                }
            }
            if positions.len() > MAX_POSITIONS {
                return Err(format!("an entry of {} positions", positions.len()));
            }
            self.positions.push(positions);
            self.statistics.push(statistics);
        }
        Ok(())
    }
}

/// Limit of an entry's numbers. No column has more than four streams of four numbers.
const MAX_POSITIONS: usize = 64;

/// The filters of all row groups; none if their number is wrong or one of them is invalid.
fn bloom_filters(bytes: &[u8], groups: usize) -> Vec<BloomFilter> {
    let filters = wire::fields(bytes)
        .filter(|field| !matches!(field, Ok(field) if field.number != 1))
        .map(|field| filter(field.ok()?.bytes()?))
        .take(groups.saturating_add(1))
        .collect::<Option<Vec<_>>>();
    filters.filter(|filters| filters.len() == groups).unwrap_or_default()
}

fn filter(bytes: &[u8]) -> Option<BloomFilter> {
    let stored: proto::BloomFilter = wire::decode(bytes).ok()?;
    let words = match stored.utf8bitset {
        Some(bytes) => {
            let words = bytes.chunks_exact(8);
            if !words.remainder().is_empty() {
                return None;
            }
            words
                .map(|word| word.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)))
                .collect()
        }
        None => stored.bitset,
    };
    BloomFilter::from_parts(stored.num_hash_functions.unwrap_or(0), words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    #[test]
    fn bloom_filters_are_read_in_both_forms_and_only_as_a_whole_list() {
        let words = vec![0x0123_4567_89ab_cdef, 7];
        let old = proto::BloomFilter {
            num_hash_functions: Some(3),
            bitset: words.clone(),
            utf8bitset: None,
        };
        let new = proto::BloomFilter {
            num_hash_functions: Some(3),
            bitset: vec![],
            utf8bitset: Some(words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect()),
        };
        let none = proto::BloomFilter::default();
        let list = |filters: &[&proto::BloomFilter]| {
            let bloom_filter = filters.iter().copied().cloned().collect();
            proto::BloomFilterIndex { bloom_filter }.encode_to_vec()
        };
        let filters = bloom_filters(&list(&[&old, &new]), 2);
        assert_eq!(filters.len(), 2);
        assert_eq!(filters[0], filters[1]);
        assert_eq!(filters[0].words(), words);
        assert!(bloom_filters(&list(&[&old, &new]), 3).is_empty());
        assert!(bloom_filters(&list(&[&old, &none]), 2).is_empty());
    }
}
