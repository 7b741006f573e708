//! The operators between an aggregation and its scan: those that only filter, project or deal out rows are folded away; any other is
//! a reason to stay on the CPU.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::split_conjunction;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};

use super::Reason;
use crate::scan::orc_scan_exec::OrcScanExec;

/// Rows of an ORC table on their way into an aggregation.
pub(crate) struct Source {
    /// The scan, an [`OrcScanExec`].
    pub(crate) scan: Arc<dyn ExecutionPlan>,
    /// Filters above the scan's own, over the table's columns.
    pub(crate) filters: Vec<Arc<dyn PhysicalExpr>>,
    /// What comes in, by position, over the table's columns.
    pub(crate) outputs: Vec<Arc<dyn PhysicalExpr>>,
}

impl Source {
    /// `expr` over the table's columns instead of the incoming ones. What is shared stays shared.
    pub(crate) fn over_table(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>, Reason> {
        let replaced = Arc::clone(expr).transform_down(|node| {
            let Some(column) = node.downcast_ref::<Column>() else {
                return Ok(Transformed::no(node));
            };
            match self.outputs.get(column.index()) {
                // Not to be looked at again: its columns are the table's already.
                Some(output) => Ok(Transformed::new(
                    Arc::clone(output),
                    true,
                    datafusion::common::tree_node::TreeNodeRecursion::Jump,
                )),
                None => datafusion::common::internal_err!("column {column} is not there"),
            }
        });
        replaced.map(|done| done.data).map_err(|error| error.strip_backtrace())
    }
}

/// What `plan` gives to the aggregation above it.
///
/// # Errors
/// Names the operator that a GPU does not replace.
pub(crate) fn source(plan: &Arc<dyn ExecutionPlan>) -> Result<Source, Reason> {
    if let Some(scan) = plan.downcast_ref::<OrcScanExec>() {
        return leaf(plan, scan);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let below = source(projection.input())?;
        let outputs = projection.expr().iter().map(|output| below.over_table(&output.expr));
        let outputs = outputs.collect::<Result<_, _>>()?;
        return Ok(Source { outputs, ..below });
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return filtered(filter);
    }
    if plan.fetch().is_some() {
        return Err("there is a LIMIT below the aggregate".to_owned());
    }
    if let Some(deal) = plan.downcast_ref::<RepartitionExec>() {
        return source(deal.input());
    }
    if let Some(gather) = plan.downcast_ref::<CoalescePartitionsExec>() {
        return source(gather.input());
    }
    if let Some(cooperative) = plan.downcast_ref::<CooperativeExec>() {
        return source(cooperative.input());
    }
    Err(refused(plan.as_ref()))
}

fn leaf(plan: &Arc<dyn ExecutionPlan>, scan: &OrcScanExec) -> Result<Source, Reason> {
    if scan.limit().is_some() {
        return Err("there is a LIMIT below the aggregate".to_owned());
    }
    let table = &scan.scan().table;
    let column = |&at: &usize| Arc::new(Column::new(table.field(at).name(), at)) as Arc<dyn PhysicalExpr>;
    Ok(Source {
        scan: Arc::clone(plan),
        filters: Vec::new(),
        outputs: scan.scan().projection.iter().map(column).collect(),
    })
}

fn filtered(filter: &FilterExec) -> Result<Source, Reason> {
    if filter.fetch().is_some() {
        return Err("there is a LIMIT below the aggregate".to_owned());
    }
    let mut below = source(filter.input())?;
    for conjunct in split_conjunction(filter.predicate()) {
        let conjunct = below.over_table(conjunct)?;
        below.filters.push(conjunct);
    }
    if let Some(projection) = filter.projection() {
        below.outputs = projection.iter().map(|&at| Arc::clone(&below.outputs[at])).collect();
    }
    Ok(below)
}

/// Why an aggregation over `plan` stays on the CPU.
fn refused(plan: &dyn ExecutionPlan) -> Reason {
    let name = plan.name();
    let what = match name {
        _ if name.ends_with("JoinExec") => "a join",
        _ if name.contains("Window") => "a window function",
        _ if name.ends_with("LimitExec") => "a LIMIT",
        "AggregateExec" | "GpuAggregateExec" => "another aggregation",
        "SortExec" | "SortPreservingMergeExec" => "a sort",
        "UnionExec" | "InterleaveExec" => "a UNION",
        "UnnestExec" => "UNNEST",
        _ => return format!("it aggregates the rows of {name}, not of an ORC table"),
    };
    format!("it aggregates the rows of {what}, not of an ORC table")
}
