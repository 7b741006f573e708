//! Bringing bytes of files, and columns decoded by the CPU, to device memory: reader threads fill slots of the pinned ring, the copy
//! engine empties them, and who launches kernels learns how far they have got. What is brought where is bring.rs's business.

use std::collections::BTreeSet;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use grampus_io_stack::cuda::{DeviceBuffer, Part, Slot, Stream};

use super::ring::Ring;
use crate::input::{Decode, FileVersion};
use crate::output::RunError;

/// Reads past the page cache begin and end at multiples of this.
pub(crate) const DIRECT_GRAIN_BYTES: usize = 4096;

/// Device memory that bytes go to.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) buffer: Arc<DeviceBuffer>,
    pub(crate) offset: usize,
}

/// One slotful: consecutive rows of one column.
#[derive(Debug)]
pub(crate) struct Job {
    /// The first row, counted over all stripes. Jobs are in ascending order of these.
    pub(crate) first_row: u64,
    /// Jobs of a window may start when the kernels of the last but one have ended.
    pub(crate) window: usize,
    pub(crate) to: Target,
    pub(crate) what: What,
}

/// Where a job's bytes come from.
#[derive(Debug)]
pub(crate) enum What {
    /// Pieces of a file, to lie one after the other.
    Read { file: usize, parts: Vec<Range<u64>> },
    /// Values that the CPU decodes: a column's rows of a stripe.
    Decode {
        stripe: usize,
        column: usize,
        rows: Range<u64>,
        width: usize,
        /// A byte for each row, where the column has them.
        valid: Option<Target>,
    },
}

/// An open file, and whether its pages are in the page cache.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) version: FileVersion,
    /// `None`: everything of it was at hand when the query began.
    pub(crate) file: Option<File>,
    /// Opened for reads past the page cache, if that is how it is to be read.
    pub(crate) direct: Option<File>,
}

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct Pushes {
    pub(crate) bytes: AtomicU64,
    pub(crate) decode_ns: AtomicU64,
}

#[derive(Debug, Default)]
struct Progress {
    /// Jobs whose copies are in the stream, from the first on without gap; and those beyond.
    prefix: usize,
    beyond: BTreeSet<usize>,
    windows: usize,
    failed: Option<RunError>,
}

/// The jobs of one query, and how far they have got.
pub(crate) struct Pusher<'a> {
    pub(crate) ring: &'a Ring,
    pub(crate) stream: &'a Stream,
    pub(crate) jobs: &'a [Job],
    pub(crate) sources: &'a [Option<Source>],
    pub(crate) decoder: &'a dyn Decode,
    pub(crate) cancel: &'a AtomicBool,
    pub(crate) done: Pushes,
    next: AtomicUsize,
    stop: AtomicBool,
    progress: Mutex<Progress>,
    changed: Condvar,
}

/// How long is waited before the caller's flag is looked at again.
const LOOK: Duration = Duration::from_millis(10);

impl<'a> Pusher<'a> {
    pub(crate) fn new(
        ring: &'a Ring,
        stream: &'a Stream,
        jobs: &'a [Job],
        sources: &'a [Option<Source>],
        decoder: &'a dyn Decode,
        cancel: &'a AtomicBool,
    ) -> Self {
        let progress = Progress {
            windows: 2,
            ..Progress::default()
        };
        Self {
            ring,
            stream,
            jobs,
            sources,
            decoder,
            cancel,
            done: Pushes::default(),
            next: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            progress: Mutex::new(progress),
            changed: Condvar::new(),
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
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
    pub(crate) fn allow(&self, windows: usize) {
        self.progress().windows = windows;
        self.changed.notify_all();
    }

    /// Waits until the copies of the first `jobs` jobs are in the stream.
    pub(crate) fn wait_for(&self, jobs: usize) -> Result<(), RunError> {
        let mut progress = self.progress();
        while progress.prefix < jobs {
            if let Some(e) = progress.failed.take() {
                return Err(e);
            }
            if self.stopped() {
                return Err(RunError::Cancelled);
            }
            let waited = self.changed.wait_timeout(progress, LOOK);
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
            match self.do_job(job) {
                Ok(true) => self.note(index),
                Ok(false) => return,
                Err(e) => {
                    self.progress().failed.get_or_insert(e);
                    self.stop();
                    return;
                }
            }
        }
    }

    fn note(&self, index: usize) {
        let mut guard = self.progress();
        let progress = &mut *guard;
        progress.beyond.insert(index);
        while progress.beyond.remove(&progress.prefix) {
            progress.prefix += 1;
        }
        drop(guard);
        self.changed.notify_all();
    }

    /// False: stopped before.
    pub(crate) fn do_job(&self, job: &Job) -> Result<bool, RunError> {
        if !self.wait_for_window(job.window) {
            return Ok(false);
        }
        match &job.what {
            What::Read { file, parts } => self.read(job, *file, parts),
            What::Decode {
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
        }
    }

    fn wait_for_window(&self, window: usize) -> bool {
        let mut progress = self.progress();
        while progress.windows <= window {
            if self.stopped() {
                return false;
            }
            let waited = self.changed.wait_timeout(progress, LOOK);
            progress = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        !self.stopped()
    }

    /// Where a file's bytes come from.
    pub(crate) fn source(&self, file: usize) -> Result<&Source, RunError> {
        let source = self.sources.get(file).and_then(Option::as_ref);
        source.ok_or_else(|| RunError::Invalid(format!("file {file} was not opened")))
    }

    fn read(&self, job: &Job, file: usize, parts: &[Range<u64>]) -> Result<bool, RunError> {
        let source = self.source(file)?;
        let Some(mut slot) = self.ring.take(|| self.stopped())? else {
            return Ok(false);
        };
        let mut filled = 0;
        for part in parts {
            if let Err(e) = source.read(&mut slot, filled, part) {
                self.ring.unused(slot);
                return Err(e);
            }
            filled += (part.end - part.start) as usize;
        }
        self.push(slot, filled, &[(0, filled, &job.to)])
    }

    fn push_decoded(
        &self,
        job: &Job,
        decoded: crate::input::Decoded,
        rows: usize,
        width: usize,
        valid: Option<&Target>,
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

    fn push(&self, slot: Slot, bytes: usize, parts: &[(usize, usize, &Target)]) -> Result<bool, RunError> {
        let mut ranges = Vec::with_capacity(parts.len());
        for &(from, len, target) in parts {
            ranges.push(Part {
                from,
                len,
                to: &target.buffer,
                to_offset: target.offset,
            });
        }
        let pushed = slot.push(self.stream, &ranges)?;
        self.ring.pushed(pushed);
        self.done.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(true)
    }
}

impl Source {
    /// Reads bytes of the file to byte `at` of the slot.
    fn read(&self, slot: &mut Slot, at: usize, bytes: &Range<u64>) -> Result<(), RunError> {
        let len = (bytes.end - bytes.start) as usize;
        let result = match &self.direct {
            Some(direct) => self.read_direct(direct, slot.bytes_mut(), at, bytes.start, len),
            None => return self.read_cached(&mut slot.bytes_mut()[at..at + len], bytes),
        };
        result.map_err(|e| self.failed(&e, bytes))
    }

    /// Reads bytes of the file through the page cache, which for few of them is the shortest way even if they are not in there.
    fn read_cached(&self, to: &mut [u8], bytes: &Range<u64>) -> Result<(), RunError> {
        let file = self.file.as_ref().ok_or_else(|| self.not_open())?;
        self.read_from(file, to, bytes)
    }

    /// As that, from a file of [`opened_again`](Self::opened_again).
    pub(crate) fn read_from(&self, file: &File, to: &mut [u8], bytes: &Range<u64>) -> Result<(), RunError> {
        file.read_exact_at(to, bytes.start).map_err(|e| self.failed(&e, bytes))
    }

    /// The same file, opened for one thread: every read counts the users of what was opened, and threads that count together wait for
    /// one another.
    pub(crate) fn opened_again(&self) -> Result<File, RunError> {
        let again = File::open(&self.version.path).and_then(|file| Ok((file.metadata()?, file)));
        if let Ok((metadata, file)) = again
            && FileVersion::of_metadata(&self.version.path, &metadata) == self.version
        {
            return Ok(file);
        }
        // It was replaced since: this one is still the one that was planned for, and the end of the query notices.
        let file = self.file.as_ref().ok_or_else(|| self.not_open())?;
        file.try_clone().map_err(|e| self.failed(&e, &(0..0)))
    }

    fn not_open(&self) -> RunError {
        RunError::File {
            path: self.version.path.display().to_string(),
            reason: "the file was not opened".to_owned(),
        }
    }

    fn failed(&self, e: &std::io::Error, bytes: &Range<u64>) -> RunError {
        RunError::File {
            path: self.version.path.display().to_string(),
            reason: match e.kind() {
                std::io::ErrorKind::UnexpectedEof => format!(
                    "the file ends before byte {}; it had {} bytes when the query was planned",
                    bytes.end, self.version.bytes
                ),
                _ => format!("reading {} bytes at byte {}: {e}", bytes.end - bytes.start, bytes.start),
            },
        }
    }

    /// Past the page cache: whole grains, to an aligned place behind what is there, moved into place afterwards.
    fn read_direct(&self, direct: &File, slot: &mut [u8], at: usize, offset: u64, len: usize) -> std::io::Result<()> {
        let grain = DIRECT_GRAIN_BYTES as u64;
        let first = offset / grain * grain;
        let skip = (offset - first) as usize;
        let from = at.next_multiple_of(DIRECT_GRAIN_BYTES);
        let wanted = (skip + len).next_multiple_of(DIRECT_GRAIN_BYTES);
        let mut read = 0;
        while read < skip + len {
            // A short read ends at the file's end, or at a multiple of a block: go on from there.
            let more = direct.read_at(&mut slot[from + read..from + wanted], first + read as u64)?;
            if more == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            read += more;
            if read < skip + len && !read.is_multiple_of(512) {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        slot.copy_within(from + skip..from + skip + len, at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use grampus_io_stack::cuda::{Device, slots};

    #[test]
    fn reads_past_the_page_cache_bring_the_same_bytes() {
        let bytes: Vec<u8> = (0..100_003u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&bytes).unwrap();
        file.as_file().sync_all().unwrap();
        let version = FileVersion::of(file.path()).unwrap();
        let source = |direct| Source {
            version: version.clone(),
            file: Some(File::open(file.path()).unwrap()),
            direct,
        };
        let Some(direct) = super::super::residency::open_direct(file.path()) else {
            println!("skipped: no direct reads from {}", file.path().display());
            return;
        };
        let mut slot = slots(&Device::host(1, 1 << 20), 1, 128 << 10).unwrap().remove(0);
        let (cached, direct) = (source(None), source(Some(direct)));
        // Anywhere, one behind the other, to the file's last byte.
        for (first, second) in [
            (5..4101, 8192..8200),
            (0..1, 1..50_000),
            (99_000..100_003, 4095..4097),
            (100_002..100_003, 0..0),
        ] {
            for source in [&cached, &direct] {
                let at = (first.end - first.start) as usize;
                source.read(&mut slot, 0, &first).unwrap();
                source.read(&mut slot, at, &second).unwrap();
                let end = at + (second.end - second.start) as usize;
                let expected = [
                    &bytes[first.start as usize..first.end as usize],
                    &bytes[second.start as usize..second.end as usize],
                ];
                assert!(slot.bytes_mut()[..end] == expected.concat(), "{first:?}, {second:?}");
            }
        }
        for source in [&cached, &direct] {
            let refused = source.read(&mut slot, 0, &(100_000..100_004)).unwrap_err();
            assert!(
                refused.to_string().contains("the file ends before byte 100004"),
                "{refused}"
            );
        }
    }
}
