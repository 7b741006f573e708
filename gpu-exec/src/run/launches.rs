//! A query's tiles divided into launches: each as soon as its bytes are on their way, all with the same warps, so that what a warp
//! sums up, and in which order, does not depend on the division.

use crate::params::RowRun;

use super::push::{Job, What};

/// Bytes that are brought between two launches: long enough that launches do not count, short enough that the last one does not.
pub(crate) const LAUNCH_BYTES: u64 = 64 << 20;

/// One launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Launch {
    /// It may start when so many jobs are done.
    pub(crate) jobs: usize,
    pub(crate) first_tile: u64,
    pub(crate) end_tile: u64,
    /// The window that ends with it.
    pub(crate) ends_window: Option<usize>,
}

/// Tiles of which all rows come before `row`.
fn tiles_before(runs: &[RowRun], row: u64, tile_rows: u64, tiles: u64) -> u64 {
    let at = runs.partition_point(|r| r.first_row + r.rows <= row);
    match runs.get(at) {
        None => tiles,
        Some(run) => run.first_tile + row.saturating_sub(run.first_row) / tile_rows,
    }
}

fn bytes_of(job: &Job) -> u64 {
    match &job.what {
        What::Read { parts, .. } => parts.iter().map(|p| p.end - p.start).sum(),
        What::Decode { rows, width, .. } => (rows.end - rows.start) * *width as u64,
    }
}

/// The launches; at least one, the last of which takes all tiles that are left.
pub(crate) fn divide(
    jobs: &[Job],
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
        // Jobs come by row: what is before the next one's first row is there for every column.
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
