//! Where bytes come from: local files through a memory map or positioned reads, anything else through an
//! object store. What the bytes mean is `grampus-orc-layout`'s business; which of them to read is the scan's.
//!
//! ```text
//! Place + Identity   where a file is, and which version of it
//! FileHandle         an open file: reads metadata, makes sources
//! ScanSource         what one scan partition reads a file through; counts what it moves
//! FileCache          open files and their parsed metadata, shared by the queries of a session
//! ```

pub mod file_cache;
pub mod local;
pub mod memory_map;
pub mod remote;

use std::fmt;
use std::fs::Metadata;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::physical_plan::metrics::Count;
use grampus_orc_layout::source::ByteSource;
use grampus_orc_layout::{LayoutError, Result};
use object_store::ObjectStore;

use crate::config::LocalIo;
use local::{LocalFile, ReadSource};
use memory_map::MapSource;
use remote::{FetchedSource, RemoteFile};

/// Where a file is.
#[derive(Clone)]
pub enum Place {
    /// In the file system.
    Local(PathBuf),
    /// In an object store.
    Remote {
        /// The store, as the session's registry knows it.
        store: Arc<dyn ObjectStore>,
        /// The store's URL: tells equal paths of different stores apart.
        url: Arc<str>,
        /// The object.
        path: object_store::path::Path,
    },
}

impl Place {
    /// Tells this place from every other one.
    pub fn key(&self) -> String {
        match self {
            Self::Local(path) => path.to_string_lossy().into_owned(),
            Self::Remote { url, path, .. } => format!("{url}{path}"),
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key())
    }
}

/// Which version of the file at a place: what was read under one identity is never mixed with another's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Length in bytes.
    pub length: u64,
    /// Last modification, nanoseconds since 1970.
    pub modified_ns: i128,
    /// Device and inode of a local file.
    pub inode: Option<(u64, u64)>,
    /// Entity tag of an object.
    pub etag: Option<String>,
}

impl Identity {
    /// The identity of a local file.
    pub fn of_local(metadata: &Metadata) -> Self {
        Self {
            length: metadata.len(),
            modified_ns: i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
            inode: Some((metadata.dev(), metadata.ino())),
            etag: None,
        }
    }
}

/// Counts what crosses from storage or the page cache. Clones count into the same place.
#[derive(Debug, Clone, Default)]
pub struct IoCounters {
    /// Bytes moved.
    pub moved_bytes: Count,
    /// Reads that moved them.
    pub read_requests: Count,
}

impl IoCounters {
    fn add(&self, moved_bytes: u64, read_requests: usize) {
        self.moved_bytes.add(moved_bytes as usize);
        self.read_requests.add(read_requests);
    }
}

/// An open file of one identity.
#[derive(Debug)]
pub enum FileHandle {
    /// A local file.
    Local(Arc<LocalFile>),
    /// An object of a store.
    Remote(Arc<RemoteFile>),
}

impl FileHandle {
    /// Opens the file at `place` and makes sure that it is still the one of `identity`.
    ///
    /// # Errors
    /// `Io` if it cannot be opened or has changed.
    pub fn open(name: &Arc<str>, place: &Place, identity: &Identity) -> Result<Self> {
        Ok(match place {
            Place::Local(path) => Self::Local(Arc::new(LocalFile::open(name, path, identity)?)),
            Place::Remote { store, path, .. } => Self::Remote(Arc::new(RemoteFile::new(
                Arc::clone(name),
                Arc::clone(store),
                path.clone(),
                identity.clone(),
            ))),
        })
    }

    /// True if bytes are there when asked for: nothing needs to be fetched ahead.
    pub fn is_on_demand(&self) -> bool {
        matches!(self, Self::Local(_))
    }

    /// Reads metadata: the bytes of each range, in the order asked for.
    ///
    /// # Errors
    /// `Io` if they cannot be had.
    pub async fn read(&self, ranges: &[Range<u64>], io: &IoCounters) -> Result<Vec<Bytes>> {
        match self {
            Self::Local(file) => ranges.iter().map(|range| file.read(range.clone(), io)).collect(),
            Self::Remote(file) => file.read(ranges, io).await,
        }
    }

    /// What a scan partition reads this file through.
    ///
    /// # Errors
    /// `Io` if the file has shrunk since it was opened, or cannot be mapped.
    pub fn source(&self, mode: LocalIo, io: IoCounters) -> Result<Arc<ScanSource>> {
        Ok(Arc::new(match (self, mode) {
            (Self::Local(file), LocalIo::Mmap) => ScanSource::Map(MapSource::new(file.map()?, io)),
            (Self::Local(file), LocalIo::Read) => ScanSource::Read(ReadSource::new(Arc::clone(file), io)),
            (Self::Remote(file), _) => ScanSource::Fetched(FetchedSource::new(Arc::clone(file), io)),
        }))
    }
}

/// Random access to one file for one scan partition.
#[derive(Debug)]
pub enum ScanSource {
    /// Loads from a memory map.
    Map(MapSource),
    /// Positioned reads.
    Read(ReadSource),
    /// Serves what was fetched ahead.
    Fetched(FetchedSource),
}

impl ScanSource {
    /// Makes `ranges` available to the reads that follow. Nothing to do where bytes come on demand.
    ///
    /// # Errors
    /// `Io` if they cannot be had.
    pub async fn fetch(&self, ranges: &[Range<u64>]) -> Result<()> {
        match self {
            Self::Map(_) | Self::Read(_) => Ok(()),
            Self::Fetched(source) => source.fetch(ranges).await,
        }
    }

    /// Forgets what was fetched if it has become much: nothing of it may be needed any more.
    pub fn trim(&self) {
        if let Self::Fetched(source) = self {
            source.trim();
        }
    }

    /// Bytes held for reads to come.
    pub fn buffered_bytes(&self) -> usize {
        match self {
            Self::Map(_) | Self::Read(_) => 0,
            Self::Fetched(source) => source.buffered_bytes(),
        }
    }
}

impl ByteSource for ScanSource {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        match self {
            Self::Map(source) => source.read(range),
            Self::Read(source) => source.read(range),
            Self::Fetched(source) => source.read(range),
        }
    }

    fn gather(&self, offsets: &[u64], width: usize, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Map(source) => source.gather(offsets, width, out),
            Self::Read(source) => source.gather(offsets, width, out),
            Self::Fetched(source) => source.gather(offsets, width, out),
        }
    }

    fn merge_gap_bytes(&self) -> u64 {
        match self {
            Self::Map(source) => source.merge_gap_bytes(),
            Self::Read(source) => source.merge_gap_bytes(),
            Self::Fetched(source) => source.merge_gap_bytes(),
        }
    }
}

/// The error of a read that failed.
fn io_error(file: &Arc<str>, range: &Range<u64>, reason: impl fmt::Display) -> LayoutError {
    LayoutError::Io {
        file: Arc::clone(file),
        offset: range.start,
        length: range.end.saturating_sub(range.start),
        reason: reason.to_string(),
    }
}

/// The error of a file that is no longer the one whose metadata was read.
fn changed(file: &Arc<str>, what: &str) -> LayoutError {
    LayoutError::Io {
        file: Arc::clone(file),
        offset: 0,
        length: 0,
        reason: format!("the file {what} while it was being queried; run the query again"),
    }
}
