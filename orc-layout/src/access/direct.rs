//! [`Direct`], a column whose raw fixed-width values are read in place.

use std::ops::Range;

use super::stream_name;
use crate::chunk::{ChunkHeader, HEADER_BYTES};
use crate::error::{Result, Section};
use crate::proto::stream::Kind;
use crate::schema::{ColumnId, TypeKind};
use crate::selection::RowSelection;
use crate::source::ByteSource;
use crate::streams::Stream;
use crate::stripe::StripeLayout;
use crate::tail::FileTail;

/// Raw fixed-width values. Offsets have any alignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Direct {
    /// Bytes per value: 4 (FLOAT) or 8 (DOUBLE).
    pub width: u32,
    /// Segments, ascending by row and contiguous in rows: one in an uncompressed file, one per original chunk in a
    /// compressed file.
    pub segments: Vec<DirectSegment>,
}

/// Consecutive rows whose values are consecutive bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectSegment {
    /// Stripe-relative first row.
    pub first_row: u64,
    /// Rows in the segment.
    pub rows: u64,
    /// Absolute file offset of the first value.
    pub offset: u64,
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

    /// Absolute offset of the value of a stripe-relative row.
    pub fn offset_of(&self, row: u64) -> Option<u64> {
        let at = self
            .segments
            .partition_point(|segment| segment.first_row + segment.rows <= row);
        let segment = self.segments.get(at).filter(|segment| segment.first_row <= row)?;
        Some(segment.offset + (row - segment.first_row) * u64::from(self.width))
    }
}

/// Width of a value, for kinds whose stream holds raw values.
pub(super) fn fixed_width(kind: TypeKind) -> Option<u32> {
    match kind {
        TypeKind::Float => Some(4),
        TypeKind::Double => Some(8),
        _ => None,
    }
}

/// The location of a column's values, if the stream holds them raw. The column has no nulls.
pub(super) fn direct(
    tail: &FileTail,
    stripe: &StripeLayout,
    column: ColumnId,
    width: u32,
    source: &dyn ByteSource,
    probe_chunks: bool,
) -> Result<Option<Direct>> {
    let data = stripe.stream(column, Kind::Data);
    // The name is built only for an error: scans ask for thousands of columns.
    let name = || stream_name(tail, stripe, column, "DATA");
    let place = |name| Section {
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
    let segments = match tail.compression {
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
        // The stream is shorter than its values, so some chunk is compressed.
        Some(_) if !enough || !probe_chunks => None,
        Some(_) => original_chunks(place(&name()), data, rows, width, source)?,
    };
    Ok(segments.map(|segments| Direct { width, segments }))
}

/// The segments of a stream whose chunks are all original and hold whole values; `None` at the first chunk that is not.
///
/// Most writers make chunks of one size. The next headers are therefore fetched together at the offsets that this size
/// predicts; each right prediction doubles their number.
fn original_chunks(
    place: Section<'_>,
    data: &Stream,
    rows: u64,
    width: u32,
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
                batch = 1; // the later offsets were predicted wrongly
                break;
            }
        }
    }
    Ok(Some(segments))
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

    fn probe(chunks: &[(u32, bool)], rows: u64) -> (Result<Option<Vec<DirectSegment>>>, usize) {
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
        let place = Section {
            file: &"f".into(),
            offset: 7,
            name: "DATA",
        };
        let source = Memory(bytes.into(), Mutex::new(0));
        let found = original_chunks(place, &data, rows, 8, &source);
        let requests = *source.1.lock().unwrap();
        (found, requests)
    }

    #[test]
    fn original_chunks_are_direct_and_others_are_decoded() {
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
    fn direct_byte_ranges_cover_exactly_the_rows() {
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
}
