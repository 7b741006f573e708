//! `DecodeLauncher`: launches of the decompression and decode kernels, between copies and query kernels.
//!
//! Before each query launch:
//!
//! 1. The host waits until the launch's copies are *enqueued*: reader threads enqueue them as they do the jobs.
//! 2. The compute stream waits until these copies are *complete*.
//! 3. A decompression kernel expands the chunks of compressed streams, behind what was copied of them.
//! 4. Decode kernels expand what was copied in encoded form to where query kernels read it.
//! 5. When a half of the staging buffer is decoded, the copy stream waits for that, and jobs may fill the half again.

use std::sync::Arc;
use std::time::Duration;

use grampus_io_stack::abi::bytes_of;
use grampus_io_stack::cuda::{Args, CudaError, Event, Kernel, Module};

use crate::abi::decode::{DECODE_JOBS, DecodeJob, DecodeLaunch};
use crate::abi::decompress::{ChunkJob, DECOMPRESS_JOBS, DecompressLaunch};
use crate::codegen::{BLOCK_THREADS, GPU_LANES};
use crate::error::RunError;
use crate::kernel_cache::{Loaded, Origin};
use crate::runtime::launch::device_context::DeviceContext;
use crate::runtime::memory::staging_buffer::HALVES;
use crate::runtime::transfer::copy_job::{CopyJob, CopySource, EncodedCopy};
use crate::runtime::transfer::uploader::Uploader;
use crate::{decode, decompress};

/// Blocks on a multiprocessor: the kernel's registers are bounded for so many.
const BLOCKS_EACH: u32 = 4;

/// How far a query's jobs are decoded.
pub(crate) struct DecodeLauncher<'a> {
    context: &'a DeviceContext<'a>,
    jobs: &'a [CopyJob],
    /// By half, in the order of filling: jobs before its end.
    half_ends: Vec<usize>,
    /// Halves that are decoded.
    half: usize,
    /// Of the decode kernel, and of the decompression kernel. Loaded if a job needs them.
    decoding: Option<Arc<Module>>,
    decompressing: Option<Arc<Module>>,
    /// Device address of the word in which a job is noted that could not be decompressed or decoded.
    failed: u64,
    arrived: Event,
    decoded: Event,
    /// Recorded before the first kernel.
    started: &'a Event,
    has_started: bool,
    /// Recorded around each run of decode kernels.
    times: Vec<(Event, Event)>,
    /// Jobs that are on the device, and decoded.
    next: usize,
    /// Time to load or compile the decode kernel, if it was not in memory.
    pub(crate) compile: Duration,
}

impl<'a> DecodeLauncher<'a> {
    pub(crate) fn new(
        context: &'a DeviceContext<'a>,
        jobs: &'a [CopyJob],
        failed: u64,
        started: &'a Event,
    ) -> Result<Self, CudaError> {
        let mut launcher = Self {
            context,
            jobs,
            half_ends: half_ends(jobs),
            half: 0,
            decoding: None,
            decompressing: None,
            failed,
            arrived: Event::new(context.device, false)?,
            decoded: Event::new(context.device, false)?,
            started,
            has_started: false,
            times: Vec::new(),
            next: 0,
            compile: Duration::ZERO,
        };
        let mut encoded = jobs.iter().filter_map(encoded_copy).peekable();
        if encoded.peek().is_some() {
            launcher.decoding = Some(launcher.loaded(context.kernels.decoding()?));
        }
        if encoded.any(|copy| copy.batch.chunks() > 0) {
            launcher.decompressing = Some(launcher.loaded(context.kernels.decompressing()?));
        }
        Ok(launcher)
    }

    /// The module of a kernel, whose time counts.
    fn loaded(&mut self, loaded: Loaded) -> Arc<Module> {
        if loaded.origin != Origin::Memory {
            self.compile += loaded.took;
        }
        loaded.module
    }

    /// Kernels launched from now on find the values of the first `jobs` jobs.
    pub(crate) fn prepare(&mut self, jobs: usize, uploader: &Uploader<'_>) -> Result<(), RunError> {
        let (copy, compute) = (self.context.copy, self.context.compute);
        while self.next < jobs {
            let end = self.half_ends.get(self.half).map_or(jobs, |end| jobs.min(*end));
            uploader.wait_for(end)?;
            self.arrived.record(copy)?;
            compute.wait(&self.arrived)?;
            self.decode(end)?;
            self.next = end;
            if self.half_ends.get(self.half) == Some(&end) {
                // Copies into the half after the next take this one's memory: they come after the kernels.
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
            self.started.record(self.context.compute)?;
            self.has_started = true;
        }
        Ok(())
    }

    /// Decompresses and decodes the jobs up to `end`.
    fn decode(&mut self, end: usize) -> Result<(), CudaError> {
        let jobs: Vec<&EncodedCopy> = self.jobs[self.next..end].iter().filter_map(encoded_copy).collect();
        let Some(decoding) = self.decoding.clone().filter(|_| !jobs.is_empty()) else {
            return Ok(());
        };
        self.start()?;
        let (device, compute) = (self.context.device, self.context.compute);
        let (before, after) = (Event::new(device, true)?, Event::new(device, true)?);
        before.record(compute)?;
        if let Some(decompressing) = &self.decompressing {
            let compressed: Vec<&EncodedCopy> = jobs.iter().copied().filter(|job| job.batch.chunks() > 0).collect();
            let kernel = decompressing.kernel(decompress::ENTRY)?;
            for jobs in compressed.chunks(DECOMPRESS_JOBS) {
                let launch = self.decompression(jobs);
                self.launch(&kernel, launch.chunks, &bytes_of(&launch))?;
            }
        }
        let kernel = decoding.kernel(decode::ENTRY)?;
        for jobs in jobs.chunks(DECODE_JOBS) {
            let launch = self.parameter(jobs);
            self.launch(&kernel, launch.tasks, &bytes_of(&launch))?;
        }
        after.record(compute)?;
        self.times.push((before, after));
        Ok(())
    }

    /// Launches a kernel of which each warp takes one of so many tasks after the other.
    fn launch(&self, kernel: &Kernel<'_>, tasks: u32, parameter: &[u8]) -> Result<(), CudaError> {
        let most = self.context.device.multiprocessors().max(1) * BLOCKS_EACH;
        let blocks = tasks.div_ceil(BLOCK_THREADS / GPU_LANES).clamp(1, most);
        let mut args = Args::new().with_bytes(parameter);
        kernel.launch(self.context.compute, blocks, BLOCK_THREADS, &mut args)
    }

    fn decompression(&self, jobs: &[&EncodedCopy]) -> DecompressLaunch {
        let mut launch = DecompressLaunch {
            failed: self.failed,
            ..DecompressLaunch::default()
        };
        for (job, out) in jobs.iter().zip(&mut launch.job) {
            let Some(slot) = &job.staged else { continue };
            *out = ChunkJob {
                chunks: job.batch.chunk_table(slot.to.address()),
                first: launch.chunks,
                count: job.batch.chunks() as u32,
            };
            launch.chunks += out.count;
            launch.jobs += 1;
        }
        launch
    }

    fn parameter(&self, jobs: &[&EncodedCopy]) -> DecodeLaunch {
        let mut launch = DecodeLaunch {
            failed: self.failed,
            ..DecodeLaunch::default()
        };
        for (job, out) in jobs.iter().zip(&mut launch.job) {
            let Some(slot) = &job.staged else { continue };
            *out = DecodeJob {
                tasks: slot.to.address(),
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

fn encoded_copy(job: &CopyJob) -> Option<&EncodedCopy> {
    match &job.source {
        CopySource::Encoded(copy) => Some(copy),
        CopySource::FileRanges { .. } | CopySource::CpuDecode { .. } => None,
    }
}

/// By half, in the order of filling: jobs before its end.
fn half_ends(jobs: &[CopyJob]) -> Vec<usize> {
    let mut ends: Vec<usize> = Vec::new();
    for (at, job) in jobs.iter().enumerate() {
        let Some(slot) = encoded_copy(job).and_then(|copy| copy.staged.as_ref()) else {
            continue;
        };
        ends.resize(slot.half + 1, at);
        ends[slot.half] = at + 1;
    }
    ends
}
