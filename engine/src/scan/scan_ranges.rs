//! `ScanRange`: row groups of one stripe, the unit of work of a partition.
//!
//! The surviving stripes are cut into one contiguous list of ranges per partition, with equal numbers of rows. A stripe
//! is cut between row groups, where all columns have entry points.

use std::ops::Range;

use super::Scan;

/// Row groups of one stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScanRange {
    /// The file, by position in the scan.
    pub(crate) file: usize,
    /// The stripe of the file.
    pub(crate) stripe: usize,
    /// The row groups of the stripe.
    pub(crate) groups: Range<usize>,
    /// Rows in the row groups.
    pub(crate) rows: u64,
    /// Rows per row group; `None`: the stripe must stay whole.
    pub(crate) stride: Option<u64>,
}

impl ScanRange {
    /// Both halves, cut between row groups; `None`: one of them would have fewer than `min_rows`.
    pub(super) fn halves(&self, min_rows: u64) -> Option<(Self, Self)> {
        let stride = self.stride?;
        let middle = self.groups.start + self.groups.len().div_ceil(2);
        let first_rows = (middle - self.groups.start) as u64 * stride;
        let second_rows = self.rows.checked_sub(first_rows)?;
        let half = |groups, rows| Self {
            groups,
            rows,
            ..self.clone()
        };
        let (first, second) = (self.groups.start..middle, middle..self.groups.end);
        (first_rows.min(second_rows) >= min_rows).then(|| (half(first, first_rows), half(second, second_rows)))
    }
}

/// A stripe to distribute over the partitions.
#[derive(Debug, Clone)]
pub(crate) struct PlannedStripe {
    /// The file, by position in the scan.
    pub(crate) file: usize,
    /// The stripe of the file.
    pub(crate) stripe: usize,
    /// Rows in the stripe.
    pub(crate) rows: u64,
    /// Rows per row group; `None`: the stripe must stay whole.
    pub(crate) stride: Option<u64>,
    /// Row groups in the stripe.
    pub(crate) groups: usize,
}

/// Counts of the files, stripes and row groups that planning leaves out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Skipped {
    /// Files of the table.
    pub(crate) files_total: usize,
    /// Files that their partition values exclude. They are not opened, so their stripes are not counted.
    pub(crate) files: usize,
    /// Row groups of the other files.
    pub(crate) row_groups_total: usize,
    /// Row groups of excluded stripes.
    pub(crate) row_groups: usize,
    /// Stripes of the other files.
    pub(crate) stripes_total: usize,
    /// Excluded stripes.
    pub(crate) stripes: usize,
}

impl Skipped {
    /// Counts a stripe with this number of row groups.
    pub(super) fn count(&mut self, groups: usize, keep: bool) {
        self.row_groups_total += groups;
        self.stripes_total += 1;
        if !keep {
            self.row_groups += groups;
            self.stripes += 1;
        }
    }
}

/// The ranges of at most `partitions` partitions. Without a filter, the first stripes with enough rows answer a limit.
pub(super) fn work_of(
    scan: &Scan,
    stripes: &[PlannedStripe],
    partitions: usize,
    limit: Option<usize>,
) -> Vec<Vec<ScanRange>> {
    let mut rows = 0;
    let wanted = limit.filter(|_| scan.conjuncts.is_empty());
    let first = stripes.iter().take_while(|stripe| {
        let is_wanted = wanted.is_none_or(|limit| rows < limit as u64);
        rows += stripe.rows;
        is_wanted
    });
    let count = first.count();
    let min_rows = scan.options.min_partition_rows as u64;
    // Each partition reads until it has as many rows as are wanted in all. More than the rows need read in vain.
    let needed = wanted.map_or(usize::MAX, |limit| {
        (limit as u64).div_ceil(min_rows.max(1)).max(1) as usize
    });
    distribute(&stripes[..count], partitions.min(needed), min_rows)
}

/// Cuts `stripes` into at most `partitions` lists, of about `min_rows` rows at least. If there are no rows, there is
/// one empty list.
pub(crate) fn distribute(stripes: &[PlannedStripe], partitions: usize, min_rows: u64) -> Vec<Vec<ScanRange>> {
    let total: u64 = stripes.iter().map(|stripe| stripe.rows).sum();
    let partitions = total.div_ceil(min_rows.max(1)).clamp(1, partitions.max(1) as u64);
    let mut lists: Vec<Vec<ScanRange>> = vec![Vec::new()];
    // Rows distributed so far, and the row number at which a list should end.
    let mut given = 0;
    let goal = |list: usize| (u128::from(total) * list as u128 / u128::from(partitions)) as u64;
    for stripe in stripes.iter().filter(|stripe| stripe.rows > 0) {
        let mut group = 0;
        while group < stripe.groups {
            if given >= goal(lists.len()) && (lists.len() as u64) < partitions {
                lists.push(Vec::new());
            }
            let end = match stripe.stride {
                None => stripe.groups,
                Some(stride) => {
                    let wanted = goal(lists.len()).saturating_sub(given).div_ceil(stride).max(1);
                    stripe.groups.min(group + wanted as usize)
                }
            };
            let rows = match stripe.stride {
                None => stripe.rows,
                Some(stride) => (end as u64 * stride).min(stripe.rows) - group as u64 * stride,
            };
            let list = lists.len() - 1;
            lists[list].push(ScanRange {
                file: stripe.file,
                stripe: stripe.stripe,
                groups: group..end,
                rows,
                stride: stripe.stride,
            });
            given += rows;
            group = end;
        }
    }
    lists
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN_ROWS: u64 = 16_384;

    fn stripe(file: usize, rows: u64, stride: Option<u64>) -> PlannedStripe {
        PlannedStripe {
            file,
            stripe: 0,
            rows,
            stride,
            groups: stride.map_or(1, |stride| rows.div_ceil(stride) as usize),
        }
    }

    fn places(lists: &[Vec<ScanRange>]) -> Vec<Vec<(usize, Range<usize>, u64)>> {
        let place = |work: &ScanRange| (work.file, work.groups.clone(), work.rows);
        lists.iter().map(|list| list.iter().map(place).collect()).collect()
    }

    #[test]
    fn distribute_cuts_stripes_between_row_groups() {
        let lists = distribute(
            &[stripe(0, 95_000, Some(10_000)), stripe(1, 30_000, Some(10_000))],
            3,
            MIN_ROWS,
        );
        assert_eq!(
            places(&lists),
            [
                vec![(0, 0..5, 50_000)],
                vec![(0, 5..9, 40_000)],
                vec![(0, 9..10, 5_000), (1, 0..3, 30_000)]
            ]
        );
    }

    #[test]
    fn distribute_keeps_whole_stripes_and_small_tables_together() {
        let lists = distribute(
            &[stripe(0, 50_000, None), stripe(1, 50_000, None), stripe(2, 0, None)],
            8,
            MIN_ROWS,
        );
        assert_eq!(places(&lists), [vec![(0, 0..1, 50_000)], vec![(1, 0..1, 50_000)]]);
        assert_eq!(
            places(&distribute(&[stripe(0, 100, Some(10))], 8, MIN_ROWS)),
            [vec![(0, 0..10, 100)]]
        );
        assert_eq!(distribute(&[], 8, MIN_ROWS), [Vec::<ScanRange>::new()]);
    }

    #[test]
    fn halves_are_whole_row_groups() {
        let lists = distribute(&[stripe(0, 95_000, Some(10_000))], 1, MIN_ROWS);
        let (first, second) = lists[0][0].halves(40_000).unwrap();
        assert_eq!(
            places(&[vec![first, second]]),
            [[(0, 0..5, 50_000), (0, 5..10, 45_000)]]
        );
        assert_eq!(lists[0][0].halves(46_000), None);
        assert_eq!(
            distribute(&[stripe(0, 95_000, None)], 1, MIN_ROWS)[0][0].halves(0),
            None
        );
    }

    #[test]
    fn distribute_gives_out_every_group_once() {
        let stripes: Vec<PlannedStripe> = (0..7)
            .map(|k| stripe(k, 20_000 + 7_001 * k as u64, Some(1000)))
            .collect();
        for partitions in 1..20 {
            let lists = distribute(&stripes, partitions, MIN_ROWS);
            assert!(lists.len() <= partitions);
            let mut next = (0, 0);
            for work in lists.iter().flatten() {
                if work.file != next.0 {
                    assert_eq!((stripes[next.0].groups, next.0 + 1), (next.1, work.file));
                    next = (work.file, 0);
                }
                assert_eq!(work.groups.start, next.1);
                next.1 = work.groups.end;
            }
            assert_eq!(next, (6, stripes[6].groups));
        }
    }
}
