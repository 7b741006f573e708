//! Where each column's values will be for the kernel, stripe by stripe: at hand in device memory, in a registered mapping, or to be
//! brought; and the jobs that bring them, in the order in which kernels want them. push.rs does the jobs.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use grampus_io_stack::layout::Extent;

use crate::abi::paging::PAGE_BYTES;
use crate::error::RunError;
use crate::input::Placement;
use crate::input::encoded_column::EncodedColumn;
use crate::input::file_registry::FileId;
use crate::options::{Backing, Request};
use crate::program::Type;
use crate::runtime::memory::arena::DeviceRange;
use crate::runtime::memory::buffer_pool::{BufferPool, CachedColumn, ColumnKey};
use crate::runtime::memory::constant_columns::ConstantColumns;
use crate::runtime::memory::copy_target::CopyTarget;
use crate::runtime::memory::page_table::PageTable;
use crate::runtime::memory::staging_buffer::StagingBuffer;
use crate::runtime::transfer::copy_job::{CopyJob, CopySource, copy_job};
use crate::runtime::transfer::encoded_columns::CpuDecodeSet;

use grampus_io_stack::cuda::Device;

/// Most bytes of values in one slot.
pub(crate) const MAX_COPY_BYTES: u64 = 4 << 20;
/// The same where the processors have pages to read beside that: what is copied by so much stays in their caches from the page cache to
/// the link and takes three quarters of the time, while the link takes 4 % longer.
const COPY_BYTES_BESIDE_FAULTS: u64 = 2 << 20;
/// Rows of a chunk at most, so that 8-byte values fill a slot.
pub(crate) const MAX_COPY_ROWS: u64 = MAX_COPY_BYTES / 8;
/// What a window holds, if there is room.
const WINDOW_BYTES: u64 = 256 << 20;

/// A column as kernels will see it.
#[derive(Debug, Default)]
pub(crate) struct ExtentMap {
    pub(crate) extents: Vec<Extent>,
    /// A byte for each row, where the column may have NULLs in this input.
    pub(crate) valid: Vec<Extent>,
    pub(crate) nullable: bool,
}

/// Everything that is brought, and where it will be.
#[derive(Debug, Default)]
pub(crate) struct TransferPlan {
    pub(crate) columns: Vec<ExtentMap>,
    pub(crate) jobs: Vec<CopyJob>,
    /// Rows before which each window ends; one window for all if nothing is transient.
    pub(crate) window_ends: Vec<u64>,
    /// Device memory of windows, to be given back to the pool.
    pub(crate) transient: Option<DeviceRange>,
    /// Bytes of columns that were there already.
    pub(crate) resident_bytes: u64,
    /// Columns of which pages are brought when kernels miss them.
    pub(crate) paging: PageTable,
}

/// What bringing works with.
pub(crate) struct TransferContext<'a> {
    pub(crate) device: &'a Device,
    pub(crate) pool: &'a mut BufferPool,
    pub(crate) constants: &'a mut ConstantColumns,
    /// By file of the input.
    pub(crate) file_ids: &'a [FileId],
    /// By file of the input: its pages are not in the page cache.
    pub(crate) cold: &'a [bool],
    /// By file of the input: device address of byte 0 of its registered mapping.
    pub(crate) mapped: &'a [Option<u64>],
    /// By column of the program.
    pub(crate) backings: &'a [Backing],
    /// Windows end where tiles do.
    pub(crate) tile_rows: u64,
    pub(crate) staging: &'a mut StagingBuffer,
    /// Bytes of staging memory at most.
    pub(crate) staging_bytes: u64,
    /// What the device does not decode.
    pub(crate) cpu_decode: &'a CpuDecodeSet,
    /// Threads that may look how columns are stored.
    pub(crate) threads: usize,
}

/// Where a stripe's column is.
#[derive(Debug, Clone)]
pub(crate) enum ColumnLocation {
    /// Not looked at, or left to the queues.
    Nowhere,
    Resident(CachedColumn),
    Mapped(u64),
    Constant,
    /// Chunks of the stripe's selected rows: rows of the stripe, offsets of values and validity in the windows' memory.
    Transient(Vec<(Range<u64>, usize, Option<usize>)>),
}

/// A stripe's column that has to be brought.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Missing {
    pub(crate) stripe: usize,
    pub(crate) column: usize,
    pub(crate) values: u64,
    pub(crate) valid: Option<u64>,
    /// Most of the stripe is wanted, so that it is brought whole and kept.
    whole: bool,
}

impl Missing {
    pub(crate) fn bytes(&self) -> u64 {
        self.values + self.valid.unwrap_or(0)
    }
}

/// A query's columns while it is being decided where they will be.
pub(crate) struct Builder<'a, 'b> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) means: &'a mut TransferContext<'b>,
    pub(crate) bases: Vec<u64>,
    /// By stripe, by column.
    pub(crate) places: Vec<Vec<ColumnLocation>>,
    pub(crate) nullable: Vec<bool>,
    /// By stripe and column: how those are stored that the device decodes.
    pub(crate) stored: HashMap<(usize, usize), Option<Arc<EncodedColumn>>>,
    /// Pages of some column will be brought.
    gathers: bool,
    pub(crate) out: TransferPlan,
}

/// Looks where everything is and reserves room for what is missing.
pub(crate) fn bring(request: &Request<'_>, means: &mut TransferContext<'_>) -> Result<TransferPlan, RunError> {
    let (stripes, columns) = (request.input.stripes.len(), request.program.columns.len());
    let mut builder = Builder {
        bases: request.input.first_rows(),
        places: vec![vec![ColumnLocation::Nowhere; columns]; stripes],
        nullable: (0..columns).map(|c| request.has_nulls(c)).collect(),
        request,
        means,
        stored: HashMap::new(),
        gathers: false,
        out: TransferPlan::default(),
    };
    let (missing, paged) = builder.locate();
    builder.gathers = !paged.is_empty();
    // With a bit for each page, and what rounding adds; and one more, since what is free now ends with less than one.
    let room = |m: &Missing| m.bytes() + m.bytes() / (8 * PAGE_BYTES) + 64;
    // What is there in part has its room.
    let has_none = |m: &&Missing| builder.means.pool.page_bits(&builder.key(m.stripe, m.column)).is_none();
    let new: Vec<_> = paged.iter().filter(has_none).collect();
    let all = || missing.iter().filter(|m| m.whole).chain(new.iter().copied()).map(room);
    let room = all().sum::<u64>() + all().max().unwrap_or(0);
    builder.means.pool.expect(room)?;
    let places: Vec<_> = missing.iter().map(|m| (m.stripe, m.column)).collect();
    builder.look_how_stored(&places);
    let mut transient = builder.reserve(missing)?;
    // Windows are gone when the rows would have to be gone over again.
    if !transient.is_empty() || !builder.reserve_pages(&paged)? {
        builder.drop_pages(&paged);
        transient.extend(builder.reserve(paged)?);
    }
    builder.windows(&transient)?;
    builder.out.jobs.sort_by_key(|job| (job.window, job.first_row));
    let TransferContext {
        staging,
        device,
        staging_bytes,
        ..
    } = builder.means;
    let stored_bytes = |job: &CopyJob| match &job.what {
        CopySource::Encoded(copy) => copy.batch.bytes,
        CopySource::FileRanges { .. } | CopySource::CpuDecode { .. } => 0,
    };
    let lengths: Vec<usize> = builder.out.jobs.iter().map(stored_bytes).collect();
    let slots = staging.assign(device, &lengths, *staging_bytes)?;
    for (job, slot) in builder.out.jobs.iter_mut().zip(slots) {
        if let CopySource::Encoded(copy) = &mut job.what {
            copy.staged = slot;
        }
    }
    for column in 0..columns {
        let layout = builder.layout(column)?;
        builder.out.columns.push(layout);
    }
    Ok(builder.out)
}

impl Builder<'_, '_> {
    pub(crate) fn ty(&self, column: usize) -> Type {
        self.request.program.columns[column].ty
    }

    pub(crate) fn key(&self, stripe: usize, column: usize) -> ColumnKey {
        let s = &self.request.input.stripes[stripe];
        ColumnKey {
            file: self.means.file_ids[s.file],
            stripe: s.index,
            column: self.request.input.column_ids[column],
            ty: self.ty(column),
        }
    }

    /// Looks at every stripe's columns; returns those that are nowhere yet, column by column, so that a column's stripes come to lie
    /// one after the other: first those that are to be brought now, then those of which pages will be.
    fn locate(&mut self) -> (Vec<Missing>, Vec<Missing>) {
        let (mut missing, mut paged) = (Vec::new(), Vec::new());
        for column in 0..self.request.program.columns.len() {
            if self.means.backings[column] == Backing::Queued {
                continue;
            }
            for (stripe, s) in self.request.input.stripes.iter().enumerate() {
                let selected: u64 = s.selected.iter().map(|r| r.end - r.start).sum();
                if selected == 0 {
                    continue;
                }
                let mapped = self.means.mapped[s.file].filter(|_| self.means.backings[column] == Backing::Mapped);
                let key = self.key(stripe, column);
                let place = match (&s.columns[column], mapped) {
                    (Placement::Constant(_), _) => Some(ColumnLocation::Constant),
                    (Placement::Direct(_), Some(at)) => Some(ColumnLocation::Mapped(at)),
                    _ => self.means.pool.find(&key).map(ColumnLocation::Resident),
                };
                match place {
                    Some(place) => {
                        if let ColumnLocation::Resident(resident) = &place {
                            self.out.resident_bytes += resident.bytes();
                        }
                        self.places[stripe][column] = place;
                    }
                    None => {
                        let by_page = self.means.backings[column] == Backing::Paged;
                        let to = if by_page { &mut paged } else { &mut missing };
                        to.push(Missing {
                            stripe,
                            column,
                            values: s.rows * u64::from(self.ty(column).width()),
                            valid: match s.columns[column] {
                                Placement::Decoded { .. } if self.nullable[column] => Some(s.rows),
                                _ => None,
                            },
                            whole: selected * 2 >= s.rows,
                        });
                    }
                }
            }
        }
        (missing, paged)
    }

    /// Gives room in the pool to as much as there is room for; the rest, returned, streams through windows.
    fn reserve(&mut self, missing: Vec<Missing>) -> Result<Vec<Missing>, RunError> {
        let need: u64 = missing.iter().map(Missing::bytes).sum();
        let room = self.means.pool.available();
        let all_fit = need <= room && missing.iter().all(|m| m.whole);
        // Room for the windows comes first: without it nothing runs.
        let mut left = if all_fit {
            room
        } else {
            room.saturating_sub(self.window_bytes(room))
        };
        let mut transient = Vec::new();
        if !all_fit && self.out.transient.is_none() {
            self.out.transient = self.windows_memory(&missing, room)?;
        }
        for m in missing {
            let kept = if m.whole && m.bytes() <= left {
                let key = self.key(m.stripe, m.column);
                let valid = m.valid.map(|v| v as usize);
                self.means.pool.reserve(key, m.values as usize, valid)?
            } else {
                None
            };
            match kept {
                Some(resident) => {
                    left -= m.bytes();
                    self.bring_whole(&m, &resident)?;
                    self.places[m.stripe][m.column] = ColumnLocation::Resident(resident);
                }
                None => transient.push(m),
            }
        }
        if !transient.is_empty() && self.out.transient.is_none() {
            self.out.transient = self.windows_memory(&transient, room)?;
        }
        Ok(transient)
    }

    fn window_bytes(&self, room: u64) -> u64 {
        WINDOW_BYTES.min(room / 4)
    }

    /// Memory for two windows: as much as is worth while, and not more than there is to bring.
    fn windows_memory(&mut self, transient: &[Missing], room: u64) -> Result<Option<DeviceRange>, RunError> {
        let most: u64 = transient.iter().map(|m| m.bytes() + 64).sum();
        let mut bytes = self.window_bytes(room).max(64 << 10).min(2 * most.max(1 << 10)) as usize;
        loop {
            if let Some(piece) = self.means.pool.piece(bytes)? {
                return Ok(Some(piece));
            }
            if bytes < 64 << 10 {
                return Err(self.too_little_memory());
            }
            bytes /= 2;
        }
    }

    fn too_little_memory(&self) -> RunError {
        RunError::Refused(format!(
            "{} bytes of device memory for columns are too few for this query; raise the bound on what is cached",
            self.means.pool.capacity()
        ))
    }

    /// Jobs for a column of a stripe that is kept.
    fn bring_whole(&mut self, m: &Missing, resident: &CachedColumn) -> Result<(), RunError> {
        let stripe = &self.request.input.stripes[m.stripe];
        let rows = stripe.rows;
        let width = u64::from(self.ty(m.column).width());
        // A row group in two chunks would be brought, and gone through, twice.
        let chunk = match MAX_COPY_ROWS / stripe.group_rows.max(1) * stripe.group_rows {
            _ if self.gathers && self.is_cached(m) => COPY_BYTES_BESIDE_FAULTS / width,
            0 => MAX_COPY_ROWS,
            whole_groups => whole_groups,
        };
        let mut first = 0;
        while first < rows {
            let end = rows.min(first + chunk);
            let values = CopyTarget::within(&resident.values, (first * width) as usize);
            let valid = resident.valid.as_ref().map(|v| CopyTarget::within(v, first as usize));
            self.job(m, first..end, values, valid, 0)?;
            first = end;
        }
        Ok(())
    }

    /// Its values are in the page cache as they are.
    fn is_cached(&self, m: &Missing) -> bool {
        let stripe = &self.request.input.stripes[m.stripe];
        matches!(stripe.columns[m.column], Placement::Direct(_)) && !self.means.cold[stripe.file]
    }

    fn job(
        &mut self,
        m: &Missing,
        rows: Range<u64>,
        to: CopyTarget,
        valid: Option<CopyTarget>,
        window: usize,
    ) -> Result<(), RunError> {
        if let Some(batches) = self.batches(m.stripe, m.column, &rows) {
            self.stored_jobs((m.stripe, m.column), batches, &to, valid.as_ref(), window);
            return Ok(());
        }
        let job = copy_job(
            self.request,
            self.bases[m.stripe],
            (m.stripe, m.column),
            rows,
            to,
            valid,
        )?;
        self.out.jobs.push(CopyJob { window, ..job });
        Ok(())
    }

    /// Divides what is transient into windows of whole tiles, and those into chunks.
    fn windows(&mut self, transient: &[Missing]) -> Result<(), RunError> {
        let total = self.bases.last().copied().unwrap_or(0);
        let Some(piece) = self.out.transient.clone().filter(|_| !transient.is_empty()) else {
            self.out.window_ends = vec![total];
            return Ok(());
        };
        let half = piece.len / 2 / 64 * 64;
        let mut by_stripe: Vec<Vec<Missing>> = vec![Vec::new(); self.places.len()];
        transient.iter().for_each(|m| by_stripe[m.stripe].push(*m));
        let (mut window, mut used) = (0, 0);
        for (stripe, missing) in by_stripe.iter().enumerate().filter(|(_, m)| !m.is_empty()) {
            for range in self.request.input.stripes[stripe].selected.clone() {
                let mut first = range.start;
                while first < range.end {
                    let mut rows = self.rows_that_fit(missing, half - used).min(range.end - first);
                    if rows == 0 {
                        if used == 0 {
                            return Err(self.too_little_memory());
                        }
                        self.out.window_ends.push(self.bases[stripe] + first);
                        (window, used) = (window + 1, 0);
                        continue;
                    }
                    if first + rows < range.end {
                        rows = rows / self.means.tile_rows * self.means.tile_rows;
                    }
                    let at = (window % 2) * half + used;
                    used += self.bring_chunk(missing, first..first + rows, &piece, at, window)?;
                    first += rows;
                }
            }
        }
        self.out.window_ends.push(total);
        self.place_residents_in_windows();
        Ok(())
    }

    /// Rows of which all the columns fit into so many bytes: whole tiles.
    fn rows_that_fit(&self, missing: &[Missing], bytes: usize) -> u64 {
        let row: u64 = missing
            .iter()
            .map(|m| u64::from(self.ty(m.column).width()) + u64::from(m.valid.is_some()))
            .sum();
        let margins = missing.len() as u64 * 128;
        let rows = (bytes as u64).saturating_sub(margins) / row.max(1);
        (rows / self.means.tile_rows * self.means.tile_rows)
            .min(MAX_COPY_ROWS / self.means.tile_rows * self.means.tile_rows)
    }

    /// Jobs for rows of a stripe's transient columns; returns the bytes they take.
    fn bring_chunk(
        &mut self,
        missing: &[Missing],
        rows: Range<u64>,
        piece: &DeviceRange,
        at: usize,
        window: usize,
    ) -> Result<usize, RunError> {
        let count = (rows.end - rows.start) as usize;
        let mut next = at;
        let mut take = |bytes: usize| {
            let offset = next;
            next = (next + bytes).next_multiple_of(64);
            offset
        };
        for m in missing {
            let values = take(count * self.ty(m.column).width() as usize);
            let valid = m.valid.map(|_| take(count));
            let valid_target = valid.map(|offset| CopyTarget::within(piece, offset));
            self.job(m, rows.clone(), CopyTarget::within(piece, values), valid_target, window)?;
            let place = &mut self.places[m.stripe][m.column];
            let chunk = (rows.clone(), values, valid);
            match place {
                ColumnLocation::Transient(chunks) => chunks.push(chunk),
                _ => *place = ColumnLocation::Transient(vec![chunk]),
            }
        }
        Ok(next - at)
    }

    /// Columns that are kept come in the order of rows too: their jobs belong to the window in which their first row is wanted.
    fn place_residents_in_windows(&mut self) {
        let ends = &self.out.window_ends;
        for job in &mut self.out.jobs {
            let window = ends.partition_point(|end| *end <= job.first_row);
            job.window = window.min(ends.len().saturating_sub(1));
        }
    }
}
