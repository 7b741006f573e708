//! `ScanFilterEstimates`: an optimizer rule that samples the filters of ORC scans before the order of joins is chosen.
//!
//! Only plans with joins are sampled: no other decision of the optimizer depends on the share of rows that pass.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};

use crate::scan::orc_scan_exec::OrcScanExec;

/// The rule that reads the estimates.
const JOIN_SELECTION: &str = "join_selection";

/// Samples the filter of each ORC scan of a plan with joins.
#[derive(Debug)]
pub(crate) struct ScanFilterEstimates;

impl ScanFilterEstimates {
    /// Inserts the rule before the one that chooses the sides of joins; nothing if there is none.
    pub(crate) fn insert_into(optimizer: &mut PhysicalOptimizer) {
        let selection = optimizer.rules.iter().position(|rule| rule.name() == JOIN_SELECTION);
        if let Some(at) = selection {
            optimizer.rules.insert(at, Arc::new(Self));
        }
    }
}

impl PhysicalOptimizerRule for ScanFilterEstimates {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if !plan.exists(|plan| Ok(is_join(plan.as_ref())))? {
            return Ok(plan);
        }
        let default_selectivity = config.optimizer.default_filter_selectivity;
        let sampled = plan.transform_up(|plan| {
            let scan = plan.downcast_ref::<OrcScanExec>();
            Ok(match scan.and_then(|scan| scan.with_sample(default_selectivity)) {
                Some(scan) => Transformed::yes(Arc::new(scan)),
                None => Transformed::no(plan),
            })
        });
        Ok(sampled?.data)
    }

    fn name(&self) -> &'static str {
        "filter_samples"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn is_join(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<HashJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<SortMergeJoinExec>()
}
