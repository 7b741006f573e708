//! Doing jobs: reader threads fill slots of the pinned ring with bytes of files, as they are or stored in some coding, or with columns decoded
//! by the CPU; the copy engine empties them, and who launches kernels learns how far they have got.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use grampus_io_stack::cuda::{Part, Slot, Stream};

use crate::decode::decode_batch::Addresses;
use crate::error::RunError;
use crate::input::Decode;
use crate::input::encoded_column::Values;
use crate::runtime::file_io::file_source::FileSource;
use crate::runtime::memory::copy_target::CopyTarget;
use crate::runtime::memory::pinned_ring::PinnedRing;
use crate::runtime::memory::staging_buffer::HALVES;
use crate::runtime::transfer::copy_job::{CopyJob, CopySource, EncodedCopy};

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct UploadCounters {
    pub(crate) bytes: AtomicU64,
    pub(crate) decode_ns: AtomicU64,
}

#[derive(Debug, Default)]
struct UploadProgress {
    /// Jobs whose copies are in the stream, from the first on without gap; and those beyond.
    prefix: usize,
    beyond: BTreeSet<usize>,
    /// How many of them somebody waits for, who is woken no sooner.
    awaited: usize,
    windows: usize,
    halves: usize,
    failed: Option<RunError>,
}

/// What became of a try at a job.
pub(crate) enum Step {
    Did,
    /// All slots are full, or being filled.
    NoSlot,
    /// There are no more jobs, or no more are begun.
    Over,
}

/// The jobs of one query, and how far they have got.
pub(crate) struct Uploader<'a> {
    pub(crate) ring: &'a PinnedRing,
    pub(crate) stream: &'a Stream,
    pub(crate) jobs: &'a [CopyJob],
    pub(crate) sources: &'a [Option<FileSource>],
    pub(crate) decoder: &'a dyn Decode,
    pub(crate) cancel: &'a AtomicBool,
    pub(crate) done: UploadCounters,
    next: AtomicUsize,
    stop: AtomicBool,
    progress: Mutex<UploadProgress>,
    changed: Condvar,
}

/// What a file has at a multiple of this comes to lie at one in a slot: processors copy pages to where they are aligned in three quarters
/// of the time, and the copy engine does not mind where it reads.
const LINE_BYTES: u64 = 64;
/// How long is waited before the caller's flag is looked at again.
const CANCEL_POLL: Duration = Duration::from_millis(10);

impl<'a> Uploader<'a> {
    pub(crate) fn new(
        ring: &'a PinnedRing,
        stream: &'a Stream,
        jobs: &'a [CopyJob],
        sources: &'a [Option<FileSource>],
        decoder: &'a dyn Decode,
        cancel: &'a AtomicBool,
    ) -> Self {
        let progress = UploadProgress {
            windows: 2,
            halves: HALVES,
            ..UploadProgress::default()
        };
        Self {
            ring,
            stream,
            jobs,
            sources,
            decoder,
            cancel,
            done: UploadCounters::default(),
            next: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            progress: Mutex::new(progress),
            changed: Condvar::new(),
        }
    }

    fn progress(&self) -> MutexGuard<'_, UploadProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No further job is begun.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// Whether the query ends: it was cancelled, something failed, or all is done.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire) || self.cancel.load(Ordering::Relaxed)
    }

    /// Lets jobs of the windows below `windows` start.
    pub(crate) fn allow_windows(&self, windows: usize) {
        self.progress().windows = windows;
        self.changed.notify_all();
    }

    /// Lets jobs of the halves below `halves` start.
    pub(crate) fn allow_halves(&self, halves: usize) {
        self.progress().halves = halves;
        self.changed.notify_all();
    }

    /// Waits until the copies of the first `jobs` jobs are in the stream.
    pub(crate) fn wait_for(&self, jobs: usize) -> Result<(), RunError> {
        let mut progress = self.progress();
        progress.awaited = jobs;
        while progress.prefix < jobs {
            if let Some(e) = progress.failed.take() {
                return Err(e);
            }
            if self.stopped() {
                return Err(RunError::Cancelled);
            }
            let waited = self.changed.wait_timeout(progress, CANCEL_POLL);
            progress = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// What a reader thread does: one job after the other until there are no more.
    pub(crate) fn work(&self) {
        loop {
            // In order, so that the first job not done is always in somebody's hands.
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = self.jobs.get(index) else { return };
            if !self.did(index, self.do_job(index, job)) {
                return;
            }
        }
    }

    /// Jobs that are all [read](CopySource::FileRanges) as files have them, in one window: no thread needs to wait for its turn.
    pub(crate) fn only_reads(&self) -> bool {
        let read = |job: &CopyJob| matches!(job.source, CopySource::FileRanges { .. }) && job.window == 0;
        !self.jobs.is_empty() && self.jobs.iter().all(read)
    }

    /// The next of [such](Self::only_reads) jobs, if a slot is empty and fewer than `slots` are in use.
    pub(crate) fn step(&self, slots: usize) -> Step {
        if self.stopped() || self.next.load(Ordering::Relaxed) >= self.jobs.len() {
            return Step::Over;
        }
        // The slot first: the first job not done is always in the hands of somebody who can do it.
        let slot = match self.ring.try_take(slots) {
            Ok(Some(slot)) => slot,
            Ok(None) => return Step::NoSlot,
            Err(e) => {
                self.did(0, Err(e.into()));
                return Step::Over;
            }
        };
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let read = self.jobs.get(index).and_then(|job| match &job.source {
            CopySource::FileRanges { file, parts } => Some((job, *file, parts)),
            _ => None,
        });
        let Some((job, file, parts)) = read else {
            self.ring.unused(slot);
            return Step::Over;
        };
        match self.did(index, self.fill(slot, job, file, parts)) {
            true => Step::Did,
            false => Step::Over,
        }
    }

    /// Notes what became of a job. False: no further one is to be begun.
    fn did(&self, index: usize, done: Result<bool, RunError>) -> bool {
        match done {
            Ok(true) => self.note(index),
            Ok(false) => return false,
            Err(e) => {
                self.progress().failed.get_or_insert(e);
                self.stop();
                return false;
            }
        }
        true
    }

    fn note(&self, index: usize) {
        let mut guard = self.progress();
        let progress = &mut *guard;
        progress.beyond.insert(index);
        while progress.beyond.remove(&progress.prefix) {
            progress.prefix += 1;
        }
        let reached = progress.prefix >= progress.awaited;
        drop(guard);
        if reached {
            self.changed.notify_all();
        }
    }

    /// False: stopped before.
    /// `number`: among the query's jobs, for those that the device decodes.
    pub(crate) fn do_job(&self, number: usize, job: &CopyJob) -> Result<bool, RunError> {
        if !self.wait_for_turn(|progress| progress.windows > job.window) {
            return Ok(false);
        }
        match &job.source {
            CopySource::FileRanges { file, parts } => self.read(job, *file, parts),
            CopySource::CpuDecode {
                stripe,
                column,
                rows,
                width,
                valid,
            } => {
                let began = Instant::now();
                let decoded = self
                    .decoder
                    .decode(*stripe, *column, rows.clone())
                    .map_err(RunError::Decode)?;
                let spent = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
                self.done.decode_ns.fetch_add(spent, Ordering::Relaxed);
                let count = (rows.end - rows.start) as usize;
                self.push_decoded(job, decoded, count, *width, valid.as_ref())
            }
            CopySource::Encoded(stored) => self.push_stored(number, job, stored),
        }
    }

    /// False: stopped before.
    fn wait_for_turn(&self, has_come: impl Fn(&UploadProgress) -> bool) -> bool {
        let mut progress = self.progress();
        while !has_come(&progress) {
            if self.stopped() {
                return false;
            }
            let waited = self.changed.wait_timeout(progress, CANCEL_POLL);
            progress = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        !self.stopped()
    }

    /// Where a file's bytes come from.
    pub(crate) fn source(&self, file: usize) -> Result<&FileSource, RunError> {
        let source = self.sources.get(file).and_then(Option::as_ref);
        source.ok_or_else(|| RunError::Invalid(format!("file {file} was not opened")))
    }

    fn read(&self, job: &CopyJob, file: usize, parts: &[Range<u64>]) -> Result<bool, RunError> {
        match self.ring.take(|| self.stopped())? {
            Some(slot) => self.fill(slot, job, file, parts),
            None => Ok(false),
        }
    }

    fn fill(&self, mut slot: Slot, job: &CopyJob, file: usize, parts: &[Range<u64>]) -> Result<bool, RunError> {
        let lead = parts.first().map_or(0, |first| first.start % LINE_BYTES) as usize;
        let mut filled = 0;
        for part in parts {
            let read = self
                .source(file)
                .and_then(|source| source.read(&mut slot, lead + filled, part));
            if let Err(e) = read {
                self.ring.unused(slot);
                return Err(e);
            }
            filled += (part.end - part.start) as usize;
        }
        self.push(slot, filled, &[(lead, filled, &job.to)])
    }

    fn push_stored(&self, index: usize, job: &CopyJob, stored: &EncodedCopy) -> Result<bool, RunError> {
        let Some(staged) = &stored.staged else {
            return Err(RunError::Invalid("stored bytes without a place".to_owned()));
        };
        let source = self.source(stored.file)?;
        let dictionary_codes = match stored.encoded.values {
            Values::Codes(..) => {
                let dictionary_codes = self.decoder.dictionary_codes(stored.stripe, stored.column);
                dictionary_codes.map_err(RunError::Decode)?
            }
            _ => Arc::default(),
        };
        if !self.wait_for_turn(|progress| progress.halves > staged.half) {
            return Ok(false);
        }
        let Some(mut slot) = self.ring.take(|| self.stopped())? else {
            return Ok(false);
        };
        let batch = &stored.batch;
        let at = Addresses {
            batch: staged.to.address(),
            values: job.to.address(),
            valid: stored.valid.as_ref().map(CopyTarget::address),
        };
        batch.describe(
            &stored.encoded,
            stored.width,
            &dictionary_codes,
            at,
            index as u32,
            slot.bytes_mut(),
        );
        for (to, bytes) in &batch.parts {
            if let Err(e) = source.read(&mut slot, *to, bytes) {
                self.ring.unused(slot);
                return Err(e);
            }
        }
        // What the kernel is told comes along, and is not counted.
        self.push(slot, batch.stored_bytes() as usize, &[(0, batch.bytes, &staged.to)])
    }

    fn push_decoded(
        &self,
        job: &CopyJob,
        decoded: crate::input::Decoded,
        rows: usize,
        width: usize,
        valid: Option<&CopyTarget>,
    ) -> Result<bool, RunError> {
        let wrong = |what: &str, is: usize, should: usize| {
            RunError::Decode(format!("the decoder gave {is} bytes of {what} for {rows} rows, not {should}").into())
        };
        if decoded.values.len() != rows * width {
            return Err(wrong("values", decoded.values.len(), rows * width));
        }
        if let Some(bytes) = &decoded.valid
            && bytes.len() != rows
        {
            return Err(wrong("validity", bytes.len(), rows));
        }
        if valid.is_none() && decoded.valid.as_ref().is_some_and(|v| v.contains(&0)) {
            return Err(RunError::Decode("a NULL in a column that is said to have none".into()));
        }
        let Some(mut slot) = self.ring.take(|| self.stopped())? else {
            return Ok(false);
        };
        let values = decoded.values.len();
        slot.bytes_mut()[..values].copy_from_slice(&decoded.values);
        let Some(target) = valid else {
            return self.push(slot, values, &[(0, values, &job.to)]);
        };
        let there = &mut slot.bytes_mut()[values..values + rows];
        match &decoded.valid {
            Some(valid) => there.copy_from_slice(valid),
            None => there.fill(1),
        }
        self.push(slot, values + rows, &[(0, values, &job.to), (values, rows, target)])
    }

    fn push(&self, slot: Slot, bytes: usize, parts: &[(usize, usize, &CopyTarget)]) -> Result<bool, RunError> {
        let mut ranges = Vec::with_capacity(parts.len());
        for &(from, len, target) in parts {
            ranges.push(Part {
                from,
                len,
                to: &target.buffer,
                to_offset: target.offset,
            });
        }
        let pushed = slot.push(self.stream, &ranges).inspect_err(|_| self.ring.lost())?;
        self.ring.pushed(pushed);
        self.done.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use grampus_io_stack::cuda::Device;

    use super::*;
    use crate::input::Decoded;

    #[derive(Debug)]
    struct NoDecoder;

    impl Decode for NoDecoder {
        fn decode(
            &self,
            _: usize,
            _: usize,
            _: Range<u64>,
        ) -> Result<Decoded, Box<dyn std::error::Error + Send + Sync>> {
            Err("nothing is decoded here".into())
        }
    }

    /// Steps until it is over, of a query that has been stopped or whose file was not opened; how many slots the ring has afterwards.
    fn slots_left(stopped: bool) -> usize {
        let device = Device::host(1, 1 << 24);
        let (ring, stream) = (PinnedRing::new(&device, 4096, 2), Stream::new(&device).unwrap());
        let to = CopyTarget {
            buffer: Arc::new(grampus_io_stack::cuda::DeviceBuffer::new(&device, 4096).unwrap()),
            offset: 0,
        };
        let job = |first_row| CopyJob {
            first_row,
            window: 0,
            to: to.clone(),
            source: CopySource::FileRanges {
                file: 0,
                parts: std::iter::once(0..8).collect(),
            },
        };
        let (jobs, cancel) = ([job(0), job(1), job(2)], AtomicBool::new(stopped));
        // Each is a query of its own, and the ring outlives them.
        for _ in 0..3 {
            let uploader = Uploader::new(&ring, &stream, &jobs, &[], &NoDecoder, &cancel);
            assert!(uploader.only_reads());
            assert!(matches!(uploader.step(usize::MAX), Step::Over));
            assert!(uploader.wait_for(1).is_err());
        }
        std::iter::from_fn(|| ring.try_take(usize::MAX).unwrap()).count()
    }

    #[test]
    fn queries_that_are_stopped_or_fail_leave_all_slots_to_the_next() {
        assert_eq!(slots_left(true), 2, "stopped");
        assert_eq!(slots_left(false), 2, "failed");
    }
}
