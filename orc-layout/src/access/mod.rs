//! [`Access`], the way to read a column of a stripe, and the bytes that a selection of rows costs.
//!
//! - `direct`: columns whose values are read in place

mod direct;

use std::ops::Range;

use crate::error::{LayoutError, Result, Section};
use crate::index::ColumnIndex;
use crate::positions::ColumnPositions;
use crate::proto::stream::Kind;
use crate::schema::ColumnId;
use crate::selection::RowSelection;
use crate::source::ByteSource;
use crate::streams::Stream;
use crate::stripe::StripeLayout;
use crate::tail::FileTail;

pub use direct::{Direct, DirectSegment};
use direct::{direct, fixed_width};

/// Storage of a column's values in a stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Fixed-width values without nulls, stored raw: a row's offset is arithmetic. The column has no PRESENT stream in
    /// the stripe.
    Direct(Direct),
    /// Anything else: decode from an entry point (row group) on.
    Decode {
        /// True if row-index positions give an entry point per row group; false: only the stripe's start.
        seekable: bool,
    },
}

impl Access {
    /// Determines how `column` is stored. In a compressed file, `probe_chunks` allows reading the column's chunk
    /// headers through `source` (a few bytes per chunk). Without `probe_chunks` such a column is `Decode`.
    ///
    /// # Errors
    /// `Corrupt` if a stream is too short for the rows, or chunk headers do not add up; `Unsupported` for encrypted
    /// columns, and for types and encodings that this reader does not know.
    pub fn of(
        tail: &FileTail,
        stripe: &StripeLayout,
        column: ColumnId,
        index: Option<&ColumnIndex>,
        source: &dyn ByteSource,
        probe_chunks: bool,
    ) -> Result<Self> {
        refuse(tail, stripe, column)?;
        let top_level = tail.schema.has_row_per_value(column);
        if let Some(width) = fixed_width(tail.schema.column(column).kind)
            && top_level
            && stripe.info.rows > 0
            && stripe
                .stream(column, Kind::Present)
                .is_none_or(|stream| stream.length == 0)
            && let Some(direct) = direct(tail, stripe, column, width, source, probe_chunks)?
        {
            return Ok(Self::Direct(direct));
        }
        let positions = match index {
            Some(index) if top_level && !tail.schema.column(column).kind.is_nested() => {
                positions(tail, stripe, column, index)?
            }
            _ => None,
        };
        Ok(Self::Decode {
            seekable: positions.is_some(),
        })
    }
}

/// Refuses a column whose values cannot be read.
fn refuse(tail: &FileTail, stripe: &StripeLayout, column: ColumnId) -> Result<()> {
    let feature = if tail.encrypted_columns.binary_search(&column).is_ok() {
        "the encryption".to_owned()
    } else if let Some(reason) = tail.schema.unreadable_reason(column) {
        reason.to_owned()
    } else if let Some(number) = stripe.unknown_encoding(tail, column) {
        format!("encoding {number} (stripe {})", stripe.info.index)
    } else {
        return Ok(());
    };
    let path = tail.schema.path(column);
    Err(LayoutError::Unsupported {
        file: tail.file.clone(),
        feature: format!("{feature} of column {path}"),
        advice: format!("select the other columns, for instance by SELECT * EXCLUDE (\"{path}\")"),
    })
}

fn positions(
    tail: &FileTail,
    stripe: &StripeLayout,
    column: ColumnId,
    index: &ColumnIndex,
) -> Result<Option<ColumnPositions>> {
    let row_index = stripe.stream(column, Kind::RowIndex);
    ColumnPositions::of(tail, stripe, column, &index.positions).map_err(|reason| {
        let name = stream_name(tail, stripe, column, "ROW_INDEX");
        let place = Section {
            file: &tail.file,
            offset: row_index.map_or(stripe.info.offset, |stream| stream.offset),
            name: &name,
        };
        place.corrupt(0, reason)
    })
}

fn stream_name(tail: &FileTail, stripe: &StripeLayout, column: ColumnId, stream: &str) -> String {
    let path = tail.schema.path(column);
    format!("stripe {} column {column} ({path}) {stream} stream", stripe.info.index)
}

/// The byte ranges that decoding `rows` of a top-level column reads (with its children), ascending and merged.
///
/// Ranges of a direct column are exact. Ranges of a decoded column start at the row group's position. They end with the
/// last run or chunk that the next group can share.
///
/// # Errors
/// `Corrupt` if positions leave their streams.
pub fn byte_ranges(
    tail: &FileTail,
    stripe: &StripeLayout,
    column: ColumnId,
    index: Option<&ColumnIndex>,
    access: &Access,
    rows: &RowSelection,
) -> Result<Vec<Range<u64>>> {
    if rows.is_empty() {
        return Ok(vec![]);
    }
    let positions = match (access, index) {
        (Access::Direct(direct), _) => return Ok(direct.byte_ranges(rows)),
        (Access::Decode { seekable: true }, Some(index)) => positions(tail, stripe, column, index)?,
        (Access::Decode { .. }, _) => None,
    };
    let mut ranges = Vec::new();
    match positions {
        Some(positions) => {
            let groups = selected_groups(tail, stripe, rows);
            for stream in stripe.streams.of_columns(column..=column).filter(|s| is_data(s.kind)) {
                let group_range =
                    |groups: &Range<usize>| positions.byte_range(stripe, column, stream.kind, groups.clone());
                ranges.extend(groups.iter().filter_map(group_range));
            }
        }
        None => {
            let columns = tail.schema.subtree(column);
            let streams = columns.iter().flat_map(|&id| stripe.streams.of_columns(id..=id));
            ranges.extend(streams.filter(|stream| is_data(stream.kind)).map(Stream::range));
        }
    }
    Ok(merge(ranges))
}

/// Data section streams that this reader uses.
fn is_data(kind: Kind) -> bool {
    use Kind::{Data, DictionaryCount, DictionaryData, Length, Present, Secondary};
    matches!(
        kind,
        Present | Data | Length | DictionaryData | DictionaryCount | Secondary
    )
}

/// Runs of consecutive row groups that hold a selected row.
fn selected_groups(tail: &FileTail, stripe: &StripeLayout, rows: &RowSelection) -> Vec<Range<usize>> {
    let stride = tail.row_group_stride(&stripe.info).map_or(u64::MAX, u64::from);
    let count = stripe.row_groups(tail);
    let mut groups: Vec<Range<usize>> = Vec::new();
    for range in rows.ranges() {
        let start = (range.start / stride) as usize;
        let end = (range.end.div_ceil(stride) as usize).min(count);
        match groups.last_mut() {
            _ if start >= end => {}
            Some(last) if start <= last.end => last.end = end.max(last.end),
            _ => groups.push(start..end),
        }
    }
    groups
}

/// Sorts ranges, joins those that touch or overlap, and drops empty ones.
fn merge(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata_reader::{read_stripe, read_tail};
    use crate::write::{ArrowWriter, WriterProperties};
    use arrow::array::{ArrayRef, Float64Array, RecordBatch};
    use bytes::Bytes;
    use std::sync::Arc;

    #[test]
    fn touching_ranges_are_merged() {
        assert_eq!(merge(vec![5..9, 1..3, 3..4, 7..8, 9..9]), [1..4, 5..9]);
    }

    struct Memory(Bytes);

    impl ByteSource for Memory {
        fn read(&self, range: Range<u64>) -> Result<Bytes> {
            Ok(self.0.slice(range.start as usize..range.end as usize))
        }
    }

    #[test]
    fn columns_with_a_present_stream_are_decoded() {
        let doubles: ArrayRef = Arc::new(Float64Array::from(vec![1.5; 100]));
        let batch = RecordBatch::try_from_iter([("x", doubles)]).unwrap();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(WriterProperties::default())).unwrap();
        writer.write(&batch).unwrap();
        let source = Memory(writer.into_inner().unwrap().into());
        let tail = read_tail(&"f".into(), source.0.len() as u64, &source).unwrap();
        let mut stripe = read_stripe(&tail, &source, 0).unwrap();
        let access = |stripe: &StripeLayout| Access::of(&tail, stripe, 1, None, &source, true).unwrap();
        assert!(matches!(access(&stripe), Access::Direct(_)));
        stripe.streams.push(Stream {
            column: 1,
            kind: Kind::Present,
            offset: stripe.info.offset,
            length: 2,
        });
        assert_eq!(access(&stripe), Access::Decode { seekable: false });
    }
}
