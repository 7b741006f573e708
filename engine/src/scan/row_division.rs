//! Division of a stripe's rows: [`Tiles`] of consecutive rows, and [`PendingRows`], from which batches are taken.

use std::collections::VecDeque;
use std::ops::Range;

use grampus_orc_layout::selection::RowSelection;

/// Rows that are not yet filtered. They are cut into tiles one by one: the number of a stripe's rows is a claim of the
/// file, and a list of all tiles would take memory by it.
#[derive(Debug)]
pub(super) struct Tiles {
    /// Ascending, merged, not empty.
    ranges: VecDeque<Range<u64>>,
    /// Maximum rows of a tile, at least one.
    tile_rows: u64,
    /// What the maximum may grow to.
    most_rows: u64,
}

impl Tiles {
    /// The rows of `surviving`, ascending ranges. Adjacent ones are merged.
    pub(super) fn new(surviving: impl Iterator<Item = Range<u64>>, tile_rows: u64) -> Self {
        let mut rows = RowSelection::new();
        surviving.for_each(|range| rows.push(range));
        Self {
            ranges: rows.ranges().to_vec().into(),
            tile_rows: tile_rows.max(1),
            most_rows: tile_rows.max(1),
        }
    }

    /// Tiles of at most `first_rows` rows at first. Each is twice as large as the one before, up to the maximum.
    pub(super) fn growing_from(self, first_rows: u64) -> Self {
        Self {
            tile_rows: self.tile_rows.min(first_rows.max(1)),
            ..self
        }
    }

    /// True if no row is left.
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The tiles, cut as they are asked for.
    pub(super) fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter().flat_map(|range| {
            std::iter::successors(Some(self.first_of(range.clone())), |tile| {
                (tile.end < range.end).then(|| self.first_of(tile.end..range.end))
            })
        })
    }

    fn first_of(&self, range: Range<u64>) -> Range<u64> {
        range.start..range.end.min(range.start.saturating_add(self.tile_rows))
    }

    /// Removes the first tile.
    pub(super) fn remove_first(&mut self) {
        let tile_rows = self.tile_rows;
        self.tile_rows = self.tile_rows.saturating_mul(2).min(self.most_rows);
        match self.ranges.front_mut() {
            Some(first) if first.end - first.start > tile_rows => first.start += tile_rows,
            _ => {
                self.ranges.pop_front();
            }
        }
    }

    /// Cuts the rows that are left into tiles of at most `tile_rows`.
    pub(super) fn cut(&mut self, tile_rows: u64) {
        self.most_rows = self.most_rows.min(tile_rows.max(1));
        self.tile_rows = self.tile_rows.min(self.most_rows);
    }

    /// The first row.
    pub(super) fn first_row(&self) -> Option<u64> {
        self.ranges.front().map(|range| range.start)
    }

    /// The row behind the last one.
    pub(super) fn end(&self) -> u64 {
        self.ranges.back().map_or(0, |range| range.end)
    }

    /// Whether rows of `range` are left.
    pub(super) fn has_rows_of(&self, range: &Range<u64>) -> bool {
        let at = self.ranges.partition_point(|rows| rows.end <= range.start);
        self.ranges.get(at).is_some_and(|rows| rows.start < range.end)
    }

    /// Removes the rows of `excluded`, ascending ranges.
    pub(super) fn exclude(&mut self, excluded: &[Range<u64>]) {
        let mut left = VecDeque::with_capacity(self.ranges.len());
        for range in &self.ranges {
            let mut start = range.start;
            let from = excluded.partition_point(|gap| gap.end <= start);
            for gap in excluded[from..].iter().take_while(|gap| gap.start < range.end) {
                if start < gap.start {
                    left.push_back(start..gap.start);
                }
                start = gap.end;
            }
            if start < range.end {
                left.push_back(start..range.end);
            }
        }
        self.ranges = left;
    }
}

/// The rows of the first `tiles` from row `start` on: at least one tile, and more until there are `rows` rows.
/// `None`: there are no tiles.
pub(super) fn window(tiles: impl Iterator<Item = Range<u64>>, start: u64, rows: u64) -> Option<RowSelection> {
    let mut tiles = tiles.skip_while(|tile| tile.end <= start);
    let first = tiles.next()?;
    let mut chosen = RowSelection::range(first.start.max(start)..first.end);
    for tile in tiles {
        if chosen.rows() >= rows {
            break;
        }
        chosen.push(tile);
    }
    Some(chosen)
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
    fn excluded_rows_are_cut_out_of_tiles() {
        let tiles = || Tiles::new([0..20, 40..60].into_iter(), 100);
        for (excluded, left) in [
            (vec![], vec![0..20, 40..60]),
            (vec![0..60], vec![]),
            (vec![10..20, 50..60], vec![0..10, 40..50]),
            (vec![5..15, 20..40], vec![0..5, 15..20, 40..60]),
            (vec![2..3, 4..5, 55..70], vec![0..2, 3..4, 5..20, 40..55]),
        ] {
            let mut tiles = tiles();
            tiles.exclude(&excluded);
            assert_eq!(tiles.iter().collect::<Vec<_>>(), left, "{excluded:?}");
            assert_eq!(tiles.first_row(), left.first().map(|range| range.start));
        }
        let has_rows_of = [0..1, 19..21, 20..40, 39..41, 59..70, 60..70].map(|range| tiles().has_rows_of(&range));
        assert_eq!(has_rows_of, [true, true, false, true, true, false]);
    }

    #[test]
    fn tiles_follow_surviving_groups() {
        let listed = |tiles: &Tiles| tiles.iter().collect::<Vec<_>>();
        let mut tiles = Tiles::new([0..10, 10..20, 40..50, 50..55].into_iter(), 12);
        assert_eq!(listed(&tiles), [0..12, 12..20, 40..52, 52..55]);
        tiles.remove_first();
        assert_eq!(listed(&tiles), [12..20, 40..52, 52..55]);
        tiles.cut(7);
        assert_eq!(listed(&tiles), [12..19, 19..20, 40..47, 47..54, 54..55]);
        tiles.cut(9);
        (0..4).for_each(|_| tiles.remove_first());
        assert_eq!((listed(&tiles), tiles.is_empty()), (vec![54..55], false));
        tiles.remove_first();
        assert!(tiles.is_empty() && listed(&tiles).is_empty());
        assert!(Tiles::new(std::iter::empty(), 12).is_empty());
    }

    #[test]
    fn growing_tiles_double_up_to_the_maximum() {
        let mut tiles = Tiles::new(std::iter::once(0..100), 35).growing_from(10);
        let mut found = Vec::new();
        while !tiles.is_empty() {
            found.extend(tiles.iter().next());
            tiles.remove_first();
        }
        assert_eq!(found, [0..10, 10..30, 30..65, 65..100]);
        let mut tiles = Tiles::new(std::iter::once(0..100), 35).growing_from(10);
        tiles.cut(15);
        tiles.remove_first();
        assert_eq!(tiles.iter().next(), Some(10..25));
    }

    #[test]
    fn tiles_of_any_number_of_rows_take_no_memory() {
        let mut tiles = Tiles::new(std::iter::once(0..1 << 62), 1);
        (0..1000).for_each(|_| tiles.remove_first());
        assert_eq!(tiles.iter().nth(2), Some(1002..1003));
        assert_eq!(Tiles::new(std::iter::once(5..7), 0).iter().count(), 2);
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
