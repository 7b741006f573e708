//! Bringing the pages that kernels miss, while they run: threads take their numbers from the list, read or decode what they stand for,
//! and have a kernel put it in its place, in a stream of its own. When a pass is over, a kernel in the query's stream says that all this is there:
//! no kernel of the query sees a page come while it runs, and the next one sees it whole. What a page is, is pages.rs's business; passes are
//! passes.rs's.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use grampus_io_stack::cuda::{Args, Device, Event, Module, PinnedBuffer, Slot, Stream};
use grampus_io_stack::layout::bytes_of;

use crate::abi::paging::{PAGE_BYTES, PLACE_PAGES, PUBLISH_PAGES, PageBatch, PageMove, PagesCame};
use crate::codegen::{BLOCK_THREADS, GPU_LANES};
use crate::error::RunError;
use crate::options::Request;
use crate::runtime::memory::copy_target::CopyTarget;
use crate::runtime::memory::page_table::{PageTable, PagedColumn};
use crate::runtime::memory::pinned_ring::PinnedRing;
use crate::runtime::paging::fault_buffer::FaultReader;
use crate::runtime::paging::page_reader::{OpenFile, PageReader, rows_of};
use crate::runtime::transfer::copy_job::MAX_COPY_ROWS;
use crate::runtime::transfer::copy_job::copy_job;
use crate::runtime::transfer::uploader::Uploader;

/// Pages of a batch, which one thread reads: the pass ends when the last of them has been read, and a page takes about a microsecond.
const BATCH_PAGES: usize = 2 << 10;
/// While kernels run, fewer are worth waiting for more; row groups take much longer each.
const MIN_TAKEN_PAGES: usize = 1 << 10;
const MIN_TAKEN_GROUPS: usize = 1 << 4;
/// Row groups of a batch: each takes long enough to decode.
const BATCH_GROUPS: usize = 4;
/// How often it is looked whether kernels have missed more.
const FAULT_POLL: Duration = Duration::from_micros(300);
/// Bytes of a slot.
pub(crate) const SLOT_BYTES: usize = BATCH_PAGES * (PAGE_BYTES as usize + size_of::<PageMove>());

/// How far a pass's misses have been dealt with.
#[derive(Debug, Default)]
struct FaultProgress {
    /// All entries of the pass, once its kernels have ended.
    listed: Option<usize>,
    /// Pages whose placing is in the stream.
    placed: usize,
    /// Row groups, and batches of raw pages in ascending order, that were taken and are in nobody's hands.
    groups: VecDeque<u32>,
    batches: VecDeque<Vec<u32>>,
    stopped: bool,
    failed: Option<RunError>,
}

impl FaultProgress {
    fn at_hand(&mut self) -> Option<FaultWork> {
        if !self.groups.is_empty() {
            let count = self.groups.len().min(BATCH_GROUPS);
            return Some(FaultWork::Groups(self.groups.drain(..count).collect()));
        }
        self.batches.pop_front().map(FaultWork::Pages)
    }
}

/// What kernels are given, known when the first is launched.
#[derive(Debug)]
struct PageKernels {
    module: Arc<Module>,
    /// Addresses of the descriptions of pieces, and of the bits of pages that have come.
    pieces: u64,
    came: u64,
}

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct FaultCounters {
    pub(crate) pages: AtomicU64,
    pub(crate) page_bytes: AtomicU64,
    pub(crate) ns: AtomicU64,
}

/// What gathering works with.
pub(crate) struct FaultContext<'a> {
    pub(crate) device: &'a Device,
    pub(crate) compute: &'a Stream,
    pub(crate) copy: &'a Stream,
    /// Where pages are put in their places, from slots of [`SLOT_BYTES`].
    pub(crate) placing: &'a Stream,
    pub(crate) slots: &'a PinnedRing,
    pub(crate) list: Arc<PinnedBuffer>,
    pub(crate) threads: usize,
}

/// The misses of one query.
pub(crate) struct FaultHandler<'a> {
    request: &'a Request<'a>,
    paging: &'a PageTable,
    uploader: &'a Uploader<'a>,
    means: FaultContext<'a>,
    bases: Vec<u64>,
    launched: OnceLock<PageKernels>,
    /// Not under the lock of what follows: taking thousands takes a while.
    entries: FaultReader,
    progress: Mutex<FaultProgress>,
    changed: Condvar,
    pub(crate) done: FaultCounters,
}

/// What a thread does next.
enum FaultWork {
    /// Numbers from the list, to be sorted and divided into batches.
    Taken(Vec<u32>),
    Pages(Vec<u32>),
    Groups(Vec<u32>),
}

impl<'a> FaultHandler<'a> {
    pub(crate) fn new(
        request: &'a Request<'a>,
        paging: &'a PageTable,
        uploader: &'a Uploader<'a>,
        means: FaultContext<'a>,
    ) -> Self {
        let few = match paging.columns.iter().all(|p| p.layout.raw) {
            true => MIN_TAKEN_PAGES,
            false => MIN_TAKEN_GROUPS,
        };
        let entries = FaultReader::new(means.list.clone(), few, means.threads);
        Self {
            bases: request.input.first_rows(),
            request,
            paging,
            uploader,
            means,
            launched: OnceLock::new(),
            entries,
            progress: Mutex::default(),
            changed: Condvar::new(),
            done: FaultCounters::default(),
        }
    }

    fn progress(&self) -> MutexGuard<'_, FaultProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'g>(&self, progress: MutexGuard<'g, FaultProgress>) -> MutexGuard<'g, FaultProgress> {
        let waited = self.changed.wait_timeout(progress, FAULT_POLL);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// The list in which kernels write what they miss.
    pub(crate) fn list(&self) -> &PinnedBuffer {
        &self.means.list
    }

    /// Before the first kernel: the module that has [`PLACE_PAGES`], and where the pieces' descriptions are, and the bits of what has come.
    pub(crate) fn launching(&self, module: Arc<Module>, pieces: u64, came: u64) {
        let _ = self.launched.set(PageKernels { module, pieces, came });
    }

    fn launched(&self) -> Result<&PageKernels, RunError> {
        let launched = self.launched.get();
        launched.ok_or_else(|| RunError::Invalid("pages are missed before a kernel was launched".to_owned()))
    }

    /// No further page is begun.
    pub(crate) fn stop(&self) {
        self.progress().stopped = true;
        self.changed.notify_all();
    }

    /// A pass is over whose kernels missed `missed` pages: waits until those in the list are on their way, and lets whatever is put into
    /// the query's stream next find them there.
    ///
    /// # Errors
    /// Why one of them cannot be brought.
    pub(crate) fn finish_pass(&self, missed: usize) -> Result<(), RunError> {
        let listed = missed.min(self.means.list.len() / 4);
        let mut progress = self.progress();
        progress.listed = Some(listed);
        self.changed.notify_all();
        loop {
            if let Some(e) = progress.failed.take() {
                return Err(e);
            }
            if progress.stopped || self.uploader.stopped() {
                return Err(RunError::Cancelled);
            }
            if progress.placed >= listed {
                break;
            }
            progress = self.wait(progress);
        }
        (progress.placed, progress.listed) = (0, None);
        drop(progress);
        self.entries.again();
        self.publish()
    }

    /// Says of all pages that have come that they are there.
    fn publish(&self) -> Result<(), RunError> {
        let (means, launched) = (&self.means, self.launched()?);
        // What was decoded comes by copies.
        for stream in [means.placing, means.copy] {
            let done = Event::new(means.device, false)?;
            done.record(stream)?;
            means.compute.wait(&done)?;
        }
        let what = PagesCame {
            pieces: launched.pieces,
            came: launched.came,
            count: (self.paging.program_columns.len() * self.request.input.stripes.len()) as u32,
            pad0: 0,
        };
        let blocks = what.count.div_ceil(BLOCK_THREADS / GPU_LANES).max(1);
        let kernel = launched.module.kernel(PUBLISH_PAGES)?;
        let mut args = Args::new().with_bytes(&bytes_of(&what));
        kernel.launch(means.compute, blocks, BLOCK_THREADS, &mut args)?;
        for piece in &self.paging.columns {
            let came = piece.came.swap(0, Ordering::Relaxed);
            piece.published.fetch_add(came, Ordering::Relaxed);
        }
        Ok(())
    }

    /// What a gathering thread does, until it is stopped.
    pub(crate) fn work(&self, file: &mut OpenFile) {
        while let Some(work) = self.next(true) {
            self.perform(work, file);
        }
    }

    /// A step of that, by a thread that has something else to do than to wait. False: there was nothing to be done.
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
            FaultWork::Groups(groups) => self.groups(&groups),
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
        // While kernels run, nobody waits for this.
        let awaited = progress.listed.is_some() || progress.stopped;
        drop(progress);
        if awaited {
            self.changed.notify_all();
        }
    }

    /// Something to do; `None`: stopped, or nothing at hand if it is not to be waited for.
    fn next(&self, waits: bool) -> Option<FaultWork> {
        loop {
            let mut progress = self.progress();
            if progress.stopped || self.uploader.stopped() {
                return None;
            }
            if let Some(work) = progress.at_hand() {
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
            if progress.groups.is_empty() && progress.batches.is_empty() && !progress.stopped {
                drop(self.wait(progress));
            }
        }
    }

    /// Numbers from the list, unless another thread is taking some.
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

    /// Puts what was taken from the list where every thread finds it: row groups, and batches of raw pages, neighbours together.
    fn divide(&self, mut pages: Vec<u32>) -> Result<(), RunError> {
        pages.sort_unstable();
        let (mut raw, mut groups) = (Vec::with_capacity(pages.len()), Vec::new());
        let mut before = None;
        for page in pages {
            let (piece, _) = self.page(page, before)?;
            match piece.layout.raw {
                true => raw.push(page),
                false => groups.push(page),
            }
            before = Some(piece);
        }
        let mut progress = self.progress();
        progress.groups.extend(groups);
        progress.batches.extend(raw.chunks(BATCH_PAGES).map(<[u32]>::to_vec));
        drop(progress);
        self.changed.notify_all();
        Ok(())
    }

    /// The piece of a column that a page is of, and which one of it; mostly it is the piece of the page before.
    fn page<'s>(&'s self, page: u32, before: Option<&'s PagedColumn>) -> Result<(&'s PagedColumn, u32), RunError> {
        let found = match before.and_then(|piece| piece.page(page).map(|at| (piece, at))) {
            None => self.paging.find(page),
            same => same,
        };
        found.ok_or_else(|| RunError::Invalid(format!("a kernel misses page {page} of {}", self.paging.pages)))
    }

    /// Brings pages of raw values, in ascending order. How many were placed.
    fn pages(&self, pages: &[u32], file: &mut OpenFile) -> Result<usize, RunError> {
        let mut raw: Vec<(&PagedColumn, u32)> = Vec::with_capacity(pages.len());
        for &page in pages {
            raw.push(self.page(page, raw.last().map(|(piece, _)| *piece))?);
        }
        let Some(mut slot) = self.means.slots.take(|| self.uploader.stopped())? else {
            return Ok(0);
        };
        let reads = PageReader {
            request: self.request,
            uploader: self.uploader,
        };
        if let Err(e) = reads.read(&raw, slot.bytes_mut(), file) {
            self.means.slots.unused(slot);
            return Err(e);
        }
        let bytes: u64 = raw.iter().map(|(piece, at)| bytes_of_page(piece, *at)).sum();
        self.done.page_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.place(slot, raw.len() * PAGE_BYTES as usize, &raw, raw.len())
            .inspect_err(|_| self.means.slots.lost())?;
        Ok(raw.len())
    }

    /// Decodes row groups and has them copied to their places. How many were placed.
    fn groups(&self, groups: &[u32]) -> Result<usize, RunError> {
        let mut placed = Vec::new();
        for &page in groups {
            let Some((piece, at)) = self.paging.find(page) else {
                continue;
            };
            let rows = rows_of(piece, at..at + 1);
            let width = u64::from(self.request.program.columns[piece.column].ty.width());
            let mut first = rows.start;
            while first < rows.end {
                let end = rows.end.min(first + MAX_COPY_ROWS);
                let values = CopyTarget::within(&piece.cached.values, (first * width) as usize);
                let valid = piece
                    .cached
                    .valid
                    .as_ref()
                    .map(|v| CopyTarget::within(v, first as usize));
                let (place, base) = ((piece.stripe, piece.column), self.bases[piece.stripe]);
                let job = copy_job(self.request, base, place, first..end, values, valid)?;
                // The CPU decodes it.
                if !self.uploader.do_job(0, &job)? {
                    return Ok(0);
                }
                first = end;
            }
            placed.push((piece, at));
        }
        let Some(slot) = self.means.slots.take(|| self.uploader.stopped())? else {
            return Ok(0);
        };
        self.place(slot, 0, &placed, 0)
            .inspect_err(|_| self.means.slots.lost())?;
        Ok(placed.len())
    }

    /// Has the first `raw` of the pages put in their places, and notes of all that they have come; what is to be done is written to the
    /// slot from `at` on, behind their values.
    fn place(&self, mut slot: Slot, at: usize, pages: &[(&PagedColumn, u32)], raw: usize) -> Result<(), RunError> {
        let launched = self.launched()?;
        let moves = slot.bytes_mut()[at..].chunks_exact_mut(size_of::<PageMove>());
        for ((piece, page), to) in pages.iter().zip(moves) {
            let (piece, page) = (piece.description, *page);
            to.copy_from_slice(&bytes_of(&PageMove { piece, page }));
        }
        let batch = PageBatch {
            pieces: launched.pieces,
            moves: slot.address() + at as u64,
            values: slot.address(),
            came: launched.came,
            count: pages.len() as u32,
            raw: raw as u32,
        };
        let words = pages.len() as u64 * (PAGE_BYTES / 8);
        let most = u64::from(self.means.device.multiprocessors().max(1));
        let blocks = words.div_ceil(u64::from(BLOCK_THREADS)).clamp(1, most) as u32;
        let kernel = launched.module.kernel(PLACE_PAGES)?;
        let mut args = Args::new().with_bytes(&bytes_of(&batch));
        kernel.launch(self.means.placing, blocks, BLOCK_THREADS, &mut args)?;
        let lent = slot.lend(self.means.placing)?;
        self.means.slots.pushed(lent);
        // Once for neighbours: pieces lie side by side, and every thread looks its pages up among them.
        for same in pages.chunk_by(|a, b| std::ptr::eq(a.0, b.0)) {
            same[0].0.came.fetch_add(same.len() as u32, Ordering::Relaxed);
        }
        self.done.pages.fetch_add(pages.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Bytes of a page's values: the last one's end with the stripe.
fn bytes_of_page(piece: &PagedColumn, page: u32) -> u64 {
    let all = piece.cached.values.len as u64;
    PAGE_BYTES.min(all - u64::from(page) * PAGE_BYTES)
}
