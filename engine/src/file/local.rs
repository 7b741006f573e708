//! `LocalFile`: an open local file of one identity, with positioned reads.

use std::fs::File;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use grampus_orc_layout::Result;
use grampus_orc_layout::source::ByteSource;

use super::memory_map::MemoryMap;
use super::{Identity, IoCounters, changed, io_error};

/// Two values within this distance are read at once: copying a page costs less than a second system call.
const MERGE_GAP_BYTES: u64 = 4096;

/// Longest step of the clock that file times are taken from (100 per second), and the time of a short write.
const MAX_CLOCK_STEP: Duration = Duration::from_millis(20);

/// An open local file.
///
/// **Invariant:** bytes leave a query only after [`check`](Self::check) has found the file's identity unchanged since
/// they were read. A file that takes the place of this one does not matter: the open file keeps its bytes.
///
/// The change time is no part of the identity, because a new link or another name changes it too. Changes that leave
/// the modification time are not noticed: a program sets the time back, or writes through a mapping to pages that it
/// had changed before.
#[derive(Debug)]
pub struct LocalFile {
    name: Arc<str>,
    file: File,
    identity: Identity,
    map: Mutex<Option<Arc<MemoryMap>>>,
}

impl LocalFile {
    /// Opens `path`, which must be the file of `identity`.
    ///
    /// # Errors
    /// `Io` if the file cannot be opened, or another file has taken its place.
    pub fn open(name: &Arc<str>, path: &Path, identity: &Identity) -> Result<Self> {
        let failed = |error: std::io::Error| match error.kind() {
            ErrorKind::PermissionDenied => io_error(name, &(0..0), "permission denied"),
            _ => io_error(name, &(0..0), error),
        };
        let file = Self {
            name: Arc::clone(name),
            file: File::open(path).map_err(failed)?,
            identity: identity.clone(),
            map: Mutex::new(None),
        };
        settle(identity);
        file.check()?;
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

    /// Checks that the file has the identity with which it was opened.
    ///
    /// # Errors
    /// `Io` that names the difference.
    pub fn check(&self) -> Result<()> {
        let metadata = self.file.metadata();
        let now = Identity::of_local(&metadata.map_err(|error| io_error(&self.name, &(0..self.length()), error))?);
        match now == self.identity {
            true => Ok(()),
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
        let mut bytes = vec![0; (range.end - range.start) as usize];
        if let Err(error) = self.file.read_exact_at(&mut bytes, range.start) {
            self.check()?; // the end of a truncated file
            return Err(io_error(&self.name, &range, error));
        }
        io.add(range.end - range.start, 1);
        Ok(bytes.into())
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
    io: IoCounters,
}

impl ReadSource {
    /// Reads `file`, counting into `io`.
    pub fn new(file: Arc<LocalFile>, io: IoCounters) -> Self {
        Self { file, io }
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
        self.file.read(range, &self.io)
    }

    fn merge_gap_bytes(&self) -> u64 {
        MERGE_GAP_BYTES
    }
}
