//! `DecodeLauncher`: decompression, and launches of decode kernels, between copies and query kernels.
//!
//! Before each query launch:
//!
//! 1. The host waits until the launch's copies are *enqueued*: reader threads enqueue them as they do the jobs.
//! 2. The stream of a lane waits until these copies are *complete*. Lanes take turns.
//! 3. The chunks of compressed streams are decompressed, behind what was copied of them (`ChunkDecompressor`).
//! 4. Decode kernels expand what was copied in encoded form to where query kernels read it.
//! 5. Some launches later, the copy stream waits for these kernels, and jobs may fill the part of the staging buffer
//!    again.
//! 6. The query's stream waits for all lanes.

use std::time::Duration;

use grampus_cuda::{CudaError, Event};

use crate::decompress::chunk_table::ChunkTable;
use crate::error::RunError;
use crate::options::Decompression;
use crate::runtime::decoding::chunk_decompressor::ChunkDecompressor;
use crate::runtime::decoding::decode_context::DecodeContext;
use crate::runtime::decoding::decode_kernel::{DecodeKernel, DecodeTasks};
use crate::runtime::device_state::DeviceState;
use crate::runtime::memory::staging_buffer::STAGING_PARTS;
use crate::runtime::query_resources::QueryResources;
use crate::runtime::transfer::copy_job::{CopyJob, CopySource, EncodedCopy};
use crate::runtime::transfer::uploader::Uploader;

/// Parts of the staging buffer whose kernels are launched and may not have ended. The copy stream would wait for the
/// latest ones, and the copies to other parts behind it.
const PARTS_IN_DECODING: usize = STAGING_PARTS / 2;

/// How far a query's jobs are decoded.
pub(crate) struct DecodeLauncher<'a> {
    state: &'a DeviceState,
    resources: &'a QueryResources,
    jobs: &'a [CopyJob],
    /// By filling of a part of the staging buffer: jobs before its end.
    filling_ends: Vec<usize>,
    /// By filling whose kernels are launched: runs in `times` before its end.
    run_ends: Vec<usize>,
    /// Loaded if a job needs it.
    kernel: Option<DecodeKernel>,
    /// One for each lane, if a job needs it.
    decoders: Vec<LaneDecoder<'a>>,
    /// The decoder whose turn it is.
    turn: usize,
    /// Device address of the word in which a job is noted that could not be decoded.
    failed: u64,
    arrived: Event,
    /// Recorded before the first kernel.
    started: &'a Event,
    has_started: bool,
    /// Recorded around each run of decode kernels.
    times: Vec<(Event, Event)>,
    /// Jobs that are on the device, and decoded.
    next: usize,
    /// Time to load or compile kernels that were not in memory.
    pub(crate) compile: Duration,
}

/// The decoder of one lane.
struct LaneDecoder<'a> {
    context: DecodeContext<'a>,
    decompressor: ChunkDecompressor<'a>,
    /// Recorded behind each run of decode kernels.
    decoded: Event,
    /// The query's stream does not wait for the last run yet.
    is_new: bool,
}

impl<'a> DecodeLauncher<'a> {
    pub(crate) fn new(
        (state, resources): (&'a DeviceState, &'a QueryResources),
        jobs: &'a [CopyJob],
        decompression: Decompression<'a>,
        failed: u64,
        started: &'a Event,
    ) -> Result<Self, CudaError> {
        let encoded: Vec<&EncodedCopy> = jobs.iter().filter_map(encoded_copy).collect();
        let mut launcher = Self {
            state,
            resources,
            jobs,
            filling_ends: filling_ends(jobs),
            run_ends: Vec::new(),
            kernel: None,
            decoders: Vec::new(),
            turn: 0,
            failed,
            arrived: Event::new(&state.device, false)?,
            started,
            has_started: false,
            times: Vec::new(),
            next: 0,
            compile: Duration::ZERO,
        };
        if !encoded.is_empty() {
            launcher.load(&encoded, decompression)?;
        }
        Ok(launcher)
    }

    /// Loads kernels, and takes memory, for jobs.
    fn load(&mut self, encoded: &[&EncodedCopy], decompression: Decompression<'a>) -> Result<(), CudaError> {
        let device = &self.state.device;
        let cleared = Event::new(device, false)?;
        cleared.record(&self.resources.compute)?;
        let tables = chunk_tables(encoded);
        for lane in &self.resources.decode_lanes {
            let decoding = DecodeContext {
                device,
                stream: &lane.stream,
                kernels: &self.state.kernels,
                library_memory: &lane.library_memory,
                decompression,
            };
            lane.stream.wait(&cleared)?; // the word for failures
            let decompressor = ChunkDecompressor::new(decoding, &tables, self.failed)?;
            self.compile += decompressor.compile;
            self.decoders.push(LaneDecoder {
                context: decoding,
                decompressor,
                decoded: Event::new(device, false)?,
                is_new: false,
            });
        }
        if let Some(decoder) = self.decoders.first() {
            let kernel = DecodeKernel::new(&decoder.context)?;
            self.compile += kernel.compile;
            self.kernel = Some(kernel);
        }
        Ok(())
    }

    /// Kernels launched from now on find the values of the first `jobs` jobs.
    pub(crate) fn prepare(&mut self, jobs: usize, uploader: &Uploader<'_>) -> Result<(), RunError> {
        let (copy, compute) = (&self.resources.copy, &self.resources.compute);
        while self.next < jobs {
            let filling_end = self.filling_ends.get(self.run_ends.len()).copied();
            let end = filling_end.map_or(jobs, |end| jobs.min(end));
            uploader.wait_for(end)?;
            self.arrived.record(copy)?;
            compute.wait(&self.arrived)?; // for what is not encoded
            self.decode(end)?;
            self.next = end;
            if filling_end == Some(end) {
                self.run_ends.push(self.times.len());
                self.release(uploader)?;
            }
        }
        for decoder in &mut self.decoders {
            if std::mem::take(&mut decoder.is_new) {
                compute.wait(&decoder.decoded)?;
            }
        }
        if !std::mem::replace(&mut self.has_started, true) {
            self.started.record(compute)?;
        }
        Ok(())
    }

    /// Lets jobs fill the part of a filling before the last one.
    fn release(&mut self, uploader: &Uploader<'_>) -> Result<(), CudaError> {
        let Some(filling) = self.run_ends.len().checked_sub(1 + PARTS_IN_DECODING) else {
            return Ok(());
        };
        // Copies to the same memory come after the kernels.
        let first = filling.checked_sub(1).map_or(0, |before| self.run_ends[before]);
        for (_, decoded) in &self.times[first..self.run_ends[filling]] {
            self.resources.copy.wait(decoded)?;
        }
        uploader.allow_fillings(filling + 1 + STAGING_PARTS);
        Ok(())
    }

    /// Decompresses and decodes the jobs up to `end`.
    fn decode(&mut self, end: usize) -> Result<(), CudaError> {
        let jobs: Vec<&EncodedCopy> = self.jobs[self.next..end].iter().filter_map(encoded_copy).collect();
        let lanes = self.decoders.len();
        let (Some(kernel), Some(decoder), false) = (&self.kernel, self.decoders.get_mut(self.turn), jobs.is_empty())
        else {
            return Ok(());
        };
        let (device, stream) = (&self.state.device, decoder.context.stream);
        stream.wait(&self.arrived)?;
        if !std::mem::replace(&mut self.has_started, true) {
            self.started.record(stream)?;
        }
        let (before, after) = (Event::new(device, true)?, Event::new(device, true)?);
        before.record(stream)?;
        decoder.decompressor.decompress(&chunk_tables(&jobs))?;
        let tasks = jobs.iter().filter_map(|job| decode_tasks(job));
        kernel.launch(&decoder.context, tasks, self.failed)?;
        after.record(stream)?;
        decoder.decoded.record(stream)?;
        decoder.is_new = true;
        self.times.push((before, after));
        self.turn = (self.turn + 1) % lanes;
        Ok(())
    }

    /// Time in which the device decoded, once everything has ended.
    pub(crate) fn decoding_time(&self) -> Duration {
        let since = |event: &Event| event.ms_since(self.started).map_or(0.0, |ms| ms.max(0.0));
        let runs = self.times.iter().map(|(before, after)| (since(before), since(after)));
        Duration::from_secs_f64(covered(runs.collect()) / 1e3)
    }
}

/// Length of the union of intervals.
fn covered(mut intervals: Vec<(f64, f64)>) -> f64 {
    intervals.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut length, mut until) = (0.0, f64::NEG_INFINITY);
    for (start, end) in intervals {
        length += (end - start.max(until)).max(0.0);
        until = until.max(end);
    }
    length
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

/// By filling of the staging buffer's parts, in their order: jobs before its end.
fn filling_ends(jobs: &[CopyJob]) -> Vec<usize> {
    let mut ends: Vec<usize> = Vec::new();
    for (at, job) in jobs.iter().enumerate() {
        let Some(slot) = encoded_copy(job).and_then(|copy| copy.staged.as_ref()) else {
            continue;
        };
        ends.resize(slot.filling + 1, at);
        ends[slot.filling] = at + 1;
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_lanes_overlap_counts_once() {
        assert!(covered(Vec::new()).abs() < 1e-12);
        let time = covered(vec![(2.0, 5.0), (0.0, 1.0), (3.0, 4.0), (4.5, 6.0)]);
        assert!((time - 5.0).abs() < 1e-12, "{time}");
    }
}
