//! `LoadAhead`: how far a stripe's tiles are loaded before the scan reads them, if the file is cold.

use std::ops::Range;

use grampus_orc_layout::proto::stream::Kind;
use grampus_orc_layout::schema::ColumnId;
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::stripe::StripeLayout;

use super::row_division::window;
use crate::file::ScanSource;

/// Bytes that are loaded at once. So many keep a disk busy while a tile is filtered.
const MAX_LOAD_BYTES: f64 = (4 << 20) as f64;

/// The loads of a stripe so far. The first one is a tile, and each has twice as many bytes as the load before: a query
/// with a limit may stop early.
#[derive(Debug, Default)]
pub(super) struct LoadAhead {
    /// Rows before this one are loaded.
    end: u64,
    /// Bytes of the next load.
    bytes: f64,
    is_probed: bool,
}

impl LoadAhead {
    /// Looks up, for the first tile of a stripe, whether `column` is in the page cache about where the tile lies. So
    /// all columns of a small stripe can be loaded at once.
    pub(super) fn probe(
        &mut self,
        source: &ScanSource,
        layout: &StripeLayout,
        column: Option<ColumnId>,
        first_row: u64,
    ) {
        let is_first = !std::mem::replace(&mut self.is_probed, true);
        let data = column.filter(|_| is_first).and_then(|id| layout.stream(id, Kind::Data));
        if let Some(data) = data {
            let share = first_row as f64 / layout.info.rows.max(1) as f64;
            source.probe(data.offset + (data.length as f64 * share) as u64);
        }
    }

    /// The rows to load before the first of `tiles` is read. `None`: half of a load is still ahead.
    pub(super) fn next(
        &mut self,
        mut tiles: impl Iterator<Item = Range<u64>>,
        bytes_per_row: f64,
    ) -> Option<RowSelection> {
        let first = tiles.next()?;
        let rows = (self.bytes / bytes_per_row.max(0.01)) as u64;
        let ahead = self.end.saturating_sub(first.start);
        if ahead > 0 && ahead >= rows / 2 {
            return None;
        }
        let start = self.end.max(first.start);
        let rows = window(std::iter::once(first).chain(tiles), start, rows)?;
        self.end = rows.ranges().last()?.end;
        self.bytes = (2.0 * rows.rows() as f64 * bytes_per_row).min(MAX_LOAD_BYTES);
        Some(rows)
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // lists of ranges that happen to have one
mod tests {
    use super::*;

    #[test]
    fn loads_double_up_to_a_bound_and_stay_ahead() {
        let tiles: Vec<Range<u64>> = (0..100).map(|tile| tile * 65_536..(tile + 1) * 65_536).collect();
        let mut ahead = LoadAhead::default();
        let loads: Vec<_> = (0..100)
            .filter_map(|at| {
                ahead
                    .next(tiles[at..].iter().cloned(), 8.0)
                    .map(|rows| (at, rows.ranges().to_vec()))
            })
            .collect();
        let tiles_of = |at: usize| {
            let (step, ranges) = &loads[at];
            (*step, ranges[0].start / 65_536, ranges[0].end / 65_536)
        };
        // Step, first tile and end of each load: 0.5 MiB, 1, 2, 4, 4, …
        assert_eq!(
            [tiles_of(0), tiles_of(1), tiles_of(2), tiles_of(3), tiles_of(4)],
            [(0, 0, 1), (1, 1, 3), (2, 3, 7), (4, 7, 15), (12, 15, 23)]
        );
        // Each row is loaded once, before its tile is read.
        assert!(loads.windows(2).all(|two| two[0].1[0].end == two[1].1[0].start));
        assert!(
            loads
                .iter()
                .all(|(step, ranges)| *step as u64 * 65_536 <= ranges[0].start)
        );
        assert_eq!(loads.last().unwrap().1[0].end, 100 * 65_536);
    }

    #[test]
    fn rows_that_are_left_out_are_not_loaded() {
        let tiles = [10..20, 40..50, 60..70];
        let mut ahead = LoadAhead {
            bytes: 15.0,
            ..LoadAhead::default()
        };
        let left = |from: usize| tiles[from..].iter().cloned();
        assert_eq!(ahead.next(left(0), 1.0).unwrap().ranges(), [10..20, 40..50]);
        assert!(ahead.next(left(0), 1.0).is_none());
        assert_eq!(ahead.next(left(2), 1.0).unwrap().ranges(), [60..70]);
        assert!(ahead.next(left(3), 1.0).is_none());
        // Columns of one value have no bytes.
        assert_eq!(LoadAhead::default().next(left(0), 0.0).unwrap().rows(), 10);
    }
}
