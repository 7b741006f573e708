//! `TransferPlan`: where each column's values will be when kernels read them, and the copy jobs that fill what is
//! missing.
//!
//! 1. Every stripe's columns are looked up: in the pool, in registered mappings, among constants (`ColumnLocator`).
//! 2. The pool takes as much memory from the driver as the missing columns need.
//! 3. The input is asked how the missing columns are stored, for those that the device decodes (`EncodedColumns`).
//! 4. Space in the pool is reserved for columns that are loaded whole; the rest streams through windows.
//! 5. For paged columns, space is reserved without loading anything (`page_reservation`). If something streams, or if
//!    the space does not suffice, paged columns are loaded like the others: a streamed pass cannot be replayed.
//! 6. Streamed columns are divided into windows (`WindowPlan`).
//! 7. Jobs are sorted by window and row. Those with encoded bytes get their slots in the staging buffer.
//! 8. Each column's extents are collected, as kernels see them (`ExtentMap`).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grampus_cuda::Device;

use crate::abi::paging::PAGE_BYTES;
use crate::error::RunError;
use crate::input::file_registry::FileId;
use crate::options::{Backing, Place, Request};
use crate::runtime::memory::buffer_pool::{BufferPool, QueryId};
use crate::runtime::memory::constant_columns::ConstantColumns;
use crate::runtime::memory::page_table::PageTable;
use crate::runtime::memory::staging_buffer::StagingBuffer;
use crate::runtime::transfer::column_locator::{ColumnLocator, MissingColumn, MissingColumns};
use crate::runtime::transfer::copy_job::{CopyJob, CopySource};
use crate::runtime::transfer::encoded_columns::{CpuDecodeSet, EncodedColumns};
use crate::runtime::transfer::extent_map::ExtentMap;
use crate::runtime::transfer::job_list::JobList;
use crate::runtime::transfer::page_reservation::{drop_pages, reserve_pages};
use crate::runtime::transfer::window_plan::WindowPlan;

/// The resources and facts that a plan is made with.
pub(crate) struct TransferContext<'a> {
    pub(crate) device: &'a Device,
    /// Locked step by step, and never while files are read.
    pub(crate) pool: &'a Mutex<BufferPool>,
    pub(crate) query: QueryId,
    pub(crate) constants: &'a Mutex<ConstantColumns>,
    /// By file of the input.
    pub(crate) file_ids: &'a [FileId],
    /// By file of the input: its pages are not in the page cache.
    pub(crate) cold: &'a [bool],
    /// By file of the input: device address of byte 0 of its registered mapping.
    pub(crate) mapped: &'a [Option<u64>],
    /// By column of the program.
    pub(crate) backings: &'a [Backing],
    /// Memory for windows is taken before columns are reserved, even if they should fit: an attempt without has failed.
    pub(crate) windows_first: bool,
    /// Windows end where tiles of so many rows do.
    pub(crate) tile_rows: u64,
    pub(crate) staging: &'a mut StagingBuffer,
    /// Columns that the device does not decode.
    pub(crate) cpu_decode: &'a CpuDecodeSet<'a>,
    /// Threads that may ask how columns are stored.
    pub(crate) threads: usize,
}

impl TransferContext<'_> {
    fn pool(&self) -> MutexGuard<'_, BufferPool> {
        // A panic ends the device's state.
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Everything that is copied for a query, and where it will be.
#[derive(Debug)]
pub(crate) struct TransferPlan {
    /// By column of the program.
    pub(crate) columns: Arc<Vec<ExtentMap>>,
    pub(crate) jobs: Vec<CopyJob>,
    pub(crate) windows: WindowPlan,
    /// Bytes of columns that were on the device before the query.
    pub(crate) resident_bytes: u64,
    /// Columns of which pages are loaded when kernels miss them.
    pub(crate) page_table: PageTable,
}

impl TransferPlan {
    pub(crate) fn new(request: &Request<'_>, context: &mut TransferContext<'_>) -> Result<Self, RunError> {
        let mut columns = ColumnLocator::new(request, context.file_ids);
        let encoded = EncodedColumns::new(request, context.file_ids, context.cpu_decode);
        let mut jobs = JobList::new(request, encoded);
        let MissingColumns { loaded, paged } = {
            let mut pool = context.pool();
            let missing = columns.locate((&mut pool, context.query), context.mapped, context.backings);
            expect_space(&columns, &missing.loaded, &missing.paged, &mut pool)?;
            missing
        };
        jobs.encoded.look_up(&loaded, context.threads);

        let mut windows = WindowPlan::default();
        let faults = !paged.is_empty();
        let pages: u64 = paged.iter().map(WindowPlan::filled_by).sum();
        let mut streamed = reserve(&mut columns, &mut jobs, &mut windows, loaded, context, (faults, pages))?;
        let reserved = match streamed.is_empty() {
            true => {
                let pool = (&mut *context.pool(), context.query);
                reserve_pages(&mut columns, &jobs.encoded, pool, &paged)?
            }
            false => None,
        };
        let page_table = match reserved {
            Some(page_table) => page_table,
            None => {
                drop_pages(&mut columns, (&mut context.pool(), context.query), &paged);
                jobs.encoded.look_up(&paged, context.threads);
                streamed.extend(reserve(
                    &mut columns,
                    &mut jobs,
                    &mut windows,
                    paged,
                    context,
                    (faults, 0),
                )?);
                PageTable::default()
            }
        };
        let capacity = context.pool().capacity();
        windows.divide(&mut columns, &mut jobs, &streamed, context.tile_rows, capacity)?;

        let mut jobs = jobs.jobs;
        jobs.sort_by_key(|job| (job.window, job.first_row));
        assign_staging(&mut jobs, context)?;
        let extents = |column| ExtentMap::new(column, &columns, &windows, context.device, context.constants);
        Ok(Self {
            columns: Arc::new(
                (0..request.program.columns.len())
                    .map(extents)
                    .collect::<Result<_, _>>()?,
            ),
            jobs,
            resident_bytes: columns.cached_bytes + page_table.resident_bytes(),
            windows,
            page_table,
        })
    }
}

impl TransferPlan {
    /// The plan for columns that are all resident. `window_ends`: as in [`WindowPlan`].
    pub(crate) fn resident(columns: &Arc<Vec<ExtentMap>>, window_ends: &[u64], resident_bytes: u64) -> Self {
        Self {
            columns: Arc::clone(columns),
            jobs: Vec::new(),
            windows: WindowPlan {
                ends: window_ends.to_vec(),
                memory: None,
            },
            resident_bytes,
            page_table: PageTable::default(),
        }
    }

    /// Files of the input that are read.
    pub(crate) fn files(&self, request: &Request<'_>) -> impl Iterator<Item = usize> {
        let of_stripe = |stripe: usize| request.input.stripes[stripe].file;
        let of_job = |job: &CopyJob| match &job.source {
            CopySource::FileRanges { file, .. } => *file,
            CopySource::CpuDecode { stripe, .. } => of_stripe(*stripe),
            CopySource::Encoded(copy) => copy.file,
        };
        let jobs = self.jobs.iter().map(of_job);
        let pages = self.page_table.columns.iter().map(|column| of_stripe(column.stripe));
        jobs.chain(pages).collect::<BTreeSet<usize>>().into_iter()
    }
}

/// Tells the pool how much will be reserved.
fn expect_space(
    columns: &ColumnLocator<'_>,
    loaded: &[MissingColumn],
    paged: &[MissingColumn],
    pool: &mut BufferPool,
) -> Result<(), RunError> {
    // With a bit for each page, and what rounding adds.
    let space = |m: &MissingColumn| m.bytes() + m.bytes() / (8 * PAGE_BYTES) + 64;
    // A partially resident column has its space.
    let is_new = |m: &&MissingColumn| !pool.has_pages(&columns.key(m));
    let whole = loaded.iter().filter(|m| m.whole);
    let spaces: Vec<u64> = whole.chain(paged.iter().filter(is_new)).map(space).collect();
    // Space for one column more: the free space may end with a remainder smaller than a column.
    let bytes = spaces.iter().sum::<u64>() + spaces.iter().max().unwrap_or(&0);
    Ok(pool.expect(bytes)?)
}

/// A query that does not fit in device memory leaves the pool's n-th part to queries beside it.
const SHARE_LEFT: u64 = 8;

/// Reserves space in the pool for as many columns as fit, with jobs that fill it. The others, returned, stream through
/// windows. `faults`: kernels may miss pages meanwhile. `later`: bytes of columns that are reserved afterwards, and
/// stream if they do not fit.
fn reserve(
    columns: &mut ColumnLocator<'_>,
    jobs: &mut JobList<'_>,
    windows: &mut WindowPlan,
    missing: Vec<MissingColumn>,
    context: &TransferContext<'_>,
    (faults, later): (bool, u64),
) -> Result<Vec<MissingColumn>, RunError> {
    let need: u64 = missing.iter().map(MissingColumn::bytes).sum();
    let (mut guard, query) = (context.pool(), context.query);
    let pool = &mut *guard;
    let available = pool.available(query);
    let fit = need.saturating_add(later) <= available;
    let all_fit = fit && !context.windows_first && missing.iter().all(|m| m.whole);
    // The windows' memory comes first: without it nothing runs.
    let mut left = match all_fit {
        true => available,
        false => available.saturating_sub(WindowPlan::bytes_of(available) + available / SHARE_LEFT),
    };
    if !all_fit {
        let bytes = missing.iter().map(WindowPlan::filled_by).sum::<u64>() + later;
        windows.take_memory((pool, query), bytes, available)?;
    }
    let mut streamed = Vec::new();
    for m in missing {
        match columns.reserve((pool, query), &m, left)? {
            Some(cached) => {
                left -= m.bytes();
                let beside_faults = faults && is_in_page_cache(columns.request, &m, context.cold);
                jobs.add_column(&m, &cached, beside_faults)?;
            }
            None => streamed.push(m),
        }
    }
    if !streamed.is_empty() {
        let bytes = streamed.iter().map(WindowPlan::filled_by).sum::<u64>() + later;
        windows.take_memory((pool, query), bytes, available)?;
    }
    Ok(streamed)
}

/// Whether the column's values are in the page cache as kernels read them.
fn is_in_page_cache(request: &Request<'_>, missing: &MissingColumn, cold: &[bool]) -> bool {
    let stripe = &request.input.stripes[missing.stripe];
    matches!(request.place(stripe, missing.column), Place::Raw(_)) && !cold[stripe.file]
}

/// Gives the jobs with encoded bytes their slots in the staging buffer.
fn assign_staging(jobs: &mut [CopyJob], context: &mut TransferContext<'_>) -> Result<(), RunError> {
    let encoded_bytes = |job: &CopyJob| match &job.source {
        CopySource::Encoded(copy) => copy.batch.space,
        CopySource::FileRanges { .. } | CopySource::CpuDecode { .. } => 0,
    };
    let lengths: Vec<usize> = jobs.iter().map(encoded_bytes).collect();
    let slots = context.staging.assign(context.device, &lengths)?;
    for (job, slot) in jobs.iter_mut().zip(slots) {
        if let CopySource::Encoded(copy) = &mut job.source {
            copy.staged = slot;
        }
    }
    Ok(())
}
