//! `IndexedAggregates`: the optimizer rule that makes aggregations find few groups by index.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

use super::indexed_aggregate_exec::IndexedAggregateExec;

/// Replaces the first step of each aggregation with keys by an [`IndexedAggregateExec`], which is shown as the
/// `AggregateExec` that it is.
#[derive(Debug)]
pub(crate) struct IndexedAggregates;

impl PhysicalOptimizerRule for IndexedAggregates {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = plan.transform_up(|plan| {
            let aggregate = plan.downcast_ref::<AggregateExec>();
            let indexed = aggregate.map(IndexedAggregateExec::in_place_of).transpose()?.flatten();
            Ok(match indexed {
                Some(indexed) => Transformed::yes(Arc::new(indexed) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(plan),
            })
        });
        Ok(replaced?.data)
    }

    fn name(&self) -> &'static str {
        "indexed_aggregates"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
