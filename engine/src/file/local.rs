//! `LocalFile`: an open local file of one identity, with positioned reads.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use grampus_orc_layout::Result;
use grampus_orc_layout::source::ByteSource;

use super::memory_map::MemoryMap;
use super::{Identity, IoCounters, changed, io_error};

/// Two values within this distance are read at once: copying a page costs less than a second system call.
const MERGE_GAP_BYTES: u64 = 4096;

/// An open local file.
#[derive(Debug)]
pub struct LocalFile {
    name: Arc<str>,
    file: File,
    length: u64,
    map: OnceLock<Arc<MemoryMap>>,
}

impl LocalFile {
    /// Opens `path`, which must be the file of `identity`.
    ///
    /// # Errors
    /// `Io` if the file cannot be opened, or another file has taken its place.
    pub fn open(name: &Arc<str>, path: &Path, identity: &Identity) -> Result<Self> {
        let whole = 0..identity.length;
        let file = File::open(path).map_err(|error| io_error(name, &whole, error))?;
        let metadata = file.metadata().map_err(|error| io_error(name, &whole, error))?;
        if Identity::of_local(&metadata) != *identity {
            return Err(changed(name, "changed"));
        }
        Ok(Self {
            name: Arc::clone(name),
            file,
            length: identity.length,
            map: OnceLock::new(),
        })
    }

    /// Path or URL as the user named it.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Reads the bytes of `range` into newly allocated memory.
    ///
    /// # Errors
    /// `Io` if the file does not have them.
    pub fn read(&self, range: Range<u64>, io: &IoCounters) -> Result<Bytes> {
        if range.start > range.end || range.end > self.length {
            return Err(io_error(
                &self.name,
                &range,
                format!("the file has {} bytes", self.length),
            ));
        }
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.file
            .read_exact_at(&mut bytes, range.start)
            .map_err(|error| io_error(&self.name, &range, error))?;
        io.add(range.end - range.start, 1);
        Ok(bytes.into())
    }

    /// The memory map of the whole file. The first call makes the map.
    ///
    /// # Errors
    /// `Io` if the file has shrunk since it was opened, or cannot be mapped.
    pub fn map(&self) -> Result<Arc<MemoryMap>> {
        let whole = 0..self.length;
        let metadata = self
            .file
            .metadata()
            .map_err(|error| io_error(&self.name, &whole, error))?;
        if metadata.len() < self.length {
            return Err(changed(&self.name, "shrank"));
        }
        if let Some(map) = self.map.get() {
            return Ok(Arc::clone(map));
        }
        let map = MemoryMap::new(Arc::clone(&self.name), &self.file, self.length)?;
        Ok(Arc::clone(self.map.get_or_init(|| Arc::new(map))))
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
}

impl ByteSource for ReadSource {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        self.file.read(range, &self.io)
    }

    fn merge_gap_bytes(&self) -> u64 {
        MERGE_GAP_BYTES
    }
}
