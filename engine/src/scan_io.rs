//! The I/O of an executed plan: a walk over its scans and GPU operators.

use std::sync::Arc;

use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;

use crate::gpu;
use crate::orc_source::OrcSource;
#[cfg(feature = "proto")]
use crate::plan_codec::decoded_scan::DecodedScanExec;
use crate::scan::metrics::ScanIo;
use crate::scan::orc_scan_exec::OrcScanExec;

/// The I/O of all ORC scans of an executed plan, together. Zero before execution.
pub fn scan_io(plan: &Arc<dyn ExecutionPlan>) -> ScanIo {
    let mut io = ScanIo::default();
    add_scans(plan.as_ref(), &mut io);
    io
}

fn add_scans(plan: &dyn ExecutionPlan, io: &mut ScanIo) {
    if let Some(metrics) = plan.downcast_ref::<OrcScanExec>().and_then(ExecutionPlan::metrics) {
        io.add(&metrics);
    }
    let source = plan.downcast_ref::<DataSourceExec>().map(DataSourceExec::data_source);
    let config = source.and_then(|source| source.downcast_ref::<FileScanConfig>());
    if config.is_some_and(|config| config.file_source().is::<OrcSource>()) {
        plan.metrics().iter().for_each(|metrics| io.add(metrics));
    }
    #[cfg(feature = "proto")]
    if let Some(metrics) = plan.downcast_ref::<DecodedScanExec>().and_then(ExecutionPlan::metrics) {
        io.add(&metrics);
    }
    // If the GPU operator fell back, the CPU plan below it did the work.
    if let Some(gpu) = gpu::aggregation(plan) {
        gpu.metrics().iter().for_each(|metrics| io.add(metrics));
        add_scans(gpu.cpu_plan().as_ref(), io);
    }
    for child in plan.children() {
        add_scans(child.as_ref(), io);
    }
}
