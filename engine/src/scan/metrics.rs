//! `ScanIo` and `ScanMetrics`: needed bytes, moved bytes, and what a scan skipped.
//!
//! The counters are DataFusion metrics of the scan, which `EXPLAIN ANALYZE` shows.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, CustomMetricValue, ExecutionPlanMetricsSet, Metric, MetricBuilder, MetricValue, MetricsSet,
};

use crate::file::IoCounters;

/// The I/O of one or more scans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScanIo {
    /// Bytes that the query needed: filter columns of the scanned rows, other columns of the rows that passed.
    /// A decoded column counts with its stored bytes, in proportion to the rows.
    pub needed_bytes: u64,
    /// Bytes that crossed from storage or the page cache, indexes and stripe footers included. Reads count what they
    /// return. Loads from memory maps and by a GPU's kernels are modelled, by whole cache lines of 64 and of 32 bytes.
    pub moved_bytes: u64,
    /// Reads that moved the bytes. A gather through a memory map counts as one.
    pub read_requests: u64,
    /// Row groups of the table's files.
    pub row_groups_total: u64,
    /// Row groups that statistics, bloom filters or partition values excluded.
    pub row_groups_skipped: u64,
    /// Stripes that statistics or partition values excluded before any of their bytes was read.
    pub stripes_skipped: u64,
    /// Rows that the filter evaluated.
    pub rows_scanned: u64,
    /// Rows that passed the filter.
    pub rows_passed: u64,
}

impl ScanIo {
    /// Moved bytes divided by needed bytes; 1 if no byte was moved.
    pub fn amplification(&self) -> f64 {
        match (self.moved_bytes, self.needed_bytes) {
            (0, _) => 1.0,
            (moved, needed) => moved as f64 / needed.max(1) as f64,
        }
    }

    /// Adds the counters of one operator.
    pub(crate) fn add(&mut self, metrics: &MetricsSet) {
        let sum = |name| metrics.sum_by_name(name).map_or(0, |value| value.as_usize() as u64);
        self.needed_bytes += sum("needed_bytes");
        self.moved_bytes += sum("moved_bytes");
        self.read_requests += sum("read_requests");
        self.row_groups_total += sum("row_groups_total");
        self.row_groups_skipped += sum("row_groups_skipped");
        self.stripes_skipped += sum("stripes_skipped");
        self.rows_scanned += sum("rows_scanned");
        self.rows_passed += sum("rows_passed");
    }
}

/// The counters of one partition of a scan.
#[derive(Debug)]
pub(super) struct ScanMetrics {
    pub(super) io: IoCounters,
    pub(super) needed_bytes: Count,
    pub(super) row_groups_total: Count,
    pub(super) row_groups_skipped: Count,
    pub(super) stripes_skipped: Count,
    pub(super) rows_scanned: Count,
    pub(super) rows_passed: Count,
    pub(super) baseline: BaselineMetrics,
}

impl ScanMetrics {
    pub(super) fn new(set: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(set).counter(name, partition);
        Self {
            needed_bytes: counter("needed_bytes"),
            io: IoCounters {
                moved_bytes: counter("moved_bytes"),
                read_requests: counter("read_requests"),
            },
            row_groups_total: counter("row_groups_total"),
            row_groups_skipped: counter("row_groups_skipped"),
            stripes_skipped: counter("stripes_skipped"),
            rows_scanned: counter("rows_scanned"),
            rows_passed: counter("rows_passed"),
            baseline: BaselineMetrics::new(set, partition),
        }
    }
}

/// Adds the I/O amplification to the metrics of a scan.
pub(crate) fn with_amplification(mut metrics: MetricsSet) -> MetricsSet {
    let mut io = ScanIo::default();
    io.add(&metrics);
    let value = MetricValue::Custom {
        name: "io_amplification".into(),
        value: Arc::new(Amplification(io.amplification())),
    };
    metrics.push(Arc::new(Metric::new(value, None)));
    metrics
}

/// The I/O amplification as a metric. Computed from other metrics when they are read.
#[derive(Debug)]
struct Amplification(f64);

impl fmt::Display for Amplification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2}", self.0)
    }
}

impl CustomMetricValue for Amplification {
    fn new_empty(&self) -> Arc<dyn CustomMetricValue> {
        Arc::new(Self(self.0))
    }

    /// A scan has one amplification, over all partitions.
    fn aggregate(&self, _other: Arc<dyn CustomMetricValue + 'static>) {}

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_eq(&self, other: &Arc<dyn CustomMetricValue>) -> bool {
        other
            .as_any()
            .downcast_ref::<Self>()
            .is_some_and(|other| other.0 == self.0)
    }
}
