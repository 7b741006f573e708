//! One column's row index and bloom filters in one stripe: statistics and positions by row group.

use std::ops::Range;

use bytes::Bytes;

use crate::bloom::BloomFilter;
use crate::error::Result;
use crate::schema::ColumnId;
use crate::statistics::ColumnStatistics;
use crate::stripe::StripeLayout;
use crate::tail::FileTail;

/// Row index of one column in one stripe; entry k describes row group k.
#[derive(Debug, Clone, Default)]
pub struct ColumnIndex {
    /// Statistics by row group.
    pub statistics: Vec<ColumnStatistics>,
    /// Stream positions by row group, as stored: per stream, in the order PRESENT, DATA, LENGTH/SECONDARY;
    /// `[chunk offset, byte in chunk, …]` in compressed files, `[byte offset, …]` otherwise; then values to skip in the run (and bits, for booleans).
    pub positions: Vec<Vec<u64>>,
    /// Bloom filters by row group; empty if the column has none that can be trusted.
    pub bloom_filters: Vec<BloomFilter>,
}

/// Which index streams of a column to read: absolute ranges, `None` if the stripe lacks them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexRanges {
    /// ROW_INDEX.
    pub row_index: Option<Range<u64>>,
    /// BLOOM_FILTER_UTF8 (or BLOOM_FILTER where that is usable).
    pub bloom_filter: Option<Range<u64>>,
}

impl IndexRanges {
    /// Where the index streams of `column` are.
    pub fn of(stripe: &StripeLayout, column: ColumnId) -> Self {
        let _ = (stripe, column);
        todo!()
    }
}

impl ColumnIndex {
    /// Parses the streams that [`IndexRanges`] named.
    ///
    /// # Errors
    /// `Corrupt` when the number of entries does not match the number of row groups, or positions do not fit the streams.
    pub fn parse(
        tail: &FileTail,
        stripe: &StripeLayout,
        column: ColumnId,
        row_index: Option<&Bytes>,
        bloom_filter: Option<&Bytes>,
    ) -> Result<Self> {
        let _ = (tail, stripe, column, row_index, bloom_filter);
        todo!()
    }
}
