//! Reads of direct columns: fixed-width values without nulls, in place. A contiguous range is one read, without a copy
//! if the bytes come back aligned. Scattered rows are gathered one by one.
//!
//! Values in place may change when another process writes to the file. Any bytes are valid values; the source's owner
//! checks the file before a result is used, and copies values that outlive the check.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, PrimitiveArray};
use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::datatypes::{ArrowPrimitiveType, Float32Type, Float64Type};
use bytes::Bytes;

use super::cursor::StreamSource;
use super::numeric::LittleEndian;
use crate::access::{Direct, DirectSegment};
use crate::error::{LayoutError, Result};
use crate::schema::ColumnId;
use crate::selection::RowSelection;

/// Rows from which a range is read as a whole; shorter ranges are gathered.
const READ_ROWS: u64 = 16;

/// Buffers reused by every read: many selections have only a few rows.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Offsets of single values, fetched before anything else is appended.
    offsets: Vec<u64>,
    bytes: Vec<u8>,
}

/// The selected values of a direct column.
pub(super) fn read(
    source: &StreamSource,
    column: ColumnId,
    direct: &Direct,
    rows: &RowSelection,
    scratch: &mut Scratch,
) -> Result<ArrayRef> {
    match direct.width {
        4 => read_as::<Float32Type>(source, column, direct, rows, scratch),
        8 => read_as::<Float64Type>(source, column, direct, rows, scratch),
        width => Err(source.corrupt(column, format!("no direct column has values of {width} bytes"))),
    }
}

fn read_as<T: ArrowPrimitiveType<Native: LittleEndian>>(
    source: &StreamSource,
    column: ColumnId,
    direct: &Direct,
    rows: &RowSelection,
    scratch: &mut Scratch,
) -> Result<ArrayRef> {
    // Offsets remain after an error.
    scratch.offsets.clear();
    let mut out = Values::<T> {
        source,
        column,
        values: Vec::new(),
        scratch,
    };
    let width = u64::from(direct.width);
    // A single range in a single segment needs no buffer.
    if let [range] = rows.ranges()
        && let Some(segment) = segment_at(&direct.segments, range.start)
        && range.end <= segment.first_row + segment.rows
    {
        return out.read_whole(bytes_of(segment, range, width)).map(array::<T>);
    }
    out.values
        .reserve(usize::try_from(rows.rows()).map_or(0, |rows| rows.min(1 << 20)));
    for range in rows.ranges() {
        let mut at = range.start;
        while at < range.end {
            let segment = segment_at(&direct.segments, at)
                .ok_or_else(|| source.corrupt(column, format!("row {at} lies beyond the column's values")))?;
            let end = range.end.min(segment.first_row + segment.rows);
            let bytes = bytes_of(segment, &(at..end), width);
            if end - at < READ_ROWS {
                out.scratch
                    .offsets
                    .extend((0..end - at).map(|k| bytes.start + k * width));
            } else {
                out.gather()?;
                out.read(bytes)?;
            }
            at = end;
        }
    }
    out.gather()?;
    Ok(array::<T>(out.values.into()))
}

fn array<T: ArrowPrimitiveType>(values: ScalarBuffer<T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values, None))
}

/// The segment that holds a row.
fn segment_at(segments: &[DirectSegment], row: u64) -> Option<&DirectSegment> {
    let after = segments.partition_point(|segment| segment.first_row <= row);
    segments[..after]
        .last()
        .filter(|segment| row - segment.first_row < segment.rows)
}

fn bytes_of(segment: &DirectSegment, rows: &Range<u64>, width: u64) -> Range<u64> {
    let offset = |row: u64| segment.offset + (row - segment.first_row) * width;
    offset(rows.start)..offset(rows.end)
}

struct Values<'a, T: ArrowPrimitiveType> {
    source: &'a StreamSource,
    column: ColumnId,
    values: Vec<T::Native>,
    scratch: &'a mut Scratch,
}

impl<T: ArrowPrimitiveType<Native: LittleEndian>> Values<'_, T> {
    const WIDTH: usize = size_of::<T::Native>();

    fn fetch(&self, range: Range<u64>) -> Result<Bytes> {
        let length = range.end - range.start;
        let bytes = self.source.source.read_volatile(range)?;
        match bytes.len() as u64 == length {
            true => Ok(bytes),
            false => Err(self.short()),
        }
    }

    fn short(&self) -> LayoutError {
        self.source
            .corrupt(self.column, "the source returned fewer bytes than it was asked for")
    }

    /// The values in `range`: the source's own bytes if they are aligned.
    fn read_whole(&mut self, range: Range<u64>) -> Result<ScalarBuffer<T::Native>> {
        let bytes = self.fetch(range)?;
        let aligned = (bytes.as_ptr() as usize).is_multiple_of(align_of::<T::Native>());
        if aligned && cfg!(target_endian = "little") {
            return Ok(ScalarBuffer::from(Buffer::from(bytes)));
        }
        T::Native::extend(&mut self.values, &bytes);
        Ok(std::mem::take(&mut self.values).into())
    }

    fn read(&mut self, range: Range<u64>) -> Result<()> {
        let bytes = self.fetch(range)?;
        T::Native::extend(&mut self.values, &bytes);
        Ok(())
    }

    fn gather(&mut self) -> Result<()> {
        let Scratch { offsets, bytes } = &mut *self.scratch;
        if offsets.is_empty() {
            return Ok(());
        }
        bytes.clear();
        self.source.source.gather(offsets, Self::WIDTH, bytes)?;
        if bytes.len() != offsets.len() * Self::WIDTH {
            return Err(self.short());
        }
        T::Native::extend(&mut self.values, bytes);
        offsets.clear();
        Ok(())
    }
}
