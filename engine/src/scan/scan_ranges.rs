//! Who scans what: surviving stripes cut into as many contiguous shares as there are partitions, equal in rows.
//! A stripe is cut between row groups, where all columns have entry points.

use std::ops::Range;

/// Row groups of one stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanRange {
    /// Which of the scan's files.
    pub file: usize,
    /// Which stripe of it.
    pub stripe: usize,
    /// Which row groups of the stripe.
    pub groups: Range<usize>,
    /// Rows in them.
    pub rows: u64,
    /// Rows per row group; `None` when the stripe must stay in one piece.
    pub stride: Option<u64>,
}

impl ScanRange {
    /// Both halves, cut between row groups; `None` if one would have fewer than `min_rows`.
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

/// A stripe to be shared out.
#[derive(Debug, Clone)]
pub struct Share {
    /// Which of the scan's files.
    pub file: usize,
    /// Which stripe of it.
    pub stripe: usize,
    /// Rows in the stripe.
    pub rows: u64,
    /// Rows per row group; `None` when the stripe must stay in one piece.
    pub stride: Option<u64>,
    /// Row groups in the stripe.
    pub groups: usize,
}

/// What planning leaves out before anything is read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Skipped {
    /// Row groups of all files.
    pub(crate) row_groups_total: usize,
    /// Row groups of excluded stripes.
    pub(crate) row_groups: usize,
    /// Stripes of all files.
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

/// Fewer rows than this are not worth a partition of their own.
const MIN_PARTITION_ROWS: u64 = 16_384;

/// Cuts `shares` into at most `partitions` lists. No rows at all still make one, empty, list.
pub fn distribute(shares: &[Share], partitions: usize) -> Vec<Vec<ScanRange>> {
    let total: u64 = shares.iter().map(|share| share.rows).sum();
    let partitions = total.div_ceil(MIN_PARTITION_ROWS).clamp(1, partitions.max(1) as u64);
    let mut lists: Vec<Vec<ScanRange>> = vec![Vec::new()];
    // Rows given out so far, and where the current list should end.
    let mut given = 0;
    let goal = |list: usize| (u128::from(total) * list as u128 / u128::from(partitions)) as u64;
    for share in shares.iter().filter(|share| share.rows > 0) {
        let mut group = 0;
        while group < share.groups {
            if given >= goal(lists.len()) && (lists.len() as u64) < partitions {
                lists.push(Vec::new());
            }
            let end = match share.stride {
                None => share.groups,
                Some(stride) => {
                    let wanted = goal(lists.len()).saturating_sub(given).div_ceil(stride).max(1);
                    share.groups.min(group + wanted as usize)
                }
            };
            let rows = match share.stride {
                None => share.rows,
                Some(stride) => (end as u64 * stride).min(share.rows) - group as u64 * stride,
            };
            let list = lists.len() - 1;
            lists[list].push(ScanRange {
                file: share.file,
                stripe: share.stripe,
                groups: group..end,
                rows,
                stride: share.stride,
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

    fn share(file: usize, rows: u64, stride: Option<u64>) -> Share {
        Share {
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
    fn stripes_are_cut_between_row_groups() {
        let lists = distribute(&[share(0, 95_000, Some(10_000)), share(1, 30_000, Some(10_000))], 3);
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
    fn whole_stripes_and_small_tables() {
        let lists = distribute(&[share(0, 50_000, None), share(1, 50_000, None), share(2, 0, None)], 8);
        assert_eq!(places(&lists), [vec![(0, 0..1, 50_000)], vec![(1, 0..1, 50_000)]]);
        assert_eq!(
            places(&distribute(&[share(0, 100, Some(10))], 8)),
            [vec![(0, 0..10, 100)]]
        );
        assert_eq!(distribute(&[], 8), [Vec::<ScanRange>::new()]);
    }

    #[test]
    fn halves_are_whole_row_groups() {
        let lists = distribute(&[share(0, 95_000, Some(10_000))], 1);
        let (first, second) = lists[0][0].halves(40_000).unwrap();
        assert_eq!(
            places(&[vec![first, second]]),
            [[(0, 0..5, 50_000), (0, 5..10, 45_000)]]
        );
        assert_eq!(lists[0][0].halves(46_000), None);
        assert_eq!(distribute(&[share(0, 95_000, None)], 1)[0][0].halves(0), None);
    }

    #[test]
    fn every_group_is_given_out_once() {
        let shares: Vec<Share> = (0..7)
            .map(|k| share(k, 20_000 + 7_001 * k as u64, Some(1000)))
            .collect();
        for partitions in 1..20 {
            let lists = distribute(&shares, partitions);
            assert!(lists.len() <= partitions);
            let mut next = (0, 0);
            for work in lists.iter().flatten() {
                if work.file != next.0 {
                    assert_eq!((shares[next.0].groups, next.0 + 1), (next.1, work.file));
                    next = (work.file, 0);
                }
                assert_eq!(work.groups.start, next.1);
                next.1 = work.groups.end;
            }
            assert_eq!(next, (6, shares[6].groups));
        }
    }
}
