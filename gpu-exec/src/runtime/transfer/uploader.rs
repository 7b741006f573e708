//! `Uploader`: reader threads do a query's copy jobs.
//!
//! 1. A thread takes the next job, in order: so the first job not done is always being done by a thread.
//! 2. The thread waits until the job's window, and for encoded bytes its part of the staging buffer, may be filled.
//! 3. The thread takes a slot of the pinned ring and fills it: with ranges of a file, with values that the CPU decodes,
//!    or with encoded bytes and the tasks of the decode kernel.
//! 4. The thread enqueues the slot's copy. The copy engine empties the slot.
//! 5. The launching thread waits for jobs whose copies are enqueued (`wait_for`), and allows further windows and
//!    fillings of parts.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use grampus_cuda::{Part, Slot, Stream};
use grampus_orc_layout::encoded_column::EncodedValues;

use crate::decode::decode_batch::Addresses;
use crate::error::{RefusalReason, RunError};
use crate::input::Decode;
use crate::program::{Stored, Type};
use crate::runtime::file_io::file_source::{FileSource, opened};
use crate::runtime::memory::copy_target::CopyTarget;
use crate::runtime::memory::pinned_ring::PinnedRing;
use crate::runtime::memory::staging_buffer::STAGING_PARTS;
use crate::runtime::transfer::copy_job::{CopyJob, CopySource, EncodedCopy};
use crate::runtime::transfer::decoded_values::store;
use crate::validity;

/// Work that was done.
#[derive(Debug, Default)]
pub(crate) struct UploadCounters {
    pub(crate) bytes: AtomicU64,
    pub(crate) decode_ns: AtomicU64,
}

/// How far the jobs are done, and which may be begun.
#[derive(Debug, Default)]
struct UploadProgress {
    /// Jobs from the first on whose copies are all enqueued.
    prefix: usize,
    /// Jobs behind the first gap whose copies are enqueued.
    beyond: BTreeSet<usize>,
    /// Jobs that the launching thread waits for; it is woken no sooner.
    awaited: usize,
    /// Windows that may be filled.
    windows: usize,
    /// Fillings of the staging buffer's parts that may begin.
    fillings: usize,
    failed: Option<RunError>,
}

/// The outcome of an upload of decoded values.
enum Uploaded {
    All,
    /// The query ended before.
    Stopped,
    /// The column's layout does not hold a value.
    TooNarrow,
}

/// The outcome of a step.
pub(crate) enum Step {
    Did,
    /// All slots are full, or being filled.
    NoSlot,
    /// There are no more jobs, or none is begun any more.
    Over,
}

/// The jobs of one query, and their progress.
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

/// A byte at a multiple of this in the file comes to lie at a multiple of this in the slot. The CPU copies aligned
/// pages in three quarters of the time; the copy engine reads from anywhere at the same rate.
const LINE_BYTES: u64 = 64;
/// Interval of looks at the caller's flag.
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
            fillings: STAGING_PARTS,
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

    /// Stops: no further job is begun.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// Whether the query ends: cancelled, failed, or done.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire) || self.cancel.load(Ordering::Relaxed)
    }

    /// Lets jobs of the windows below `windows` start.
    pub(crate) fn allow_windows(&self, windows: usize) {
        self.progress().windows = windows;
        self.changed.notify_all();
    }

    /// Lets jobs of the fillings below `fillings` start.
    pub(crate) fn allow_fillings(&self, fillings: usize) {
        self.progress().fillings = fillings;
        self.changed.notify_all();
    }

    /// Waits until the copies of the first `jobs` jobs are enqueued.
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

    /// The work of a reader thread: one job after the other until there are no more.
    pub(crate) fn work(&self) {
        loop {
            // In order, so that the first job not done is always being done by a thread.
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = self.jobs.get(index) else { return };
            if !self.did(index, self.do_job(index, job)) {
                return;
            }
        }
    }

    /// Whether all jobs are [ranges of files](CopySource::FileRanges) in one window: then no thread has to wait for its
    /// turn.
    pub(crate) fn only_reads(&self) -> bool {
        let read = |job: &CopyJob| matches!(job.source, CopySource::FileRanges { .. }) && job.window == 0;
        !self.jobs.is_empty() && self.jobs.iter().all(read)
    }

    /// Does the next job, if [all are ranges of files](Self::only_reads), a slot is empty, and fewer than `slots` are
    /// in use.
    pub(crate) fn step(&self, slots: usize) -> Step {
        if self.stopped() || self.next.load(Ordering::Relaxed) >= self.jobs.len() {
            return Step::Over;
        }
        // The slot first: a thread that has taken a job must be able to do it.
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

    /// Notes a job's outcome. False: no further job is to be begun.
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

    /// Does a job. False: stopped before. `number`: among the query's jobs, for those that the device decodes.
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
                ty,
                stored,
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
                let layout = (*ty, *stored);
                match self.upload_decoded(job, decoded, count, layout, valid.as_ref())? {
                    Uploaded::All => Ok(true),
                    Uploaded::Stopped => Ok(false),
                    Uploaded::TooNarrow => Err(RefusalReason::NarrowLayout { column: *column }.into()),
                }
            }
            CopySource::Encoded(copy) => self.upload_encoded(number, job, copy),
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
            let read = opened(self.sources, file).and_then(|source| source.read(&mut slot, lead + filled, part));
            if let Err(e) = read {
                self.ring.unused(slot);
                return Err(e);
            }
            filled += (part.end - part.start) as usize;
        }
        self.upload(slot, filled, &[(lead, filled, &job.to)])
    }

    fn upload_encoded(&self, index: usize, job: &CopyJob, copy: &EncodedCopy) -> Result<bool, RunError> {
        let Some(staged) = &copy.staged else {
            return Err(RunError::Invalid(
                "encoded bytes have no place in the staging memory".to_owned(),
            ));
        };
        let source = opened(self.sources, copy.file)?;
        let dictionary_codes = match copy.encoded.values {
            EncodedValues::Dictionary(..) => {
                let dictionary_codes = self.decoder.dictionary_codes(copy.stripe, copy.column);
                dictionary_codes.map_err(RunError::Decode)?
            }
            _ => Arc::default(),
        };
        if !self.wait_for_turn(|progress| progress.fillings > staged.filling) {
            return Ok(false);
        }
        let Some(mut slot) = self.ring.take(|| self.stopped())? else {
            return Ok(false);
        };
        let batch = &copy.batch;
        let at = Addresses {
            batch: staged.to.address(),
            values: job.to.address(),
            valid: copy.valid.as_ref().map(CopyTarget::address),
        };
        batch.describe(
            &copy.encoded,
            copy.stored,
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
        // The tasks are copied too, and are not counted.
        self.upload(slot, batch.stored_bytes() as usize, &[(0, batch.bytes, &staged.to)])
    }

    fn upload_decoded(
        &self,
        job: &CopyJob,
        decoded: crate::input::Decoded,
        rows: usize,
        (ty, stored): (Type, Stored),
        valid: Option<&CopyTarget>,
    ) -> Result<Uploaded, RunError> {
        let wrong = |what: &str, is: usize, should: usize| {
            RunError::Decode(format!("the decoder gave {is} bytes of {what} for {rows} rows, not {should}").into())
        };
        let bytes = rows * ty.width() as usize;
        if decoded.values.len() != bytes {
            return Err(wrong("values", decoded.values.len(), bytes));
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
            return Ok(Uploaded::Stopped);
        };
        let values = rows * stored.bytes() as usize;
        if !store(&decoded.values, ty, stored, &mut slot.bytes_mut()[..values]) {
            self.ring.unused(slot);
            return Ok(Uploaded::TooNarrow);
        }
        let Some(target) = valid else {
            self.upload(slot, values, &[(0, values, &job.to)])?;
            return Ok(Uploaded::All);
        };
        let bits = validity::bytes_of(rows as u64) as usize;
        let there = &mut slot.bytes_mut()[values..values + bits];
        match &decoded.valid {
            Some(valid) => validity::pack(valid, there),
            None => there.fill(0xFF),
        }
        self.upload(slot, values + bits, &[(0, values, &job.to), (values, bits, target)])?;
        Ok(Uploaded::All)
    }

    fn upload(&self, slot: Slot, bytes: usize, parts: &[(usize, usize, &CopyTarget)]) -> Result<bool, RunError> {
        let mut ranges = Vec::with_capacity(parts.len());
        for &(from, len, target) in parts {
            ranges.push(Part {
                from,
                len,
                to: &target.buffer,
                to_offset: target.offset,
            });
        }
        let pushed = slot.upload(self.stream, &ranges).inspect_err(|_| self.ring.lost())?;
        self.ring.pushed(pushed);
        self.count_bytes(bytes as u64);
        Ok(true)
    }

    /// Counts bytes of files that go to the device.
    pub(crate) fn count_bytes(&self, bytes: u64) {
        self.done.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use grampus_cuda::Device;

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

    /// Steps to the end in a query that has been stopped, or whose file was not opened. Returns the slots that the ring
    /// has afterwards.
    fn slots_left(stopped: bool) -> usize {
        let device = Device::host(1, 1 << 24);
        let (ring, stream) = (PinnedRing::new(&device, 4096, 2), Stream::new(&device).unwrap());
        let to = CopyTarget {
            buffer: Arc::new(grampus_cuda::DeviceBuffer::new(&device, 4096).unwrap()),
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
