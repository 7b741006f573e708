//! A query's passes over its rows: one, or, where kernels look for pages that are not there yet, as many as it takes until none is missed.
//! What is launched, and with what, is drive.rs's business.

use std::time::Duration;

use grampus_io_stack::cuda::{Args, CudaError, Event, Kernel, PinnedBuffer};

use crate::abi::paging::PagingDesc;
use crate::abi::query::{Sizes, parameter};
use crate::codegen::BLOCK_THREADS;
use crate::error::RunError;
use crate::output::Cost;
use crate::runtime::launch::decode_launcher::{self, DecodeLauncher};
use crate::runtime::launch::kernel_arguments::{KernelArguments, KernelResults, all_bytes};
use crate::runtime::launch::launch_schedule::Launch;
use crate::runtime::launch::query_run::{DeviceContext, PATIENT_TILES, QueryRun, flags};
use crate::runtime::memory::arena::DeviceRange;
use crate::runtime::memory::query_scratch::{ScratchBuffers, ScratchLayout};
use crate::runtime::paging::fault_handler::{FaultContext, FaultHandler};
use crate::runtime::transfer::uploader::Uploader;

/// Those who bring something, and how they are started.
pub(crate) struct IoThreads<'a> {
    /// What brings pages, if any can be missed.
    pub(crate) gather: Option<&'a FaultHandler<'a>>,
    /// Starts the threads that do the jobs.
    pub(crate) start: &'a dyn Fn() -> Result<(), RunError>,
    /// Starts those that bring pages, if the others do not: a query that misses nothing needs none.
    pub(crate) start_gathering: &'a dyn Fn() -> Result<(), RunError>,
}

/// What all launches of a query share.
pub(crate) struct LaunchContext<'a> {
    pub(crate) entry: &'a Kernel<'a>,
    pub(crate) blocks: u32,
    pub(crate) paging: Option<PagingDesc>,
    pub(crate) placed: &'a KernelArguments,
    pub(crate) given: &'a ScratchBuffers<'a>,
    pub(crate) sizes: Sizes,
    pub(crate) warps: usize,
    /// Runs of rows, and all their tiles.
    pub(crate) runs: usize,
    pub(crate) tiles: u64,
    /// Device address of the word that says that a stored job made no sense.
    pub(crate) undecoded: u64,
}

impl QueryRun<'_> {
    /// What brings pages that kernels miss, if they can miss any.
    pub(crate) fn gather<'a>(
        &'a self,
        machine: &DeviceContext<'a>,
        uploader: &'a Uploader<'a>,
    ) -> Result<Option<FaultHandler<'a>>, RunError> {
        if !self.kernel.is_paged() {
            return Ok(None);
        }
        let means = FaultContext {
            device: machine.device,
            compute: machine.compute,
            copy: machine.copy,
            slots: machine.page_slots,
            placing: machine.placing,
            list: machine.faults.take()?,
            threads: machine.threads.max(1),
        };
        Ok(Some(FaultHandler::new(
            self.request,
            &self.transfer.page_table,
            uploader,
            means,
        )))
    }

    pub(crate) fn place_paging(&self, placed: &mut KernelArguments, wanted: &mut ScratchLayout) {
        let (paging, stripes) = (&self.transfer.page_table, &self.request.input.stripes);
        if paging.columns.is_empty() {
            return;
        }
        placed.first_rows = wanted.bytes(&all_bytes(&self.request.input.first_rows()[..stripes.len()]));
        placed.pieces = wanted.bytes(&all_bytes(&paging.descriptions(stripes.len())));
        placed.wanted = wanted.marks(paging.bits_bytes());
        placed.came = wanted.marks(paging.bits_bytes());
    }

    pub(crate) fn paging_desc(
        &self,
        placed: &KernelArguments,
        given: &ScratchBuffers<'_>,
        list: &PinnedBuffer,
    ) -> PagingDesc {
        let (written, zeroed) = (given.written.address(), given.zeroed.address());
        PagingDesc {
            first_rows: written + placed.first_rows as u64,
            pieces: written + placed.pieces as u64,
            wanted: given.marks.address() + placed.wanted as u64,
            list: list.address(),
            missed: zeroed + placed.missed as u64,
            capacity: (list.len() / 4) as u32,
            stripes: self.request.input.stripes.len() as u32,
        }
    }

    /// Launches everything as often as need be, and waits for it.
    pub(crate) fn passes(
        &self,
        launched: &LaunchContext<'_>,
        launches: &[Launch],
        machine: &DeviceContext<'_>,
        (uploader, crew): (&Uploader<'_>, &IoThreads<'_>),
        cost: &mut Cost,
    ) -> Result<KernelResults, RunError> {
        let (started, ended) = (Event::new(machine.device, true)?, Event::new(machine.device, true)?);
        let means = decode_launcher::DecodeContext {
            device: machine.device,
            compute: machine.compute,
            copy: machine.copy,
            kernels: machine.kernels,
        };
        let mut arrivals = DecodeLauncher::new(means, &self.transfer.jobs, launched.undecoded, &started)?;
        cost.compile += arrivals.compile;
        self.clear_bits(machine)?;
        // Everything has come when the first pass is over.
        let again = [Launch {
            jobs: self.transfer.jobs.len(),
            first_tile: 0,
            end_tile: launched.tiles,
            ends_window: None,
        }];
        let most = self.most_passes(launched);
        let mut threads = false;
        let left = loop {
            // While columns are on their way, the pass is for finding misses early; its order of additions is not that of other passes.
            let looks = cost.passes == 0 && crew.gather.is_some() && !self.transfer.jobs.is_empty();
            if looks {
                (crew.start_gathering)()?;
                threads = true;
            }
            let patience = if looks { PATIENT_TILES } else { self.patience() };
            let of_pass = if cost.passes == 0 { launches } else { &again };
            self.pass(launched, (of_pass, patience), machine, (uploader, &mut arrivals))?;
            ended.record(machine.compute)?;
            self.wait(&ended)?;
            cost.passes += 1;
            let left = self.read_back(launched)?;
            let Some(gather) = crew.gather.filter(|_| left.refused == 0 && left.undecoded.is_none()) else {
                break left;
            };
            if left.missed == 0 && !looks {
                // Only misses leave any, and what came for them; those of earlier passes were cleared.
                machine.faults.is_clean();
                launched.given.are_unmarked();
                break left;
            }
            if !threads {
                (crew.start_gathering)()?;
                threads = true;
            }
            gather.finish_pass(left.missed as usize)?;
            if cost.passes >= most {
                let what = format!("pages are still missing after {most} passes over the rows");
                return Err(RunError::Invalid(what));
            }
            launched.given.clear(machine.compute)?;
        };
        cost.device_decode = arrivals.decoding_time();
        cost.kernel = ended
            .ms_since(&started)
            .map_or(Duration::ZERO, |ms| Duration::from_secs_f64(ms.max(0.0) / 1e3));
        Ok(left)
    }

    /// A pass finds everything that the first step of the cascade misses that misses anything, as far as there is room in the list; one may
    /// only look, and the last one misses nothing.
    fn most_passes(&self, launched: &LaunchContext<'_>) -> u64 {
        let listed = launched.paging.map_or(1, |p| u64::from(p.capacity.max(1)));
        2 + self.kernel.steps() as u64 + u64::from(self.transfer.page_table.pages) / listed
    }

    /// Sets to zero the bits of columns of which nothing is there.
    fn clear_bits(&self, machine: &DeviceContext<'_>) -> Result<(), CudaError> {
        let unset = &self.transfer.page_table.unset;
        let mut next = 0;
        while let Some(first) = unset.get(next) {
            let follows = |pair: &[DeviceRange]| pair[0].is_followed_by(&pair[1]);
            let count = 1 + unset[next..].windows(2).take_while(|pair| follows(pair)).count();
            let last = &unset[next + count - 1];
            let bytes = last.offset + last.len - first.offset;
            machine.compute.fill(&first.buffer, first.offset, bytes, 0)?;
            next += count;
        }
        Ok(())
    }

    /// Launches everything once.
    fn pass(
        &self,
        launched: &LaunchContext<'_>,
        (launches, patience): (&[Launch], u32),
        machine: &DeviceContext<'_>,
        (uploader, arrivals): (&Uploader<'_>, &mut DecodeLauncher<'_>),
    ) -> Result<(), RunError> {
        let ended = Event::new(machine.device, false)?;
        for (at, launch) in launches.iter().enumerate() {
            arrivals.bring(launch.jobs, uploader)?;
            let head = self.head(launched, launch, flags(at, launches.len(), launch), patience);
            let (columns, valid) = (&launched.placed.columns, &launched.placed.valid);
            let bytes = parameter(&head, columns, valid, launched.paging.as_ref());
            let mut args = Args::new().with_bytes(&bytes);
            launched
                .entry
                .launch(machine.compute, launched.blocks, BLOCK_THREADS, &mut args)?;
            if let Some(window) = launch.ends_window {
                // The window after the next one takes this one's memory.
                ended.record(machine.compute)?;
                self.wait(&ended)?;
                uploader.allow(window + 3);
            }
        }
        Ok(())
    }
}
