//! `DecodeLauncher`: decompression, and launches of decode kernels, between copies and query kernels.
//!
//! Before each query launch:
//!
//! 1. The host waits until the launch's copies are *enqueued*: reader threads enqueue them as they do the jobs.
//! 2. The compute stream waits until these copies are *complete*.
//! 3. The chunks of compressed streams are decompressed, behind what was copied of them (`ChunkDecompressor`).
//! 4. Decode kernels expand what was copied in encoded form to where query kernels read it.
//! 5. When a half of the staging buffer is decoded, the copy stream waits for that, and jobs may fill the half again.

use std::time::Duration;

use grampus_io_stack::cuda::{CudaError, Event};

use crate::decompress::chunk_table::ChunkTable;
use crate::error::RunError;
use crate::options::Decompression;
use crate::runtime::decoding::chunk_decompressor::ChunkDecompressor;
use crate::runtime::decoding::decode_context::DecodeContext;
use crate::runtime::decoding::decode_kernel::{DecodeKernel, DecodeTasks};
use crate::runtime::launch::device_context::DeviceContext;
use crate::runtime::memory::staging_buffer::HALVES;
use crate::runtime::transfer::copy_job::{CopyJob, CopySource, EncodedCopy};
use crate::runtime::transfer::uploader::Uploader;

/// How far a query's jobs are decoded.
pub(crate) struct DecodeLauncher<'a> {
    context: &'a DeviceContext<'a>,
    decode_context: DecodeContext<'a>,
    jobs: &'a [CopyJob],
    /// By half, in the order of filling: jobs before its end.
    half_ends: Vec<usize>,
    /// Halves that are decoded.
    half: usize,
    /// Loaded if a job needs it.
    kernel: Option<DecodeKernel>,
    decompressor: ChunkDecompressor<'a>,
    /// Device address of the word in which a job is noted that could not be decoded.
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
        decompression: Decompression<'a>,
        failed: u64,
        started: &'a Event,
    ) -> Result<Self, CudaError> {
        let encoded: Vec<&EncodedCopy> = jobs.iter().filter_map(encoded_copy).collect();
        let decode_context = DecodeContext {
            device: context.device,
            stream: context.compute,
            kernels: context.kernels,
            library_memory: context.library_memory,
            decompression,
        };
        let decompressor = ChunkDecompressor::new(decode_context, &chunk_tables(&encoded), failed)?;
        let mut launcher = Self {
            context,
            decode_context,
            jobs,
            half_ends: half_ends(jobs),
            half: 0,
            kernel: None,
            compile: decompressor.compile,
            decompressor,
            failed,
            arrived: Event::new(context.device, false)?,
            decoded: Event::new(context.device, false)?,
            started,
            has_started: false,
            times: Vec::new(),
            next: 0,
        };
        if !encoded.is_empty() {
            let kernel = DecodeKernel::new(&decode_context)?;
            launcher.compile += kernel.compile;
            launcher.kernel = Some(kernel);
        }
        Ok(launcher)
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
        let Some(kernel) = self.kernel.clone().filter(|_| !jobs.is_empty()) else {
            return Ok(());
        };
        self.start()?;
        let (device, compute) = (self.context.device, self.context.compute);
        let (before, after) = (Event::new(device, true)?, Event::new(device, true)?);
        before.record(compute)?;
        self.decompressor.decompress(&chunk_tables(&jobs))?;
        kernel.launch(
            &self.decode_context,
            jobs.iter().filter_map(|job| decode_tasks(job)),
            self.failed,
        )?;
        after.record(compute)?;
        self.times.push((before, after));
        Ok(())
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

/// The tables of the jobs' chunks. A column that is not compressed has none.
fn chunk_tables(jobs: &[&EncodedCopy]) -> Vec<ChunkTable> {
    let table = |job: &&EncodedCopy| job.batch.chunk_table(&job.encoded, job.staged.as_ref()?.to.address());
    jobs.iter().filter_map(table).collect()
}

/// The tasks of a job that has its place.
fn decode_tasks(job: &EncodedCopy) -> Option<DecodeTasks> {
    let slot = job.staged.as_ref()?;
    Some(DecodeTasks {
        address: slot.to.address(),
        count: job.batch.tasks() as u32,
    })
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
