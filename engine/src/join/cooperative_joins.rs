//! `CooperativeJoins`: an optimizer rule that makes joins yield to other tasks.
//!
//! A join can turn one input batch into millions of output rows, and DataFusion makes only the leaves of a plan yield.
//! Without this rule, a cancelled join would occupy its thread until the join ends.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec, SymmetricHashJoinExec,
};
use datafusion::physical_plan::unnest::UnnestExec;

use super::spilling_join::SpillingJoinExec;

/// Wraps each operator whose output can be far larger than its input.
#[derive(Debug)]
pub(crate) struct CooperativeJoins;

impl PhysicalOptimizerRule for CooperativeJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let wrapped = plan.transform_up(|plan| {
            if multiplies(plan.as_ref()) && plan.properties().scheduling_type != SchedulingType::Cooperative {
                return Ok(Transformed::yes(Arc::new(CooperativeExec::new(plan))));
            }
            Ok(Transformed::no(plan))
        });
        Ok(wrapped?.data)
    }

    fn name(&self) -> &'static str {
        "cooperative_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// DataFusion's joins and unnests. Operators of other crates yield as their owners wish.
fn multiplies(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<HashJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<SortMergeJoinExec>()
        || plan.is::<SymmetricHashJoinExec>()
        || plan.is::<PiecewiseMergeJoinExec>()
        || plan.is::<SpillingJoinExec>()
        || plan.is::<UnnestExec>()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::config::GrampusConfig;

    /// A join of 10¹¹ rows occupies the only worker. Without the rule, the timeout never runs.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn cancelled_join_frees_its_worker() {
        let context = crate::session::context(GrampusConfig::default()).unwrap();
        let sql = "SELECT count(*) FROM generate_series(1, 100000) a CROSS JOIN generate_series(1, 1000000) b";
        let query = context.sql(sql).await.unwrap();
        let task = tokio::spawn(query.collect());
        tokio::time::sleep(Duration::from_millis(300)).await;
        task.abort();
        let done = tokio::time::timeout(Duration::from_secs(20), tokio::spawn(async {})).await;
        done.expect("the worker is free again").unwrap();
        assert!(task.await.unwrap_err().is_cancelled());
    }
}
