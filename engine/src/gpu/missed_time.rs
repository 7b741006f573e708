//! [`MissedTime`]: the time that executions on the CPU would have saved with an open device and resident columns.
//!
//! **Invariant:** executions alone are counted. Planning and EXPLAIN read the sums, so that the same statement over the
//! same caches gets the same plan.

use std::sync::Arc;
use std::time::Duration;

use super::session::{ColumnsKey, GpuSession};
use crate::scan::execution_listener::ExecutionListener;

/// What one execution of an aggregation on the CPU adds to the session's sums.
#[derive(Debug)]
pub(crate) struct MissedTime {
    pub(crate) session: Arc<GpuSession>,
    pub(crate) saved: SavedTime,
}

/// The time that the GPU would have saved.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SavedTime {
    /// With an open device.
    Opened(Duration),
    /// With these columns resident.
    Resident(ColumnsKey, Duration),
}

impl ExecutionListener for MissedTime {
    fn executed(&self) {
        match self.saved {
            SavedTime::Opened(saved) => self.session.miss(saved),
            SavedTime::Resident(columns, saved) => self.session.miss_columns(columns, saved),
        }
    }
}
