//! How a column of a stripe can be read, and which bytes a given set of rows costs.

use std::ops::Range;

use crate::chunk::{ChunkHeader, HEADER_BYTES, Place};
use crate::error::{LayoutError, Result};
use crate::index::ColumnIndex;
use crate::positions::ColumnPositions;
use crate::proto::stream::Kind;
use crate::schema::{ColumnId, TypeKind};
use crate::selection::RowSelection;
use crate::source::ByteSource;
use crate::stripe::{Stream, StripeLayout};
use crate::tail::FileTail;

/// How the values of a column lie in a stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Fixed-width values without nulls, stored raw: each row's place is arithmetic. A column may have a PRESENT stream all
    /// the same (some writers always make one): as many raw values as rows leave no room for a null.
    Direct(Direct),
    /// Anything else: decode from an entry point (row group) on.
    Decode {
        /// True if row-index positions give an entry point per row group; false: only the stripe's start.
        seekable: bool,
    },
}

/// Raw fixed-width values. Offsets have any alignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Direct {
    /// Bytes per value: 4 (FLOAT) or 8 (DOUBLE).
    pub width: u32,
    /// Ascending by row, contiguous in rows. One in an uncompressed file; one per original chunk in a compressed file.
    pub segments: Vec<DirectSegment>,
}

/// A run of consecutive rows whose values are consecutive bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectSegment {
    /// Stripe-relative first row.
    pub first_row: u64,
    /// Rows in the segment.
    pub rows: u64,
    /// Absolute file offset of the first value.
    pub offset: u64,
}

impl Access {
    /// Finds out how `column` lies. In a compressed file this reads the column's chunk headers through `source`
    /// when `probe_chunks` is set (a few bytes per chunk); otherwise such columns are `Decode`.
    ///
    /// # Errors
    /// `Corrupt` when a stream is too short for the rows, or chunk headers do not add up; `Unsupported` for encrypted columns.
    pub fn of(
        tail: &FileTail,
        stripe: &StripeLayout,
        column: ColumnId,
        index: Option<&ColumnIndex>,
        source: &dyn ByteSource,
        probe_chunks: bool,
    ) -> Result<Self> {
        if tail.encrypted_columns.binary_search(&column).is_ok() {
            return Err(LayoutError::Unsupported {
                file: tail.file.clone(),
                feature: format!("the encryption of column {}", tail.schema.path(column)),
                advice: "select other columns".into(),
            });
        }
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

/// Bytes of a value whose stream holds raw values.
fn fixed_width(kind: TypeKind) -> Option<u32> {
    match kind {
        TypeKind::Float => Some(4),
        TypeKind::Double => Some(8),
        _ => None,
    }
}

fn positions(
    tail: &FileTail,
    stripe: &StripeLayout,
    column: ColumnId,
    index: &ColumnIndex,
) -> Result<Option<ColumnPositions>> {
    let row_index = stripe.stream(column, Kind::RowIndex);
    ColumnPositions::of(tail, stripe, column, &index.positions).map_err(|reason| {
        let name = place_name(tail, stripe, column, "ROW_INDEX");
        let place = Place {
            file: &tail.file,
            offset: row_index.map_or(stripe.info.offset, |stream| stream.offset),
            name: &name,
        };
        place.corrupt(0, reason)
    })
}

fn place_name(tail: &FileTail, stripe: &StripeLayout, column: ColumnId, stream: &str) -> String {
    let path = tail.schema.path(column);
    format!("stripe {} column {column} ({path}) {stream} stream", stripe.info.index)
}

/// Where the values of a column without nulls lie, if they lie raw.
fn direct(
    tail: &FileTail,
    stripe: &StripeLayout,
    column: ColumnId,
    width: u32,
    source: &dyn ByteSource,
    probe_chunks: bool,
) -> Result<Option<Direct>> {
    let data = stripe.stream(column, Kind::Data);
    // Made where it is needed: surveys ask of thousands of columns.
    let name = || place_name(tail, stripe, column, "DATA");
    let place = |name| Place {
        file: &tail.file,
        offset: data.map_or(stripe.info.offset, |stream| stream.offset),
        name,
    };
    let Some(data) = data else {
        return Err(place(&name()).corrupt(0, "is missing"));
    };
    let rows = stripe.info.rows;
    let needed = rows.checked_mul(u64::from(width));
    let enough = needed.is_some_and(|needed| needed <= data.length);
    let present = stripe
        .stream(column, Kind::Present)
        .is_some_and(|present| present.length > 0);
    let segments = match tail.compression {
        None if present && needed != Some(data.length) => None,
        None if !enough => {
            let reason = format!("{} bytes for {rows} values of {width}", data.length);
            return Err(place(&name()).corrupt(0, reason));
        }
        None => {
            let offset = data.offset;
            let first_row = 0;
            Some(vec![DirectSegment {
                first_row,
                rows,
                offset,
            }])
        }
        // Compression made it smaller, so some chunk is compressed.
        Some(_) if !enough || !probe_chunks => None,
        Some(_) => original_chunks(place(&name()), data, rows, width, present, source)?,
    };
    Ok(segments.map(|segments| Direct { width, segments }))
}

/// The chunks of a stream, if all of them are original and hold whole values; `None` at the first that does not. With
/// `exact`, also `None` if they hold more or fewer values than rows.
///
/// Most writers make chunks of one size, so the next headers are fetched together where that size puts them: one more
/// each time the guess was right.
fn original_chunks(
    place: Place<'_>,
    data: &Stream,
    rows: u64,
    width: u32,
    exact: bool,
    source: &dyn ByteSource,
) -> Result<Option<Vec<DirectSegment>>> {
    let header_bytes = HEADER_BYTES as u64;
    let end = data.offset + data.length;
    let mut segments: Vec<DirectSegment> = Vec::new();
    let (mut at, mut first_row) = (data.offset, 0);
    let (mut step, mut batch) = (0, 1);
    let mut headers = Vec::new();
    while first_row < rows {
        let offsets: Vec<u64> = (0..batch)
            .map(|k| at + k * step)
            .take_while(|offset| offset + header_bytes <= end)
            .collect();
        if offsets.is_empty() {
            if exact {
                return Ok(None);
            }
            let reason = format!("ends after {first_row} of {rows} values");
            return Err(place.corrupt(at - data.offset, reason));
        }
        headers.clear();
        source.gather(&offsets, HEADER_BYTES, &mut headers)?;
        batch = (batch * 2).min(4096);
        for (&offset, header) in offsets.iter().zip(headers.chunks_exact(HEADER_BYTES)) {
            let Some(header) = ChunkHeader::first_of(header) else {
                return Err(place.corrupt(offset - data.offset, "a chunk header is cut off"));
            };
            let length = u64::from(header.length);
            if !header.original || !length.is_multiple_of(u64::from(width)) {
                return Ok(None);
            }
            let body = offset + header_bytes;
            if body + length > end {
                let reason = format!("a chunk of {length} bytes with {} left", end - body);
                return Err(place.corrupt(offset - data.offset, reason));
            }
            let values = (length / u64::from(width)).min(rows - first_row);
            if exact && values * u64::from(width) != length {
                return Ok(None);
            }
            if values > 0 {
                segments.push(DirectSegment {
                    first_row,
                    rows: values,
                    offset: body,
                });
            }
            first_row += values;
            at = body + length;
            let guess = step;
            step = header_bytes + length;
            if first_row == rows {
                break;
            }
            if guess != step {
                batch = 1; // the offsets after this one were guessed wrongly
                break;
            }
        }
    }
    let whole = at == end;
    Ok((whole || !exact).then_some(segments))
}

/// The byte ranges that must be read to decode `rows` of a top-level column (with its children), ascending and merged:
/// exact for direct columns; by entry point for decoded ones (from the row group's positions to where the next
/// one's last run or chunk may end).
///
/// # Errors
/// `Corrupt` when positions leave their streams.
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
            for stream in stripe.streams.iter().filter(|s| s.column == column && is_data(s.kind)) {
                let group_range =
                    |groups: &Range<usize>| positions.byte_range(stripe, column, stream.kind, groups.clone());
                ranges.extend(groups.iter().filter_map(group_range));
            }
        }
        None => {
            let mut columns = tail.schema.subtree(column);
            columns.sort_unstable();
            let needed = |stream: &&Stream| is_data(stream.kind) && columns.binary_search(&stream.column).is_ok();
            ranges.extend(stripe.streams.iter().filter(needed).map(Stream::range));
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
    let stride = tail.row_index_stride.map_or(u64::MAX, u64::from);
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

impl Direct {
    /// The bytes of the selected rows, exactly.
    pub fn byte_ranges(&self, rows: &RowSelection) -> Vec<Range<u64>> {
        let width = u64::from(self.width);
        let mut found: Vec<Range<u64>> = Vec::new();
        let mut segments = self.segments.iter().peekable();
        for range in rows.ranges() {
            let mut row = range.start;
            while row < range.end {
                while segments.next_if(|s| s.first_row + s.rows <= row).is_some() {}
                let Some(segment) = segments.peek() else {
                    return found;
                };
                let end = range.end.min(segment.first_row + segment.rows);
                let offset = segment.offset + (row - segment.first_row) * width;
                let bytes = offset..offset + (end - row) * width;
                match found.last_mut() {
                    Some(last) if last.end == bytes.start => last.end = bytes.end,
                    _ => found.push(bytes),
                }
                row = end;
            }
        }
        found
    }

    /// Where the value of a stripe-relative row lies.
    pub fn offset_of(&self, row: u64) -> Option<u64> {
        let at = self
            .segments
            .partition_point(|segment| segment.first_row + segment.rows <= row);
        let segment = self.segments.get(at).filter(|segment| segment.first_row <= row)?;
        Some(segment.offset + (row - segment.first_row) * u64::from(self.width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use std::sync::Mutex;

    /// A file that counts its requests.
    struct Memory(Bytes, Mutex<usize>);

    impl ByteSource for Memory {
        fn read(&self, range: Range<u64>) -> Result<Bytes> {
            *self.1.lock().unwrap() += 1;
            Ok(self.0.slice(range.start as usize..range.end as usize))
        }
    }

    fn probe_exactly(chunks: &[(u32, bool)], rows: u64, exact: bool) -> (Result<Option<Vec<DirectSegment>>>, usize) {
        let mut bytes = vec![0; 7];
        for &(length, original) in chunks {
            bytes.extend_from_slice(&ChunkHeader { length, original }.to_bytes());
            bytes.resize(bytes.len() + length as usize, 0xff);
        }
        let data = Stream {
            column: 1,
            kind: Kind::Data,
            offset: 7,
            length: bytes.len() as u64 - 7,
        };
        let place = Place {
            file: &"f".into(),
            offset: 7,
            name: "DATA",
        };
        let source = Memory(bytes.into(), Mutex::new(0));
        let found = original_chunks(place, &data, rows, 8, exact, &source);
        let requests = *source.1.lock().unwrap();
        (found, requests)
    }

    fn probe(chunks: &[(u32, bool)], rows: u64) -> (Result<Option<Vec<DirectSegment>>>, usize) {
        probe_exactly(chunks, rows, false)
    }

    #[test]
    fn with_a_present_stream_there_must_be_a_value_for_every_row() {
        assert!(probe_exactly(&[(80, true), (40, true)], 15, true).0.unwrap().is_some());
        assert!(probe_exactly(&[(80, true), (40, true)], 16, true).0.unwrap().is_none());
        assert!(probe_exactly(&[(80, true), (40, true)], 10, true).0.unwrap().is_none());
        assert!(probe_exactly(&[(80, true), (40, true)], 14, true).0.unwrap().is_none());
    }

    #[test]
    fn original_chunks_are_found_and_anything_else_is_decoded() {
        let mut chunks = vec![(80, true); 100];
        chunks.push((24, true));
        let segments = probe(&chunks, 1003).0.unwrap().unwrap();
        assert_eq!(segments.len(), 101);
        let last = segments[100];
        assert_eq!((last.first_row, last.rows, last.offset), (1000, 3, 7 + 83 * 100 + 3));
        // Chunks of changing size, an empty one among them.
        let segments = probe(&[(80, true), (40, true), (0, true), (40, true), (80, true)], 30)
            .0
            .unwrap()
            .unwrap();
        let rows: Vec<_> = segments.iter().map(|segment| segment.first_row).collect();
        assert_eq!(rows, [0, 10, 15, 20]);
        assert_eq!(probe(&[(80, true), (20, false)], 20).0.unwrap(), None);
        assert_eq!(probe(&[(20, true), (20, true)], 5).0.unwrap(), None);
        let (compressed, requests) = probe(&[(9, false); 50], 500);
        assert_eq!((compressed.unwrap(), requests), (None, 1));
        assert!(probe(&[(80, true)], 11).0.is_err());
    }

    #[test]
    fn direct_bytes_are_exactly_those_of_the_rows() {
        let direct = Direct {
            width: 8,
            segments: vec![
                DirectSegment {
                    first_row: 0,
                    rows: 10,
                    offset: 100,
                },
                DirectSegment {
                    first_row: 10,
                    rows: 10,
                    offset: 183,
                },
            ],
        };
        let mut rows = RowSelection::new();
        for range in [1..2, 3..5, 8..12, 19..20] {
            rows.push(range);
        }
        assert_eq!(
            direct.byte_ranges(&rows),
            [108..116, 124..140, 164..180, 183..199, 255..263]
        );
        assert_eq!(direct.offset_of(11), Some(191));
        assert_eq!(direct.offset_of(20), None);
    }

    #[test]
    fn ranges_that_touch_become_one() {
        assert_eq!(merge(vec![5..9, 1..3, 3..4, 7..8, 9..9]), [1..4, 5..9]);
    }
}
