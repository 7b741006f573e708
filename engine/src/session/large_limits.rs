//! `LargeLimits`: an optimizer rule for `ORDER BY … LIMIT n` of many rows.
//!
//! DataFusion keeps the first `n` rows of a sort in memory and fails if they do not fit. A sort of all rows spills.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::sort::SortExec;

/// Replaces sorts of more than `rows` first rows by sorts of all rows with a limit above.
#[derive(Debug)]
pub(super) struct LargeLimits {
    pub(super) rows: usize,
}

impl PhysicalOptimizerRule for LargeLimits {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = plan.transform_up(|plan| {
            let Some(sort) = plan.downcast_ref::<SortExec>() else {
                return Ok(Transformed::no(plan));
            };
            let Some(limit) = sort.fetch().filter(|&limit| limit > self.rows) else {
                return Ok(Transformed::no(plan));
            };
            let all = SortExec::new(sort.expr().clone(), Arc::clone(sort.input()))
                .with_preserve_partitioning(sort.preserve_partitioning());
            let all = Arc::new(all);
            Ok(Transformed::yes(match sort.preserve_partitioning() {
                true => Arc::new(LocalLimitExec::new(all, limit)),
                false => Arc::new(GlobalLimitExec::new(all, 0, Some(limit))),
            }))
        });
        Ok(replaced?.data)
    }

    fn name(&self) -> &'static str {
        "large_limits"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
