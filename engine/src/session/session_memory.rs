//! `SessionMemory`: the memory pool of sessions with a limit, and the settings that fit it.

use std::sync::Arc;

use datafusion::execution::memory_pool::{MemoryPool, UnboundedMemoryPool};
use datafusion::prelude::SessionConfig;

use super::limited_pool::{LimitedPool, minimum_bytes};
use super::machine_memory::machine_memory_bytes;
use crate::config::MemoryLimit;

/// Rows per batch of a session, if neither a setting nor its memory limit says otherwise.
const BATCH_ROWS: usize = 8192;
/// Minimum rows per batch at a low memory limit.
const MIN_BATCH_ROWS: usize = 128;
/// A batch has at most one row for each of these bytes of a partition's memory, so that a sort of rows of 100 bytes has
/// memory for some hundred batches.
const PARTITION_BYTES_PER_BATCH_ROW: usize = 16 << 10;
/// A sort keeps its first rows in memory if a partition's memory has so many bytes for each of them.
const PARTITION_BYTES_PER_FIRST_ROW: usize = 1 << 10;
/// Estimated bytes per row of a build side that all partitions share.
const SHARED_BUILD_ROW_BYTES: usize = 128;

/// The memory that sessions share.
#[derive(Debug, Clone)]
pub(super) struct SessionMemory {
    /// The limit in bytes; `None`: no limit, or the machine does not say how much memory it has.
    limit: Option<usize>,
    /// The pool from which all queries reserve.
    pub(super) pool: Arc<dyn MemoryPool>,
}

impl SessionMemory {
    /// The memory of sessions whose queries have this number of partitions.
    pub(super) fn new(limit: MemoryLimit, partitions: usize) -> Self {
        let limit = limit_bytes(limit);
        Self {
            limit,
            pool: match limit {
                Some(limit) => Arc::new(LimitedPool::new(limit, partitions)),
                None => Arc::new(UnboundedMemoryPool::default()),
            },
        }
    }

    /// The limit in bytes; without one, `usize::MAX`.
    pub(super) fn limit_bytes(&self) -> usize {
        self.limit.unwrap_or(usize::MAX)
    }

    /// Maximum rows that a sort with a limit keeps in memory.
    pub(super) fn first_rows(&self, partitions: usize) -> usize {
        let rows = |limit| limit / partitions.max(1) / PARTITION_BYTES_PER_FIRST_ROW;
        self.limit.map_or(usize::MAX, rows)
    }

    /// Settings with which queries run within the limit: small batches and small merge buffers, if the limit is low.
    pub(super) fn fit(&self, session: SessionConfig) -> SessionConfig {
        let Some(limit) = self.limit else {
            return session;
        };
        let partitions = session.target_partitions().max(1);
        let rows = limit / partitions / PARTITION_BYTES_PER_BATCH_ROW;
        let minimum = minimum_bytes(limit, partitions);
        let mut session = session.with_batch_size(rows.clamp(MIN_BATCH_ROWS, BATCH_ROWS));
        let execution = &mut session.options_mut().execution;
        execution.sort_spill_reservation_bytes = execution.sort_spill_reservation_bytes.min(minimum);
        execution.sort_in_place_threshold_bytes = execution.sort_in_place_threshold_bytes.min(minimum);
        // A build side that all partitions share cannot spill. It must be small.
        let optimizer = &mut session.options_mut().optimizer;
        let (bytes, rows) = (
            &mut optimizer.hash_join_single_partition_threshold,
            &mut optimizer.hash_join_single_partition_threshold_rows,
        );
        *bytes = (*bytes).min(limit / 16);
        *rows = (*rows).min(limit / 16 / SHARED_BUILD_ROW_BYTES);
        session
    }
}

fn limit_bytes(limit: MemoryLimit) -> Option<usize> {
    match limit {
        MemoryLimit::Bytes(bytes) => Some(bytes),
        MemoryLimit::Unlimited => None,
        MemoryLimit::Machine => {
            let bytes = machine_memory_bytes()? / 10 * 8;
            Some(usize::try_from(bytes).unwrap_or(usize::MAX))
        }
    }
}
