//! `FaultHandler`: the pages that kernels miss are loaded while these run.
//!
//! 1. A thread takes page numbers from the fault buffer (`FaultReader`), sorts them, and divides them into batches.
//! 2. Raw pages: the thread reads a batch into a slot (`PageReader`). Row groups: the thread gathers their stored bytes
//!    for the device, or the CPU decodes them (`GroupLoader`).
//! 3. A kernel in a stream of its own puts raw pages in their places, and notes all of the batch's pages as come.
//! 4. When a pass has ended, the host waits until all of its entries are placed (`finish_pass`). The CPU decodes row
//!    groups that the device could not decode.
//! 5. A kernel in the query's stream publishes the pages that have come.
//!
//! **Invariant:** no kernel of the query sees a page come while it runs; the next one sees it whole.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use grampus_cuda::{Args, CudaError, Device, Event, Module, PinnedBuffer, Slot, Stream};
use grampus_io_stack::abi::bytes_of;

use crate::abi::paging::{PAGE_BYTES, PLACE_PAGES, PUBLISH_PAGES, PageBatch, PageMove, PagesCame};
use crate::codegen::{BLOCK_THREADS, GPU_LANES};
use crate::error::RunError;
use crate::options::Request;
use crate::runtime::decoding::decode_context::DecodeContext;
use crate::runtime::memory::page_table::{PageTable, PagedColumn};
use crate::runtime::paging::fault_buffer::FaultReader;
use crate::runtime::paging::group_loader::{Gathered, GroupLoader};
use crate::runtime::paging::page_decoder::PageDecoder;
use crate::runtime::paging::page_reader::{OpenFile, PageReader};
use crate::runtime::paging::page_resources::{BATCH_PAGES, PageResources};
use crate::runtime::paging::stored_columns::StoredColumns;
use crate::runtime::transfer::uploader::Uploader;

/// While kernels run, threads wait for at least so many entries. Row groups take much longer each.
const MIN_TAKEN_PAGES: usize = 1 << 10;
const MIN_TAKEN_GROUPS: usize = 1 << 4;
/// Row groups that a thread gathers for the device at once, at most; and at least, if there are so many: each gather
/// is a copy and a launch.
const MAX_GATHERED_GROUPS: usize = 1 << 8;
const MIN_GATHERED_GROUPS: usize = 1 << 4;
/// Row groups that a thread decodes at once: each takes long enough.
const DECODED_GROUPS: usize = 4;
/// Interval of looks whether kernels have missed more.
const FAULT_POLL: Duration = Duration::from_micros(300);

/// The progress of a pass's faults.
#[derive(Debug, Default)]
struct FaultProgress {
    /// All entries of the pass, once its kernels have ended.
    listed: Option<usize>,
    /// Pages whose placing is enqueued.
    placed: usize,
    /// Row groups, and batches of raw pages in ascending order, that were taken and that no thread works on.
    groups: VecDeque<u32>,
    batches: VecDeque<Vec<u32>>,
    /// Row groups that the CPU decodes; and those among the placed ones that the device could not decode.
    for_cpu: VecDeque<u32>,
    failed_groups: VecDeque<u32>,
    stopped: bool,
    failed: Option<RunError>,
}

impl FaultProgress {
    /// The next work, of which each of so many threads gets its share.
    fn at_hand(&mut self, threads: usize) -> Option<FaultWork> {
        let next = |queue: &mut VecDeque<u32>, most: usize| -> Option<Vec<u32>> {
            let count = queue.len().min(most);
            (count > 0).then(|| queue.drain(..count).collect())
        };
        if let Some(groups) = next(&mut self.failed_groups, DECODED_GROUPS) {
            return Some(FaultWork::FailedGroups(groups));
        }
        if let Some(groups) = next(&mut self.for_cpu, DECODED_GROUPS) {
            return Some(FaultWork::GroupsForCpu(groups));
        }
        let share = self.groups.len().div_ceil(threads.max(1));
        let share = share.clamp(MIN_GATHERED_GROUPS, MAX_GATHERED_GROUPS);
        if let Some(groups) = next(&mut self.groups, share) {
            return Some(FaultWork::Groups(groups));
        }
        self.batches.pop_front().map(FaultWork::Pages)
    }

    fn is_idle(&self) -> bool {
        let queues = [&self.groups, &self.for_cpu, &self.failed_groups];
        queues.iter().all(|queue| queue.is_empty()) && self.batches.is_empty()
    }
}

/// The arguments of the paging kernels, known when the first query kernel is launched.
#[derive(Debug)]
struct PageKernels {
    module: Arc<Module>,
    /// Addresses of the columns' descriptions, and of the bits of pages that have come.
    pieces: u64,
    came: u64,
}

/// Work that was done.
#[derive(Debug, Default)]
pub(crate) struct FaultCounters {
    pub(crate) pages: AtomicU64,
    pub(crate) page_bytes: AtomicU64,
    pub(crate) ns: AtomicU64,
}

/// The faults of one query.
pub(crate) struct FaultHandler<'a> {
    request: &'a Request<'a>,
    paging: &'a PageTable,
    uploader: &'a Uploader<'a>,
    loader: GroupLoader<'a>,
    /// The query's stream.
    compute: &'a Stream,
    pages: &'a PageResources,
    /// The fault buffer.
    list: Arc<PinnedBuffer>,
    device: &'a Device,
    threads: usize,
    kernels: OnceLock<PageKernels>,
    /// Not under the lock of `progress`: taking thousands of entries takes a while.
    entries: FaultReader,
    progress: Mutex<FaultProgress>,
    changed: Condvar,
    pub(crate) done: FaultCounters,
}

/// The next work of a thread.
enum FaultWork {
    /// Entries of the fault buffer, to be sorted and divided into batches.
    Taken(Vec<u32>),
    Pages(Vec<u32>),
    /// Row groups, for the device if it can decode them.
    Groups(Vec<u32>),
    GroupsForCpu(Vec<u32>),
    FailedGroups(Vec<u32>),
}

impl<'a> FaultHandler<'a> {
    /// `decoding`: in the stream of `pages`. `threads`: so many load pages.
    ///
    /// # Errors
    /// Without memory for the fault buffer.
    pub(crate) fn new(
        request: &'a Request<'a>,
        stored: StoredColumns<'a>,
        (paging, pages): (&'a PageTable, &'a PageResources),
        uploader: &'a Uploader<'a>,
        compute: &'a Stream,
        decoding: DecodeContext<'a>,
        threads: usize,
    ) -> Result<Self, CudaError> {
        let few = match paging.columns.iter().all(|p| p.layout.raw) {
            true => MIN_TAKEN_PAGES,
            false => MIN_TAKEN_GROUPS,
        };
        let list = pages.faults.take()?;
        let entries = FaultReader::new(list.clone(), few, threads);
        let loader = GroupLoader {
            request,
            paging,
            uploader,
            stored,
            decoder: PageDecoder::new(decoding, &pages.staging, (uploader.stream, uploader.ring)),
            first_rows: request.input.first_rows(),
        };
        Ok(Self {
            loader,
            request,
            paging,
            uploader,
            compute,
            pages,
            list,
            device: decoding.device,
            threads,
            kernels: OnceLock::new(),
            entries,
            progress: Mutex::default(),
            changed: Condvar::new(),
            done: FaultCounters::default(),
        })
    }

    fn progress(&self) -> MutexGuard<'_, FaultProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'g>(&self, progress: MutexGuard<'g, FaultProgress>) -> MutexGuard<'g, FaultProgress> {
        let waited = self.changed.wait_timeout(progress, FAULT_POLL);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// The fault buffer.
    pub(crate) fn list(&self) -> &PinnedBuffer {
        &self.list
    }

    /// Before the first kernel: the module with [`PLACE_PAGES`], and the addresses of the columns' descriptions and of
    /// the bits of pages that have come.
    pub(crate) fn launching(&self, module: Arc<Module>, pieces: u64, came: u64) {
        let _ = self.kernels.set(PageKernels { module, pieces, came });
    }

    fn kernels(&self) -> Result<&PageKernels, RunError> {
        let kernels = self.kernels.get();
        kernels.ok_or_else(|| RunError::Invalid("pages are missed before a kernel was launched".to_owned()))
    }

    /// Stops: no further page is begun.
    pub(crate) fn stop(&self) {
        self.progress().stopped = true;
        self.changed.notify_all();
    }

    /// The kernels of a pass have ended and missed `missed` pages. Waits until those in the fault buffer are placed.
    /// Kernels enqueued afterwards in the query's stream find them.
    ///
    /// # Errors
    /// Why one of the pages cannot be loaded.
    pub(crate) fn finish_pass(&self, missed: usize) -> Result<(), RunError> {
        let listed = missed.min(self.list.len() / 4);
        self.progress().listed = Some(listed);
        loop {
            self.changed.notify_all();
            self.wait_for_placed(listed)?;
            let failed = self.loader.finish()?;
            let mut progress = self.progress();
            if failed.is_empty() {
                (progress.placed, progress.listed) = (0, None);
                break;
            }
            progress.placed -= failed.len();
            progress.failed_groups.extend(failed);
        }
        self.entries.again();
        self.publish()
    }

    /// Waits until so many pages are placed.
    fn wait_for_placed(&self, listed: usize) -> Result<(), RunError> {
        let mut progress = self.progress();
        loop {
            if let Some(e) = progress.failed.take() {
                return Err(e);
            }
            if progress.stopped || self.uploader.stopped() {
                return Err(RunError::Cancelled);
            }
            if progress.placed >= listed {
                return Ok(());
            }
            progress = self.wait(progress);
        }
    }

    /// Publishes all pages that have come.
    fn publish(&self) -> Result<(), RunError> {
        let kernels = self.kernels()?;
        // Decoded row groups come by copies.
        for stream in [&self.pages.placing, self.uploader.stream] {
            let done = Event::new(self.device, false)?;
            done.record(stream)?;
            self.compute.wait(&done)?;
        }
        let what = PagesCame {
            pieces: kernels.pieces,
            came: kernels.came,
            count: (self.paging.program_columns.len() * self.request.input.stripes.len()) as u32,
            pad0: 0,
        };
        let blocks = what.count.div_ceil(BLOCK_THREADS / GPU_LANES).max(1);
        let kernel = kernels.module.kernel(PUBLISH_PAGES)?;
        let mut args = Args::new().with_bytes(&bytes_of(&what));
        kernel.launch(self.compute, blocks, BLOCK_THREADS, &mut args)?;
        for column in &self.paging.columns {
            let came = column.came.swap(0, Ordering::Relaxed);
            column.published.fetch_add(came, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The work of a paging thread, until it is stopped.
    pub(crate) fn work(&self, file: &mut OpenFile) {
        while let Some(work) = self.next(true) {
            self.perform(work, file);
        }
    }

    /// One step of [`work`](Self::work), for a thread that has other work too. False: there was nothing to do.
    pub(crate) fn step(&self, file: &mut OpenFile) -> bool {
        let work = self.next(false);
        let some = work.is_some();
        work.into_iter().for_each(|work| self.perform(work, file));
        some
    }

    fn perform(&self, work: FaultWork, file: &mut OpenFile) {
        let began = Instant::now();
        let done = match work {
            FaultWork::Taken(pages) => self.divide(pages).map(|()| 0),
            FaultWork::Pages(pages) => self.pages(&pages, file),
            FaultWork::Groups(groups) => self.groups(&groups, file),
            FaultWork::GroupsForCpu(groups) => self.groups_by_cpu(&groups),
            FaultWork::FailedGroups(groups) => self.loader.decode_by_cpu(&groups),
        };
        let spent = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.done.ns.fetch_add(spent, Ordering::Relaxed);
        let mut progress = self.progress();
        match done {
            Ok(count) => progress.placed += count,
            Err(e) => {
                progress.failed.get_or_insert(e);
                progress.stopped = true;
            }
        }
        // While kernels run, no thread waits for this.
        let awaited = progress.listed.is_some() || progress.stopped;
        drop(progress);
        if awaited {
            self.changed.notify_all();
        }
    }

    /// The next work; `None`: stopped, or, if the thread does not wait, nothing to do.
    fn next(&self, waits: bool) -> Option<FaultWork> {
        loop {
            let mut progress = self.progress();
            if progress.stopped || self.uploader.stopped() {
                return None;
            }
            if let Some(work) = progress.at_hand(self.threads) {
                return Some(work);
            }
            drop(progress);
            if let Some(pages) = self.take() {
                return Some(FaultWork::Taken(pages));
            }
            if !waits {
                return None;
            }
            progress = self.progress();
            if progress.is_idle() && !progress.stopped {
                drop(self.wait(progress));
            }
        }
    }

    /// Entries of the fault buffer, unless another thread is taking some.
    fn take(&self) -> Option<Vec<u32>> {
        match self.entries.take(|| self.progress().listed) {
            Ok(pages) => Some(pages).filter(|pages| !pages.is_empty()),
            Err(e) => {
                let mut progress = self.progress();
                progress.failed.get_or_insert(e);
                progress.stopped = true;
                self.changed.notify_all();
                None
            }
        }
    }

    /// Offers taken entries to all threads: row groups, and batches of raw pages with neighbours together.
    fn divide(&self, mut pages: Vec<u32>) -> Result<(), RunError> {
        pages.sort_unstable();
        let (mut raw, mut groups) = (Vec::with_capacity(pages.len()), Vec::new());
        let mut before = None;
        for page in pages {
            let (column, _) = self.page(page, before)?;
            match column.layout.raw {
                true => raw.push(page),
                false => groups.push(page),
            }
            before = Some(column);
        }
        let mut progress = self.progress();
        progress.groups.extend(groups);
        progress.batches.extend(raw.chunks(BATCH_PAGES).map(<[u32]>::to_vec));
        drop(progress);
        self.changed.notify_all();
        Ok(())
    }

    /// The column that has a page, and the index of the page in it; mostly it is the column of the page before.
    fn page<'s>(&'s self, page: u32, before: Option<&'s PagedColumn>) -> Result<(&'s PagedColumn, u32), RunError> {
        let found = match before.and_then(|column| column.page(page).map(|at| (column, at))) {
            None => self.paging.find(page),
            same => same,
        };
        found.ok_or_else(|| RunError::Invalid(format!("a kernel misses page {page} of {}", self.paging.pages)))
    }

    /// Loads raw pages, in ascending order. Returns how many were placed.
    fn pages(&self, pages: &[u32], file: &mut OpenFile) -> Result<usize, RunError> {
        let mut raw: Vec<(&PagedColumn, u32)> = Vec::with_capacity(pages.len());
        for &page in pages {
            raw.push(self.page(page, raw.last().map(|(column, _)| *column))?);
        }
        let Some(mut slot) = self.pages.slots.take(|| self.uploader.stopped())? else {
            return Ok(0);
        };
        let reader = PageReader {
            request: self.request,
            sources: self.uploader.sources,
        };
        let bytes = match reader.read(&raw, slot.bytes_mut(), file) {
            Ok(bytes) => bytes,
            Err(e) => {
                self.pages.slots.unused(slot);
                return Err(e);
            }
        };
        self.done.page_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.place(slot, raw.len() * PAGE_BYTES as usize, &raw, raw.len())
            .inspect_err(|_| self.pages.slots.lost())?;
        Ok(raw.len())
    }

    /// Gathers row groups for the device, and leaves those that it cannot decode to the CPU. Returns how many were
    /// placed.
    fn groups(&self, groups: &[u32], file: &mut OpenFile) -> Result<usize, RunError> {
        let Gathered { gathered, for_cpu } = self.loader.gather(groups, file)?;
        self.progress().for_cpu.extend(for_cpu);
        self.place_groups(&gathered)
    }

    /// Has the CPU decode row groups. Returns how many were placed.
    fn groups_by_cpu(&self, groups: &[u32]) -> Result<usize, RunError> {
        let decoded = self.loader.decode_by_cpu(groups)?;
        self.place_groups(&groups[..decoded])
    }

    /// Notes row groups as come, whose values come by other streams. Returns how many were placed.
    fn place_groups(&self, groups: &[u32]) -> Result<usize, RunError> {
        let placed: Vec<(&PagedColumn, u32)> = groups.iter().filter_map(|group| self.paging.find(*group)).collect();
        if placed.is_empty() {
            return Ok(0);
        }
        let Some(slot) = self.pages.slots.take(|| self.uploader.stopped())? else {
            return Ok(0);
        };
        self.place(slot, 0, &placed, 0)
            .inspect_err(|_| self.pages.slots.lost())?;
        Ok(placed.len())
    }

    /// Time that the device took to decode row groups, once everything has ended, and time to load kernels for it.
    pub(crate) fn decoding_times(&self) -> (Duration, Duration) {
        self.loader.decoder.times()
    }

    /// Puts the first `raw` of the pages in their places, and notes all of them as come. The moves are written to the
    /// slot from `at` on, behind the values.
    fn place(&self, mut slot: Slot, at: usize, pages: &[(&PagedColumn, u32)], raw: usize) -> Result<(), RunError> {
        let kernels = self.kernels()?;
        let moves = slot.bytes_mut()[at..].chunks_exact_mut(size_of::<PageMove>());
        for ((column, page), to) in pages.iter().zip(moves) {
            let (column, page) = (column.description, *page);
            to.copy_from_slice(&bytes_of(&PageMove { piece: column, page }));
        }
        let batch = PageBatch {
            pieces: kernels.pieces,
            moves: slot.address() + at as u64,
            values: slot.address(),
            came: kernels.came,
            count: pages.len() as u32,
            raw: raw as u32,
        };
        let words = pages.len() as u64 * (PAGE_BYTES / 8);
        let most = u64::from(self.device.multiprocessors().max(1));
        let blocks = words.div_ceil(u64::from(BLOCK_THREADS)).clamp(1, most) as u32;
        let kernel = kernels.module.kernel(PLACE_PAGES)?;
        let mut args = Args::new().with_bytes(&bytes_of(&batch));
        kernel.launch(&self.pages.placing, blocks, BLOCK_THREADS, &mut args)?;
        let lent = slot.lend(&self.pages.placing)?;
        self.pages.slots.pushed(lent);
        // Once for neighbours: their counters lie side by side, and every thread counts there.
        for same in pages.chunk_by(|a, b| std::ptr::eq(a.0, b.0)) {
            same[0].0.came.fetch_add(same.len() as u32, Ordering::Relaxed);
        }
        self.done.pages.fetch_add(pages.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}
