//! Division of a stripe's rows: tiles of consecutive rows, and [`PendingRows`], from which batches are taken.

use std::collections::VecDeque;
use std::ops::Range;

use grampus_orc_layout::selection::RowSelection;

/// Merges adjacent row ranges and cuts them into tiles of at most `tile_rows`.
pub(super) fn cut(surviving: impl Iterator<Item = Range<u64>>, tile_rows: u64) -> Vec<Range<u64>> {
    let mut rows = RowSelection::new();
    surviving.for_each(|range| rows.push(range));
    let tiles = rows.ranges().iter().flat_map(|range| {
        let starts = (range.start..range.end).step_by(tile_rows as usize);
        starts.map(|start| start..(start + tile_rows).min(range.end))
    });
    tiles.collect()
}

/// The rows of the first `tiles` from row `start` on: at least one tile, and more until there are `rows` rows.
/// `None`: there are no tiles.
pub(super) fn window(tiles: &[Range<u64>], start: u64, rows: u64) -> Option<RowSelection> {
    let first = tiles.first()?;
    let mut chosen = RowSelection::range(first.start.max(start)..first.end);
    for tile in &tiles[1..] {
        if chosen.rows() >= rows {
            break;
        }
        chosen.push(tile.clone());
    }
    Some(chosen)
}

/// Ascending row ranges without the rows of `excluded`, which ascend too.
pub(super) fn without(ranges: &[Range<u64>], excluded: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = Vec::with_capacity(ranges.len());
    for range in ranges {
        let mut start = range.start;
        let from = excluded.partition_point(|gap| gap.end <= start);
        for gap in excluded[from..].iter().take_while(|gap| gap.start < range.end) {
            if start < gap.start {
                left.push(start..gap.start);
            }
            start = gap.end;
        }
        if start < range.end {
            left.push(start..range.end);
        }
    }
    left
}

/// Rows that wait to be emitted, in ascending ranges.
#[derive(Debug, Default)]
pub(super) struct PendingRows {
    ranges: VecDeque<Range<u64>>,
    rows: u64,
}

impl PendingRows {
    /// Appends rows after those that wait.
    pub(super) fn push(&mut self, range: Range<u64>) {
        self.rows += range.end - range.start;
        self.ranges.push_back(range);
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// The first `count` rows, or all.
    pub(super) fn first(&self, count: u64) -> RowSelection {
        let mut first = RowSelection::new();
        for range in &self.ranges {
            let room = count - first.rows();
            if room == 0 {
                break;
            }
            first.push(range.start..range.end.min(range.start + room));
        }
        first
    }

    /// Removes the first `count` rows.
    pub(super) fn remove_first(&mut self, mut count: u64) {
        self.rows = self.rows.saturating_sub(count);
        while let Some(range) = self.ranges.front_mut() {
            let length = range.end - range.start;
            if length > count {
                range.start += count;
                return;
            }
            count -= length;
            self.ranges.pop_front();
        }
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // lists of ranges that happen to have one
mod tests {
    use super::*;

    #[test]
    fn excluded_rows_are_cut_out_of_ranges() {
        let tiles = [0..10, 10..20, 40..50, 50..60];
        for (excluded, left) in [
            (vec![], tiles.to_vec()),
            (vec![0..60], vec![]),
            (vec![10..20, 50..60], vec![0..10, 40..50]),
            (vec![5..15, 20..40], vec![0..5, 15..20, 40..50, 50..60]),
            (
                vec![2..3, 4..5, 55..70],
                vec![0..2, 3..4, 5..10, 10..20, 40..50, 50..55],
            ),
        ] {
            assert_eq!(without(&tiles, &excluded), left, "{excluded:?}");
        }
    }

    #[test]
    fn tiles_follow_surviving_groups() {
        let groups = [0..10, 10..20, 40..50, 50..55];
        assert_eq!(cut(groups.into_iter(), 12), [0..12, 12..20, 40..52, 52..55]);
        assert_eq!(cut(std::iter::empty(), 12), []);
    }

    #[test]
    fn pending_rows_are_divided_after_any_count() {
        let mut rows = PendingRows::default();
        rows.push(0..2);
        rows.push(2..3);
        rows.push(10..20);
        assert_eq!((rows.rows(), rows.first(5).ranges()), (13, &[0..3, 10..12][..]));
        assert_eq!(rows.first(100).rows(), 13);
        assert!(rows.first(0).is_empty());
        rows.remove_first(3);
        assert_eq!((rows.rows(), rows.first(1).ranges()), (10, &[10..11][..]));
        rows.remove_first(4);
        assert_eq!((rows.rows(), rows.first(100).ranges()), (6, &[14..20][..]));
        rows.remove_first(6);
        assert!(rows.first(1).is_empty() && rows.rows() == 0);
    }
}
