//! [`RowSelector`], a number of consecutive rows that are selected or skipped.

/// A number of consecutive rows that are selected or skipped. A sequence of them makes a
/// [`RowSelection`](crate::selection::RowSelection).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowSelector {
    /// Number of rows.
    pub row_count: usize,
    /// Whether the rows are skipped.
    pub skip: bool,
}

impl RowSelector {
    /// The next `row_count` rows are selected.
    pub fn select(row_count: usize) -> Self {
        Self { row_count, skip: false }
    }

    /// The next `row_count` rows are skipped.
    pub fn skip(row_count: usize) -> Self {
        Self { row_count, skip: true }
    }
}
