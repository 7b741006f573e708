//! [`TileRows`]: the rows of a tile that passed so far.

use std::ops::Range;

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;
use datafusion::parquet::arrow::arrow_reader::{RowSelection, RowSelector};

/// Rows of a range of a row group.
#[derive(Debug, Clone)]
pub(super) struct TileRows {
    pub(super) range: Range<usize>,
    /// Rows of the row group.
    pub(super) group_rows: usize,
    /// The rows of the range that are left; `None`: all.
    pub(super) mask: Option<BooleanBuffer>,
    pub(super) left: usize,
}

/// Rows in a row, on average, below which they are read with those between them.
const SHORT_RUN: usize = 32;

impl TileRows {
    /// The rows of `range` that `selection` has. `None` selects all.
    pub(super) fn new(range: Range<usize>, group_rows: usize, selection: Option<&RowSelection>) -> Self {
        let mut tile = Self {
            left: range.len(),
            range,
            group_rows,
            mask: None,
        };
        if let Some(selection) = selection {
            let mut mask = BooleanBufferBuilder::new(tile.range.len());
            let mut row = 0;
            for selector in selection.iter() {
                let end = row + selector.row_count;
                let inside = end.min(tile.range.end).saturating_sub(row.max(tile.range.start));
                mask.append_n(inside, !selector.skip);
                row = end;
            }
            mask.append_n(tile.range.len() - mask.len().min(tile.range.len()), false);
            tile.set(mask.finish());
        }
        tile
    }

    /// Leaves those of the rows that `passed` lets through.
    pub(super) fn keep(&mut self, passed: &BooleanBuffer) {
        let Some(before) = &self.mask else {
            return self.set(passed.clone());
        };
        let mut mask = BooleanBufferBuilder::new(before.len());
        mask.append_n(before.len(), false);
        for (row, passed) in before.set_indices().zip(passed) {
            mask.set_bit(row, passed);
        }
        self.set(mask.finish());
    }

    fn set(&mut self, mask: BooleanBuffer) {
        self.left = mask.count_set_bits();
        self.mask = (self.left < mask.len()).then_some(mask);
    }

    /// The rows as runs of the row group. `None`: they are so scattered that all rows of the tile are read.
    pub(super) fn runs(&self) -> Option<RowSelection> {
        let mut selectors = Vec::new();
        let mut row = 0;
        let mut select = |start: usize, end: usize| {
            if start > row {
                selectors.push(RowSelector::skip(start - row));
            }
            selectors.push(RowSelector::select(end - start));
            row = end;
        };
        match &self.mask {
            None => select(self.range.start, self.range.end),
            Some(mask) => {
                let most = self.range.len() / SHORT_RUN;
                for (run, (start, end)) in mask.set_slices().enumerate() {
                    if 2 * run >= most {
                        return None;
                    }
                    select(self.range.start + start, self.range.start + end);
                }
            }
        }
        if row < self.group_rows {
            selectors.push(RowSelector::skip(self.group_rows - row));
        }
        Some(RowSelection::from(selectors))
    }

    /// All rows of the tile, whether they are left or not.
    pub(super) fn all(&self) -> Self {
        Self {
            mask: None,
            left: self.range.len(),
            ..self.clone()
        }
    }

    /// The tile's share of the row group.
    pub(super) fn share(&self) -> f64 {
        self.range.len() as f64 / self.group_rows.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_tile_are_kept_as_runs_or_scattered() {
        let pages = RowSelection::from(vec![
            RowSelector::skip(50),
            RowSelector::select(100),
            RowSelector::skip(850),
        ]);
        let mut tile = TileRows::new(0..500, 1000, Some(&pages));
        assert_eq!(tile.left, 100);
        let runs = tile.runs().unwrap();
        assert_eq!((runs.row_count(), runs.skipped_row_count()), (100, 900));
        tile.keep(&BooleanBuffer::collect_bool(100, |row| row < 3));
        assert_eq!(tile.left, 3);
        assert_eq!(
            tile.mask.as_ref().unwrap().set_indices().collect::<Vec<_>>(),
            [50, 51, 52]
        );
        let mut all = TileRows::new(500..1000, 1000, None);
        assert_eq!(all.runs().unwrap().row_count(), 500);
        all.keep(&BooleanBuffer::collect_bool(500, |row| row % 2 == 0));
        assert!(all.left == 250 && all.runs().is_none());
        assert_eq!(all.all().left, 500);
    }
}
