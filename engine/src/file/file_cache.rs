//! `FileCache`: open handles, parsed tails, stripe layouts and indexes of a session's files, each with a bound.
//!
//! **Invariant:** entries are keyed by file identity. A changed file has another identity, so no lookup finds stale
//! metadata. An entry is made of a file that was open and had its identity before the entry's bytes were read, or has
//! it afterwards. So its bytes are of this identity as long as the file has it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use grampus_orc_layout::index::{ColumnIndex, IndexRanges};
use grampus_orc_layout::schema::{ColumnId, OrcSchema, OrcSchemaRef};
use grampus_orc_layout::statistics::ColumnStatistics;
use grampus_orc_layout::stripe::StripeLayout;
use grampus_orc_layout::tail::{FileTail, TailParse};
use grampus_orc_layout::{LayoutError, Result};

use super::shared_reads::SharedReads;
use super::{FileHandle, Identity, IoCounters, Place};

/// Maximum open files (file descriptors and maps) in the cache, if the process may open many.
const MAX_OPEN_FILES: usize = 256;
/// The share of the process's file descriptors that the cache may hold: one of this many.
const DESCRIPTOR_SHARE: u64 = 4;
/// Maximum estimated bytes of parsed metadata in the cache.
const MAX_METADATA_BYTES: usize = 256 << 20;

/// Schemas that files read later can share.
const MAX_SHARED_SCHEMAS: usize = 64;
/// Files opened at the same time.
const CONCURRENT_OPENS: usize = 16;

/// One version of an ORC file, with its parsed tail.
#[derive(Debug)]
pub struct OrcFile {
    /// Number of this file version within the process, the key of its cached data.
    pub id: u64,
    /// Path or URL as the user named it.
    pub name: Arc<str>,
    /// The file's place.
    pub place: Place,
    /// The version of the file.
    pub identity: Identity,
    /// The parsed tail.
    pub tail: Arc<FileTail>,
}

/// An index that is not cached: its place among the wanted ones, the column and the ranges.
type LackingIndex = (usize, ColumnId, IndexRanges);

/// File number, stripe, column, and whether the entry has bloom filters.
type IndexKey = (u64, usize, ColumnId, bool);

/// The cache that all queries of a runtime share.
#[derive(Debug)]
pub struct FileCache {
    files: Mutex<LruMap<String, Arc<OrcFile>>>,
    handles: Mutex<LruMap<u64, Arc<FileHandle>>>,
    stripes: Mutex<LruMap<(u64, usize), Arc<StripeLayout>>>,
    indexes: Mutex<LruMap<IndexKey, Arc<ColumnIndex>>>,
    schemas: Mutex<Vec<Weak<OrcSchema>>>,
    reads: SharedReads,
}

impl Default for FileCache {
    fn default() -> Self {
        Self::within(usize::MAX)
    }
}

/// The number of files that the cache keeps open, by the process's limit (`ulimit -n`).
fn max_open_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(MAX_OPEN_FILES, |limit| {
        (limit / DESCRIPTOR_SHARE).clamp(1, MAX_OPEN_FILES as u64) as usize
    })
}

/// Locks a cache. A poisoned lock still holds whole entries, because each is inserted in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FileCache {
    /// A cache in a session of this memory limit: metadata take at most an eighth of it.
    pub(crate) fn within(memory_limit: usize) -> Self {
        Self::of_bytes(memory_limit / 8)
    }

    /// A cache of at most this many estimated bytes of metadata, and at most 256 MiB.
    pub(crate) fn of_bytes(bytes: usize) -> Self {
        let metadata = MAX_METADATA_BYTES.min(bytes);
        Self {
            files: Mutex::new(LruMap::new(metadata / 2)),
            handles: Mutex::new(LruMap::new(max_open_files())),
            stripes: Mutex::new(LruMap::new(metadata / 4)),
            indexes: Mutex::new(LruMap::new(metadata / 4)),
            schemas: Mutex::default(),
            reads: SharedReads::default(),
        }
    }

    /// The files at these places, in the given order. Their identities were just looked up. The tails of files that are
    /// not cached are read now.
    ///
    /// If the cache has not enough space for all of them, the cached ones stay and the others are not cached. So a
    /// folder of too many files does not evict its own tails at each query.
    ///
    /// # Errors
    /// As [`FileTail::parse`], and `Io`.
    pub async fn files(&self, wanted: &[(&Arc<str>, &Place, &Identity)]) -> Result<Vec<Arc<OrcFile>>> {
        let (began, known) = {
            let mut files = lock(&self.files);
            let began = files.clock;
            let known: Vec<Option<Arc<OrcFile>>> = (wanted.iter())
                .map(|(name, place, identity)| {
                    let file = files.get(&place.cache_key())?;
                    (file.identity == **identity && file.name == **name).then_some(file)
                })
                .collect();
            (began, known)
        };
        // The futures are made before the stream: it then holds no closure over references.
        let opens: Vec<_> = (wanted.iter().zip(known))
            .map(|((name, place, identity), known)| async move {
                match known {
                    Some(file) => Ok(file),
                    None => self.open(name, place, identity, began).await,
                }
            })
            .collect();
        let opens = futures::stream::iter(opens).buffered(CONCURRENT_OPENS);
        opens.try_collect().await
    }

    /// Opens a file and reads its tail. Entries of the cache that were used after `began` are not evicted for it.
    async fn open(&self, name: &Arc<str>, place: &Place, identity: &Identity, began: u64) -> Result<Arc<OrcFile>> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let handle = FileHandle::open(name, place, identity)?;
        let tail = read_tail(&handle, name, identity.length).await;
        handle.check()?; // bytes of a changed file may cause any error
        let mut tail = tail?;
        tail.schema = self.shared_schema(tail.schema);
        let weight = weight_of(&tail);
        let file = Arc::new(OrcFile {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            name: Arc::clone(name),
            place: place.clone(),
            identity: identity.clone(),
            tail: Arc::new(tail),
        });
        lock(&self.handles).insert(file.id, Arc::new(handle), 1);
        lock(&self.files).insert_beside(place.cache_key(), Arc::clone(&file), weight, began);
        Ok(file)
    }

    /// The schema of the files read before, if one of them has the same.
    ///
    /// Most files of a folder have one schema. Its columns are matched with the table's once, not file by file.
    fn shared_schema(&self, schema: OrcSchemaRef) -> OrcSchemaRef {
        let mut known = lock(&self.schemas);
        let is_same = |known: &OrcSchemaRef| known.types == schema.types && known.arrow == schema.arrow;
        if let Some(same) = known.iter().filter_map(Weak::upgrade).find(is_same) {
            return same;
        }
        known.retain(|schema| schema.strong_count() > 0);
        if known.len() >= MAX_SHARED_SCHEMAS {
            known.remove(0);
        }
        known.push(Arc::downgrade(&schema));
        schema
    }

    /// The open handle of `file`. Another file may have taken its place before it was opened again: the caller checks
    /// the handle after its reads.
    ///
    /// # Errors
    /// `Io` if the file cannot be opened again.
    pub fn handle(&self, file: &OrcFile) -> Result<Arc<FileHandle>> {
        if let Some(handle) = lock(&self.handles).get(&file.id) {
            return Ok(handle);
        }
        let handle = Arc::new(FileHandle::open(&file.name, &file.place, &file.identity)?);
        lock(&self.handles).insert(file.id, Arc::clone(&handle), 1);
        Ok(handle)
    }

    /// The layout of stripe `stripe`. Its footer is requested once for all tasks that want it. The caller checks the
    /// file's handle before it uses what the layout says.
    ///
    /// # Errors
    /// As [`StripeLayout::parse`], and `Io`.
    pub async fn stripe(&self, file: &OrcFile, stripe: usize, io: &IoCounters) -> Result<Arc<StripeLayout>> {
        let key = (file.id, stripe);
        if let Some(layout) = lock(&self.stripes).get(&key) {
            return Ok(layout);
        }
        let handle = self.handle(file)?;
        let look_up = || {
            let known = lock(&self.stripes).get(&key);
            let lacking = known.is_none().then(|| file.tail.stripes[stripe].footer_range());
            (known, lacking.into_iter().collect())
        };
        let (known, footer, _flights) = self.reads.read(file.id, &handle, io, look_up).await?;
        if let Some(layout) = known {
            return Ok(layout);
        }
        let layout = StripeLayout::parse(&file.tail, stripe, &footer[0]);
        if layout.is_err() {
            handle.check()?; // bytes of a changed file may cause any error
        }
        let layout = Arc::new(layout?);
        if handle.is_proven() {
            self.keep_stripe(file, &layout);
        }
        Ok(layout)
    }

    /// Runs `check` of a handle from which the layout of a stripe was read. If it was the first one, the layout may be
    /// kept now.
    ///
    /// # Errors
    /// That of `check`.
    pub fn check(
        &self,
        file: &OrcFile,
        handle: &FileHandle,
        layout: &Arc<StripeLayout>,
        check: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let was_proven = handle.is_proven();
        check()?;
        if !was_proven {
            self.keep_stripe(file, layout);
        }
        Ok(())
    }

    fn keep_stripe(&self, file: &OrcFile, layout: &Arc<StripeLayout>) {
        let key = (file.id, layout.info.index);
        let weight = 256 + size_of_val(&layout.streams[..]) * 2;
        lock(&self.stripes).insert(key, Arc::clone(layout), weight);
    }

    /// The index of each column, with its bloom filters if asked for; `None`: the stripe has no row index for the
    /// column. All indexes that are not cached are read at once, by one request for all tasks that want them. The
    /// caller checks the file's handle before it uses what they say.
    ///
    /// # Errors
    /// As [`ColumnIndex::parse`], and `Io`.
    pub async fn indexes(
        &self,
        file: &OrcFile,
        layout: &StripeLayout,
        columns: &[(ColumnId, bool)],
        io: &IoCounters,
    ) -> Result<Vec<Option<Arc<ColumnIndex>>>> {
        let (found, lacking) = self.known_indexes(file, layout, columns);
        if lacking.is_empty() {
            return Ok(found);
        }
        let handle = self.handle(file)?;
        let look_up = || {
            let (found, lacking) = self.known_indexes(file, layout, columns);
            let ranges = lacking
                .iter()
                .flat_map(|(_, _, ranges)| [&ranges.row_index, &ranges.bloom_filter].into_iter().flatten().cloned());
            let ranges = ranges.collect();
            ((found, lacking), ranges)
        };
        let ((mut found, lacking), bytes, _flights) = self.reads.read(file.id, &handle, io, look_up).await?;
        let mut bytes = bytes.into_iter();
        for (k, column, ranges) in lacking {
            let row_index = ranges.row_index.as_ref().and_then(|_| bytes.next());
            let bloom = ranges.bloom_filter.as_ref().and_then(|_| bytes.next());
            let index = ColumnIndex::parse(&file.tail, layout, column, row_index.as_ref(), bloom.as_ref());
            if index.is_err() {
                handle.check()?;
            }
            let index = Arc::new(index?);
            let stored = row_index.as_ref().map_or(0, Bytes::len) + bloom.as_ref().map_or(0, Bytes::len);
            let weight = 256 + stored * 4 + index.statistics.len() * 192;
            let key = (file.id, layout.info.index, column, ranges.bloom_filter.is_some());
            if handle.is_proven() {
                lock(&self.indexes).insert(key, Arc::clone(&index), weight);
            }
            found[k] = Some(index);
        }
        Ok(found)
    }

    /// The indexes that are cached, by place among `columns`; and the others that the stripe has.
    fn known_indexes(
        &self,
        file: &OrcFile,
        layout: &StripeLayout,
        columns: &[(ColumnId, bool)],
    ) -> (Vec<Option<Arc<ColumnIndex>>>, Vec<LackingIndex>) {
        let mut found = vec![None; columns.len()];
        let mut lacking = Vec::new();
        for (k, &(column, bloom)) in columns.iter().enumerate() {
            let mut ranges = IndexRanges::of(&file.tail, layout, column);
            if !bloom {
                ranges.bloom_filter = None;
            }
            if file.tail.row_group_stride(&layout.info).is_none() || ranges.row_index.is_none() {
                continue;
            }
            let key = |bloom| (file.id, layout.info.index, column, bloom);
            found[k] = {
                let mut indexes = lock(&self.indexes);
                match ranges.bloom_filter {
                    Some(_) => indexes.get(&key(true)),
                    // An index with bloom filters contains the one without.
                    None => indexes.get(&key(false)).or_else(|| indexes.get(&key(true))),
                }
            };
            if found[k].is_none() {
                lacking.push((k, column, ranges));
            }
        }
        (found, lacking)
    }
}

/// The estimated bytes of a parsed tail. The schema is not counted, because the files of a folder share it.
fn weight_of(tail: &FileTail) -> usize {
    let by_stripe = tail.stripe_statistics.iter().map(Vec::len).sum::<usize>();
    let statistics = (tail.file_statistics.len() + by_stripe) * size_of::<ColumnStatistics>();
    // Texts of statistics and user metadata are as long as in the file.
    1024 + size_of_val(&tail.stripes[..]) + statistics + tail.tail_length as usize
}

/// Reads the last bytes of the file, and more if the tail is longer.
async fn read_tail(handle: &FileHandle, name: &Arc<str>, length: u64) -> Result<FileTail> {
    let io = IoCounters::default();
    let mut wanted = FileTail::FIRST_READ_BYTES.min(length);
    loop {
        let last = match wanted {
            0 => Bytes::new(),
            _ => handle
                .read(std::slice::from_ref(&(length - wanted..length)), &io)
                .await?
                .remove(0),
        };
        match FileTail::parse(name, length, &last)? {
            TailParse::Complete(tail) => return Ok(*tail),
            TailParse::NeedBytes(more) if more > wanted && more <= length => wanted = more,
            TailParse::NeedBytes(more) => {
                return Err(LayoutError::Corrupt {
                    file: Arc::clone(name),
                    offset: length,
                    place: "tail".to_owned(),
                    reason: format!("it claims {more} bytes of a file of {length}"),
                });
            }
        }
    }
}

/// A map that evicts its least recently used entries when their total weight exceeds a bound.
#[derive(Debug)]
struct LruMap<K, V> {
    entries: HashMap<K, Entry<V>>,
    weight: usize,
    max_weight: usize,
    clock: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    weight: usize,
    used: u64,
}

impl<K: Hash + Eq + Clone, V: Clone> LruMap<K, V> {
    fn new(max_weight: usize) -> Self {
        Self {
            entries: HashMap::new(),
            weight: 0,
            max_weight,
            clock: 0,
        }
    }

    fn get(&mut self, key: &K) -> Option<V> {
        self.clock += 1;
        let entry = self.entries.get_mut(key)?;
        entry.used = self.clock;
        Some(entry.value.clone())
    }

    fn insert(&mut self, key: K, value: V, weight: usize) {
        self.insert_beside(key, value, weight, u64::MAX);
    }

    /// Inserts an entry, unless only entries that were used after `began` could make space for it.
    fn insert_beside(&mut self, key: K, value: V, weight: usize, began: u64) {
        self.clock += 1;
        let new = key.clone();
        let used = self.clock;
        self.weight += weight;
        if let Some(old) = self.entries.insert(key, Entry { value, weight, used }) {
            self.weight -= old.weight;
        }
        if self.weight > self.max_weight {
            self.shrink(began);
        }
        if self.weight > self.max_weight {
            self.remove(&new);
        }
    }

    fn remove(&mut self, key: &K) {
        if let Some(entry) = self.entries.remove(key) {
            self.weight -= entry.weight;
        }
    }

    /// Evicts the least recently used entries until a quarter of the capacity is free, so that evictions are rare.
    /// Entries that were used after `began` stay.
    fn shrink(&mut self, began: u64) {
        let mut ages: Vec<(u64, K)> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.used <= began)
            .map(|(key, entry)| (entry.used, key.clone()))
            .collect();
        ages.sort_unstable_by_key(|(used, _)| *used);
        for (_, key) in ages {
            if self.weight <= self.max_weight / 4 * 3 {
                break;
            }
            self.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_map_evicts_the_least_recently_used() {
        let mut cache = LruMap::new(8);
        for key in 0..8 {
            cache.insert(key, key * 10, 1);
        }
        assert_eq!(cache.get(&0), Some(0));
        cache.insert(8, 80, 1);
        assert_eq!(cache.weight, 6);
        assert_eq!(cache.get(&0), Some(0));
        assert_eq!(cache.get(&1), None);
        assert_eq!(cache.get(&8), Some(80));
        cache.insert(8, 81, 5);
        assert!(cache.weight <= 8);
        assert_eq!(
            cache.weight,
            cache.entries.values().map(|entry| entry.weight).sum::<usize>()
        );
    }
    #[test]
    fn bounded_map_keeps_what_a_query_has_used() {
        let mut cache = LruMap::new(8);
        cache.insert(100, 0, 4);
        // Each round asks for 20 keys of which 8 fit. The first round evicts the entry of others.
        let mut found = Vec::new();
        for _ in 0..3 {
            let began = cache.clock;
            let known: Vec<Option<i32>> = (0..20).map(|key| cache.get(&key)).collect();
            found.push(known.iter().flatten().count());
            for key in (0..20).filter(|key| known[*key as usize].is_none()) {
                cache.insert_beside(key, key, 1, began);
            }
            assert!(cache.weight <= 8);
        }
        assert_eq!(found, [0, 8, 8]);
        // An entry that is too large for the rest has no place, and one of later queries has.
        cache.insert_beside(200, 200, 1, 0);
        assert_eq!(cache.get(&200), None);
        cache.insert(200, 200, 1);
        assert_eq!(cache.get(&200), Some(200));
    }
}
