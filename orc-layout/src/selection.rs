//! [`RowSelection`], the selected rows of a stripe or of a file. A filter's bitmap becomes a selection; decoders turn
//! the selection into skips and reads.

use std::ops::Range;

use arrow::array::{Array, BooleanArray};

use crate::row_selector::RowSelector;

/// Ascending, disjoint, non-empty ranges of row numbers: of a stripe, or for the reader's builder of the rows that it
/// reads.
///
/// ```
/// use grampus_orc_layout::row_selector::RowSelector;
/// use grampus_orc_layout::selection::RowSelection;
///
/// let selection = RowSelection::from(vec![RowSelector::skip(100), RowSelector::select(5)]);
/// assert_eq!(selection, RowSelection::range(100..105));
/// ```
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

    /// The selected rows within `rows`, counted from the start of `rows`.
    pub fn within(&self, rows: Range<u64>) -> Self {
        let mut found = Self::new();
        let first = self.ranges.partition_point(|range| range.end <= rows.start);
        for range in &self.ranges[first..] {
            if range.start >= rows.end {
                break;
            }
            let (start, end) = (range.start.max(rows.start), range.end.min(rows.end));
            found.push(start - rows.start..end - rows.start);
        }
        found
    }

    /// The selected rows without the first `count` of them.
    pub fn offset(&self, count: u64) -> Self {
        self.positions(count..u64::MAX)
    }

    /// The first `count` selected rows.
    pub fn limit(&self, count: u64) -> Self {
        self.positions(0..count)
    }

    /// The selected rows at these positions among the selected rows.
    pub(crate) fn positions(&self, positions: Range<u64>) -> Self {
        let mut found = Self::new();
        let mut first = 0;
        for range in &self.ranges {
            let length = range.end - range.start;
            let (from, to) = (positions.start.max(first), positions.end.min(first + length));
            if from < to {
                found.push(range.start + (from - first)..range.start + (to - first));
            }
            first += length;
        }
        found
    }

    /// Keeps the selected rows at `positions` among the selected rows. Positions ascend and are less than
    /// [`rows`](Self::rows).
    pub fn refine_positions(&self, positions: &[u32]) -> Self {
        self.refine_runs(positions.iter().map(|&position| (u64::from(position), 1)))
    }

    /// Keeps the k-th selected row where `filter` is true at k (`filter.len() == self.rows()`).
    pub fn refine(&self, filter: &BooleanArray) -> Self {
        debug_assert_eq!(filter.len() as u64, self.rows);
        let passing = match filter.nulls() {
            Some(nulls) => filter.values() & nulls.inner(),
            None => filter.values().clone(),
        };
        // Scattered bits are found faster one by one.
        match passing.count_set_bits() < passing.len() / SCATTERED_BITS {
            true => self.refine_runs(passing.set_indices().map(|position| (position as u64, 1))),
            false => self.refine_runs(
                passing
                    .set_slices()
                    .map(|(start, end)| (start as u64, (end - start) as u64)),
            ),
        }
    }

    /// Keeps the selected rows in runs of positions among the selected rows: the first position and the length of each.
    /// Runs ascend and end at [`rows`](Self::rows) at the latest.
    fn refine_runs(&self, runs: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut refined = Self::new();
        let mut ranges = self.ranges.iter();
        // The range of the last row, and the position of its first row.
        let (mut range, mut first) = (0..0, 0u64);
        for (mut position, mut length) in runs {
            while length > 0 {
                while position - first >= range.end - range.start {
                    first += range.end - range.start;
                    match ranges.next() {
                        Some(next) => range = next.clone(),
                        None => return refined,
                    }
                }
                let row = range.start + (position - first);
                let taken = length.min(range.end - row);
                refined.push(row..row + taken);
                position += taken;
                length -= taken;
            }
        }
        refined
    }
}

impl From<Vec<RowSelector>> for RowSelection {
    fn from(selectors: Vec<RowSelector>) -> Self {
        let mut selection = Self::new();
        let mut row = 0u64;
        for selector in selectors {
            let end = row.saturating_add(selector.row_count as u64);
            if !selector.skip {
                selection.push(row..end);
            }
            row = end;
        }
        selection
    }
}

/// Bits of a mask of which at most one is set on average, if the set bits are scattered.
const SCATTERED_BITS: usize = 4;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn filter_and_refine_agree_with_row_numbers() {
        let filter = BooleanArray::from(vec![Some(true), Some(true), None, Some(false), Some(true)]);
        let selection = RowSelection::range(10..15).refine(&filter);
        assert_eq!(selection.iter().collect::<Vec<_>>(), [10, 11, 14]);
        let refined = selection.refine(&BooleanArray::from(vec![false, true, true]));
        assert_eq!(refined.ranges(), [11..12, 14..15]);
        assert_eq!(refined.rows(), 2);
        assert_eq!(selection.refine_positions(&[1, 2]), refined);
        assert_eq!(selection.refine_positions(&[]), RowSelection::new());
    }

    #[test]
    fn parts_of_a_selection_have_its_rows() {
        let mut selection = RowSelection::new();
        for range in [2..5, 7..8, 10..20] {
            selection.push(range);
        }
        let rows: Vec<u64> = selection.iter().collect();
        for start in 0..22 {
            for end in start..23 {
                let within: Vec<u64> = selection.within(start..end).iter().map(|row| row + start).collect();
                let wanted: Vec<u64> = rows.iter().copied().filter(|row| (start..end).contains(row)).collect();
                assert_eq!(within, wanted);
            }
            let at = (start as usize).min(rows.len());
            assert_eq!(selection.offset(start).iter().collect::<Vec<_>>(), rows[at..]);
            assert_eq!(selection.limit(start).iter().collect::<Vec<_>>(), rows[..at]);
        }
        let selectors = vec![RowSelector::skip(2), RowSelector::select(3), RowSelector::select(1)];
        assert_eq!(RowSelection::from(selectors), RowSelection::range(2..6));
        assert_eq!(RowSelection::from(vec![RowSelector::skip(9)]), RowSelection::new());
    }

    proptest! {
        #[test]
        fn refined_selections_have_the_rows_of_the_mask(
            ranges in prop::collection::vec((0u64..100, 1u64..80), 0..12),
            density in 1u8..=10,
            seed: u64,
        ) {
            let mut selection = RowSelection::new();
            let mut end = 0;
            for (gap, length) in ranges {
                selection.push(end + gap..end + gap + length);
                end += gap + length;
            }
            let mut state = seed;
            let mut draw = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 40) as u8 % 10
            };
            let bits: Vec<Option<bool>> = (0..selection.rows())
                .map(|_| (draw() > 0).then(|| draw() < density))
                .collect();
            let passing = selection.iter().zip(&bits).filter(|(_, bit)| **bit == Some(true));
            let expected: Vec<u64> = passing.map(|(row, _)| row).collect();
            let refined = selection.refine(&BooleanArray::from(bits));
            prop_assert_eq!(refined.iter().collect::<Vec<_>>(), expected);
            prop_assert!(refined.ranges().windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }
}
