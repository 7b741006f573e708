//! A query's passes over its rows: one, or, where kernels look for pages that are not there yet, as many as it takes until none is missed.
//! What is launched, and with what, is drive.rs's business.

use std::time::Duration;

use grampus_io_stack::cuda::{Args, CudaError, Event, Kernel, PinnedBuffer};

use crate::abi::paging::PagingDesc;
use crate::abi::query::{Sizes, parameter};
use crate::codegen::BLOCK_THREADS;
use crate::error::RunError;
use crate::output::Cost;
use crate::runtime::launch::decode_launcher::{self, Arrivals};
use crate::runtime::launch::kernel_arguments::{LeftOver, Placed, all_bytes};
use crate::runtime::launch::launch_schedule::Launch;
use crate::runtime::launch::query_run::{Machine, PATIENT_TILES, Query, flags};
use crate::runtime::memory::arena::Piece;
use crate::runtime::memory::query_scratch::{Given, Wanted};
use crate::runtime::paging::fault_handler::{Gather, Means};
use crate::runtime::transfer::transfer_plan::bases;
use crate::runtime::transfer::uploader::Pusher;

/// Those who bring something, and how they are started.
pub(crate) struct Crew<'a> {
    /// What brings pages, if any can be missed.
    pub(crate) gather: Option<&'a Gather<'a>>,
    /// Starts the threads that do the jobs.
    pub(crate) start: &'a dyn Fn() -> Result<(), RunError>,
    /// Starts those that bring pages, if the others do not: a query that misses nothing needs none.
    pub(crate) start_gathering: &'a dyn Fn() -> Result<(), RunError>,
}

/// What all launches of a query share.
pub(crate) struct Launched<'a> {
    pub(crate) entry: &'a Kernel<'a>,
    pub(crate) blocks: u32,
    pub(crate) paging: Option<PagingDesc>,
    pub(crate) placed: &'a Placed,
    pub(crate) given: &'a Given<'a>,
    pub(crate) sizes: Sizes,
    pub(crate) warps: usize,
    /// Runs of rows, and all their tiles.
    pub(crate) runs: usize,
    pub(crate) tiles: u64,
    /// Device address of the word that says that a stored job made no sense.
    pub(crate) undecoded: u64,
}

impl Query<'_> {
    /// What brings pages that kernels miss, if they can miss any.
    pub(crate) fn gather<'a>(
        &'a self,
        machine: &Machine<'a>,
        pusher: &'a Pusher<'a>,
    ) -> Result<Option<Gather<'a>>, RunError> {
        if !self.kernel.is_paged() {
            return Ok(None);
        }
        let means = Means {
            device: machine.device,
            compute: machine.compute,
            copy: machine.copy,
            slots: machine.page_slots,
            placing: machine.placing,
            list: machine.faults.take()?,
            threads: machine.threads.max(1),
        };
        Ok(Some(Gather::new(self.request, &self.bringing.paging, pusher, means)))
    }

    pub(crate) fn place_paging(&self, placed: &mut Placed, wanted: &mut Wanted) {
        let (paging, stripes) = (&self.bringing.paging, &self.request.input.stripes);
        if paging.pieces.is_empty() {
            return;
        }
        placed.first_rows = wanted.bytes(&all_bytes(&bases(stripes)[..stripes.len()]));
        placed.pieces = wanted.bytes(&all_bytes(&paging.described(stripes.len())));
        placed.wanted = wanted.marks(paging.bits_bytes());
        placed.came = wanted.marks(paging.bits_bytes());
    }

    pub(crate) fn paging_desc(&self, placed: &Placed, given: &Given<'_>, list: &PinnedBuffer) -> PagingDesc {
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
        launched: &Launched<'_>,
        launches: &[Launch],
        machine: &Machine<'_>,
        (pusher, crew): (&Pusher<'_>, &Crew<'_>),
        cost: &mut Cost,
    ) -> Result<LeftOver, RunError> {
        let (started, ended) = (Event::new(machine.device, true)?, Event::new(machine.device, true)?);
        let means = decode_launcher::Means {
            device: machine.device,
            compute: machine.compute,
            copy: machine.copy,
            modules: machine.modules,
        };
        let mut arrivals = Arrivals::new(means, &self.bringing.jobs, launched.undecoded, &started)?;
        cost.compile += arrivals.compile;
        self.clear_bits(machine)?;
        // Everything has come when the first pass is over.
        let again = [Launch {
            jobs: self.bringing.jobs.len(),
            first_tile: 0,
            end_tile: launched.tiles,
            ends_window: None,
        }];
        let most = self.most_passes(launched);
        let mut threads = false;
        let left = loop {
            // While columns are on their way, the pass is for finding misses early; its order of additions is not that of other passes.
            let looks = cost.passes == 0 && crew.gather.is_some() && !self.bringing.jobs.is_empty();
            if looks {
                (crew.start_gathering)()?;
                threads = true;
            }
            let patience = if looks { PATIENT_TILES } else { self.patience() };
            let of_pass = if cost.passes == 0 { launches } else { &again };
            self.pass(launched, (of_pass, patience), machine, (pusher, &mut arrivals))?;
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
    fn most_passes(&self, launched: &Launched<'_>) -> u64 {
        let listed = launched.paging.map_or(1, |p| u64::from(p.capacity.max(1)));
        2 + self.kernel.steps() as u64 + u64::from(self.bringing.paging.pages) / listed
    }

    /// Sets to zero the bits of columns of which nothing is there.
    fn clear_bits(&self, machine: &Machine<'_>) -> Result<(), CudaError> {
        let unset = &self.bringing.paging.unset;
        let mut next = 0;
        while let Some(first) = unset.get(next) {
            let follows = |pair: &[Piece]| pair[0].is_followed_by(&pair[1]);
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
        launched: &Launched<'_>,
        (launches, patience): (&[Launch], u32),
        machine: &Machine<'_>,
        (pusher, arrivals): (&Pusher<'_>, &mut Arrivals<'_>),
    ) -> Result<(), RunError> {
        let ended = Event::new(machine.device, false)?;
        for (at, launch) in launches.iter().enumerate() {
            arrivals.bring(launch.jobs, pusher)?;
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
                pusher.allow(window + 3);
            }
        }
        Ok(())
    }
}
