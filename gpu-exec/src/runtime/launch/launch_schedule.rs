//! `Launch`: some of a query's tiles, launched as soon as their bytes are on their way. All launches have the same
//! warps: what a warp adds up, and in which order, does not depend on the division.

use crate::abi::query::{LAUNCH_FIRST, LAUNCH_FLUSH, LAUNCH_LAST, RowRun};
use crate::runtime::transfer::copy_job::{CopyJob, CopySource};

/// One launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Launch {
    /// The launch may start when so many jobs are done.
    pub(crate) jobs: usize,
    pub(crate) first_tile: u64,
    pub(crate) end_tile: u64,
    /// The window that ends with the launch.
    pub(crate) ends_window: Option<usize>,
}

impl Launch {
    /// The flags of the launch at a position among so many of a pass.
    pub(crate) fn flags(&self, at: usize, launches: usize) -> u32 {
        let mut flags = 0;
        if at == 0 {
            flags |= LAUNCH_FIRST;
        }
        if self.ends_window.is_some() {
            flags |= LAUNCH_FLUSH;
        }
        if at + 1 == launches {
            flags |= LAUNCH_LAST;
        }
        flags
    }
}

/// Tiles of which all rows come before `row`.
fn tiles_before(runs: &[RowRun], row: u64, tile_rows: u64, tiles: u64) -> u64 {
    let at = runs.partition_point(|r| r.first_row + r.rows <= row);
    match runs.get(at) {
        None => tiles,
        Some(run) => run.first_tile + row.saturating_sub(run.first_row) / tile_rows,
    }
}

fn bytes_of(job: &CopyJob) -> u64 {
    match &job.source {
        CopySource::FileRanges { parts, .. } => parts.iter().map(|p| p.end - p.start).sum(),
        CopySource::CpuDecode { rows, stored, .. } => (rows.end - rows.start) * u64::from(stored.bytes()),
        CopySource::Encoded(stored) => stored.batch.stored_bytes(),
    }
}

/// Divides launches so that none has more than `max_tiles`: between two of them the device serves other queries.
pub(crate) fn divided(launches: &[Launch], max_tiles: u64) -> Vec<Launch> {
    let mut parts = Vec::with_capacity(launches.len());
    for launch in launches {
        let mut first_tile = launch.first_tile;
        while launch.end_tile - first_tile > max_tiles.max(1) {
            let end_tile = first_tile + max_tiles.max(1);
            parts.push(Launch {
                first_tile,
                end_tile,
                ends_window: None,
                ..*launch
            });
            first_tile = end_tile;
        }
        parts.push(Launch { first_tile, ..*launch });
    }
    parts
}

/// The launches of a pass: at least one, and the last takes all tiles that are left.
pub(crate) fn schedule(
    jobs: &[CopyJob],
    window_ends: &[u64],
    runs: &[RowRun],
    (tiles, tile_rows): (u64, u64),
    launch_bytes: u64,
) -> Vec<Launch> {
    let mut launches = Vec::new();
    let (mut first_tile, mut bytes) = (0, 0);
    for (at, job) in jobs.iter().enumerate() {
        bytes += bytes_of(job);
        let next = jobs.get(at + 1);
        let window_over = next.is_some_and(|n| n.window != job.window);
        if !window_over && (bytes < launch_bytes || next.is_none()) {
            continue;
        }
        // Jobs are in order of rows: every column has the rows before the next job's first one.
        let mut row = next.map_or(u64::MAX, |n| n.first_row);
        if window_over {
            row = row.max(window_ends.get(job.window).copied().unwrap_or(row));
        }
        let end_tile = tiles_before(runs, row, tile_rows, tiles);
        if window_over || end_tile > first_tile {
            launches.push(Launch {
                jobs: at + 1,
                first_tile,
                end_tile,
                ends_window: window_over.then_some(job.window),
            });
            (first_tile, bytes) = (end_tile, 0);
        }
    }
    launches.push(Launch {
        jobs: jobs.len(),
        first_tile,
        end_tile: tiles,
        ends_window: None,
    });
    launches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::query::row_runs;
    use crate::runtime::memory::copy_target::CopyTarget;
    use grampus_cuda::{Device, DeviceBuffer};
    use std::sync::Arc;

    fn jobs(parts: &[(u64, usize, u64)]) -> Vec<CopyJob> {
        let buffer = Arc::new(DeviceBuffer::new(&Device::host(1, 1 << 20), 16).unwrap());
        let job = |&(first_row, window, bytes): &(u64, usize, u64)| CopyJob {
            first_row,
            window,
            to: CopyTarget {
                buffer: buffer.clone(),
                offset: 0,
            },
            source: CopySource::FileRanges {
                file: 0,
                parts: std::iter::once(0..bytes).collect(),
            },
        };
        parts.iter().map(job).collect()
    }

    fn launch(jobs: usize, first_tile: u64, end_tile: u64, ends_window: Option<usize>) -> Launch {
        Launch {
            jobs,
            first_tile,
            end_tile,
            ends_window,
        }
    }

    #[test]
    fn without_jobs_one_launch_takes_all_tiles() {
        assert_eq!(schedule(&[], &[100], &[], (0, 8), 64), [launch(0, 0, 0, None)]);
        let (runs, tiles) = row_runs([(0, 100)], 8);
        assert_eq!(schedule(&[], &[100], &runs, (tiles, 8), 64), [launch(0, 0, 13, None)]);
    }

    #[test]
    fn long_launches_are_divided_and_windows_end_with_the_last_part() {
        let whole = [
            launch(2, 0, 5, Some(0)),
            launch(2, 5, 5, Some(1)),
            launch(3, 5, 7, None),
        ];
        assert_eq!(
            divided(&whole, 2),
            [
                launch(2, 0, 2, None),
                launch(2, 2, 4, None),
                launch(2, 4, 5, Some(0)),
                launch(2, 5, 5, Some(1)),
                launch(3, 5, 7, None)
            ]
        );
        assert_eq!(divided(&whole, 5), whole);
    }

    #[test]
    fn a_launch_takes_the_tiles_of_which_everything_is_there() {
        // Two columns, copied in chunks of 40 rows. The second chunk of the first column ends a launch in the middle of
        // a tile.
        let jobs = jobs(&[
            (0, 0, 320),
            (0, 0, 320),
            (40, 0, 320),
            (40, 0, 320),
            (80, 0, 160),
            (80, 0, 160),
        ]);
        let (runs, tiles) = row_runs([(3, 50), (60, 40)], 8);
        let launches = schedule(&jobs, &[100], &runs, (tiles, 8), 600);
        // Rows before 40: 37 of the first run, four whole tiles. Before 80: all seven, and two of the second run's
        // five.
        assert_eq!(
            launches,
            [launch(2, 0, 4, None), launch(4, 4, 9, None), launch(6, 9, 12, None)]
        );
    }

    #[test]
    fn a_window_ends_with_a_launch_even_if_that_has_no_tiles() {
        let jobs = jobs(&[(0, 0, 64), (8, 1, 64), (16, 2, 64)]);
        let (runs, tiles) = row_runs([(8, 16)], 8);
        let launches = schedule(&jobs, &[8, 16, 24], &runs, (tiles, 8), 1 << 20);
        assert_eq!(
            launches,
            [
                launch(1, 0, 0, Some(0)),
                launch(2, 0, 1, Some(1)),
                launch(3, 1, 2, None)
            ]
        );
    }
}
