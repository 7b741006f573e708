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
use crate::options::Request;
use crate::output::Cost;
use crate::runtime::device_state::DeviceState;
use crate::runtime::launch::cancellation::Cancellation;
use crate::runtime::launch::decode_launcher::DecodeLauncher;
use crate::runtime::launch::io_binding::IoBinding;
use crate::runtime::launch::io_threads::IoThreads;
use crate::runtime::launch::kernel_arguments::{KernelArguments, KernelResults};
use crate::runtime::launch::launch_schedule::Launch;
use crate::runtime::launch::occupancy::{BLOCK_WARPS, PATIENT_TILES};
use crate::runtime::memory::arena::DeviceRange;
use crate::runtime::memory::query_scratch::ScratchBuffers;
use crate::runtime::query_resources::QueryResources;
use crate::runtime::transfer::transfer_plan::TransferPlan;
use crate::runtime::transfer::uploader::Uploader;

/// Blocks of the kernel that merges groups by code, at most: a warp merges several groups.
const MAX_MERGE_BLOCKS: u32 = 1024;

/// The passes of one attempt, and what all their launches share.
pub(crate) struct Replay<'a, 'io> {
    pub(crate) state: &'a DeviceState,
    pub(crate) resources: &'a QueryResources,
    pub(crate) request: &'a Request<'a>,
    pub(crate) transfer: &'a TransferPlan,
    pub(crate) io: &'a IoBinding<'io>,
    pub(crate) entry: &'a Kernel<'a>,
    /// The kernel that merges what tables by code have left, if there are such tables.
    pub(crate) merge: Option<Kernel<'a>>,
    pub(crate) arguments: &'a KernelArguments,
    pub(crate) buffers: &'a ScratchBuffers<'a>,
    /// For kernels with paged columns.
    pub(crate) paging: Option<PagingDesc>,
    /// Tiles for which rows that passed wait for a full warp.
    pub(crate) patience: u32,
    /// Steps of the cascade that fetch columns.
    pub(crate) steps: usize,
    /// Those of the first pass, and of the others, which find everything copied.
    pub(crate) launches: [&'a [Launch]; 2],
    pub(crate) uploader: &'a Uploader<'a>,
    pub(crate) threads: &'a IoThreads<'a>,
}

impl<'io> Replay<'_, 'io> {
    /// Runs passes until one misses nothing.
    pub(crate) fn run(&self, cost: &mut Cost) -> Result<KernelResults, RunError> {
        let (arguments, buffers, compute) = (self.arguments, self.buffers, &self.resources.compute);
        let (device, jobs) = (&self.state.device, &self.transfer.jobs);
        let (started, ended) = (Event::new(device, true)?, Event::new(device, true)?);
        let mut decode_launcher = DecodeLauncher::new(
            (self.state, self.resources),
            jobs,
            self.request.decompression,
            arguments.undecoded(buffers),
            &started,
        )?;
        cost.compile += decode_launcher.compile;
        self.clear_bits()?;
        let max_passes = self.max_passes();
        let mut handles_faults = false;
        let results = loop {
            // While columns are in flight, the pass is for finding misses early: it adds up in another order than other
            // passes.
            let looks = cost.passes == 0 && self.threads.fault_handler.is_some() && !jobs.is_empty();
            if looks {
                (self.threads.start_fault_handling)()?;
                handles_faults = true;
            }
            let patience = if looks { PATIENT_TILES } else { self.patience };
            let launches = self.launches[usize::from(cost.passes > 0)];
            self.pass(launches, patience, &mut decode_launcher)?;
            ended.record(compute)?;
            self.cancellation().wait(&ended)?;
            cost.passes += 1;
            let results = arguments.read_results(buffers, compute)?;
            let is_valid = results.refused == 0 && results.undecoded.is_none();
            let Some(fault_handler) = self.threads.fault_handler.filter(|_| is_valid) else {
                if is_valid && results.groups == 0 {
                    buffers.mark_sparse_clean();
                }
                break results;
            };
            if results.missed == 0 && !looks {
                // Only misses leave entries and bits, and those of earlier passes were cleared.
                self.resources.pages.faults.mark_clean();
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
            buffers.clear(compute)?;
        };
        cost.device_decode = decode_launcher.decoding_time();
        let kernel_ms = ended.ms_since(&started);
        cost.kernel = kernel_ms.map_or(Duration::ZERO, |ms| Duration::from_secs_f64(ms.max(0.0) / 1e3));
        Ok(results)
    }

    fn cancellation(&self) -> Cancellation<'_, 'io> {
        Cancellation::new(self.request.cancel, self.io)
    }

    /// A pass finds every page that the first incomplete step misses, up to the capacity of the fault buffer. One
    /// further pass may only look, and the last one misses nothing.
    fn max_passes(&self) -> u64 {
        let listed = self.paging.map_or(1, |p| u64::from(p.capacity.max(1)));
        2 + self.steps as u64 + u64::from(self.transfer.page_table.pages) / listed
    }

    /// Sets to zero the bits of columns of which no page is there.
    fn clear_bits(&self) -> Result<(), CudaError> {
        let unset = &self.transfer.page_table.unset;
        let mut next = 0;
        while let Some(first) = unset.get(next) {
            let follows = |pair: &[DeviceRange]| pair[0].is_followed_by(&pair[1]);
            let count = 1 + unset[next..].windows(2).take_while(|pair| follows(pair)).count();
            let last = &unset[next + count - 1];
            let bytes = last.offset + last.len - first.offset;
            self.resources.compute.fill(&first.buffer, first.offset, bytes, 0)?;
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
        let (device, compute) = (&self.state.device, &self.resources.compute);
        let (arguments, size) = (self.arguments, &self.arguments.size);
        let ended = Event::new(device, false)?;
        let codes = arguments.group_codes(self.buffers);
        let codes = codes.as_ref().map(|(groups, keys)| (groups, *keys));
        for (at, launch) in launches.iter().enumerate() {
            decode_launcher.prepare(launch.jobs, self.uploader)?;
            let flags = launch.flags(at, launches.len());
            self.io.before_launch(|event| self.cancellation().wait(event))?;
            let head = arguments.head(self.io.io(), self.buffers, launch, (flags, patience));
            let columns = self.io.described(&arguments.columns);
            let bytes = parameter(&head, &columns, &arguments.valid, self.paging.as_ref(), codes);
            let mut args = Args::new().with_bytes(&bytes);
            let grid = Grid {
                blocks: size.blocks,
                threads: size.block.threads(),
                shared_bytes: size.block.shared_bytes,
            };
            self.io.launch(self.entry, compute, grid, &mut args)?;
            if let (Some(merge), Some((groups, _)), true) = (&self.merge, codes, at + 1 == launches.len()) {
                let blocks = groups.groups.div_ceil(BLOCK_WARPS).min(MAX_MERGE_BLOCKS);
                merge.launch(compute, blocks, BLOCK_THREADS, &mut args)?;
            }
            self.io.launched(device, compute)?;
            if let Some(window) = launch.ends_window {
                // The window after the next one takes this one's memory.
                ended.record(compute)?;
                self.cancellation().wait(&ended)?;
                self.uploader.allow_windows(window + 3);
            }
        }
        Ok(())
    }
}
