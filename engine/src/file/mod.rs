//! Files as sources of bytes. `grampus-orc-layout` interprets the bytes.
//!
//! ```text
//! Place, Identity     a file's place, and the version of the file there
//! FileHandle          an open file: reads metadata, opens sources
//! ScanSource          a scan partition's access to one file; counts moved bytes
//! file_cache          FileCache: open files and their parsed metadata, shared by the queries of a session
//! shared_reads        SharedReads: metadata that several tasks want at once
//! page_cache          PageCache: whether a local file's bytes are in memory, and loads of those that are not
//! memory_map          MemoryMap: a mapped local file; `without_map` without the feature `gpu`
//! local, map_source   local files: identity, positioned reads; reads of a memory map
//! request_shape       RequestShape: how ranges become requests, of a network or of a drive
//! segment             Segment: consecutive bytes, fetched
//! remote              objects of object stores: requests of ranges
//! fetched_source      reads of an object's fetched ranges
//! namespace_source    files of NVMe namespaces: reads that wait for their commands
//! ```

mod fetched_source;
pub mod file_cache;
mod local;
mod map_source;
#[cfg(feature = "gpu")]
mod memory_map;
#[cfg(not(feature = "gpu"))]
#[path = "without_map.rs"]
mod memory_map;
mod namespace_source;
mod page_cache;
mod remote;
mod request_shape;
mod segment;
mod shared_reads;

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
use object_store::{ObjectMeta, ObjectStore};

use crate::config::LocalIo;
use crate::store::nvme_store::{self, NamespaceFile};
use fetched_source::FetchedSource;
use local::{LocalFile, ReadSource};
use map_source::MapSource;
use namespace_source::NamespaceSource;
use remote::RemoteFile;
use request_shape::RequestShape;

/// The place of a file.
#[derive(Clone)]
pub enum Place {
    /// In the file system.
    Local(PathBuf),
    /// In an object store.
    Remote {
        /// The store, as the session's registry knows it.
        store: Arc<dyn ObjectStore>,
        /// The store's URL, which distinguishes equal paths of different stores.
        url: Arc<str>,
        /// The object.
        path: object_store::path::Path,
    },
}

impl Place {
    /// A key that is different for each place.
    pub fn key(&self) -> String {
        match self {
            Self::Local(path) => path.to_string_lossy().into_owned(),
            Self::Remote { url, path, .. } => format!("{url}{path}"),
        }
    }

    /// The key in a cache that several sessions share. Their stores of one URL may have different credentials, so each
    /// store has entries of its own. An entry keeps its store alive, so no other store gets the address.
    pub(crate) fn cache_key(&self) -> String {
        match self {
            Self::Local(_) => self.key(),
            Self::Remote { store, .. } => format!("{}@{:p}", self.key(), Arc::as_ptr(store)),
        }
    }

    /// The file on an NVMe namespace, if this is one and the version is still there.
    pub(crate) fn namespace_file(&self, identity: &Identity) -> Option<NamespaceFile> {
        match self {
            Self::Local(_) => None,
            Self::Remote { store, path, .. } => {
                nvme_store::namespace_file(store.as_ref(), path, identity.etag.as_deref())
            }
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key())
    }
}

#[cfg(test)]
thread_local! {
    /// Identities of local files that this thread has looked up.
    pub(crate) static LOOKED_UP: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The version of the file at a place.
///
/// **Invariant:** data read under one identity is never combined with bytes of another.
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
        #[cfg(test)]
        LOOKED_UP.with(|count| count.set(count.get() + 1));
        Self {
            length: metadata.len(),
            modified_ns: i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
            inode: Some((metadata.dev(), metadata.ino())),
            etag: None,
        }
    }

    /// The identity of an object.
    pub(crate) fn of_object(object: &ObjectMeta) -> Self {
        Self {
            length: object.size,
            modified_ns: i128::from(object.last_modified.timestamp_nanos_opt().unwrap_or_default()),
            inode: None,
            etag: object.e_tag.clone(),
        }
    }
}

/// Counters of the bytes that cross from storage or the page cache. Clones share the counters.
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
    /// A file of an NVMe namespace.
    Namespace {
        /// The file, for threads that plan: they can wait for some commands, and for no other thread.
        file: NamespaceFile,
        /// The object, for scans: requests run side by side.
        object: Arc<RemoteFile>,
    },
}

impl FileHandle {
    /// Opens the file at `place`, which should have the identity `identity`: the first [`check`](Self::check) tells.
    ///
    /// # Errors
    /// `Io` if the file cannot be opened.
    pub fn open(name: &Arc<str>, place: &Place, identity: &Identity) -> Result<Self> {
        Ok(match place {
            Place::Local(path) => Self::Local(Arc::new(LocalFile::open(name, path, identity)?)),
            Place::Remote { store, url, path } => {
                let (store, shape) = (Arc::clone(store), RequestShape::of(url));
                let object = RemoteFile::new(Arc::clone(name), store, path.clone(), identity.clone(), shape);
                let object = Arc::new(object);
                match place.namespace_file(identity) {
                    Some(file) => Self::Namespace { file, object },
                    None => Self::Remote(object),
                }
            }
        })
    }

    /// True if reads need no fetch before them.
    pub fn is_on_demand(&self) -> bool {
        matches!(self, Self::Local(_))
    }

    /// Path or URL as the user named it.
    fn name(&self) -> &Arc<str> {
        match self {
            Self::Local(file) => file.name(),
            Self::Remote(object) | Self::Namespace { object, .. } => object.name(),
        }
    }

    /// Whether metadata is read without waiting for another task: of a local file, or of one on an NVMe namespace.
    fn reads_at_once(&self) -> bool {
        !matches!(self, Self::Remote(_))
    }

    /// Checks that a local file has its identity, and that what was read of it so far is of this version. Stores check
    /// each request of an object themselves.
    ///
    /// # Errors
    /// `Io` that says what has changed.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Local(file) => file.check(),
            Self::Remote(_) | Self::Namespace { .. } => Ok(()),
        }
    }

    /// Whether the open file is surely the one of the identity, so that what is read of it may be kept for others. It
    /// may have changed since: then no later query finds this identity.
    pub fn is_proven(&self) -> bool {
        match self {
            Self::Local(file) => file.is_proven(),
            Self::Remote(_) | Self::Namespace { .. } => true,
        }
    }

    /// Reads metadata: the bytes of each range, in the given order. Those of a local file may be of another version
    /// until a [`check`](Self::check).
    ///
    /// # Errors
    /// `Io` if the bytes cannot be read, or an object has changed.
    pub async fn read(&self, ranges: &[Range<u64>], io: &IoCounters) -> Result<Vec<Bytes>> {
        match self {
            Self::Local(file) => ranges.iter().map(|range| file.read(range.clone(), io)).collect(),
            Self::Remote(object) => object.read(ranges, io).await,
            Self::Namespace { file, object } => {
                let source = NamespaceSource::new(object.name(), file, io.clone());
                ranges.iter().map(|range| source.read(range.clone())).collect()
            }
        }
    }

    /// Opens a scan partition's access to this file. If the file cannot be mapped, it is read.
    pub fn source(&self, mode: LocalIo, io: IoCounters) -> Arc<ScanSource> {
        Arc::new(match self {
            Self::Local(file) => {
                let map = (mode == LocalIo::Mmap).then(|| file.map()).transpose();
                match map.inspect_err(|error| log::info!("read instead of mapped: {error}")) {
                    Ok(Some(map)) => ScanSource::Map(MapSource::new(Arc::clone(file), map, io)),
                    Ok(None) | Err(_) => ScanSource::Read(ReadSource::new(Arc::clone(file), io)),
                }
            }
            Self::Remote(object) | Self::Namespace { object, .. } => {
                ScanSource::Fetched(FetchedSource::new(Arc::clone(object), io))
            }
        })
    }

    /// As [`source`](Self::source), without fetches if the file is local or on an NVMe namespace: for a thread that
    /// plans.
    pub fn source_at_once(&self, mode: LocalIo, io: IoCounters) -> Arc<ScanSource> {
        match self {
            Self::Namespace { file, object } => {
                let source = NamespaceSource::new(object.name(), file, io);
                Arc::new(ScanSource::Namespace(source))
            }
            _ => self.source(mode, io),
        }
    }
}

/// Random access to one file, for one scan partition.
#[derive(Debug)]
pub enum ScanSource {
    /// Loads from a memory map.
    Map(MapSource),
    /// Positioned reads.
    Read(ReadSource),
    /// Reads of ranges that were fetched before.
    Fetched(FetchedSource),
    /// Reads of an NVMe namespace, which wait for their commands.
    Namespace(NamespaceSource),
}

impl ScanSource {
    /// Fetches `ranges` for the reads that follow. Local sources need no fetch.
    ///
    /// # Errors
    /// `Io` if the bytes cannot be fetched.
    pub async fn fetch(&self, ranges: &[Range<u64>]) -> Result<()> {
        match self {
            Self::Map(_) | Self::Read(_) | Self::Namespace(_) => Ok(()),
            Self::Fetched(source) => source.fetch(ranges).await,
        }
    }

    /// Whether bytes of a local file were missing from the page cache lately. What is about to be read is then
    /// [loaded](Self::load) first.
    pub fn is_cold(&self) -> bool {
        match self {
            Self::Map(source) => source.file().is_cold(),
            Self::Read(source) => source.file().is_cold(),
            Self::Fetched(_) | Self::Namespace(_) => false,
        }
    }

    /// Looks up whether the page of a byte of a local file is in the page cache.
    pub fn probe(&self, offset: u64) {
        match self {
            Self::Map(source) => source.file().probe(offset),
            Self::Read(source) => source.file().probe(offset),
            Self::Fetched(_) | Self::Namespace(_) => {}
        }
    }

    /// Has the system load the bytes of `ranges` of a local file that are missing from the page cache. Does not wait.
    pub fn load(&self, ranges: &[Range<u64>]) {
        match self {
            Self::Map(source) => source.file().load(ranges),
            Self::Read(source) => source.file().load(ranges),
            Self::Fetched(_) | Self::Namespace(_) => {}
        }
    }

    /// Checks that the bytes read so far are those of the file's planned version. Results leave a scan only after that.
    /// Stores check each request of an object themselves.
    ///
    /// # Errors
    /// `Io` that says what has changed.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Map(source) => source.check(),
            Self::Read(source) => source.check(),
            Self::Fetched(_) | Self::Namespace(_) => Ok(()),
        }
    }

    /// Whether an address lies in memory that another process may change.
    pub fn is_mapped(&self, address: *const u8) -> bool {
        matches!(self, Self::Map(source) if source.contains(address))
    }

    /// Whether the bytes of `ranges` can be read without a fetch.
    pub fn holds(&self, ranges: &[Range<u64>]) -> bool {
        match self {
            Self::Map(_) | Self::Read(_) | Self::Namespace(_) => true,
            Self::Fetched(source) => source.holds(ranges),
        }
    }

    /// Runs `read`. As often as it fails for want of bytes that the file has, fetches them and runs `read` again.
    ///
    /// # Errors
    /// The error of `read`, or `Io` if the bytes cannot be fetched.
    pub async fn read_with_fetches<T>(&self, mut read: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            match (read(), self) {
                (Err(error), Self::Fetched(source)) => {
                    if !source.fetch_missed().await? {
                        return Err(error);
                    }
                }
                (outcome, _) => return outcome,
            }
        }
    }

    /// Bytes that a fetch of `ranges` would request now.
    pub fn missing_bytes(&self, ranges: &[Range<u64>]) -> usize {
        match self {
            Self::Map(_) | Self::Read(_) | Self::Namespace(_) => 0,
            Self::Fetched(source) => source.missing_bytes(ranges),
        }
    }

    /// Begins to fetch `ranges` while the scan works on other bytes. False: nothing was begun.
    pub fn fetch_ahead(&self, ranges: &[Range<u64>]) -> bool {
        matches!(self, Self::Fetched(source) if source.fetch_ahead(ranges))
    }

    /// Whether a fetch that was begun ahead has not been asked for yet.
    pub fn is_ahead(&self) -> bool {
        matches!(self, Self::Fetched(source) if source.is_ahead())
    }

    /// Waits for the fetch that was begun ahead.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    pub async fn arrive(&self) -> Result<()> {
        match self {
            Self::Map(_) | Self::Read(_) | Self::Namespace(_) => Ok(()),
            Self::Fetched(source) => source.arrive().await,
        }
    }

    /// Ends the fetch ahead and forgets its bytes. False: there is none.
    pub fn give_up_ahead(&self) -> bool {
        matches!(self, Self::Fetched(source) if source.give_up_ahead())
    }

    /// Drops fetched bytes if they exceed `most` or are many. A later fetch loads them again.
    pub fn trim(&self, most: usize) {
        if let Self::Fetched(source) = self {
            source.trim(most);
        }
    }

    /// Fetched bytes in memory, and those of requests in flight.
    pub fn buffered_bytes(&self) -> usize {
        match self {
            Self::Map(_) | Self::Read(_) | Self::Namespace(_) => 0,
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
            Self::Namespace(source) => source.read(range),
        }
    }

    fn read_volatile(&self, range: Range<u64>) -> Result<Bytes> {
        match self {
            Self::Map(source) => source.read_volatile(range),
            Self::Read(source) => source.read(range),
            Self::Fetched(source) => source.read(range),
            Self::Namespace(source) => source.read(range),
        }
    }

    fn gather(&self, offsets: &[u64], width: usize, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Map(source) => source.gather(offsets, width, out),
            Self::Read(source) => source.gather(offsets, width, out),
            Self::Fetched(source) => source.gather(offsets, width, out),
            Self::Namespace(source) => source.gather(offsets, width, out),
        }
    }

    fn merge_gap_bytes(&self) -> u64 {
        match self {
            Self::Map(source) => source.merge_gap_bytes(),
            Self::Read(source) => source.merge_gap_bytes(),
            Self::Fetched(source) => source.merge_gap_bytes(),
            Self::Namespace(source) => source.merge_gap_bytes(),
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
        source: None,
    }
}

/// The error of a file that has changed since it was opened.
pub(crate) fn changed(file: &Arc<str>, before: &Identity, now: &Identity) -> LayoutError {
    let difference = if now.inode != before.inode {
        "another file took its place".to_owned()
    } else if now.length != before.length {
        format!("it had {} bytes, and has {} now", before.length, now.length)
    } else {
        "it was written to".to_owned()
    };
    LayoutError::Io {
        file: Arc::clone(file),
        offset: 0,
        length: before.length,
        reason: format!("the file changed while it was being queried ({difference}); run the query again"),
        source: None,
    }
}
