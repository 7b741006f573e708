//! [`PlanFragment`]: the operators between an aggregation and its ORC scan, folded into expressions over the table.
//!
//! Operators that filter, project or repartition rows are folded. Any other operator refuses the aggregation.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::split_conjunction;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};

use crate::gpu::refusal::Refusal;
use crate::scan::orc_scan_exec::OrcScanExec;

/// Rows of an ORC table as an aggregation receives them.
pub(crate) struct PlanFragment {
    /// The scan, an [`OrcScanExec`].
    pub(crate) scan: Arc<dyn ExecutionPlan>,
    /// Filters above the scan's own, over the table's columns.
    pub(crate) filters: Vec<Arc<dyn PhysicalExpr>>,
    /// By position in the aggregation's input: the expression over the table's columns.
    pub(crate) outputs: Vec<Arc<dyn PhysicalExpr>>,
}

impl PlanFragment {
    /// The rows that `plan` gives to the aggregation above it.
    ///
    /// # Errors
    /// Names the operator that the GPU does not replace.
    pub(crate) fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Self, Refusal> {
        if let Some(scan) = plan.downcast_ref::<OrcScanExec>() {
            return Self::of_scan(plan, scan);
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let below = Self::of(projection.input())?;
            let outputs = projection.expr().iter().map(|output| below.over_table(&output.expr));
            let outputs = outputs.collect::<Result<_, _>>()?;
            return Ok(Self { outputs, ..below });
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            return Self::of_filter(filter);
        }
        if plan.fetch().is_some() {
            return Err(Refusal::Limit);
        }
        // The child of the operator as it is in the plan, which may stand in for DataFusion's.
        if plan.downcast_ref::<RepartitionExec>().is_some()
            && let [input] = plan.children()[..]
        {
            return Self::of(input);
        }
        if let Some(coalesce) = plan.downcast_ref::<CoalescePartitionsExec>() {
            return Self::of(coalesce.input());
        }
        if let Some(cooperative) = plan.downcast_ref::<CooperativeExec>() {
            return Self::of(cooperative.input());
        }
        // Below a repartitioning: it runs its input in another task context, and hands the rows on.
        if let ("CallersContextExec", [input]) = (plan.name(), plan.children().as_slice()) {
            return Self::of(input);
        }
        Err(Refusal::OtherRows(source_of_rows(plan.as_ref())))
    }

    fn of_scan(plan: &Arc<dyn ExecutionPlan>, scan: &OrcScanExec) -> Result<Self, Refusal> {
        if scan.limit().is_some() {
            return Err(Refusal::Limit);
        }
        let table = &scan.scan().table;
        let column = |&at: &usize| Arc::new(Column::new(table.field(at).name(), at)) as Arc<dyn PhysicalExpr>;
        Ok(Self {
            scan: Arc::clone(plan),
            filters: Vec::new(),
            outputs: scan.scan().projection.iter().map(column).collect(),
        })
    }

    fn of_filter(filter: &FilterExec) -> Result<Self, Refusal> {
        if filter.fetch().is_some() {
            return Err(Refusal::Limit);
        }
        let mut below = Self::of(filter.input())?;
        for conjunct in split_conjunction(filter.predicate()) {
            let conjunct = below.over_table(conjunct)?;
            below.filters.push(conjunct);
        }
        if let Some(projection) = filter.projection() {
            below.outputs = projection.iter().map(|&at| Arc::clone(&below.outputs[at])).collect();
        }
        Ok(below)
    }

    /// `expr` over the table's columns instead of the aggregation's input. Shared expressions stay shared.
    pub(crate) fn over_table(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>, Refusal> {
        let replaced = Arc::clone(expr).transform_down(|node| {
            let Some(column) = node.downcast_ref::<Column>() else {
                return Ok(Transformed::no(node));
            };
            match self.outputs.get(column.index()) {
                // The columns of the replacement are the table's already, so the walk does not enter the replacement.
                Some(output) => Ok(Transformed::new(Arc::clone(output), true, TreeNodeRecursion::Jump)),
                None => datafusion::common::internal_err!("column {column} is not there"),
            }
        });
        replaced.map(|done| done.data).map_err(Refusal::Expression)
    }
}

/// The operator `plan` in words.
fn source_of_rows(plan: &dyn ExecutionPlan) -> String {
    let name = plan.name();
    let words = match name {
        _ if name.ends_with("JoinExec") => "a join",
        _ if name.contains("Window") => "a window function",
        _ if name.ends_with("LimitExec") => "a LIMIT",
        "AggregateExec" | "GpuAggregateExec" => "another aggregation",
        "SortExec" | "SortPreservingMergeExec" => "a sort",
        "UnionExec" | "InterleaveExec" => "a UNION",
        "UnnestExec" => "UNNEST",
        other => other,
    };
    words.to_owned()
}
