//! [`NvmeStore`]: the files of an NVMe namespace as a read-only object store.
//!
//! A request waits for its commands on a thread for blocking work. Requests of a query run concurrently, each on a
//! queue of its own, with several commands in flight on each queue.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::temporal_conversions::timestamp_s_to_datetime;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use grampus_driver::binding::PciAddress;
pub(crate) use grampus_driver::files::NamespaceFile;
use grampus_driver::files::{CommandCounts, Drive, FileEntry, FileError, FileReader, NamespaceFiles};
use grampus_driver::vfio_controller::OpenError;
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use url::Url;

use super::nvme_location;
use super::nvme_namespace::NvmeLocation;
use crate::store_error::StoreError;

/// Queues of a store: requests that run at a time. Their memory stays below the usual limit on locked memory.
const QUEUES: usize = 4;
/// Bytes of a longer request that are read at a time.
const PART_BYTES: u64 = 16 << 20;
/// The store's name in object_store's errors.
const STORE: &str = "NVMe";

/// The files of one namespace, as they were when the store was opened.
#[derive(Debug)]
pub struct NvmeStore {
    reader: Arc<FileReader>,
    /// The URL in messages, without a slash at the end.
    url: Arc<str>,
}

impl NvmeStore {
    /// The files of a namespace of the controller at an address.
    pub fn new(files: NamespaceFiles, address: PciAddress) -> Self {
        let nsid = files.drive().namespace().nsid;
        Self {
            reader: Arc::new(FileReader::new(files, QUEUES)),
            url: NvmeLocation { address, nsid }.to_string().into(),
        }
    }

    /// The URL under which a session knows the store, for `SessionContext::register_object_store`. Its host has dashes
    /// where the address has colons; locations of tables may have either.
    pub fn store_url(&self) -> Option<Url> {
        nvme_location::parse(&self.url)
    }

    /// The commands that the store has submitted.
    pub fn counts(&self) -> &Arc<CommandCounts> {
        self.reader.drive().counts()
    }

    fn entry(&self, path: &Path) -> Result<&FileEntry> {
        let place = || format!("{}/{path}", self.url);
        self.reader.entry(path.as_ref()).ok_or_else(|| Error::NotFound {
            path: place(),
            source: Box::new(StoreError::new(
                place(),
                "the namespace has no such file",
                "grampus nvme files prints those it has",
            )),
        })
    }

    /// The files at or below a prefix.
    fn below(&self, prefix: Option<&Path>) -> Vec<ObjectMeta> {
        let all = self.reader.entries().iter().filter_map(meta);
        let is_below = |meta: &ObjectMeta| {
            // As in other stores, a prefix is a folder and not itself a file.
            let below = prefix.map(|prefix| meta.location.prefix_match(prefix));
            below.is_none_or(|below| below.is_some_and(|mut parts| parts.next().is_some()))
        };
        all.filter(is_below).collect()
    }

    fn read_only<T>(&self, path: &Path) -> Result<T> {
        let error = StoreError::new(
            format!("{}/{path}", self.url),
            "tables on NVMe namespaces are read-only",
            "write a local file, and load it by grampus nvme load",
        );
        Err(Error::NotSupported {
            source: Box::new(error),
        })
    }
}

/// Where a request has the file itself put, for readers that need no store.
#[derive(Debug, Clone, Default)]
struct FileSlot(Arc<Mutex<Option<NamespaceFile>>>);

impl FileSlot {
    fn fill(&self, file: Option<NamespaceFile>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = file;
    }
}

/// The file behind an object, if its store is a namespace and the file is the load that `etag` names.
pub(crate) fn namespace_file(store: &dyn ObjectStore, path: &Path, etag: Option<&str>) -> Option<NamespaceFile> {
    // Other stores would begin a request.
    if !store.to_string().starts_with(nvme_location::BEGIN) {
        return None;
    }
    let slot = FileSlot::default();
    let mut options = GetOptions {
        head: true,
        ..GetOptions::default()
    };
    options.extensions.insert(slot.clone());
    // This one answers at the first poll.
    store.get_opts(path, options).now_or_never()?.ok()?;
    let file = slot.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
    (etag == Some(tag(file.entry()).as_str())).then_some(file)
}

/// The entity tag: a file that is loaded again under this name has another number.
fn tag(entry: &FileEntry) -> String {
    format!("\"{}\"", entry.id)
}

/// What the store says about a file; `None` for a name that is no path of a store.
fn meta(entry: &FileEntry) -> Option<ObjectMeta> {
    let seconds = i64::try_from(entry.loaded_seconds).ok();
    Some(ObjectMeta {
        location: Path::parse(&entry.name).ok()?,
        last_modified: seconds.and_then(timestamp_s_to_datetime).unwrap_or_default().and_utc(),
        size: entry.length_bytes,
        e_tag: Some(tag(entry)),
        version: None,
    })
}

/// A failed read, in the driver's words: drive, file, command, LBA and status.
fn failed(url: &str, entry: &FileEntry, error: FileError) -> Error {
    let advice = match &error {
        FileError::Device { .. } => "grampus nvme verify finds what else is damaged",
        _ => "run the query again",
    };
    Error::Generic {
        store: STORE,
        source: Box::new(StoreError {
            cause: Some(Box::new(std::io::Error::other(error.to_string()))),
            ..StoreError::new(format!("{url}/{}", entry.name), error.to_string(), advice)
        }),
    }
}

/// Reads ranges on a thread for blocking work.
async fn read(reader: Arc<FileReader>, url: Arc<str>, entry: FileEntry, ranges: Vec<Range<u64>>) -> Result<Vec<Bytes>> {
    let reading = tokio::task::spawn_blocking(move || {
        let read = reader.read(&entry, &ranges);
        read.map_err(|error| failed(&url, &entry, error))
    });
    Ok(reading.await??.into_iter().map(Bytes::from).collect())
}

impl fmt::Display for NvmeStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

#[async_trait]
impl ObjectStore for NvmeStore {
    async fn put_opts(&self, path: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        self.read_only(path)
    }

    async fn put_multipart_opts(&self, path: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.read_only(path)
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let entry = self.entry(path)?;
        if let Some(slot) = options.extensions.get::<FileSlot>() {
            slot.fill(NamespaceFile::open(&self.reader, path.as_ref()));
        }
        let meta = meta(entry).ok_or_else(|| Error::NotFound {
            path: path.to_string(),
            source: "its name is no path".into(),
        })?;
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            Some(range) => range.as_range(meta.size).map_err(|source| Error::Generic {
                store: STORE,
                source: Box::new(source),
            })?,
            None => 0..meta.size,
        };
        let wanted = if options.head { 0..0 } else { range.clone() };
        let starts = wanted.clone().step_by(PART_BYTES as usize);
        let parts = starts.map(move |start| start..(start + PART_BYTES).min(wanted.end));
        let (reader, url, entry) = (Arc::clone(&self.reader), Arc::clone(&self.url), entry.clone());
        let bytes = futures::stream::iter(parts)
            .map(move |part| read(Arc::clone(&reader), Arc::clone(&url), entry.clone(), vec![part]))
            .buffered(QUEUES)
            .map_ok(|read| futures::stream::iter(read.into_iter().map(Ok)))
            .try_flatten();
        Ok(GetResult {
            payload: GetResultPayload::Stream(bytes.boxed()),
            meta,
            range,
            attributes: Attributes::default(),
        })
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let entry = self.entry(path)?.clone();
        read(Arc::clone(&self.reader), Arc::clone(&self.url), entry, ranges.to_vec()).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let url = Arc::clone(&self.url);
        let refused = move |path: Result<Path>| {
            let source = StoreError::new(
                format!("{url}/{}", path?),
                "tables on NVMe namespaces are read-only",
                "remove files by grampus nvme remove",
            );
            Err(Error::NotSupported {
                source: Box::new(source),
            })
        };
        paths.map(refused).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        futures::stream::iter(self.below(prefix).into_iter().map(Ok)).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let root = prefix.cloned().unwrap_or_default();
        let mut listed = ListResult {
            common_prefixes: Vec::new(),
            objects: Vec::new(),
        };
        for meta in self.below(prefix) {
            let parts: Vec<_> = meta
                .location
                .prefix_match(&root)
                .into_iter()
                .flatten()
                .take(2)
                .collect();
            match parts.as_slice() {
                [_] => listed.objects.push(meta),
                [folder, ..] => {
                    let folder = root.clone().join(folder.clone());
                    if !listed.common_prefixes.contains(&folder) {
                        listed.common_prefixes.push(folder);
                    }
                }
                [] => {}
            }
        }
        Ok(listed)
    }

    async fn copy_opts(&self, _: &Path, to: &Path, _: CopyOptions) -> Result<()> {
        self.read_only(to)
    }
}

/// The store of a location: opens its controller through VFIO, unless a session of this process has it open.
///
/// # Errors
/// If the controller cannot be opened, or the namespace has no directory of files. The error says what to do.
pub(super) fn open(url: &Url) -> std::result::Result<NvmeStore, StoreError> {
    let location = NvmeLocation::of(url)?;
    let NvmeLocation { address, nsid } = location;
    let url = location.to_string();
    let device = devices::get(address).map_err(|error| {
        let reason = error.to_string();
        match &error {
            OpenError::Absent { .. } => StoreError::new(&url, reason, "grampus nvme list prints the controllers"),
            _ => StoreError {
                advice: None,
                ..StoreError::new(&url, reason, "")
            },
        }
    })?;
    let files = Drive::open(&address.to_string(), device, nsid).and_then(NamespaceFiles::open);
    let files = files.map_err(|error| {
        let advice = match &error {
            FileError::NoDirectory { .. } => format!("grampus nvme load FILE --device {address} makes one"),
            FileError::Namespace { .. } => "name another namespace, as in nvme://0000:01:00.0n2/…".to_owned(),
            _ => format!("grampus nvme verify --device {address} says more"),
        };
        StoreError::new(&url, error.to_string(), advice)
    })?;
    for damage in files.damages() {
        log::warn!("{url}: {damage}");
    }
    Ok(NvmeStore::new(files, address))
}

/// The controllers that this process has open. VFIO gives a controller to one opener only, and sessions share it.
mod devices {
    use std::collections::HashMap;
    use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

    use grampus_driver::binding::{PciAddress, System};
    use grampus_driver::host::Device;
    use grampus_driver::vfio_controller::{OpenError, open_vfio};

    type Devices = HashMap<PciAddress, Weak<Mutex<Device>>>;

    static OPEN: LazyLock<Mutex<Devices>> = LazyLock::new(Mutex::default);

    /// The controller at an address, open.
    pub(super) fn get(address: PciAddress) -> Result<Arc<Mutex<Device>>, OpenError> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = open.get(&address).and_then(Weak::upgrade) {
            // A controller that has failed meanwhile is of no use to the next session.
            let recovered = device.lock().unwrap_or_else(PoisonError::into_inner).recover();
            match recovered {
                Ok(false) => {}
                Ok(true) => log::warn!("{address}: the controller had failed, and was reset"),
                Err(error) => log::warn!("{address}: {error}"),
            }
            return Ok(device);
        }
        let device = Arc::new(Mutex::new(open_vfio(&System::default(), address)?));
        open.insert(address, Arc::downgrade(&device));
        Ok(device)
    }
}
