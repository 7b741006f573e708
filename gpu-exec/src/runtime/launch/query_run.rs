//! The running of one attempt at a query: reader threads bring bytes, kernels are launched as these come, and in the end what the
//! kernels left is read back. Whatever happens, nothing is under way any more when it returns.

use std::sync::atomic::Ordering;
use std::thread::Scope;
use std::time::{Duration, Instant};

use grampus_io_stack::cuda::{Device, Event, Kernel, Stream};
use grampus_io_stack::layout::{IoStack, Stats};
use grampus_io_stack::stack::{Column, Stack, StackError};
use grampus_io_stack::status::Reason;

use crate::abi::query::{LAUNCH_FIRST, LAUNCH_FLUSH, LAUNCH_LAST, PATIENCE_ENDLESS, Refusal, row_runs};
use crate::codegen::{BLOCK_THREADS, ENTRY, GPU_LANES, HOST_LANES, Merged, QueryKernel, WarpPartials};
use crate::error::RunError;
use crate::kernel_cache::{KernelCache, Loaded, Origin};
use crate::machine_profile::LINK_SECTOR_BYTES;
use crate::options::{Backing, Request};
use crate::output::{Cost, Output};
use crate::runtime::io_stack::status_block::StatusBlock;
use crate::runtime::launch::kernel_arguments::KernelResults;
use crate::runtime::launch::launch_schedule::{Launch, schedule};
use crate::runtime::launch::replay::{IoThreads, LaunchContext};
use crate::runtime::memory::pinned_ring::PinnedRing;
use crate::runtime::memory::query_scratch::{QueryScratch, ScratchLayout};
use crate::runtime::paging::fault_buffer::FaultBuffer;
use crate::runtime::paging::fault_handler::FaultHandler;
use crate::runtime::planner::QueryPlan;
use crate::runtime::transfer::copy_job::CopySource;
use crate::runtime::transfer::transfer_plan::TransferPlan;
use crate::runtime::transfer::uploader::{Step, Uploader};

/// Warps of a block.
const BLOCK_WARPS: u32 = BLOCK_THREADS / GPU_LANES;
/// Blocks on a multiprocessor at most: what kernels' registers are bounded for.
const MAX_BLOCKS_EACH: u32 = 4;
/// The same where columns are read over PCIe.
const MAX_BLOCKS_EACH_MAPPED: u32 = 1;
/// Multiprocessors for a block where the filter's column is, too: a quarter of them saturates PCIe.
const MULTIPROCESSORS_A_BLOCK: u32 = 2;
/// Slots in use beside the gathering of pages are as many as threads: what all of them hold together is then about what their second-level
/// caches do. With fewer than these the link runs dry.
const MIN_SLOTS: usize = 8;

/// Tiles for which rows wait that need values over PCIe, or whose misses are looked for, besides the one they are in.
pub(crate) const PATIENT_TILES: u32 = 0;

/// What one attempt came to.
pub(crate) enum RunOutcome {
    Done(Box<Output>),
    /// The group table was too small.
    MoreGroups,
    /// A column of a stripe is not what the device decodes: what was computed is nothing.
    Undecoded {
        stripe: usize,
        column: usize,
    },
}

/// The I/O stack, or what stands for it.
pub(crate) struct IoBinding<'a> {
    pub(crate) io: IoStack,
    pub(crate) stack: Option<&'a Stack>,
    /// Columns that are read through the stack; their extents live as long as kernels run.
    pub(crate) columns: Vec<Option<Column>>,
}

/// A query, ready to be run.
pub(crate) struct QueryRun<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) plan: &'a QueryPlan,
    pub(crate) transfer: &'a TransferPlan,
    pub(crate) kernel: &'a QueryKernel,
    pub(crate) stage: IoBinding<'a>,
    /// log2 of the group table's slots, if there is one.
    pub(crate) slots_log2: Option<u32>,
}

/// What it runs on.
pub(crate) struct DeviceContext<'a> {
    pub(crate) device: &'a Device,
    pub(crate) compute: &'a Stream,
    pub(crate) copy: &'a Stream,
    pub(crate) ring: &'a PinnedRing,
    /// Slots for pages, the stream in which these are put in their places, and the list of those that are missed.
    pub(crate) page_slots: &'a PinnedRing,
    pub(crate) placing: &'a Stream,
    pub(crate) faults: &'a FaultBuffer,
    pub(crate) kernels: &'a KernelCache,
    pub(crate) signals: &'a StatusBlock,
    pub(crate) threads: usize,
    pub(crate) launch_bytes: u64,
}

/// Brings, launches, reads back.
pub(crate) fn drive(
    query: &QueryRun<'_>,
    machine: &DeviceContext<'_>,
    scratch: &mut QueryScratch,
    mut cost: Cost,
) -> Result<RunOutcome, RunError> {
    let (compute, copy, signals) = (machine.compute, machine.copy, machine.signals);
    let uploader = Uploader::new(
        machine.ring,
        copy,
        &query.transfer.jobs,
        &query.plan.sources,
        &*query.request.input.decoder,
        query.request.cancel,
    );
    let gather = query.gather(machine, &uploader)?;
    let threads = machine.threads.max(1);
    let (began, loaded_ahead) = (Instant::now(), cost.compile);
    let ready = machine.kernels.ready(query.kernel)?;
    let reads = || uploader.work();
    let gathers = || gather.iter().for_each(|gather| gather.work(&mut None));
    let both = || {
        gather
            .iter()
            .for_each(|gather| push_and_gather(&uploader, gather, threads.max(MIN_SLOTS)))
    };
    let does_both = gather.is_some() && uploader.only_reads();
    let launched = std::thread::scope(|scope| {
        let crew = IoThreads {
            gather: gather.as_ref(),
            start: &|| match does_both {
                true => spawn(scope, threads, &both),
                false => spawn(scope, threads.min(query.transfer.jobs.len()), &reads),
            },
            start_gathering: &|| spawn(scope, if does_both { 0 } else { threads }, &gathers),
        };
        let launched = query.launch(machine, ready, scratch, (&uploader, &crew), &mut cost);
        uploader.stop();
        gather.iter().for_each(FaultHandler::stop);
        launched
    });
    if launched.is_err()
        && let Some(stack) = query.stage.stack
    {
        stack.abort_handle().abort();
    }
    let quiet = [copy, machine.placing, compute]
        .into_iter()
        .try_for_each(Stream::synchronize);
    let ended = match query.stage.stack {
        Some(stack) => stack.finish(),
        None => signals.finish().map(|()| Stats::default()),
    };
    let left = launched?;
    quiet?;
    let stats = ended.map_err(|e| match e {
        StackError::Device(d) if d.reason == Reason::Aborted && query.cancelled() => RunError::Cancelled,
        other => other.into(),
    })?;
    cost.scan = began
        .elapsed()
        .saturating_sub(cost.compile.saturating_sub(loaded_ahead));
    if let Some(CopySource::Encoded(job)) = left.undecoded.map(|job| &query.transfer.jobs[job].source) {
        return Ok(RunOutcome::Undecoded {
            stripe: job.stripe,
            column: job.column,
        });
    }
    match Refusal::of(left.refused) {
        Some(Refusal::Groups) => return Ok(RunOutcome::MoreGroups),
        Some(Refusal::Value) => {
            let what = "a value out of a type's range, or a division by zero";
            return Err(RunError::Refused(what.to_owned()));
        }
        None => {}
    }
    let merged = query.kernel.merge(&WarpPartials {
        partials: &left.partials,
        counters: &left.counters,
        group_locks: &left.group_locks,
        group_words: &left.group_words,
    })?;
    cost.pushed_bytes = uploader.done.bytes.load(Ordering::Relaxed);
    cost.decode = Duration::from_nanos(uploader.done.decode_ns.load(Ordering::Relaxed));
    if let Some(gather) = &gather {
        cost.gather = Duration::from_nanos(gather.done.ns.load(Ordering::Relaxed));
        cost.pages = gather.done.pages.load(Ordering::Relaxed);
        cost.page_bytes = gather.done.page_bytes.load(Ordering::Relaxed);
    }
    cost.commands = stats.commands;
    cost.command_bytes = stats.command_bytes;
    query.account(&merged, &mut cost);
    Ok(RunOutcome::Done(Box::new(Output {
        groups: merged.groups,
        keys: merged.keys,
        aggregates: merged.aggregates,
        cost,
    })))
}

/// What a thread does where both copies and pages take processors: the link to the device is kept busy first, and pages are read
/// whenever it has enough to do. Twice as many threads, one half for each, would take turns as the system likes.
fn push_and_gather(uploader: &Uploader<'_>, gather: &FaultHandler<'_>, slots: usize) {
    let mut file = None;
    loop {
        match uploader.step(slots) {
            Step::Did => {}
            Step::NoSlot if gather.step(&mut file) => {}
            Step::NoSlot => uploader.ring.wait(),
            Step::Over => return gather.work(&mut file),
        }
    }
}

/// Starts threads that all do this. The first of them starts the others: beside those that are at work already that takes a while, and
/// the caller has kernels to launch.
fn spawn<'scope>(
    scope: &'scope Scope<'scope, '_>,
    count: usize,
    work: &'scope (dyn Fn() + Sync),
) -> Result<(), RunError> {
    let one = || std::thread::Builder::new().name("grampus-reader".to_owned());
    let all = move || {
        for _ in 1..count {
            if let Err(e) = one().spawn_scoped(scope, work) {
                log::warn!("fewer threads read than should: {e}");
                break;
            }
        }
        work();
    };
    if count > 0 {
        let spawned = one().spawn_scoped(scope, all);
        spawned.map_err(|e| RunError::Refused(format!("no thread for reading: {e}")))?;
    }
    Ok(())
}

impl QueryRun<'_> {
    fn cancelled(&self) -> bool {
        self.request.cancel.load(Ordering::Relaxed)
    }

    /// Launches everything and waits for it.
    fn launch(
        &self,
        machine: &DeviceContext<'_>,
        ready: Option<Loaded>,
        scratch: &mut QueryScratch,
        (uploader, crew): (&Uploader<'_>, &IoThreads<'_>),
        cost: &mut Cost,
    ) -> Result<KernelResults, RunError> {
        let lanes = if machine.device.is_host() {
            HOST_LANES
        } else {
            GPU_LANES
        };
        let sizes = self.kernel.sizes(lanes);
        let (runs, tiles) = row_runs(self.at_lines(self.selected()), sizes.tile_rows);
        let is_ready = ready.is_some();
        let loaded = match ready {
            Some(loaded) => loaded,
            None => {
                (crew.start)()?; // compiled while bytes are on their way
                machine.kernels.get(self.kernel)?
            }
        };
        if loaded.origin != Origin::Memory {
            cost.compile += loaded.took;
        }
        let entry = loaded.module.kernel(ENTRY)?;
        let blocks = self.blocks(machine.device, &entry, tiles, lanes)?;
        let warps = (blocks * BLOCK_WARPS) as usize;
        let mut wanted = ScratchLayout::default();
        let mut placed = self.place(&mut wanted, &runs, &sizes, warps);
        let given = scratch.give(&wanted, machine.compute)?;
        placed.settle(given.written.address());
        for (desc, column) in placed.columns.iter_mut().zip(&self.stage.columns) {
            if let Some(column) = column {
                *desc = column.desc();
            }
        }
        let launches = schedule(
            &self.transfer.jobs,
            &self.transfer.windows.ends,
            &runs,
            (tiles, u64::from(sizes.tile_rows)),
            machine.launch_bytes,
        );
        let launched = LaunchContext {
            entry: &entry,
            blocks,
            paging: crew
                .gather
                .map(|gather| self.paging_desc(&placed, &given, gather.list())),
            placed: &placed,
            given: &given,
            sizes,
            warps,
            runs: runs.len(),
            tiles,
            undecoded: given.zeroed.address() + placed.undecoded() as u64,
        };
        if let (Some(gather), Some(desc)) = (crew.gather, &launched.paging) {
            let came = given.marks.address() + placed.came as u64;
            gather.launching(loaded.module.clone(), desc.pieces, came);
        }
        if is_ready {
            (crew.start)()?; // last: they take every processor
        }
        self.passes(&launched, &launches, machine, (uploader, crew), cost)
    }

    /// The rows to look at, counted over all stripes.
    fn selected(&self) -> Vec<(u64, u64)> {
        let stripes = &self.request.input.stripes;
        let of_stripe = |(stripe, base): (&crate::input::Stripe, u64)| {
            let rows = stripe.selected.iter().map(move |r| (base + r.start, r.end - r.start));
            rows.collect::<Vec<_>>()
        };
        let runs = stripes.iter().zip(self.request.input.first_rows()).flat_map(of_stripe);
        if self.transfer.windows.memory.is_some() {
            return runs.collect(); // windows end where tiles do that begin with the stripes' runs
        }
        // Fewer runs are looked up faster; the few tiles in which one stripe follows another are read row by row.
        runs.fold(Vec::new(), |mut joined: Vec<(u64, u64)>, (row, rows)| {
            match joined.last_mut() {
                Some((first, count)) if *first + *count == row => *count += rows,
                _ => joined.push((row, rows)),
            }
            joined
        })
    }

    /// The runs divided so that tiles of the predicate column begin where host memory's lines do: a warp's load of 256 bytes over PCIe
    /// is two requests then, and three elsewhere (files' streams begin at any byte).
    fn at_lines(&self, runs: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
        let mut columns = (0..self.plan.choices.len())
            .zip(&self.plan.choices)
            .zip(&self.plan.dense);
        let mapped = columns.find(|((_, c), dense)| **dense && c.backing == Backing::Mapped);
        // Windows end where tiles do that begin with the runs.
        let Some(((column, _), _)) = mapped.filter(|_| self.transfer.windows.memory.is_none()) else {
            return runs;
        };
        let width = u64::from(self.request.program.columns[column].ty.width());
        let extents = &self.transfer.columns[column].extents;
        let mut out = Vec::with_capacity(2 * runs.len());
        for (mut row, mut rows) in runs {
            while rows > 0 {
                let at = extents.partition_point(|e| e.first_row + e.rows <= row);
                let Some(extent) = extents.get(at).filter(|e| e.first_row <= row) else {
                    out.push((row, rows));
                    break;
                };
                let here = rows.min(extent.first_row + extent.rows - row);
                let lead = rows_to_line(extent.mapped + (row - extent.first_row) * width, width).min(here);
                out.extend([(row, lead), (row + lead, here - lead)]);
                (row, rows) = (row + here, rows - here);
            }
        }
        out
    }

    /// As many blocks as the device holds at once and there are tiles for; fewer if their warps could fill the cache with pins.
    fn blocks(&self, device: &Device, entry: &Kernel<'_>, tiles: u64, lanes: u32) -> Result<u32, RunError> {
        // Few warps saturate PCIe; more of them only spread what they fetch by row over more pages than the GPU's address
        // translation keeps at hand.
        let columns = || self.plan.choices.iter().zip(&self.plan.dense);
        let mapped = columns().any(|(c, _)| c.backing == Backing::Mapped);
        let streams = columns().any(|(c, &dense)| dense && c.backing == Backing::Mapped);
        let most = if mapped {
            MAX_BLOCKS_EACH_MAPPED
        } else {
            MAX_BLOCKS_EACH
        };
        let each = entry.blocks_that_fit(BLOCK_THREADS)?.min(most);
        let most = match streams {
            true => device.multiprocessors().div_ceil(MULTIPROCESSORS_A_BLOCK),
            false => device.multiprocessors() * each,
        };
        let most = u64::from(most.max(1));
        let mut blocks = tiles.div_ceil(u64::from(BLOCK_WARPS)).clamp(1, most);
        if let Some(stack) = self.stage.stack {
            // A warp holds a line for each lane while it fetches, or a tile's two.
            let pins = u64::from(lanes) + 2;
            while blocks > 1 && !stack.has_room_for_pins(blocks * u64::from(BLOCK_WARPS), pins) {
                blocks /= 2;
            }
        }
        Ok(blocks as u32)
    }

    /// Rows that need values over PCIe do not wait for a full warp: where one row in thousands passes, every warp would fetch
    /// its rows at the very end, one trip after the other with nothing else under way, and from all over the files.
    pub(crate) fn patience(&self) -> u32 {
        let columns = self.plan.choices.iter().zip(&self.plan.dense);
        match columns
            .into_iter()
            .any(|(c, dense)| !dense && c.backing == Backing::Mapped)
        {
            true => PATIENT_TILES,
            false => PATIENCE_ENDLESS,
        }
    }

    /// Waits for an event, looking at the caller's flag meanwhile. Kernels end: whatever they wait for has a bound.
    pub(crate) fn wait(&self, event: &Event) -> Result<(), RunError> {
        let began = Instant::now();
        let mut aborted = false;
        while !event.reached()? {
            if self.cancelled() && !aborted {
                aborted = true;
                if let Some(stack) = self.stage.stack {
                    stack.abort_handle().abort();
                }
            }
            if began.elapsed() < Duration::from_millis(5) {
                std::thread::yield_now();
            } else {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        if self.cancelled() {
            Err(RunError::Cancelled)
        } else {
            Ok(())
        }
    }

    /// What rows and bytes it came to, by what the kernels counted.
    fn account(&self, merged: &Merged, cost: &mut Cost) {
        cost.rows = merged.rows;
        cost.passed = merged.passed;
        cost.resident_bytes = self.transfer.resident_bytes;
        for (at, column) in self.request.program.columns.iter().enumerate() {
            let width = u64::from(column.ty.width());
            let read = merged.values_read[at];
            let dense = self.plan.dense[at];
            cost.needed_bytes += if dense { merged.rows } else { read } * width;
            if self.plan.choices[at].backing == Backing::Mapped {
                // A value fetched alone moves the sector that it lies in; never more than the whole column.
                cost.mapped_bytes += match dense {
                    true => read * width,
                    false => (read * LINK_SECTOR_BYTES).min(merged.rows * width),
                };
            }
        }
    }
}

/// Rows before the first whose value's 8-byte word begins at a multiple of what a warp loads at once.
fn rows_to_line(address: u64, width: u64) -> u64 {
    let at_line = |rows: &u64| ((address + rows * width) / 8 * 8).is_multiple_of(8 * u64::from(GPU_LANES));
    (0..8 * u64::from(GPU_LANES) / width.max(1)).find(at_line).unwrap_or(0)
}

pub(crate) fn flags(at: usize, launches: usize, launch: &Launch) -> u32 {
    let mut flags = 0;
    if at == 0 {
        flags |= LAUNCH_FIRST;
    }
    if launch.ends_window.is_some() {
        flags |= LAUNCH_FLUSH;
    }
    if at + 1 == launches {
        flags |= LAUNCH_LAST;
    }
    flags
}
