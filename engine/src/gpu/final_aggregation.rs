//! [`in_one_partition`]: the final aggregation above a [`GpuAggregateExec`] with few groups runs in one partition.
//!
//! DataFusion plans one final aggregation per core behind a repartitioning. For a few thousand rows, starting these
//! tasks takes longer than the kernels.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;

use super::gpu_aggregate_exec::GpuAggregateExec;

/// Codes of groups, at most, of which one partition merges those that have rows. It merges ten million a second.
const MAX_GROUPS: u32 = 1 << 16;

/// The plan with final aggregations in one partition, where the operators above take any number of partitions.
pub(super) fn in_one_partition(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    rewrite(plan, true)
}

/// `is_free`: the operator above takes any number of partitions.
fn rewrite(plan: Arc<dyn ExecutionPlan>, is_free: bool) -> Result<Arc<dyn ExecutionPlan>> {
    if is_free && let Some(merged) = merged_in_one(&plan)? {
        return Ok(merged);
    }
    // The first three give the same partitions whatever they take. The others give as many as they take.
    let takes_any = plan.is::<SortPreservingMergeExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<RepartitionExec>()
        || (is_free && (plan.is::<SortExec>() || plan.is::<ProjectionExec>() || plan.is::<FilterExec>()));
    let children = plan.children().into_iter().cloned();
    let children = children.map(|child| rewrite(child, takes_any));
    let children = children.collect::<Result<_>>()?;
    replace_children_if_necessary(plan, children)
}

/// The final aggregation without its repartitioning, if `plan` is one over few groups of a GPU.
fn merged_in_one(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(aggregation) = plan.downcast_ref::<AggregateExec>() else {
        return Ok(None);
    };
    let Some(repartition) = aggregation.input().downcast_ref::<RepartitionExec>() else {
        return Ok(None);
    };
    let gpu = repartition.input();
    let groups = gpu
        .downcast_ref::<GpuAggregateExec>()
        .and_then(GpuAggregateExec::groups);
    if *aggregation.mode() != AggregateMode::FinalPartitioned || groups.is_none_or(|groups| groups > MAX_GROUPS) {
        return Ok(None);
    }
    let merged = AggregateExec::try_new(
        AggregateMode::Final,
        aggregation.group_expr().clone(),
        aggregation.aggr_expr().to_vec(),
        aggregation.filter_expr().to_vec(),
        Arc::clone(gpu),
        aggregation.input_schema(),
    )?;
    Ok(Some(Arc::new(merged.with_limit_options(aggregation.limit_options()))))
}
