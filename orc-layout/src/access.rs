//! How a column of a stripe can be read, and which bytes a given set of rows costs.

use std::ops::Range;

use crate::error::Result;
use crate::index::ColumnIndex;
use crate::schema::ColumnId;
use crate::selection::RowSelection;
use crate::source::ByteSource;
use crate::stripe::StripeLayout;
use crate::tail::FileTail;

/// How the values of a column lie in a stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Fixed-width values without nulls, stored raw: each row's place is arithmetic.
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
    /// `Corrupt` when a stream is too short for the rows, or chunk headers do not add up.
    pub fn of(
        tail: &FileTail,
        stripe: &StripeLayout,
        column: ColumnId,
        index: Option<&ColumnIndex>,
        source: &dyn ByteSource,
        probe_chunks: bool,
    ) -> Result<Self> {
        let _ = (tail, stripe, column, index, source, probe_chunks);
        todo!()
    }
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
    let _ = (tail, stripe, column, index, access, rows);
    todo!()
}
