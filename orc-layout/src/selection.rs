//! [`RowSelection`], the selected rows of a stripe. A filter's bitmap becomes a selection; decoders turn the selection
//! into skips and reads.

use std::ops::Range;

use arrow::array::{Array, BooleanArray};

/// Ascending, disjoint, non-empty ranges of stripe-relative row numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowSelection {
    ranges: Vec<Range<u64>>,
    rows: u64,
}

impl RowSelection {
    /// No rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// The single range `rows` (possibly empty).
    pub fn range(rows: Range<u64>) -> Self {
        let mut selection = Self::new();
        selection.push(rows);
        selection
    }

    /// Appends a range that starts at or after the end of the last one; adjacent ones merge.
    ///
    /// # Panics
    /// If `rows` starts before the end of the selection: ranges ascend by construction.
    pub fn push(&mut self, rows: Range<u64>) {
        if rows.start >= rows.end {
            return;
        }
        self.rows += rows.end - rows.start;
        match self.ranges.last_mut() {
            Some(last) if last.end == rows.start => last.end = rows.end,
            Some(last) => {
                assert!(last.end < rows.start, "row ranges must ascend");
                self.ranges.push(rows);
            }
            None => self.ranges.push(rows),
        }
    }

    /// Appends the rows of `filter` that are true (NULL counts as false); bit 0 is row `first_row`.
    pub(crate) fn push_filter(&mut self, first_row: u64, filter: &BooleanArray) {
        let bits = match filter.nulls() {
            Some(nulls) => filter.values() & nulls.inner(),
            None => filter.values().clone(),
        };
        for (start, end) in bits.set_slices() {
            self.push(first_row + start as u64..first_row + end as u64);
        }
    }

    /// The ranges, ascending and disjoint.
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Number of selected rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// True if no row is selected.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Every selected row number, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.ranges.iter().flat_map(|range| range.clone())
    }

    /// Keeps the selected rows at `positions` among the selected rows. Positions ascend and are less than
    /// [`rows`](Self::rows).
    pub fn refine_positions(&self, positions: &[u32]) -> Self {
        let mut refined = Self::new();
        let mut ranges = self.ranges.iter();
        let (mut range, mut first) = (0..0, 0u64);
        for &position in positions {
            while u64::from(position) - first >= range.end - range.start {
                first += range.end - range.start;
                match ranges.next() {
                    Some(next) => range = next.clone(),
                    None => return refined,
                }
            }
            let row = range.start + (u64::from(position) - first);
            refined.push(row..row + 1);
        }
        refined
    }

    /// Keeps the k-th selected row where `filter` is true at k (`filter.len() == self.rows()`).
    pub fn refine(&self, filter: &BooleanArray) -> Self {
        debug_assert_eq!(filter.len() as u64, self.rows);
        let mut refined = Self::new();
        let mut first = 0usize;
        for range in &self.ranges {
            let length = (range.end - range.start) as usize;
            refined.push_filter(range.start, &filter.slice(first, length));
            first += length;
        }
        refined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_and_refine_agree_with_row_numbers() {
        let mut selection = RowSelection::new();
        let filter = BooleanArray::from(vec![Some(true), Some(true), None, Some(false), Some(true)]);
        selection.push_filter(10, &filter);
        assert_eq!(selection.iter().collect::<Vec<_>>(), [10, 11, 14]);
        let refined = selection.refine(&BooleanArray::from(vec![false, true, true]));
        assert_eq!(refined.ranges(), [11..12, 14..15]);
        assert_eq!(refined.rows(), 2);
        assert_eq!(selection.refine_positions(&[1, 2]), refined);
        assert_eq!(selection.refine_positions(&[]), RowSelection::new());
    }
}
