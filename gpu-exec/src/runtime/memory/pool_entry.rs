//! `PoolEntry`: a column in the pool, with its users. `PoolUse`: what a query uses.

use std::collections::HashMap;
use std::sync::Arc;

use crate::runtime::memory::arena::{DeviceRange, rounded};
use crate::runtime::memory::cached_column::{CachedColumn, PresenceBitmap};
use crate::runtime::memory::column_key::ColumnKey;
use crate::runtime::memory::residency::Presence;

/// A running query. Numbers ascend in the order of beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct QueryId(pub(super) u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct EntryId(pub(super) u64);

/// The columns that a query used, all of them wholly resident before it began.
#[derive(Debug, Clone)]
pub(crate) struct UsedEntries {
    pub(super) ids: Arc<[EntryId]>,
    /// The [losses](crate::runtime::memory::residency::Residency::losses) when they were used.
    pub(crate) losses: u64,
}

#[derive(Debug)]
pub(super) struct PoolEntry {
    pub(super) key: ColumnKey,
    pub(super) resident: CachedColumn,
    /// The query that used the entry last.
    pub(super) used: QueryId,
    /// Running queries that use the entry. It stays while there is one.
    pub(super) users: usize,
    /// The query that loads the column, until it has ended well.
    pub(super) loader: Option<QueryId>,
    /// If the column is partially resident.
    pub(super) pages: Option<PresenceBitmap>,
    /// Other queries may find the entry under its key.
    pub(super) listed: bool,
    /// The column was dropped: the entry goes with its last user.
    pub(super) dropped: bool,
}

/// The place of an entry in the order of eviction: the last use, then the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EvictionOrder {
    pub(super) used: QueryId,
    arena: usize,
    offset: usize,
    pub(super) id: EntryId,
}

impl EvictionOrder {
    pub(super) fn of(id: EntryId, entry: &PoolEntry) -> Self {
        Self {
            used: entry.used,
            arena: entry.resident.values.arena,
            offset: entry.resident.values.offset,
            id,
        }
    }
}

impl PoolUse {
    pub(super) fn lent_bytes(&self) -> u64 {
        self.lent.iter().map(|range| rounded(range.len) as u64).sum()
    }
}

impl PoolEntry {
    pub(super) fn bytes(&self) -> u64 {
        self.resident.bytes() + self.pages.as_ref().map_or(0, |p| p.there.len as u64)
    }

    pub(super) fn ranges(&self) -> impl Iterator<Item = &DeviceRange> {
        let there = self.pages.as_ref().map(|p| &p.there);
        [Some(&self.resident.values), self.resident.valid.as_ref(), there]
            .into_iter()
            .flatten()
    }

    /// Whether all bytes are there.
    pub(super) fn is_complete(&self) -> bool {
        self.loader.is_none() && self.pages.is_none()
    }

    pub(super) fn presence(&self) -> Option<Presence> {
        match &self.pages {
            Some(pages) => Some(Presence::Pages(pages.pages - pages.missing)),
            None => self.loader.is_none().then_some(Presence::Whole),
        }
    }
}

/// The use that a running query makes of the pool.
#[derive(Debug, Default)]
pub(super) struct PoolUse {
    pub(super) entries: hashbrown::HashSet<EntryId>,
    /// Entries that an earlier query used, all of them.
    pub(super) again: Option<UsedEntries>,
    /// Entries that are not listed under their keys.
    pub(super) own: HashMap<ColumnKey, EntryId>,
    /// Ranges that are no columns.
    pub(super) lent: Vec<DeviceRange>,
}
