//! `BufferPool`: device memory for columns. The pool takes it from the driver in a few large arenas and gives it out in
//! ranges.
//!
//! Stripes' columns stay for later queries. If there is no space, the least recently used ones are evicted; those of
//! the running query stay. Windows that columns stream through take their memory from here too.

use std::collections::HashMap;

use grampus_io_stack::cuda::{CudaError, Device, DeviceBuffer};

use crate::input::file_registry::FileId;
use crate::program::Type;
use crate::runtime::memory::arena::{Arena, DeviceRange, MARGIN_BYTES, rounded};

/// Bytes of an arena, unless more are needed at once or fewer are allowed.
const ARENA_BYTES: u64 = 2 << 30;

/// A column of a stripe of a file in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ColumnKey {
    pub(crate) file: FileId,
    pub(crate) stripe: usize,
    pub(crate) column: u32,
    pub(crate) ty: Type,
}

/// A stripe's column in device memory: its values, and a byte of validity for each if some may be NULL.
#[derive(Debug, Clone)]
pub(crate) struct CachedColumn {
    pub(crate) values: DeviceRange,
    pub(crate) valid: Option<DeviceRange>,
}

impl CachedColumn {
    pub(crate) fn bytes(&self) -> u64 {
        (self.values.len + self.valid.as_ref().map_or(0, |v| v.len)) as u64
    }
}

/// The pages of a partially resident column that are there.
#[derive(Debug, Clone)]
pub(crate) struct PresenceBitmap {
    /// A bit for each page, in device memory.
    pub(crate) there: DeviceRange,
    pub(crate) pages: u32,
    pub(crate) missing: u32,
}

#[derive(Debug)]
struct PoolEntry {
    resident: CachedColumn,
    /// The query that used the entry last. The running query's entries stay.
    used: u64,
    /// Whether all bytes are there: set when the query that loads them has ended well.
    complete: bool,
    /// If the column is partially resident.
    pages: Option<PresenceBitmap>,
}

impl PoolEntry {
    fn bytes(&self) -> u64 {
        self.resident.bytes() + self.pages.as_ref().map_or(0, |p| p.there.len as u64)
    }
}

/// Cached columns, and the memory for them.
#[derive(Debug)]
pub(crate) struct BufferPool {
    device: Device,
    arenas: Vec<Arena>,
    /// Bytes of all arenas together, at most.
    capacity: u64,
    taken: u64,
    entries: HashMap<ColumnKey, PoolEntry>,
    query: u64,
}

impl BufferPool {
    pub(crate) fn new(device: &Device, capacity: u64) -> Self {
        Self {
            device: device.clone(),
            arenas: Vec::new(),
            capacity,
            taken: 0,
            entries: HashMap::new(),
            query: 0,
        }
    }

    /// A new query begins: the entries that it uses stay until the next one.
    pub(crate) fn begin(&mut self) {
        self.query += 1;
    }

    /// Bytes that could be given out if the running query used nothing.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes that the running query does not use: free ones, and those of columns that can be evicted.
    pub(crate) fn available(&self) -> u64 {
        let in_use = self.entries.values().filter(|e| e.used == self.query);
        self.capacity.saturating_sub(in_use.map(PoolEntry::bytes).sum())
    }

    /// A column that is wholly resident; it stays for this query.
    pub(crate) fn find(&mut self, key: &ColumnKey) -> Option<CachedColumn> {
        let query = self.query;
        let entry = self.entries.get_mut(key).filter(|e| e.complete)?;
        entry.used = query;
        Some(entry.resident.clone())
    }

    /// Whether a column is wholly resident.
    pub(crate) fn has(&self, key: &ColumnKey) -> bool {
        self.entries.get(key).is_some_and(|e| e.complete)
    }

    /// Reserves space for a column that will be loaded now; `None` if eviction does not free enough.
    pub(crate) fn reserve(
        &mut self,
        key: ColumnKey,
        values: usize,
        valid: Option<usize>,
    ) -> Result<Option<CachedColumn>, CudaError> {
        let Some(values) = self.take(values)? else {
            return Ok(None);
        };
        let valid = match valid.map(|len| self.take(len)).transpose()? {
            Some(None) => {
                self.give_back(&values);
                return Ok(None);
            }
            Some(piece) => piece,
            None => None,
        };
        let resident = CachedColumn { values, valid };
        let entry = PoolEntry {
            resident: resident.clone(),
            used: self.query,
            complete: false,
            pages: None,
        };
        if let Some(old) = self.entries.insert(key, entry) {
            self.drop_entry(&old);
        }
        Ok(Some(resident))
    }

    /// As [`reserve`](Self::reserve), for a column of which pages will be loaded when they are missed. Its bits are
    /// zeros when the first kernel looks at them.
    pub(crate) fn reserve_paged(
        &mut self,
        key: ColumnKey,
        values: usize,
        valid: Option<usize>,
        pages: PresenceBitmap,
    ) -> Result<Option<CachedColumn>, CudaError> {
        let reserved = self.reserve(key, values, valid)?;
        match (&reserved, self.entries.get_mut(&key)) {
            (Some(_), Some(entry)) => entry.pages = Some(pages),
            _ => self.give_back(&pages.there),
        }
        Ok(reserved)
    }

    /// A column that is partially resident; it stays for this query.
    pub(crate) fn find_paged(&mut self, key: &ColumnKey) -> Option<(CachedColumn, PresenceBitmap)> {
        let query = self.query;
        let entry = self.entries.get_mut(key)?;
        let pages = entry.pages.clone()?;
        entry.used = query;
        Some((entry.resident.clone(), pages))
    }

    /// The pages of a column that are there, if it is partially resident.
    pub(crate) fn page_bits(&self, key: &ColumnKey) -> Option<&PresenceBitmap> {
        self.entries.get(key)?.pages.as_ref()
    }

    /// Notes that pages of a column have come. With the last one the column is whole. No kernel looks at its bits any
    /// more.
    pub(crate) fn pages_came(&mut self, key: &ColumnKey, count: u32) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let Some(pages) = &mut entry.pages else { return };
        pages.missing = pages.missing.saturating_sub(count);
        if pages.missing == 0
            && let Some(pages) = entry.pages.take()
        {
            entry.complete = true;
            self.give_back(&pages.there);
        }
    }

    /// Drops a column. No kernel and no copy uses it.
    pub(crate) fn drop_column(&mut self, key: &ColumnKey) {
        self.remove(key);
    }

    /// Takes memory from the driver for `bytes` that will be reserved, if they are more than an arena. Each call of the
    /// driver takes part of a millisecond, at any size.
    pub(crate) fn expect(&mut self, bytes: u64) -> Result<(), CudaError> {
        let more = bytes.saturating_sub(self.arenas.iter().map(Arena::free_bytes).sum());
        if more > ARENA_BYTES {
            self.grow(more as usize)?;
        }
        Ok(())
    }

    /// A range for as long as the caller likes; `None` if there is no space, as in [`reserve`](Self::reserve).
    pub(crate) fn take(&mut self, len: usize) -> Result<Option<DeviceRange>, CudaError> {
        let rounded = rounded(len);
        loop {
            for (arena, a) in self.arenas.iter_mut().enumerate() {
                if let Some(offset) = a.take(rounded) {
                    let buffer = a.buffer.clone();
                    return Ok(Some(DeviceRange {
                        buffer,
                        offset,
                        len,
                        arena,
                    }));
                }
            }
            if !self.grow(rounded)? && !self.evict_one() {
                return Ok(None);
            }
        }
    }

    /// Returns a range of [`take`](Self::take). No kernel and no copy uses it.
    pub(crate) fn give_back(&mut self, piece: &DeviceRange) {
        self.arenas[piece.arena].give_back(piece.offset, rounded(piece.len));
    }

    /// The running query ended. If it ended well, the columns that it loaded are complete; otherwise they are dropped.
    pub(crate) fn finish(&mut self, well: bool) {
        let query = self.query;
        let open = |e: &&mut PoolEntry| !e.complete && e.pages.is_none();
        if well {
            self.entries.values_mut().filter(open).for_each(|e| e.complete = true);
            return;
        }
        let half_done = |e: &PoolEntry| !e.complete && (e.pages.is_none() || e.used == query);
        let gone: Vec<ColumnKey> = (self.entries.iter())
            .filter(|(_, e)| half_done(e))
            .map(|(k, _)| *k)
            .collect();
        gone.iter().for_each(|key| self.remove(key));
    }

    /// Drops all columns of a file.
    pub(crate) fn forget(&mut self, file: FileId) {
        let gone: Vec<ColumnKey> = self.entries.keys().filter(|k| k.file == file).copied().collect();
        gone.iter().for_each(|key| self.remove(key));
    }

    /// Bytes of all columns.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.entries.values().map(PoolEntry::bytes).sum()
    }

    fn remove(&mut self, key: &ColumnKey) {
        if let Some(entry) = self.entries.remove(key) {
            self.drop_entry(&entry);
        }
    }

    fn drop_entry(&mut self, entry: &PoolEntry) {
        let CachedColumn { values, valid } = &entry.resident;
        let there = entry.pages.as_ref().map(|p| &p.there);
        [Some(values), valid.as_ref(), there]
            .into_iter()
            .flatten()
            .for_each(|piece| self.give_back(piece));
    }

    /// Takes another arena from the driver, large enough for `len` bytes, if the bound allows it. If the driver has
    /// less than the bound, its memory is the bound from now on.
    fn grow(&mut self, len: usize) -> Result<bool, CudaError> {
        let need = (len + 2 * MARGIN_BYTES) as u64;
        let left = self.capacity.saturating_sub(self.taken);
        if left < need {
            return Ok(false);
        }
        let mut bytes = ARENA_BYTES.clamp(need, left);
        loop {
            match DeviceBuffer::new(&self.device, bytes as usize) {
                Ok(buffer) => {
                    self.taken += bytes;
                    self.arenas.push(Arena::new(buffer));
                    return Ok(true);
                }
                Err(e) if e.is_out_of_memory() && bytes > need => bytes = (bytes / 2).max(need),
                Err(e) if e.is_out_of_memory() => {
                    let allowed = self.capacity;
                    self.capacity = self.taken + need - 1;
                    log::warn!(
                        "{} bytes for columns must do, {allowed} were allowed: {e}",
                        self.capacity
                    );
                    return Ok(false);
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Evicts the column that was not used for longest; neighbours of one query go one after the other.
    fn evict_one(&mut self) -> bool {
        let query = self.query;
        let unused = self.entries.iter().filter(|(_, e)| e.used != query);
        let oldest = unused.min_by_key(|(_, e)| (e.used, e.resident.values.arena, e.resident.values.offset));
        let Some(key) = oldest.map(|(key, _)| *key) else {
            return false;
        };
        self.remove(&key);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::FileVersion;
    use crate::runtime::memory::arena::RANGE_GRAIN_BYTES;

    fn key(stripe: usize) -> ColumnKey {
        let version = FileVersion {
            path: "a".into(),
            device: 0,
            inode: 0,
            bytes: 0,
            modified_ns: 0,
        };
        let (file, _) = crate::input::file_registry::FileRegistry::default().number(&version);
        ColumnKey {
            file,
            stripe,
            column: 1,
            ty: Type::Float64,
        }
    }

    fn pool(capacity: u64) -> BufferPool {
        BufferPool::new(&Device::host(1, 1 << 30), capacity)
    }

    #[test]
    fn pieces_given_out_one_after_the_other_touch_and_come_back_whole() {
        let mut pool = pool(1 << 20);
        let all: Vec<DeviceRange> = (0..4).map(|_| pool.take(1000).unwrap().unwrap()).collect();
        assert!(all.windows(2).all(|w| w[0].address() + 1000 == w[1].address()));
        for at in [1, 3, 0, 2] {
            pool.give_back(&all[at]);
        }
        let whole = (1 << 20) - 2 * MARGIN_BYTES;
        assert!(pool.take(whole).unwrap().is_some(), "all free pieces were merged");
        assert!(pool.take(8).unwrap().is_none());
    }

    #[test]
    fn the_least_recently_used_columns_make_room_and_those_of_the_query_stay() {
        let mut pool = pool(100_000);
        for stripe in 0..3 {
            pool.begin();
            assert!(pool.reserve(key(stripe), 30_000, None).unwrap().is_some());
            pool.finish(true);
        }
        pool.begin();
        assert!(pool.find(&key(0)).is_some());
        assert!(pool.reserve(key(3), 30_000, None).unwrap().is_some());
        assert!(!pool.has(&key(1)), "the oldest made room");
        assert!(pool.has(&key(0)) && pool.has(&key(2)));
        assert!(!pool.has(&key(3)), "not before it is loaded");
        assert!(pool.reserve(key(4), 30_000, Some(3_000)).unwrap().is_some());
        assert!(pool.reserve(key(5), 30_000, None).unwrap().is_none(), "all is in use");
        assert!(pool.has(&key(0)));
        pool.finish(false);
        assert!(pool.has(&key(0)) && !pool.has(&key(3)) && !pool.has(&key(4)));
        assert_eq!(pool.resident_bytes(), 30_000);
    }

    #[test]
    fn a_column_that_is_there_in_part_is_whole_with_its_last_page() {
        let mut pool = pool(100_000);
        let reserve = |pool: &mut BufferPool, stripe: usize| {
            let there = pool.take(8).unwrap().unwrap();
            let bits = PresenceBitmap {
                there,
                pages: 50,
                missing: 50,
            };
            pool.reserve_paged(key(stripe), 3_200, None, bits).unwrap().unwrap()
        };
        pool.begin();
        reserve(&mut pool, 0);
        pool.pages_came(&key(0), 20);
        pool.finish(true);
        assert!(!pool.has(&key(0)) && pool.find(&key(0)).is_none());
        assert_eq!(pool.page_bits(&key(0)).unwrap().missing, 30);
        assert_eq!(pool.resident_bytes(), 3_208);
        pool.begin();
        assert!(pool.find_paged(&key(0)).is_some());
        pool.pages_came(&key(0), 30);
        assert!(pool.has(&key(0)) && pool.page_bits(&key(0)).is_none());
        assert_eq!(pool.resident_bytes(), 3_200);
        reserve(&mut pool, 1);
        pool.finish(false);
        assert!(pool.has(&key(0)) && pool.page_bits(&key(1)).is_none(), "half done");
        // A partially resident column of an earlier query stays, and is evicted when space is needed.
        pool.begin();
        reserve(&mut pool, 2);
        pool.finish(true);
        pool.begin();
        pool.finish(false);
        assert!(pool.page_bits(&key(2)).is_some());
        assert!(pool.reserve(key(3), 99_000, None).unwrap().is_some());
        assert!(pool.page_bits(&key(2)).is_none());
        pool.finish(true);
        pool.drop_column(&key(3));
        assert_eq!(pool.resident_bytes(), 0);
        let whole = pool
            .take((100_000 - 2 * MARGIN_BYTES) / RANGE_GRAIN_BYTES * RANGE_GRAIN_BYTES)
            .unwrap();
        assert!(whole.is_some(), "all pieces came back");
    }

    #[test]
    fn expected_bytes_are_one_arena_if_they_are_many_and_none_if_they_are_free() {
        // Addresses only: the memory is not touched.
        let mut pool = BufferPool::new(&Device::host(1, 4 << 30), 3 << 30);
        pool.expect(1 << 30).unwrap();
        assert!(pool.arenas.is_empty(), "less than an arena is taken when it is needed");
        pool.expect(5 << 29).unwrap();
        let taken = (5 << 29) + 2 * MARGIN_BYTES as u64;
        assert_eq!((pool.arenas.len(), pool.taken), (1, taken));
        let half = pool.take(5 << 28).unwrap().unwrap();
        pool.expect(5 << 28).unwrap();
        pool.expect(5 << 29).unwrap();
        assert_eq!(
            (pool.arenas.len(), pool.taken),
            (1, taken),
            "it is there; it is not allowed"
        );
        assert!(pool.take(5 << 28).unwrap().is_some());
        assert_eq!((pool.arenas.len(), half.arena), (1, 0));
    }

    #[test]
    fn less_memory_than_allowed_is_the_bound() {
        let mut pool = BufferPool::new(&Device::host(1, 1 << 20), 1 << 40);
        assert!(pool.take(2 << 20).unwrap().is_none());
        assert!(pool.take(100 << 10).unwrap().is_some());
        assert!(pool.capacity() < 3 << 20);
    }
}
