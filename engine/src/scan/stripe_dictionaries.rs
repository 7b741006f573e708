//! [`StripeDictionaries`]: the dictionaries of one stripe, which the partitions that scan the stripe share.
//!
//! A dictionary may be larger than all else that a scan holds. So it is in memory once, and counted once. If it would
//! leave the query too little memory, it is not held: then each read decodes the entries of its rows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::UInt32Type;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use grampus_orc_layout::Result;
use grampus_orc_layout::decode::{Dictionary, DictionaryShare};
use grampus_orc_layout::schema::ColumnId;

/// The share of the memory limit that may be reserved by all of the query's parts once a dictionary is held, as a
/// divisor. What is above the scan needs the rest, and counts the values that it takes.
const HELD_DIVISOR: usize = 2;

/// A dictionary and the memory that is counted for it.
type Held = (Arc<Dictionary>, MemoryReservation);

/// The dictionaries of a stripe's columns, while a partition scans the stripe.
pub(super) struct StripeDictionaries {
    pool: Arc<dyn MemoryPool>,
    /// By column; `None`: there was no memory for it.
    columns: Mutex<HashMap<ColumnId, Option<Held>>>,
}

impl StripeDictionaries {
    fn columns(&self) -> MutexGuard<'_, HashMap<ColumnId, Option<Held>>> {
        // Entries are inserted whole.
        self.columns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counted memory for a dictionary of `bytes` bytes, if the query can spare it.
    fn reserve(&self, bytes: usize) -> Option<MemoryReservation> {
        if let MemoryLimit::Finite(limit) = self.pool.memory_limit()
            && self.pool.reserved().saturating_add(bytes) > limit / HELD_DIVISOR
        {
            return None;
        }
        let reservation = MemoryConsumer::new("OrcScan dictionary").register(&self.pool);
        reservation.try_grow(bytes).ok()?;
        Some(reservation)
    }

    /// Bytes of an array that are not counted here.
    pub(super) fn uncounted_bytes(&self, array: &ArrayRef) -> usize {
        let Some(coded) = array.as_dictionary_opt::<UInt32Type>() else {
            return array.get_array_memory_size();
        };
        let values: Option<&StringArray> = coded.values().as_string_opt();
        let columns = self.columns();
        let mut held = columns.values().flatten();
        let is_held = values
            .is_some_and(|values| held.any(|(held, _)| held.entries().values().as_ptr() == values.values().as_ptr()));
        match is_held {
            true => coded.keys().get_array_memory_size(),
            false => array.get_array_memory_size(),
        }
    }
}

impl DictionaryShare for StripeDictionaries {
    fn get(
        &self,
        column: ColumnId,
        bytes: u64,
        load: &mut dyn FnMut() -> Result<Dictionary>,
    ) -> Result<Option<Arc<Dictionary>>> {
        // Another partition that wants the dictionary meanwhile waits for it here, and need not decode it.
        let mut columns = self.columns();
        if let Some(known) = columns.get(&column) {
            return Ok(known.as_ref().map(|(dictionary, _)| Arc::clone(dictionary)));
        }
        let held = match self.reserve(usize::try_from(bytes).unwrap_or(usize::MAX)) {
            Some(reservation) => Some((Arc::new(load()?), reservation)),
            None => None,
        };
        let dictionary = held.as_ref().map(|(dictionary, _)| Arc::clone(dictionary));
        columns.insert(column, held);
        Ok(dictionary)
    }
}

/// The dictionaries of the stripes that a scan reads now.
#[derive(Default)]
pub(crate) struct ScanDictionaries {
    /// By file number and stripe.
    stripes: Mutex<HashMap<(u64, usize), Weak<StripeDictionaries>>>,
}

impl std::fmt::Debug for ScanDictionaries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScanDictionaries").finish_non_exhaustive()
    }
}

impl ScanDictionaries {
    /// The dictionaries of a stripe of the file with this number, for queries that reserve memory from `pool`. They are
    /// dropped with the last partition that scans the stripe.
    pub(super) fn of(&self, file: u64, stripe: usize, pool: &Arc<dyn MemoryPool>) -> Arc<StripeDictionaries> {
        let mut stripes = self.stripes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = stripes.get(&(file, stripe)).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| Arc::ptr_eq(&known.pool, pool)) {
            return known;
        }
        stripes.retain(|_, stripe| stripe.strong_count() > 0);
        let new = Arc::new(StripeDictionaries {
            pool: Arc::clone(pool),
            columns: Mutex::default(),
        });
        stripes.insert((file, stripe), Arc::downgrade(&new));
        new
    }
}
