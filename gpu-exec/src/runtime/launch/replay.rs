//! `Replay`: a query's passes over its rows. There is one pass, or, if kernels miss pages, as many as it takes until
//! none is missed.
//!
//! 1. The first pass launches kernels behind the copies. If columns are still in flight and pages may be missed, it
//!    only finds misses early.
//! 2. A kernel that misses a page records it in the fault buffer and leaves the row out; the fault handler loads
//!    recorded pages meanwhile.
//! 3. When a pass has ended, the host waits until all recorded pages are on their way, publishes them, clears what the
//!    pass has added up, and replays it.
//! 4. A pass without misses performs the same operations, in the same order, as one over fully resident columns: its
//!    results count.

use std::time::Duration;

use grampus_cuda::{Args, CudaError, Event, Grid, Kernel};

use crate::abi::paging::PagingDesc;
use crate::abi::query::parameter;
use crate::codegen::BLOCK_THREADS;
use crate::error::RunError;
use crate::options::Decompression;
use crate::output::Cost;
use crate::runtime::launch::cancellation::Cancellation;
use crate::runtime::launch::decode_launcher::DecodeLauncher;
use crate::runtime::launch::device_context::DeviceContext;
use crate::runtime::launch::io_binding::IoBinding;
use crate::runtime::launch::io_threads::IoThreads;
use crate::runtime::launch::kernel_arguments::{KernelArguments, KernelResults};
use crate::runtime::launch::launch_schedule::{Launch, divided};
use crate::runtime::launch::occupancy::{BLOCK_WARPS, BlockSize, PATIENT_TILES};
use crate::runtime::memory::arena::DeviceRange;
use crate::runtime::memory::page_table::PageTable;
use crate::runtime::memory::query_scratch::ScratchBuffers;
use crate::runtime::transfer::copy_job::CopyJob;
use crate::runtime::transfer::uploader::Uploader;

/// Blocks of the kernel that merges groups by code, at most: a warp merges several groups.
const MAX_MERGE_BLOCKS: u32 = 1024;

/// Everything that all launches of a query share.
pub(crate) struct LaunchContext<'a, 'io> {
    pub(crate) device: &'a DeviceContext<'a>,
    pub(crate) entry: &'a Kernel<'a>,
    /// The kernel that merges what tables by code have left, if there are such tables.
    pub(crate) merge: Option<Kernel<'a>>,
    pub(crate) blocks: u32,
    pub(crate) block: BlockSize,
    pub(crate) io: &'a IoBinding<'io>,
    pub(crate) arguments: &'a KernelArguments,
    pub(crate) buffers: &'a ScratchBuffers<'a>,
    /// For kernels with paged columns.
    pub(crate) paging: Option<PagingDesc>,
    /// Tiles for which rows that passed wait for a full warp.
    pub(crate) patience: u32,
    pub(crate) cancellation: Cancellation<'a, 'io>,
}

/// The passes of one attempt.
pub(crate) struct Replay<'a, 'io> {
    pub(crate) context: LaunchContext<'a, 'io>,
    pub(crate) launches: &'a [Launch],
    /// Tiles of a launch, at most.
    pub(crate) max_tiles: u64,
    pub(crate) jobs: &'a [CopyJob],
    pub(crate) decompression: Decompression<'a>,
    pub(crate) page_table: &'a PageTable,
    /// Steps of the cascade that fetch columns.
    pub(crate) steps: usize,
    pub(crate) uploader: &'a Uploader<'a>,
    pub(crate) threads: &'a IoThreads<'a>,
}

impl Replay<'_, '_> {
    /// Runs passes until one misses nothing.
    pub(crate) fn run(&self, cost: &mut Cost) -> Result<KernelResults, RunError> {
        let LaunchContext {
            device,
            arguments,
            buffers,
            ..
        } = self.context;
        let (started, ended) = (Event::new(device.device, true)?, Event::new(device.device, true)?);
        let undecoded = arguments.undecoded(buffers);
        let mut decode_launcher = DecodeLauncher::new(device, self.jobs, self.decompression, undecoded, &started)?;
        cost.compile += decode_launcher.compile;
        self.clear_bits()?;
        // Everything has come when the first pass is over.
        let again = [Launch {
            jobs: self.jobs.len(),
            first_tile: 0,
            end_tile: self.launches.last().map_or(0, |launch| launch.end_tile),
            ends_window: None,
        }];
        let again = divided(&again, self.max_tiles);
        let max_passes = self.max_passes();
        let mut handles_faults = false;
        let results = loop {
            // While columns are in flight, the pass is for finding misses early: it adds up in another order than other
            // passes.
            let looks = cost.passes == 0 && self.threads.fault_handler.is_some() && !self.jobs.is_empty();
            if looks {
                (self.threads.start_fault_handling)()?;
                handles_faults = true;
            }
            let patience = if looks { PATIENT_TILES } else { self.context.patience };
            let launches = if cost.passes == 0 { self.launches } else { &again };
            self.pass(launches, patience, &mut decode_launcher)?;
            ended.record(device.compute)?;
            self.context.cancellation.wait(&ended)?;
            cost.passes += 1;
            let results = arguments.read_results(buffers, device.compute)?;
            let is_valid = results.refused == 0 && results.undecoded.is_none();
            let Some(fault_handler) = self.threads.fault_handler.filter(|_| is_valid) else {
                if is_valid && results.groups == 0 {
                    buffers.mark_sparse_clean();
                }
                break results;
            };
            if results.missed == 0 && !looks {
                // Only misses leave entries and bits, and those of earlier passes were cleared.
                device.faults.mark_clean();
                if results.groups == 0 {
                    buffers.mark_sparse_clean();
                }
                break results;
            }
            if !handles_faults {
                (self.threads.start_fault_handling)()?;
                handles_faults = true;
            }
            fault_handler.finish_pass(results.missed as usize)?;
            if cost.passes >= max_passes {
                let what = format!("pages are still missing after {max_passes} passes over the rows");
                return Err(RunError::Invalid(what));
            }
            buffers.clear(device.compute)?;
        };
        cost.device_decode = decode_launcher.decoding_time();
        let kernel_ms = ended.ms_since(&started);
        cost.kernel = kernel_ms.map_or(Duration::ZERO, |ms| Duration::from_secs_f64(ms.max(0.0) / 1e3));
        Ok(results)
    }

    /// A pass finds every page that the first incomplete step misses, up to the capacity of the fault buffer. One
    /// further pass may only look, and the last one misses nothing.
    fn max_passes(&self) -> u64 {
        let listed = self.context.paging.map_or(1, |p| u64::from(p.capacity.max(1)));
        2 + self.steps as u64 + u64::from(self.page_table.pages) / listed
    }

    /// Sets to zero the bits of columns of which no page is there.
    fn clear_bits(&self) -> Result<(), CudaError> {
        let unset = &self.page_table.unset;
        let mut next = 0;
        while let Some(first) = unset.get(next) {
            let follows = |pair: &[DeviceRange]| pair[0].is_followed_by(&pair[1]);
            let count = 1 + unset[next..].windows(2).take_while(|pair| follows(pair)).count();
            let last = &unset[next + count - 1];
            let bytes = last.offset + last.len - first.offset;
            self.context
                .device
                .compute
                .fill(&first.buffer, first.offset, bytes, 0)?;
            next += count;
        }
        Ok(())
    }

    /// Launches everything once.
    fn pass(
        &self,
        launches: &[Launch],
        patience: u32,
        decode_launcher: &mut DecodeLauncher<'_>,
    ) -> Result<(), RunError> {
        let context = &self.context;
        let (device, arguments) = (context.device, context.arguments);
        let ended = Event::new(device.device, false)?;
        let codes = arguments.group_codes(context.buffers);
        let codes = codes.as_ref().map(|(groups, keys)| (groups, *keys));
        for (at, launch) in launches.iter().enumerate() {
            decode_launcher.prepare(launch.jobs, self.uploader)?;
            let flags = launch.flags(at, launches.len());
            context.io.before_launch(|event| context.cancellation.wait(event))?;
            let head = arguments.head(context.io.io(), context.buffers, launch, (flags, patience));
            let columns = context.io.described(&arguments.columns);
            let bytes = parameter(&head, &columns, &arguments.valid, context.paging.as_ref(), codes);
            let mut args = Args::new().with_bytes(&bytes);
            let grid = Grid {
                blocks: context.blocks,
                threads: context.block.threads(),
                shared_bytes: context.block.shared_bytes,
            };
            context.io.launch(context.entry, device.compute, grid, &mut args)?;
            if let (Some(merge), Some((groups, _)), true) = (&context.merge, codes, at + 1 == launches.len()) {
                let blocks = groups.groups.div_ceil(BLOCK_WARPS).min(MAX_MERGE_BLOCKS);
                merge.launch(device.compute, blocks, BLOCK_THREADS, &mut args)?;
            }
            context.io.launched(device.device, device.compute)?;
            if let Some(window) = launch.ends_window {
                // The window after the next one takes this one's memory.
                ended.record(device.compute)?;
                context.cancellation.wait(&ended)?;
                self.uploader.allow_windows(window + 3);
            }
        }
        Ok(())
    }
}
