//! [`DevicePath`]: the device that runs a plan's aggregates, with the reason.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

use crate::gpu;
use crate::scan::orc_scan_exec::OrcScanExec;

/// The device that runs, or ran, a plan's aggregates over ORC scans.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DevicePath {
    /// Whether a GPU computes at least one aggregate. After a fallback it does not.
    pub on_gpu: bool,
    /// Why an ORC scan's rows are not aggregated on the GPU, or why the operator fell back. `None`: planning had no
    /// reason to give, as when the setting `grampus.device` is `cpu` or the plan aggregates no ORC scan.
    pub reason: Option<String>,
}

/// The path of a plan as it is now: a fallback is known once the plan was executed.
pub fn device_path(plan: &Arc<dyn ExecutionPlan>) -> DevicePath {
    let mut path = DevicePath::default();
    add(plan.as_ref(), &mut path);
    path
}

fn add(plan: &dyn ExecutionPlan, path: &mut DevicePath) {
    if let Some(gpu) = gpu::aggregation(plan) {
        match gpu.fell_back() {
            Some(reason) => path.reason = Some(reason.to_owned()),
            None => path.on_gpu = true,
        }
    }
    if let Some(note) = plan.downcast_ref::<OrcScanExec>().and_then(OrcScanExec::note) {
        path.reason.get_or_insert_with(|| note.to_owned());
    }
    for child in plan.children() {
        add(child.as_ref(), path);
    }
}
