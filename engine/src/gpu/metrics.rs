//! Metrics of [`GpuAggregateExec`](super::gpu_aggregate_exec::GpuAggregateExec): the cost of a run.
//!
//! EXPLAIN ANALYZE shows them. [`scan_io`](crate::scan_io()) sums them with those of scans, under the same names.

use std::time::Duration;

use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};
use grampus_gpu_exec::output::Cost;

use super::gpu_work::GpuWork;

/// Records the cost of one run.
pub(super) fn record(metrics: &ExecutionPlanMetricsSet, cost: &Cost, work: &GpuWork) {
    let counters = [
        ("needed_bytes", cost.needed_bytes),
        ("moved_bytes", cost.moved_bytes()),
        ("pushed_bytes", cost.pushed_bytes),
        ("mapped_bytes", cost.mapped_bytes),
        ("command_bytes", cost.command_bytes),
        ("page_bytes", cost.page_bytes),
        ("pages", cost.pages),
        ("passes", cost.passes),
        ("read_requests", cost.commands),
        ("resident_bytes", cost.resident_bytes),
        ("rows_scanned", cost.rows),
        ("rows_passed", cost.passed),
    ];
    for (name, value) in counters {
        MetricBuilder::new(metrics).counter(name, 0).add(value as usize);
    }
    if let Some(scan) = work.lowered.scan() {
        let skipped = scan.skipped();
        let counters = [
            ("row_groups_total", skipped.row_groups_total),
            (
                "row_groups_skipped",
                skipped.row_groups + work.gpu_input.skipped_row_groups,
            ),
            ("stripes_skipped", skipped.stripes),
        ];
        for (name, value) in counters {
            MetricBuilder::new(metrics).counter(name, 0).add(value);
        }
    }
    let times: [(&'static str, Duration); 7] = [
        ("compile_time", cost.compile),
        ("register_time", cost.register),
        ("decode_time", cost.decode),
        ("device_decode_time", cost.device_decode),
        ("gather_time", cost.gather),
        ("scan_time", cost.scan),
        ("kernel_time", cost.kernel),
    ];
    for (name, time) in times {
        // DataFusion shows a time of zero only if the time was added.
        MetricBuilder::new(metrics).subset_time(name, 0).add_duration(time);
    }
}

/// Records that the CPU answered.
pub(super) fn record_fallback(metrics: &ExecutionPlanMetricsSet) {
    MetricBuilder::new(metrics).counter("answered_by_cpu", 0).add(1);
}
