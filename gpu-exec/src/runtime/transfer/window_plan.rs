//! `WindowPlan`: columns that do not fit in the pool, divided into windows that they stream through.
//!
//! Device memory holds two windows. Kernels process one while the other is filled. A window ends where a tile does, so
//! that no tile has rows in two windows.

use std::ops::Range;

use crate::error::{RunError, Shortage};
use crate::runtime::memory::arena::DeviceRange;
use crate::runtime::memory::buffer_pool::{BufferPool, QueryId};
use crate::runtime::memory::copy_target::CopyTarget;
use crate::runtime::transfer::column_locator::{ColumnLocation, ColumnLocator, MissingColumn, StreamedChunk};
use crate::runtime::transfer::copy_job::{CopyJob, MAX_COPY_ROWS};
use crate::runtime::transfer::job_list::JobList;
use crate::validity;

/// Bytes of both windows, if there is space.
const WINDOWS_BYTES: u64 = 256 << 20;
/// Fewer bytes are not worth dividing.
const MIN_WINDOWS_BYTES: usize = 64 << 10;
/// Values in a window begin at multiples of this.
const WINDOW_GRAIN_BYTES: usize = 64;

/// Windows of a query.
#[derive(Debug, Default)]
pub(crate) struct WindowPlan {
    /// Rows before which each window ends; one window for all rows if nothing streams.
    pub(crate) ends: Vec<u64>,
    /// Device memory of both windows, to be given back to the pool.
    pub(crate) memory: Option<DeviceRange>,
}

impl WindowPlan {
    /// Bytes that both windows take of so many that are available.
    pub(crate) fn bytes_of(available: u64) -> u64 {
        WINDOWS_BYTES.min(available / 4)
    }

    /// Bytes that a column fills, with what rounding adds.
    pub(crate) fn filled_by(column: &MissingColumn) -> u64 {
        column.bytes() + WINDOW_GRAIN_BYTES as u64
    }

    /// Takes memory for both windows from the pool, unless they have some: not more than the streamed columns
    /// [fill](Self::filled_by), less if the pool has less.
    pub(crate) fn take_memory(
        &mut self,
        (pool, query): (&mut BufferPool, QueryId),
        streamed_bytes: u64,
        available: u64,
    ) -> Result<(), RunError> {
        if self.memory.is_some() {
            return Ok(());
        }
        let most = Self::bytes_of(available).max(MIN_WINDOWS_BYTES as u64);
        let mut bytes = most.min(2 * streamed_bytes.max(1 << 10)) as usize;
        loop {
            self.memory = pool.lend(query, bytes)?;
            if self.memory.is_some() {
                return Ok(());
            }
            if bytes < MIN_WINDOWS_BYTES {
                return Err(too_little_memory(bytes as u64, pool.capacity()));
            }
            bytes /= 2;
        }
    }

    /// Divides columns into windows of whole tiles, and those into chunks; adds the jobs that fill them. `capacity`:
    /// device memory for columns.
    pub(crate) fn divide(
        &mut self,
        columns: &mut ColumnLocator<'_>,
        jobs: &mut JobList<'_>,
        streamed: &[MissingColumn],
        tile_rows: u64,
        capacity: u64,
    ) -> Result<(), RunError> {
        let total = jobs.first_rows.last().copied().unwrap_or(0);
        let Some(memory) = self.memory.clone().filter(|_| !streamed.is_empty()) else {
            self.ends = vec![total];
            return Ok(());
        };
        // The validity of a window's rows fills whole bytes, too.
        let tile_rows = tile_rows.max(validity::ROWS_OF_BYTE);
        let window_bytes = memory.len / 2 / WINDOW_GRAIN_BYTES * WINDOW_GRAIN_BYTES;
        let mut by_stripe: Vec<Vec<MissingColumn>> = vec![Vec::new(); columns.locations.len()];
        streamed.iter().for_each(|m| by_stripe[m.stripe].push(*m));
        let (mut window, mut used) = (0, 0);
        for (stripe, missing) in by_stripe.iter().enumerate().filter(|(_, m)| !m.is_empty()) {
            for range in columns.request.input.stripes[stripe].selected.clone() {
                let mut first = range.start;
                while first < range.end {
                    let fit = rows_that_fit(columns, missing, window_bytes - used, tile_rows);
                    let mut rows = fit.min(range.end - first);
                    if rows == 0 {
                        if used == 0 {
                            let tile_bytes = (tile_rows * row_bits(columns, missing)).div_ceil(8);
                            let tile_bytes = tile_bytes + margin_bytes(missing);
                            return Err(too_little_memory(2 * tile_bytes, capacity));
                        }
                        self.ends.push(jobs.first_rows[stripe] + first);
                        (window, used) = (window + 1, 0);
                        continue;
                    }
                    if first + rows < range.end {
                        rows = rows / tile_rows * tile_rows;
                    }
                    let chunk = Chunk {
                        rows: first..first + rows,
                        memory: &memory,
                        offset: (window % 2) * window_bytes + used,
                        window,
                    };
                    used += chunk.add(columns, jobs, missing)?;
                    first += rows;
                }
            }
        }
        self.ends.push(total);
        self.place_kept_columns(&mut jobs.jobs);
        Ok(())
    }

    /// Columns that are kept come in the order of rows too: each of their jobs belongs to the window in which its first
    /// row is read.
    fn place_kept_columns(&self, jobs: &mut [CopyJob]) {
        for job in jobs {
            let window = self.ends.partition_point(|end| *end <= job.first_row);
            job.window = window.min(self.ends.len().saturating_sub(1));
        }
    }
}

fn too_little_memory(needed: u64, available: u64) -> RunError {
    Shortage::Columns { needed, available }.into()
}

/// Bits of one row of all the columns.
fn row_bits(columns: &ColumnLocator<'_>, missing: &[MissingColumn]) -> u64 {
    let bits = missing
        .iter()
        .map(|m| 8 * u64::from(columns.stored(m.column).bytes()) + u64::from(m.valid.is_some()));
    bits.sum::<u64>().max(1)
}

/// Bytes that rounding adds: values and validity of each column take whole grains.
fn margin_bytes(missing: &[MissingColumn]) -> u64 {
    (missing.len() * 2 * WINDOW_GRAIN_BYTES) as u64
}

/// Rows of which all the columns fit in so many bytes: whole tiles.
fn rows_that_fit(columns: &ColumnLocator<'_>, missing: &[MissingColumn], bytes: usize, tile_rows: u64) -> u64 {
    let rows = 8 * (bytes as u64).saturating_sub(margin_bytes(missing)) / row_bits(columns, missing);
    (rows / tile_rows * tile_rows).min(MAX_COPY_ROWS / tile_rows * tile_rows)
}

/// Rows of a stripe in one window.
struct Chunk<'a> {
    rows: Range<u64>,
    memory: &'a DeviceRange,
    /// Offset in the memory of the windows.
    offset: usize,
    window: usize,
}

impl Chunk<'_> {
    /// Adds the jobs for the chunk's columns; returns the bytes that these take.
    fn add(
        &self,
        columns: &mut ColumnLocator<'_>,
        jobs: &mut JobList<'_>,
        missing: &[MissingColumn],
    ) -> Result<usize, RunError> {
        let rows = (self.rows.end - self.rows.start) as usize;
        let mut next = self.offset;
        let mut take = |bytes: usize| {
            let offset = next;
            next = (next + bytes).next_multiple_of(WINDOW_GRAIN_BYTES);
            offset
        };
        for m in missing {
            let values = take(rows * columns.stored(m.column).bytes() as usize);
            let valid = m.valid.map(|_| take(validity::bytes_of(rows as u64) as usize));
            let target = |offset: usize| CopyTarget::within(self.memory, offset);
            jobs.add(m, self.rows.clone(), target(values), valid.map(target), self.window)?;
            let chunk = StreamedChunk {
                rows: self.rows.clone(),
                values,
                valid,
            };
            match &mut columns.locations[m.stripe][m.column] {
                ColumnLocation::Streamed(chunks) => chunks.push(chunk),
                location => *location = ColumnLocation::Streamed(vec![chunk]),
            }
        }
        Ok(next - self.offset)
    }
}
