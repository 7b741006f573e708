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
