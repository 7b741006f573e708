//! [`simplify_final_aggregations`]: what is left of the final aggregation above a [`GpuAggregateExec`].
//!
//! - If each group occurs once in the GPU's output, the operator gives the aggregates' values, and there is no final
//!   aggregation. Ten million groups would be hashed once more, for half a second.
//! - Else, the final aggregation of few groups runs in one partition. DataFusion plans one per core behind a
//!   repartitioning. For a few thousand rows, starting these tasks takes longer than the kernels.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};

use super::gpu_aggregate_exec::GpuAggregateExec;

/// Codes of groups, at most, of which one partition takes those that have rows. It merges ten million a second.
const MAX_GROUPS: u32 = 1 << 16;

/// The plan without final aggregations where the GPU's groups need none, and with those of few groups in one partition
/// where the operators above take any number of partitions.
pub(super) fn simplify_final_aggregations(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    rewrite(plan, true)
}

/// `is_free`: the operator above takes any number of partitions.
fn rewrite(plan: Arc<dyn ExecutionPlan>, is_free: bool) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(last) = plan.downcast_ref::<AggregateExec>()
        && matches!(last.mode(), AggregateMode::Final | AggregateMode::FinalPartitioned)
        && let Some(simpler) = simplified(&plan, last, is_free)?
    {
        return Ok(simpler);
    }
    // The first three give the same partitions whatever they take. The others give as many as they take.
    let is_partial = |aggregation: &AggregateExec| *aggregation.mode() == AggregateMode::Partial;
    let passes_on = plan.is::<SortExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<FilterExec>()
        || plan.downcast_ref::<AggregateExec>().is_some_and(is_partial);
    let takes_any = plan.is::<SortPreservingMergeExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<RepartitionExec>()
        || (is_free && passes_on);
    let children = plan.children().into_iter().cloned();
    let children = children.map(|child| rewrite(child, takes_any));
    let children = children.collect::<Result<_>>()?;
    replace_children_if_necessary(plan, children)
}

/// What replaces the final aggregation `last`, which is `plan`, if it is one over groups of a GPU.
fn simplified(
    plan: &Arc<dyn ExecutionPlan>,
    last: &AggregateExec,
    is_free: bool,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let input = last.input();
    let passes_on = input.is::<RepartitionExec>() || input.is::<CoalescePartitionsExec>();
    let below = match (passes_on, &input.children()[..]) {
        (true, [child]) => *child,
        _ => input,
    };
    let Some(gpu) = below.downcast_ref::<GpuAggregateExec>() else {
        return Ok(None);
    };
    let is_small = gpu.groups().is_some_and(|groups| groups <= MAX_GROUPS);
    if let Some(whole) = whole(plan, last, gpu)? {
        let partitions = plan.output_partitioning().partition_count();
        let division = match is_free {
            _ if partitions == 1 => return Ok(Some(whole)),
            true if is_small => return Ok(Some(whole)),
            true => Partitioning::RoundRobinBatch(partitions),
            false => Partitioning::Hash(last.output_group_expr(), partitions),
        };
        return Ok(Some(Arc::new(RepartitionExec::try_new(whole, division)?)));
    }
    if !is_free || !is_small || *last.mode() != AggregateMode::FinalPartitioned {
        return Ok(None);
    }
    let merged = AggregateExec::try_new(
        AggregateMode::Final,
        last.group_expr().clone(),
        last.aggr_expr().to_vec(),
        last.filter_expr().to_vec(),
        Arc::clone(below),
        last.input_schema(),
    )?;
    Ok(Some(Arc::new(merged.with_limit_options(last.limit_options()))))
}

/// The operator that does the whole aggregation, if it can.
fn whole(
    plan: &Arc<dyn ExecutionPlan>,
    last: &AggregateExec,
    gpu: &GpuAggregateExec,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if last.group_expr().is_empty() {
        return Ok(None);
    }
    let mut input = Arc::clone(gpu.cpu_plan());
    if !last.input().is::<GpuAggregateExec>() {
        input = replace_children_if_necessary(Arc::clone(last.input()), vec![input])?;
    }
    let mut cpu = replace_children_if_necessary(Arc::clone(plan), vec![input])?;
    if cpu.output_partitioning().partition_count() > 1 {
        cpu = Arc::new(CoalescePartitionsExec::new(cpu));
    }
    Ok(gpu
        .finishing(last, cpu)
        .map(|whole| Arc::new(whole) as Arc<dyn ExecutionPlan>))
}
