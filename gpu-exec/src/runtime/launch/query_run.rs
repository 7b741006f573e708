//! `QueryRun`: one attempt at a query.
//!
//! 1. If the kernel has to be compiled, reader threads start first: it is compiled while bytes are in flight.
//! 2. Arguments are placed in the query's scratch buffers, and tiles are divided into launches.
//! 3. Reader threads do the copy jobs (`Uploader`). If pages can be missed, threads also load pages (`FaultHandler`).
//! 4. Kernels are launched behind the copies, and replayed if they miss pages (`Replay`).
//! 5. Threads are stopped, and all streams are waited for.
//! 6. The results are merged, or they say why there are none (`RunOutcome`).
//!
//! **Invariant:** when [`QueryRun::run`] returns, successfully or not, no copy and no kernel of the query is in flight.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use grampus_cuda::{Kernel, Stream};
use grampus_io_stack::error::Reason;
use grampus_io_stack::stack::StackError;

use crate::abi::query::{Refusal, RowRun, Sizes, row_runs as tiles_of};
use crate::codegen::{ENTRY, GPU_LANES, GroupLayout, MERGE_ENTRY, Merged, QueryKernel, WarpPartials};
use crate::error::{RefusalReason, RunError};
use crate::kernel_cache::{Loaded, Origin};
use crate::machine_profile::LINK_SECTOR_BYTES;
use crate::options::{Backing, Request};
use crate::output::{Cost, Output};
use crate::runtime::decoding::decode_context::DecodeContext;
use crate::runtime::device_state::DeviceState;
use crate::runtime::launch::cancellation::Cancellation;
use crate::runtime::launch::io_binding::IoBinding;
use crate::runtime::launch::io_threads::{IoThreads, copy_and_load_pages, spawn, stopping_on_panic};
use crate::runtime::launch::kernel_arguments::{KernelArguments, KernelResults, LaunchSize};
use crate::runtime::launch::launch_schedule::{Launch, divided, schedule};
use crate::runtime::launch::occupancy::{BLOCK_WARPS, BlockSize, blocks, patience};
use crate::runtime::launch::replay::Replay;
use crate::runtime::launch::row_runs::row_runs;
use crate::runtime::memory::group_table_size::GroupTableSize;
use crate::runtime::memory::query_scratch::ScratchLayout;
use crate::runtime::paging::fault_handler::FaultHandler;
use crate::runtime::paging::stored_columns::StoredColumns;
use crate::runtime::planner::QueryPlan;
use crate::runtime::query_resources::QueryResources;
use crate::runtime::transfer::copy_job::CopySource;
use crate::runtime::transfer::transfer_plan::TransferPlan;
use crate::runtime::transfer::uploader::Uploader;

/// Rows of a launch, at most. Kernels of other queries wait for the launch that runs: 2 GiB of doubles take less than a
/// millisecond from device memory, and 512 MiB by command take 15 ms.
const MAX_LAUNCH_ROWS: u64 = 1 << 28;
const MAX_QUEUED_ROWS: u64 = 1 << 26;

/// Rows of a launch, at most: tables by code count rows with 32 bits.
const MAX_COUNTED_ROWS: u64 = u32::MAX as u64;

/// How an attempt ended.
pub(crate) enum RunOutcome {
    Done(Box<Output>),
    /// Nothing ran: a column of a kept plan is not resident any more.
    Lost,
    /// The device could not decode a column of a stripe. The results are discarded.
    Undecoded {
        stripe: usize,
        column: usize,
    },
}

/// A query, ready to be run.
pub(crate) struct QueryRun<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) plan: &'a QueryPlan,
    pub(crate) transfer: &'a TransferPlan,
    pub(crate) kernel: &'a QueryKernel,
    pub(crate) io: IoBinding<'a>,
    pub(crate) state: &'a DeviceState,
    pub(crate) resources: &'a QueryResources,
    /// Threads that read files and copy.
    pub(crate) threads: usize,
}

impl<'io> QueryRun<'io> {
    /// Copies, launches, reads back.
    pub(crate) fn run(&self, mut cost: Cost) -> Result<RunOutcome, RunError> {
        let uploader = Uploader::new(
            &self.resources.ring,
            &self.resources.copy,
            &self.transfer.jobs,
            &self.plan.sources,
            &*self.request.input.decoder,
            self.request.cancel,
        );
        let fault_handler = self.fault_handler(&uploader)?;
        let threads = self.threads;
        let (began, loaded_ahead) = (Instant::now(), cost.compile);
        let ready = self.state.kernels.ready(self.kernel)?;
        let guarded = |work: &dyn Fn()| stopping_on_panic(&uploader, fault_handler.as_ref(), work);
        let copy = || guarded(&|| uploader.work());
        let load_pages = || guarded(&|| fault_handler.iter().for_each(|handler| handler.work(&mut None)));
        let both = || {
            let handlers = fault_handler.iter();
            guarded(&|| {
                handlers
                    .clone()
                    .for_each(|handler| copy_and_load_pages(&uploader, handler, threads))
            });
        };
        let does_both = fault_handler.is_some() && uploader.only_reads();
        let launched = std::thread::scope(|scope| {
            let io_threads = IoThreads {
                fault_handler: fault_handler.as_ref(),
                start: &|| match does_both {
                    true => spawn(scope, threads, &both),
                    false => spawn(scope, threads.min(self.transfer.jobs.len()), &copy),
                },
                start_fault_handling: &|| spawn(scope, if does_both { 0 } else { threads }, &load_pages),
            };
            let launched = self.launch(ready, &uploader, &io_threads, &mut cost);
            uploader.stop();
            fault_handler.iter().for_each(FaultHandler::stop);
            launched
        });
        if launched.is_err() {
            self.io.abort();
        }
        let quiet = self.resources.streams().try_for_each(Stream::synchronize);
        let ended = self.io.finish();
        let results = launched?;
        quiet?;
        let stats = ended.map_err(|e| match e {
            StackError::Device(d) if d.reason == Reason::Aborted && self.cancellation().is_requested() => {
                RunError::Cancelled
            }
            other => other.into(),
        })?;
        let decoding = fault_handler.as_ref().map(FaultHandler::decoding_times);
        let (device_decode, loaded_beside) = decoding.unwrap_or_default();
        cost.device_decode += device_decode;
        cost.compile += loaded_beside;
        cost.scan = began
            .elapsed()
            .saturating_sub(cost.compile.saturating_sub(loaded_ahead));
        cost.pushed_bytes = uploader.done.bytes.load(Ordering::Relaxed);
        cost.decode = Duration::from_nanos(uploader.done.decode_ns.load(Ordering::Relaxed));
        if let Some(handler) = &fault_handler {
            cost.gather = Duration::from_nanos(handler.done.ns.load(Ordering::Relaxed));
            cost.pages = handler.done.pages.load(Ordering::Relaxed);
            cost.page_bytes = handler.done.page_bytes.load(Ordering::Relaxed);
        }
        cost.commands = stats.commands;
        cost.command_bytes = stats.command_bytes;
        self.outcome(&results, cost)
    }

    fn cancellation(&self) -> Cancellation<'_, 'io> {
        Cancellation::new(self.request.cancel, &self.io)
    }

    /// The groups by code, if the kernel has tables of them.
    fn group_layout(&self) -> Result<Option<GroupLayout>, RunError> {
        let layout = |scope| self.kernel.group_layout(scope, &self.plan.kernel.ranges);
        self.kernel.scope().map(layout).transpose()
    }

    fn block_size(&self, layout: Option<&GroupLayout>, lanes: u32) -> BlockSize {
        let Some(layout) = layout else {
            return BlockSize {
                warps: BLOCK_WARPS,
                shared_bytes: 0,
            };
        };
        // A block of host threads is one warp.
        let warps = if self.state.device.is_host() {
            1
        } else {
            self.plan.kernel.block_warps
        };
        BlockSize {
            warps,
            shared_bytes: layout.block_bytes(warps, lanes) as u32,
        }
    }

    /// Loads pages that kernels miss, if they can miss any.
    fn fault_handler<'a>(&'a self, uploader: &'a Uploader<'a>) -> Result<Option<FaultHandler<'a>>, RunError> {
        if !self.kernel.is_paged() {
            return Ok(None);
        }
        let (state, pages, page_table) = (self.state, &self.resources.pages, &self.transfer.page_table);
        let decoding = DecodeContext {
            device: &state.device,
            stream: &pages.placing,
            kernels: &state.kernels,
            library_memory: &pages.library_memory,
            decompression: self.request.decompression,
        };
        Ok(Some(FaultHandler::new(
            self.request,
            StoredColumns::new(self.request, &state.residency, page_table),
            (page_table, pages),
            uploader,
            &self.resources.compute,
            decoding,
            self.threads,
        )?))
    }

    /// How large a launch of the kernel is that goes over `rows` rows in `tiles` tiles.
    fn size(&self, entry: &Kernel<'_>, sizes: Sizes, (rows, tiles): (u64, u64)) -> Result<LaunchSize, RunError> {
        let (device, lanes) = (&self.state.device, self.lanes());
        let layout = self.group_layout()?;
        let block = self.block_size(layout.as_ref(), lanes);
        Ok(LaunchSize {
            sizes,
            blocks: blocks(self.plan, device, entry, tiles, (block, lanes), &self.io)?,
            block,
            lanes,
            table: (self.kernel.has_group_table())
                .then(|| GroupTableSize::new(rows, sizes.group_words, self.state.facts.free_bytes)),
            layout,
        })
    }

    /// Lanes of a warp.
    fn lanes(&self) -> u32 {
        match self.state.device.is_host() {
            true => self.state.device.host_lanes().count(),
            false => GPU_LANES,
        }
    }

    /// Launches over all tiles: behind the copies that they need, and when everything has come.
    fn launches(&self, runs: &[RowRun], (tiles, tile_rows): (u64, u64)) -> [Vec<Launch>; 2] {
        let jobs = &self.transfer.jobs;
        let bytes = self.state.runtime_options.launch_bytes;
        let first = schedule(jobs, &self.transfer.windows.ends, runs, (tiles, tile_rows), bytes);
        let again = [Launch {
            jobs: jobs.len(),
            first_tile: 0,
            end_tile: first.last().map_or(0, |launch| launch.end_tile),
            ends_window: None,
        }];
        let max_tiles = self.max_tiles(tile_rows);
        [divided(&first, max_tiles), divided(&again, max_tiles)]
    }

    /// Tiles of a launch, at most.
    fn max_tiles(&self, tile_rows: u64) -> u64 {
        let most = if self.io.is_queued() {
            MAX_QUEUED_ROWS
        } else {
            MAX_LAUNCH_ROWS
        };
        let max_rows = self.state.runtime_options.launch_rows.unwrap_or(most);
        max_rows.min(MAX_COUNTED_ROWS) / tile_rows.max(1)
    }

    /// Launches everything and waits for it.
    fn launch(
        &self,
        ready: Option<Loaded>,
        uploader: &Uploader<'_>,
        threads: &IoThreads<'_>,
        cost: &mut Cost,
    ) -> Result<KernelResults, RunError> {
        let sizes = self.kernel.sizes(self.lanes());
        let tile_rows = u64::from(sizes.tile_rows);
        let (runs, tiles) = tiles_of(row_runs(self.request, self.plan, self.transfer), sizes.tile_rows);
        let is_ready = ready.is_some();
        let loaded = match ready {
            Some(loaded) => loaded,
            None => {
                (threads.start)()?; // compiled while bytes are in flight
                self.state.kernels.get(self.kernel)?
            }
        };
        if loaded.origin != Origin::Memory {
            cost.compile += loaded.took;
        }
        let entry = loaded.module.kernel(ENTRY)?;
        let size = self.size(&entry, sizes, (runs.iter().map(|run| run.rows).sum(), tiles))?;
        let mut layout = ScratchLayout::default();
        let mut arguments = KernelArguments::new(&mut layout, self.request, self.transfer, &runs, size);
        let mut scratch = self.resources.scratch();
        let buffers = scratch.give(&layout, &self.resources.compute)?;
        arguments.settle(&buffers);
        let list = threads.fault_handler.map(FaultHandler::list);
        let paging = list.and_then(|list| arguments.paging_desc(&buffers, list));
        if let (Some(handler), Some(desc), Some(came)) = (threads.fault_handler, &paging, arguments.came(&buffers)) {
            handler.launching(loaded.module.clone(), desc.pieces, came);
        }
        if is_ready {
            (threads.start)()?; // last: they take every processor
        }
        let merge = self.kernel.scope().map(|_| loaded.module.kernel(MERGE_ENTRY));
        let [first, again] = self.launches(&runs, (tiles, tile_rows));
        let replay = Replay {
            state: self.state,
            resources: self.resources,
            request: self.request,
            transfer: self.transfer,
            io: &self.io,
            entry: &entry,
            merge: merge.transpose()?,
            arguments: &arguments,
            buffers: &buffers,
            paging,
            patience: patience(self.plan),
            steps: self.kernel.steps(),
            launches: [&first, &again],
            uploader,
            threads,
        };
        replay.run(cost)
    }

    /// The query's output, or why there is none.
    fn outcome(&self, results: &KernelResults, mut cost: Cost) -> Result<RunOutcome, RunError> {
        if let Some(CopySource::Encoded(copy)) = results.undecoded.map(|job| &self.transfer.jobs[job].source) {
            return Ok(RunOutcome::Undecoded {
                stripe: copy.stripe,
                column: copy.column,
            });
        }
        match Refusal::of(results.refused) {
            Some(Refusal::Groups) => {
                let groups = results.group_capacity;
                return Err(RefusalReason::TooManyGroups { groups }.into());
            }
            Some(Refusal::Value) => return Err(RefusalReason::ValueOutOfRange.into()),
            None => {}
        }
        let layout = self.group_layout()?;
        let merged = self.kernel.merge(&WarpPartials {
            partials: &results.partials,
            counters: &results.counters,
            group_words: &results.group_words,
            coded: layout.as_ref().map(|layout| (layout, &results.merged[..])),
        })?;
        self.account(&merged, &mut cost);
        Ok(RunOutcome::Done(Box::new(Output {
            groups: merged.groups,
            keys: merged.keys,
            aggregates: merged.aggregates,
            cost,
        })))
    }

    /// Rows and bytes, by what the kernels counted.
    fn account(&self, merged: &Merged, cost: &mut Cost) {
        cost.rows = merged.rows;
        cost.passed = merged.passed;
        cost.resident_bytes = self.transfer.resident_bytes;
        for (at, column) in self.request.program.columns.iter().enumerate() {
            // Floats that are integers in memory are floats in their files, from which they are moved.
            let width = u64::from(column.stored.raw_bytes());
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
