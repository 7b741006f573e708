//! `BufferPool`: device memory for columns. The pool takes it from the driver in a few large arenas and gives it out in
//! ranges.
//!
//! Stripes' columns stay for later queries. If there is no space, the least recently used ones are evicted; those of
//! running queries stay. Windows that columns stream through take their memory from here too.
//!
//! Queries run side by side:
//!
//! - A column that is wholly resident serves all of them.
//! - A column that one query loads, or reads by page, is *claimed* by it. Another query that needs the column meanwhile
//!   gets a range of its own, which is listed under the key if that is free when the query ends.
//! - The memory of a column that is dropped while a query reads it is given out again when the query has ended.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use grampus_cuda::{CudaError, Device};

use crate::input::file_registry::FileId;
use crate::runtime::memory::arena::{Arena, DeviceRange, rounded};
use crate::runtime::memory::arena_set::ArenaSet;
use crate::runtime::memory::cached_column::{CachedColumn, PresenceBitmap};
use crate::runtime::memory::column_key::{ColumnKey, FastMap};
use crate::runtime::memory::pool_entry::{EntryId, EvictionOrder, PoolEntry, PoolUse};
pub(crate) use crate::runtime::memory::pool_entry::{QueryId, UsedEntries};
use crate::runtime::memory::residency::Residency;
use crate::runtime::memory::streamed_parts::StreamedParts;
use crate::runtime::memory::unused_arenas::unused_arenas;

/// Cached columns, and the memory for them.
#[derive(Debug)]
pub(crate) struct BufferPool {
    residency: Arc<Residency>,
    arenas: ArenaSet,
    entries: FastMap<EntryId, PoolEntry>,
    listed: FastMap<ColumnKey, EntryId>,
    /// Entries that no running query uses, in the order in which they are evicted.
    evictable: BTreeSet<EvictionOrder>,
    queries: HashMap<QueryId, PoolUse>,
    pub(crate) parts: StreamedParts,
    last_entry: u64,
    last_query: u64,
}

impl BufferPool {
    pub(crate) fn new(device: &Device, residency: &Arc<Residency>, capacity: u64) -> Self {
        Self {
            residency: residency.clone(),
            arenas: ArenaSet::new(device, residency, capacity),
            entries: FastMap::default(),
            listed: FastMap::default(),
            evictable: BTreeSet::new(),
            queries: HashMap::new(),
            parts: StreamedParts::default(),
            last_entry: 0,
            last_query: 0,
        }
    }

    /// A new query begins: the entries that it uses stay until it [ends](Self::finish).
    pub(crate) fn begin(&mut self) -> QueryId {
        self.last_query += 1;
        let query = QueryId(self.last_query);
        self.queries.insert(query, PoolUse::default());
        query
    }

    /// Bytes that could be given out if no query used any.
    pub(crate) fn capacity(&self) -> u64 {
        self.arenas.capacity()
    }

    /// Bytes that running queries do not use: free ones, and those of columns that can be evicted. The windows of
    /// `query` itself count as unused.
    pub(crate) fn available(&self, query: QueryId) -> u64 {
        let in_use = self.entries.values().filter(|e| e.users > 0);
        let lent = self.queries.iter().filter(|(id, _)| **id != query);
        let used = in_use.map(PoolEntry::bytes).sum::<u64>() + lent.map(|(_, query)| query.lent_bytes()).sum::<u64>();
        self.arenas.capacity().saturating_sub(used)
    }

    /// Looks whether the driver has memory again that it had not.
    pub(crate) fn look_again(&mut self) {
        self.arenas.look_again();
    }

    /// Whether the driver has less memory than columns may have.
    pub(crate) fn is_short(&self) -> bool {
        self.arenas.is_short()
    }

    /// Arenas of which nothing is given out, for the driver. The caller drops them without the pool's lock.
    pub(crate) fn take_free(&mut self) -> Vec<Arena> {
        self.arenas.take_free()
    }

    /// Bytes that hold nothing.
    pub(crate) fn unused(&self) -> u64 {
        let lent = self.queries.values().map(PoolUse::lent_bytes).sum::<u64>();
        self.arenas.capacity().saturating_sub(self.resident_bytes() + lent)
    }

    /// Queries that have begun since the least recently used column was used.
    pub(crate) fn oldest_age(&self) -> u64 {
        self.evictable
            .first()
            .map_or(0, |oldest| self.last_query - oldest.used.0)
    }

    pub(crate) fn queries_begun(&self) -> u64 {
        self.last_query
    }

    /// A column that is wholly resident; it stays for this query.
    pub(crate) fn find(&mut self, query: QueryId, key: &ColumnKey) -> Option<CachedColumn> {
        let id = *self.listed.get(key)?;
        let found = self.entries.get(&id).filter(|e| e.is_complete())?.resident.clone();
        self.use_entry(query, id);
        Some(found)
    }

    /// The columns that a running query has found; `None`: it loads some, or some were dropped.
    pub(crate) fn used_entries(&self, query: QueryId) -> Option<UsedEntries> {
        let uses = self.queries.get(&query).filter(|uses| uses.again.is_none())?;
        let is_kept = |id| self.entries.get(id).is_some_and(|e| e.is_complete() && e.listed);
        uses.entries.iter().all(is_kept).then(|| UsedEntries {
            ids: uses.entries.iter().copied().collect(),
            losses: self.residency.losses(),
        })
    }

    /// Uses columns as an earlier query did; they stay for this query. False, and nothing is used: one of them may be
    /// gone.
    pub(crate) fn use_again(&mut self, query: QueryId, used: &UsedEntries) -> bool {
        if self.residency.losses() != used.losses {
            return false;
        }
        for id in &*used.ids {
            self.hold(query, *id);
        }
        self.query(query).again = Some(used.clone());
        true
    }

    /// Reserves space for a column that will be loaded now; `None` if eviction does not free enough.
    pub(crate) fn reserve(
        &mut self,
        query: QueryId,
        key: ColumnKey,
        values: usize,
        valid: Option<usize>,
    ) -> Result<Option<CachedColumn>, CudaError> {
        self.reserve_with(query, key, (values, valid), None)
    }

    /// As [`reserve`](Self::reserve), for a column of which pages will be loaded when they are missed. Its bits are
    /// zeros when the first kernel looks at them.
    pub(crate) fn reserve_paged(
        &mut self,
        query: QueryId,
        key: ColumnKey,
        values: usize,
        valid: Option<usize>,
        pages: PresenceBitmap,
    ) -> Result<Option<CachedColumn>, CudaError> {
        let there = pages.there.clone();
        let reserved = self.reserve_with(query, key, (values, valid), Some(pages));
        if !matches!(reserved, Ok(Some(_))) {
            self.give_back(&there);
        }
        reserved
    }

    fn reserve_with(
        &mut self,
        query: QueryId,
        key: ColumnKey,
        (values, valid): (usize, Option<usize>),
        pages: Option<PresenceBitmap>,
    ) -> Result<Option<CachedColumn>, CudaError> {
        let Some(values) = self.take(values)? else {
            return Ok(None);
        };
        let valid = match valid.map(|len| self.take(len)).transpose() {
            Ok(Some(None)) => {
                self.give_back(&values);
                return Ok(None);
            }
            Ok(range) => range.flatten(),
            Err(e) => {
                self.give_back(&values);
                return Err(e);
            }
        };
        let resident = CachedColumn { values, valid };
        if let Some(old) = self.listed.get(&key).copied()
            && self.entries.get(&old).is_some_and(|e| e.users == 0)
        {
            self.remove(old);
        }
        self.last_entry += 1;
        let id = EntryId(self.last_entry);
        let entry = PoolEntry {
            key,
            resident: resident.clone(),
            used: query,
            users: 0,
            loader: pages.is_none().then_some(query),
            pages,
            listed: false,
            dropped: false,
        };
        self.entries.insert(id, entry);
        self.use_entry(query, id);
        if !self.list(id) {
            self.query(query).own.insert(key, id);
        }
        Ok(Some(resident))
    }

    /// A column that is partially resident and that no other query reads; it stays for this query.
    pub(crate) fn find_paged(&mut self, query: QueryId, key: &ColumnKey) -> Option<(CachedColumn, PresenceBitmap)> {
        let id = *self.listed.get(key)?;
        let entry = self.entries.get(&id).filter(|e| e.users == 0)?;
        let found = (entry.resident.clone(), entry.pages.clone()?);
        self.use_entry(query, id);
        Some(found)
    }

    pub(crate) fn has_pages(&self, key: &ColumnKey) -> bool {
        self.page_bits(key).is_some()
    }

    fn page_bits(&self, key: &ColumnKey) -> Option<&PresenceBitmap> {
        self.entries.get(self.listed.get(key)?)?.pages.as_ref()
    }

    /// Notes that pages of a column have come that the query reads. With the last one the column is whole. No kernel
    /// looks at its bits any more.
    pub(crate) fn pages_came(&mut self, query: QueryId, key: &ColumnKey, count: u32) {
        let Some(uses) = self.queries.get(&query) else { return };
        let Some(&id) = uses.own.get(key).or_else(|| self.listed.get(key)) else {
            return;
        };
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let Some(pages) = &mut entry.pages else { return };
        pages.missing = pages.missing.saturating_sub(count);
        let gone = match pages.missing {
            0 => entry.pages.take(),
            _ => None,
        };
        self.publish(id);
        if let Some(pages) = gone {
            self.give_back(&pages.there);
        }
    }

    /// Drops a partially resident column, unless another query reads it.
    pub(crate) fn drop_pages(&mut self, query: QueryId, key: &ColumnKey) {
        let uses = self.queries.entry(query).or_default();
        let Some(&id) = uses.own.get(key).or_else(|| self.listed.get(key)) else {
            return;
        };
        let Some(entry) = self.entries.get_mut(&id).filter(|e| e.pages.is_some()) else {
            return;
        };
        let is_unused = entry.users == usize::from(uses.entries.contains(&id));
        if uses.entries.remove(&id) {
            uses.own.remove(key);
            self.release(id);
        }
        if is_unused {
            self.remove(id);
        }
    }

    /// Takes memory from the driver for `bytes` that will be reserved, if they are more than an arena. Each call of the
    /// driver takes part of a millisecond, at any size.
    pub(crate) fn expect(&mut self, bytes: u64) -> Result<(), CudaError> {
        self.arenas.expect(bytes)
    }

    /// A range that is no column, until the query [ends](Self::finish); `None` if there is no space, as in
    /// [`reserve`](Self::reserve).
    pub(crate) fn lend(&mut self, query: QueryId, len: usize) -> Result<Option<DeviceRange>, CudaError> {
        let range = self.take(len)?;
        self.query(query).lent.extend(range.clone());
        Ok(range)
    }

    /// A range for as long as the caller likes; `None` if there is no space, as in [`reserve`](Self::reserve).
    pub(crate) fn take(&mut self, len: usize) -> Result<Option<DeviceRange>, CudaError> {
        loop {
            if let Some(range) = self.arenas.take(len) {
                return Ok(Some(range));
            }
            if self.arenas.grow(rounded(len))? || self.evict_one() {
                continue;
            }
            // Several arenas that are free may be too small each.
            if self.arenas.take_free().is_empty() || !self.arenas.grow(rounded(len))? {
                return Ok(None);
            }
        }
    }

    /// Returns a range of [`take`](Self::take). No kernel and no copy uses it.
    pub(crate) fn give_back(&mut self, range: &DeviceRange) {
        self.arenas.give_back(range);
    }

    /// A query ended. If it ended well, the columns that it loaded are complete; otherwise they are dropped.
    pub(crate) fn finish(&mut self, query: QueryId, well: bool) {
        let Some(uses) = self.queries.remove(&query) else {
            return;
        };
        uses.lent.iter().for_each(|range| self.arenas.give_back(range));
        for id in uses.again.iter().flat_map(|used| used.ids.iter()) {
            self.release(*id);
            if self.entries.get(id).is_some_and(|e| e.dropped && e.users == 0) {
                self.remove(*id);
            }
        }
        for id in uses.entries {
            self.release(id);
            let Some(entry) = self.entries.get_mut(&id) else {
                continue;
            };
            let is_loader = entry.loader == Some(query);
            // A failed query may have placed pages that no bit says of.
            if !well && (is_loader || entry.pages.is_some()) {
                entry.dropped = true;
            } else if is_loader {
                entry.loader = None;
            }
            let is_unused = entry.users == 0;
            if entry.listed && !entry.dropped && !is_loader && entry.pages.is_none() {
                continue; // as it was
            }
            if entry.dropped || !self.list(id) {
                if is_unused {
                    self.remove(id);
                } else {
                    self.unlist(id);
                }
                continue;
            }
            self.publish(id);
        }
    }

    /// Drops all columns of a file.
    pub(crate) fn forget(&mut self, file: FileId) {
        self.parts.forget(file);
        let of_file = self.entries.iter().filter(|(_, e)| e.key.file == file);
        let gone: Vec<EntryId> = of_file.map(|(id, _)| *id).collect();
        for id in gone {
            match self.entries.get_mut(&id) {
                Some(entry) if entry.users > 0 => {
                    entry.dropped = true;
                    self.unlist(id);
                }
                _ => self.remove(id),
            }
        }
    }

    /// Bytes of all columns.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.entries.values().map(PoolEntry::bytes).sum()
    }

    /// Lowers the bound by `bytes`, for other uses of the device. Returns arenas that the caller drops without the
    /// pool's lock: freeing memory waits for kernels. `None`: running queries use too much.
    pub(crate) fn set_aside(&mut self, bytes: u64) -> Option<Vec<Arena>> {
        let bound = self.arenas.capacity().checked_sub(bytes)?;
        let mut needed = self.arenas.taken().saturating_sub(bound);
        let mut chosen = Vec::new();
        let lent = self.queries.values().any(|query| !query.lent.is_empty());
        for (at, len) in unused_arenas(&self.arenas, self.entries.values(), lent) {
            if needed == 0 {
                break;
            }
            needed = needed.saturating_sub(len);
            chosen.push(at);
        }
        if needed > 0 {
            return None;
        }
        let gone = self.take_arenas(&chosen);
        self.arenas.lower(bytes);
        Some(gone)
    }

    /// Raises the bound again.
    pub(crate) fn give_more(&mut self, bytes: u64) {
        self.arenas.raise(bytes);
    }

    /// Evicts what arenas hold, and takes them out of the pool.
    fn take_arenas(&mut self, chosen: &[usize]) -> Vec<Arena> {
        let is_chosen = |range: &DeviceRange| chosen.contains(&range.arena);
        let entries = self.entries.iter();
        let inside = entries.filter(|(_, e)| e.ranges().any(is_chosen));
        let gone: Vec<EntryId> = inside.map(|(id, _)| *id).collect();
        gone.into_iter().for_each(|id| self.remove(id));
        chosen.iter().filter_map(|&at| self.arenas.remove(at)).collect()
    }

    fn query(&mut self, query: QueryId) -> &mut PoolUse {
        self.queries.entry(query).or_default()
    }

    fn use_entry(&mut self, query: QueryId, id: EntryId) {
        if self.query(query).entries.insert(id) {
            self.hold(query, id);
        }
    }

    /// A running query uses an entry once more.
    fn hold(&mut self, query: QueryId, id: EntryId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            self.evictable.remove(&EvictionOrder::of(id, entry));
            entry.users += 1;
            entry.used = entry.used.max(query);
        }
    }

    /// A query uses an entry no longer.
    fn release(&mut self, id: EntryId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.users -= 1;
            if entry.users == 0 {
                self.evictable.insert(EvictionOrder::of(id, entry));
            }
        }
    }

    /// Lists an entry under its key. False: another one is.
    fn list(&mut self, id: EntryId) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else {
            return false;
        };
        let listed = *self.listed.entry(entry.key).or_insert(id);
        entry.listed = listed == id;
        if listed == id {
            self.publish(id);
        }
        listed == id
    }

    fn unlist(&mut self, id: EntryId) {
        if let Some(entry) = self.entries.get_mut(&id).filter(|e| e.listed) {
            entry.listed = false;
            let key = entry.key;
            self.listed.remove(&key);
            self.residency.set_column(key, None);
        }
    }

    fn publish(&self, id: EntryId) {
        if let Some(entry) = self.entries.get(&id).filter(|e| e.listed) {
            self.residency.set_column(entry.key, entry.presence());
        }
    }

    fn remove(&mut self, id: EntryId) {
        self.unlist(id);
        let Some(entry) = self.entries.remove(&id) else { return };
        self.evictable.remove(&EvictionOrder::of(id, &entry));
        entry.ranges().for_each(|range| self.arenas.give_back(range));
    }

    /// Evicts all columns that no running query uses.
    pub(crate) fn evict_unused(&mut self) {
        self.parts.forget_all();
        while self.evict_one() {}
    }

    /// Evicts the column that was not used for longest; neighbours of one query go one after the other.
    fn evict_one(&mut self) -> bool {
        let Some(oldest) = self.evictable.first().copied() else {
            return false;
        };
        self.remove(oldest.id);
        true
    }
}

#[cfg(test)]
#[path = "buffer_pool_tests.rs"]
mod tests;
