//! Seeing to it that what jobs bring is there for the kernels launched next: their copies are waited for, and what came as it is stored
//! is decoded, in launches of its own between copies and query. Nothing is waited for here but by streams.

use std::sync::Arc;
use std::time::Duration;

use grampus_io_stack::cuda::{Args, CudaError, Device, Event, Module, Stream};
use grampus_io_stack::layout::bytes_of;

use crate::abi::decode::{DECODE_JOBS, DecodeJob, DecodeLaunch};
use crate::codegen::{BLOCK_THREADS, GPU_LANES};
use crate::decode::ENTRY;
use crate::error::RunError;
use crate::kernel_cache::{KernelCache, Origin};
use crate::runtime::memory::staging_buffer::HALVES;
use crate::runtime::transfer::copy_job::{CopyJob, CopySource, EncodedCopy};
use crate::runtime::transfer::uploader::Uploader;

/// Blocks on a multiprocessor: what the kernel's registers are bounded for.
const BLOCKS_EACH: u32 = 4;

/// What kernels are launched by.
#[derive(Clone, Copy)]
pub(crate) struct DecodeContext<'a> {
    pub(crate) device: &'a Device,
    pub(crate) compute: &'a Stream,
    pub(crate) copy: &'a Stream,
    pub(crate) kernels: &'a KernelCache,
}

/// How far a query's jobs have come, as kernels see it.
pub(crate) struct DecodeLauncher<'a> {
    means: DecodeContext<'a>,
    jobs: &'a [CopyJob],
    /// By stage: jobs before its end.
    half_ends: Vec<usize>,
    /// Stages that are decoded.
    half: usize,
    /// Compiled if a job needs it.
    module: Option<Arc<Module>>,
    /// Device address of the word that says that a stream made no sense.
    failed: u64,
    arrived: Event,
    decoded: Event,
    /// Before the first kernel.
    started: &'a Event,
    has_started: bool,
    /// Around the decoding of each stretch of jobs.
    times: Vec<(Event, Event)>,
    /// Jobs that are there, and decoded.
    next: usize,
    /// Time it took to get the kernel, if it was not at hand.
    pub(crate) compile: Duration,
}

impl<'a> DecodeLauncher<'a> {
    pub(crate) fn new(
        means: DecodeContext<'a>,
        jobs: &'a [CopyJob],
        failed: u64,
        started: &'a Event,
    ) -> Result<Self, CudaError> {
        let mut arrivals = Self {
            means,
            jobs,
            half_ends: half_ends(jobs),
            half: 0,
            module: None,
            failed,
            arrived: Event::new(means.device, false)?,
            decoded: Event::new(means.device, false)?,
            started,
            has_started: false,
            times: Vec::new(),
            next: 0,
            compile: Duration::ZERO,
        };
        if jobs.iter().any(|job| matches!(job.source, CopySource::Encoded(_))) {
            let loaded = means.kernels.decoding()?;
            if loaded.origin != Origin::Memory {
                arrivals.compile = loaded.took;
            }
            arrivals.module = Some(loaded.module);
        }
        Ok(arrivals)
    }

    /// What is launched from now on finds the first `jobs` jobs' values.
    pub(crate) fn bring(&mut self, jobs: usize, uploader: &Uploader<'_>) -> Result<(), RunError> {
        let (copy, compute) = (self.means.copy, self.means.compute);
        while self.next < jobs {
            let end = self.half_ends.get(self.half).map_or(jobs, |end| jobs.min(*end));
            uploader.wait_for(end)?;
            self.arrived.record(copy)?;
            compute.wait(&self.arrived)?;
            self.decode(end)?;
            self.next = end;
            if self.half_ends.get(self.half) == Some(&end) {
                // Copies of the stage after the next take this one's memory: they come after the kernels.
                self.decoded.record(compute)?;
                copy.wait(&self.decoded)?;
                self.half += 1;
                uploader.allow_halves(self.half + HALVES);
            }
        }
        self.start()?;
        Ok(())
    }

    /// Marks the first kernel's start.
    fn start(&mut self) -> Result<(), CudaError> {
        if !self.has_started {
            self.started.record(self.means.compute)?;
            self.has_started = true;
        }
        Ok(())
    }

    /// Decodes the jobs up to `end`.
    fn decode(&mut self, end: usize) -> Result<(), CudaError> {
        let jobs: Vec<&EncodedCopy> = self.jobs[self.next..end].iter().filter_map(staged).collect();
        let Some(module) = self.module.clone().filter(|_| !jobs.is_empty()) else {
            return Ok(());
        };
        self.start()?;
        let (device, compute) = (self.means.device, self.means.compute);
        let kernel = module.kernel(ENTRY)?;
        let (before, after) = (Event::new(device, true)?, Event::new(device, true)?);
        before.record(compute)?;
        for jobs in jobs.chunks(DECODE_JOBS) {
            let launch = self.parameter(jobs);
            let most = device.multiprocessors().max(1) * BLOCKS_EACH;
            let blocks = launch.tasks.div_ceil(BLOCK_THREADS / GPU_LANES).clamp(1, most);
            let mut args = Args::new().with_bytes(&bytes_of(&launch));
            kernel.launch(compute, blocks, BLOCK_THREADS, &mut args)?;
        }
        after.record(compute)?;
        self.times.push((before, after));
        Ok(())
    }

    fn parameter(&self, jobs: &[&EncodedCopy]) -> DecodeLaunch {
        let mut launch = DecodeLaunch {
            failed: self.failed,
            ..DecodeLaunch::default()
        };
        for (job, out) in jobs.iter().zip(&mut launch.job) {
            let Some(staged) = &job.staged else { continue };
            *out = DecodeJob {
                tasks: staged.to.address(),
                first: launch.tasks,
                count: job.batch.tasks() as u32,
            };
            launch.tasks += out.count;
            launch.jobs += 1;
        }
        launch
    }

    /// Time that decoding took on the device, once everything has ended.
    pub(crate) fn decoding_time(&self) -> Duration {
        let ms = |(before, after): &(Event, Event)| after.ms_since(before).map_or(0.0, |ms| ms.max(0.0));
        Duration::from_secs_f64(self.times.iter().map(ms).sum::<f64>() / 1e3)
    }
}

fn staged(job: &CopyJob) -> Option<&EncodedCopy> {
    match &job.source {
        CopySource::Encoded(stored) => Some(stored),
        CopySource::FileRanges { .. } | CopySource::CpuDecode { .. } => None,
    }
}

/// By stage: jobs before its end.
fn half_ends(jobs: &[CopyJob]) -> Vec<usize> {
    let mut ends: Vec<usize> = Vec::new();
    for (at, job) in jobs.iter().enumerate() {
        let Some(staged) = staged(job).and_then(|stored| stored.staged.as_ref()) else {
            continue;
        };
        ends.resize(staged.half + 1, at);
        ends[staged.half] = at + 1;
    }
    ends
}
