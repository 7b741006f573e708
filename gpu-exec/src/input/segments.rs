//! `Segment`: consecutive values of a raw column, and the ranges of the file that hold selected rows.

use std::ops::Range;

use super::Stripe;
use crate::error::RunError;

/// Consecutive rows whose values are consecutive bytes of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// First row, counted from the stripe's first.
    pub first_row: u64,
    /// Rows.
    pub rows: u64,
    /// Offset of the first value in the file, of any alignment.
    pub offset: u64,
}

/// Ranges of the file that hold `rows` of a raw column.
pub(crate) fn file_ranges(
    stripe: &Stripe,
    segments: &[Segment],
    rows: &Range<u64>,
    width: u64,
) -> Result<Vec<Range<u64>>, RunError> {
    covering(segments, rows, width).ok_or_else(|| {
        let index = stripe.index;
        RunError::Invalid(format!("stripe {index} has no place for rows {rows:?} of a column"))
    })
}

/// Ranges of the file that hold `rows`. `None`: the segments do not cover them.
fn covering(segments: &[Segment], rows: &Range<u64>, width: u64) -> Option<Vec<Range<u64>>> {
    let mut parts: Vec<Range<u64>> = Vec::new();
    let mut next = rows.start;
    let from = segments.partition_point(|s| s.first_row + s.rows <= rows.start);
    for s in &segments[from..] {
        if next >= rows.end {
            break;
        }
        if s.first_row > next {
            return None;
        }
        let end = rows.end.min(s.first_row + s.rows);
        let at = s.offset + (next - s.first_row) * width;
        let bytes = at..at + (end - next) * width;
        match parts.last_mut() {
            Some(last) if last.end == bytes.start => last.end = bytes.end,
            _ => parts.push(bytes),
        }
        next = end;
    }
    (next >= rows.end).then_some(parts)
}
