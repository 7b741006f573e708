//! `ScanMemory`: the memory of one stripe that a partition scans, as the session's pool counts it.

use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use grampus_orc_layout::LayoutError;

/// Maximum bytes of text and list elements of one array of several rows.
const MAX_ARRAY_BYTES: usize = 64 << 20;
/// The least that a memory limit makes of [`MAX_ARRAY_BYTES`].
const MIN_ARRAY_BYTES: usize = 64 << 10;
/// A partition has memory for this many arrays of the maximum.
const ARRAYS_PER_PARTITION: usize = 8;
/// The share of an array's maximum that a partition may keep reserved without need, as a divisor. So most batches ask
/// the pool for nothing, and the pool's lock stays free.
const SLACK_DIVISOR: usize = 64;

/// The share of the memory limit that may be reserved by all of the query's parts once bytes are fetched ahead, as a
/// divisor. The operators above the scan need the rest.
const SPARED_DIVISOR: usize = 2;

/// Fetched bytes, arrays being filtered and kept values of a stripe.
#[derive(Debug)]
pub(super) struct ScanMemory {
    reservation: MemoryReservation,
    array_bytes: usize,
    pool: Arc<dyn MemoryPool>,
}

impl ScanMemory {
    /// The memory of a stripe of one of `partitions` partitions. Nothing is held yet.
    pub(super) fn new(pool: &Arc<dyn MemoryPool>, partition: usize, partitions: usize) -> Self {
        let array_bytes = match pool.memory_limit() {
            MemoryLimit::Finite(limit) => limit / partitions.max(1) / ARRAYS_PER_PARTITION,
            MemoryLimit::Infinite | MemoryLimit::Unknown => MAX_ARRAY_BYTES,
        };
        Self {
            reservation: MemoryConsumer::new(format!("OrcScan[{partition}]")).register(pool),
            array_bytes: array_bytes.clamp(MIN_ARRAY_BYTES, MAX_ARRAY_BYTES),
            pool: Arc::clone(pool),
        }
    }

    /// The memory of the stripe that the same partition scans next.
    pub(super) fn of_next(&self) -> Self {
        Self {
            reservation: self.reservation.new_empty(),
            array_bytes: self.array_bytes,
            pool: Arc::clone(&self.pool),
        }
    }

    /// Whether the query can spare `bytes` more for what is fetched ahead.
    pub(super) fn can_spare(&self, bytes: usize) -> bool {
        match self.pool.memory_limit() {
            MemoryLimit::Finite(limit) => self.pool.reserved().saturating_add(bytes) <= limit / SPARED_DIVISOR,
            MemoryLimit::Infinite | MemoryLimit::Unknown => true,
        }
    }

    /// The pool that counts the memory.
    pub(super) fn pool(&self) -> &Arc<dyn MemoryPool> {
        &self.pool
    }

    /// Maximum bytes of text and list elements that one array of several rows should have.
    pub(super) fn array_bytes(&self) -> usize {
        self.array_bytes
    }

    /// Sets the bytes that are held. The reservation may stay a little larger.
    ///
    /// # Errors
    /// `ResourcesExhausted` if the pool has not as many.
    pub(super) fn hold(&self, bytes: usize) -> Result<()> {
        let reserved = self.reservation.size();
        match bytes <= reserved && reserved - bytes <= self.array_bytes / SLACK_DIVISOR {
            true => Ok(()),
            false => self.reservation.try_resize(bytes),
        }
    }
}

/// Whether the same read of fewer rows may succeed: the values were too large for one array, or for the pool.
pub(super) fn fewer_rows_may_fit(error: &DataFusionError) -> bool {
    match error {
        DataFusionError::External(inner) => {
            matches!(inner.downcast_ref::<LayoutError>(), Some(LayoutError::TooLarge { .. }))
        }
        error => matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)),
    }
}
