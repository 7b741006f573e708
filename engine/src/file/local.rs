//! `LocalFile`: an open local file of one identity, with positioned reads.

use std::fs::File;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use grampus_orc_layout::Result;
use grampus_orc_layout::source::{ByteSource, gather_by_reads};

use super::memory_map::MemoryMap;
use super::page_cache::{PageCache, ProbedBlocks};
use super::{Identity, IoCounters, changed, io_error};

/// Two values within this distance are read at once: copying a page costs less than a second system call.
const MERGE_GAP_BYTES: u64 = 4096;

/// A longer range of a cold file is loaded first: the system would wait for each part before it begins the next.
const MAX_WAITING_BYTES: u64 = 128 << 10;

/// As much of a range is loaded ahead. Columns without entry points have longer ones: they are read from the start of
/// the stripe.
const MAX_LOAD_BYTES: u64 = 16 << 20;

/// Longest step of the clock that file times are taken from (100 per second), and the time of a short write.
const MAX_CLOCK_STEP: Duration = Duration::from_millis(20);

/// An open local file.
///
/// **Invariant:** bytes leave a query only after [`check`](Self::check) has found the file's identity unchanged since
/// they were read. A file that takes the place of this one does not matter: the open file keeps its bytes. The check
/// after the reads also says that the right file was opened, so opening does not look at the identity.
///
/// The change time is no part of the identity, because a new link or another name changes it too. Changes that leave
/// the modification time are not noticed: a program sets the time back, or writes through a mapping to pages that it
/// had changed before.
#[derive(Debug)]
pub struct LocalFile {
    name: Arc<str>,
    file: File,
    identity: Identity,
    /// A check has found the identity in the open file.
    is_proven: AtomicBool,
    pages: PageCache,
    map: Mutex<Option<Arc<MemoryMap>>>,
}

impl LocalFile {
    /// Opens `path`, where the file of `identity` should be: the first [`check`](Self::check) tells.
    ///
    /// # Errors
    /// `Io` if the file cannot be opened.
    pub fn open(name: &Arc<str>, path: &Path, identity: &Identity) -> Result<Self> {
        let failed = |error: std::io::Error| match error.kind() {
            ErrorKind::PermissionDenied => io_error(name, &(0..0), "permission denied"),
            _ => io_error(name, &(0..0), error),
        };
        let opened = File::open(path).map_err(failed)?;
        let file = Self {
            name: Arc::clone(name),
            pages: PageCache::of(&opened, identity.length),
            file: opened,
            identity: identity.clone(),
            is_proven: AtomicBool::new(false),
            map: Mutex::new(None),
        };
        settle(identity);
        Ok(file)
    }

    /// Path or URL as the user named it.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Length in bytes.
    pub fn length(&self) -> u64 {
        self.identity.length
    }

    /// Whether a [`check`](Self::check) has found the right file open. It may have changed since.
    pub fn is_proven(&self) -> bool {
        self.is_proven.load(Ordering::Relaxed)
    }

    /// Checks that the file has the identity for which it was opened.
    ///
    /// # Errors
    /// `Io` that names the difference.
    pub fn check(&self) -> Result<()> {
        let metadata = self.file.metadata();
        let now = Identity::of_local(&metadata.map_err(|error| io_error(&self.name, &(0..self.length()), error))?);
        match now == self.identity {
            true => {
                self.is_proven.store(true, Ordering::Relaxed);
                Ok(())
            }
            false => Err(changed(&self.name, &self.identity, &now)),
        }
    }

    /// Reads the bytes of `range` into newly allocated memory.
    ///
    /// # Errors
    /// `Io` if the file does not have them.
    pub fn read(&self, range: Range<u64>, io: &IoCounters) -> Result<Bytes> {
        if range.start > range.end || range.end > self.length() {
            let reason = format!("the file has {} bytes", self.length());
            return Err(io_error(&self.name, &range, reason));
        }
        if range.end - range.start > MAX_WAITING_BYTES && self.is_cold() {
            self.pages.load(&self.file, std::iter::once(range.clone()));
        }
        let mut bytes = vec![0; (range.end - range.start) as usize];
        if let Err(error) = self.file.read_exact_at(&mut bytes, range.start) {
            self.check()?; // the end of a truncated file
            return Err(io_error(&self.name, &range, error));
        }
        io.add(range.end - range.start, 1);
        Ok(bytes.into())
    }

    /// Whether pages were missing from the page cache lately.
    pub(super) fn is_cold(&self) -> bool {
        self.pages.is_cold()
    }

    /// Whether pages were missing lately, or one of `range` is, as far as that was not looked up for `probed`.
    pub(super) fn is_cold_at(&self, range: &Range<u64>, probed: &ProbedBlocks) -> bool {
        range.end <= self.length() && self.pages.is_cold_at(&self.file, range, probed)
    }

    /// Looks up whether the page of a byte is missing. The file is cold then.
    pub(super) fn probe(&self, offset: u64) {
        self.pages.probe(&self.file, offset);
    }

    /// Has the system load the missing pages of `ranges`, and does not wait for them.
    pub(super) fn load(&self, ranges: &[Range<u64>]) {
        let part = |range: &Range<u64>| {
            let start = range.start.min(self.length());
            start..range.end.clamp(start, self.length().min(start + MAX_LOAD_BYTES))
        };
        self.pages.load(&self.file, ranges.iter().map(part));
    }

    /// Has the system load the pages of values at ascending offsets if some of them are missing.
    pub(super) fn load_values(&self, offsets: &[u64], width: usize, probed: &ProbedBlocks) {
        self.pages.load_values(&self.file, offsets, width, probed);
    }

    /// The memory map of the whole file. The first call makes the map; so does a call after a map has lost bytes.
    ///
    /// # Errors
    /// `Io` if the file cannot be mapped, for example because the program has replaced the handler of SIGBUS that
    /// guards maps. Positioned reads work nevertheless.
    pub fn map(&self) -> Result<Arc<MemoryMap>> {
        let mut kept = self.map.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(map) = kept.as_ref().filter(|map| !map.has_failed()) {
            return Ok(Arc::clone(map));
        }
        let map = Arc::new(MemoryMap::new(&self.name, &self.file, self.length())?);
        self.pages.guide(&self.file, &map);
        *kept = Some(Arc::clone(&map));
        Ok(map)
    }
}

/// Waits until a write would change the modification time: the system's clock for file times has steps.
fn settle(identity: &Identity) {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let age_ns = since_1970.map_or(0, |now| now.as_nanos() as i128 - identity.modified_ns);
    if let Ok(age_ns) = u64::try_from(age_ns) {
        std::thread::sleep(MAX_CLOCK_STEP.saturating_sub(Duration::from_nanos(age_ns)));
    }
}

/// Positioned reads of a local file.
#[derive(Debug)]
pub struct ReadSource {
    file: Arc<LocalFile>,
    probed: ProbedBlocks,
    io: IoCounters,
}

impl ReadSource {
    /// Reads `file`, counting into `io`.
    pub fn new(file: Arc<LocalFile>, io: IoCounters) -> Self {
        let probed = ProbedBlocks::default();
        Self { file, probed, io }
    }

    /// The file.
    pub(super) fn file(&self) -> &LocalFile {
        &self.file
    }

    /// Checks that the file is unchanged.
    ///
    /// # Errors
    /// As [`LocalFile::check`].
    pub fn check(&self) -> Result<()> {
        self.file.check()
    }
}

impl ByteSource for ReadSource {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        self.file.is_cold_at(&range, &self.probed);
        self.file.read(range, &self.io)
    }

    fn gather(&self, offsets: &[u64], width: usize, out: &mut Vec<u8>) -> Result<()> {
        self.file.load_values(offsets, width, &self.probed);
        gather_by_reads(self, offsets, width, out)
    }

    fn merge_gap_bytes(&self) -> u64 {
        MERGE_GAP_BYTES
    }
}
