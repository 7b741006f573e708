//! In place of `gpu/` if the feature `gpu` is off: the rule of a session refuses `grampus.device = 'gpu'`.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::config_err;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;

use crate::config::{Device, GrampusOptions};
use crate::scan::orc_scan_exec::OrcScanExec;

pub(crate) mod session {
    pub(crate) use super::GpuSession;
}

pub(crate) mod background_loader {
    pub(crate) use super::BackgroundLoader;
}

pub(crate) mod offload_rule {
    pub(crate) use super::OffloadRule;
}

/// No operator of a plan is an aggregation on the GPU.
pub(crate) fn aggregation(_: &dyn ExecutionPlan) -> Option<&GpuAggregateExec> {
    None
}

/// An aggregation on the GPU, of which there is none.
#[derive(Debug)]
pub(crate) enum GpuAggregateExec {}

impl GpuAggregateExec {
    pub(crate) fn cpu_plan(&self) -> &Arc<dyn ExecutionPlan> {
        match *self {}
    }

    pub(crate) fn fell_back(&self) -> Option<&str> {
        match *self {}
    }

    pub(crate) fn metrics(&self) -> Option<MetricsSet> {
        match *self {}
    }
}

/// The GPU's side of a session.
#[derive(Debug, Default)]
pub(crate) struct GpuSession;

/// Loads no columns.
#[derive(Debug, Default)]
pub(crate) struct BackgroundLoader;

/// Refuses plans that must run on the GPU.
#[derive(Debug)]
pub(crate) struct OffloadRule;

impl OffloadRule {
    pub(crate) fn new(_: Arc<GpuSession>, _: Arc<BackgroundLoader>) -> Self {
        Self
    }
}

impl PhysicalOptimizerRule for OffloadRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let options = config.extensions.get::<GrampusOptions>();
        match options.map(|options| options.device) {
            Some(Device::Gpu) if plan.exists(|node| Ok(node.is::<OrcScanExec>()))? => config_err!(
                "grampus.device is 'gpu', but this program is built without the feature `gpu` of grampus: build it so, \
                 or SET grampus.device = 'cpu'"
            ),
            _ => Ok(plan),
        }
    }

    fn name(&self) -> &'static str {
        "gpu_aggregates"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
